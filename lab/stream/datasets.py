"""The data sets of the kit, as files."""

from pathlib import Path


def dataset(name: str) -> Path:
    """The folder of a data set: payments, logins or flights. Raises FileNotFoundError, naming those there are.

    >>> dataset("flights").name
    'flights'
    """
    package = Path(__file__).parent.parent
    # an installed package contains them; in a clone they are next to it
    folder = next((f for f in (package / "datasets", package.parent / "datasets") if f.is_dir()), package)
    if not (folder / name / "rules.json").exists():
        known = sorted(path.parent.name for path in folder.glob("*/rules.json"))
        raise FileNotFoundError(
            f"data set {name!r}: there are {', '.join(known) or f'none in {folder}: run this from a clone'}"
        )
    return folder / name
