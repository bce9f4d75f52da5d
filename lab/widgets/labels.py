"""The labels of a rule as somebody types them: a line of CSV."""

import csv
import io
from collections.abc import Iterable


def labels_text(labels: Iterable[tuple[str, str]]) -> str:
    """Labels as somebody types them: a line of CSV.

    >>> labels_text((("queue", "night, weekend"), ("team", "fraud")))
    '"queue=night, weekend",team=fraud'
    >>> read_labels(labels_text((("queue", "night, weekend"), ("team", "fraud"))))
    {'queue': 'night, weekend', 'team': 'fraud'}
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([f"{name}={value}" for name, value in labels])
    return line.getvalue()


def read_labels(text: str) -> dict[str, str | None]:
    """Labels as they were typed; None is the value of one without `=`, for `parse_message` to refuse."""
    cells = next(csv.reader([text], skipinitialspace=True), [])
    parts = (cell.partition("=") for cell in cells if cell.strip())
    return {name.strip(" "): value.strip(" ") if equals else None for name, equals, value in parts}
