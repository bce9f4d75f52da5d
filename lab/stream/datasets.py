"""The data sets that come with the kit, as files."""

from pathlib import Path


def dataset(name: str) -> Path:
    """The folder of a data set: payments, logins or flights. Raises FileNotFoundError, naming those there are.

    >>> dataset("flights").name
    'flights'
    """
    folder = Path(__file__).parent.parent.parent / "datasets"
    if not (folder / name / "rules.json").exists():
        known = sorted(path.parent.name for path in folder.glob("*/rules.json"))
        raise FileNotFoundError(
            f"data set {name!r}: there are {', '.join(known) or f'none in {folder}: run this from a clone'}"
        )
    return folder / name
