"""What the tasks that read a micro-batch report to those that evaluate it, and how that travels between them as JSON."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypedDict

from lab.model.horizon import newest_times

CutBounds = TypedDict(
    "CutBounds", {"from": int, "to": int, "events": dict[str, int], "control": dict[str, int]}
)
"""A cut as in the stats log: no record counts as logged before `from`, ms, or after `to`; the positions where it ends, by source."""


@dataclass
class ReadingReport:
    """What reading tasks report of a micro-batch. Task 0 gets all of it, the others only `newest_times_ms`.

    `newest_times_ms`: the newest event times before each control message and at the end, as `newest_times` gives them. `times_ms`: when each stage began.

    >>> report = ReadingReport([[17]], Counter(records=2), times_ms={"decode": 5})
    >>> combine_reports([report, ReadingReport.from_json({"newest": [[19]], "counts": {"records": 3}})]).to_json()
    {'newest': [[19, 17]], 'counts': {'records': 5}, 'deadLetters': [], 'deadLettersBy': {}, 'times': {'decode': 5}, 'cut': None}
    """

    newest_times_ms: list[list[int]]
    counts: Counter[str] = field(default_factory=Counter)
    dead_letters: list[str] = field(default_factory=list)
    dead_letters_by_kind: Counter[str] = field(default_factory=Counter)
    times_ms: dict[str, int] = field(default_factory=dict)
    cut: CutBounds | None = None

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> "ReadingReport":
        """A report from what `to_json` gives, or from a part of it that has the newest times."""
        return cls(
            report["newest"],
            Counter(report.get("counts", {})),
            report.get("deadLetters", []),
            Counter(report.get("deadLettersBy", {})),
            report.get("times", {}),
            report.get("cut"),
        )

    def to_json(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "newest": self.newest_times_ms,
            "counts": dict(self.counts),
            "deadLetters": self.dead_letters,
            "deadLettersBy": dict(self.dead_letters_by_kind),
            "times": self.times_ms,
            "cut": self.cut,
        }


def combine_reports(reports: Collection[ReadingReport]) -> ReadingReport:
    """The reports of all shares of a cut, at least one, as a single report: a stage began when the last task began it."""
    of_reports = zip(*(report.newest_times_ms for report in reports))
    combined = ReadingReport([newest_times(chain.from_iterable(times)) for times in of_reports])
    for report in reports:
        combined.counts.update(report.counts)
        combined.dead_letters += report.dead_letters
        combined.dead_letters_by_kind.update(report.dead_letters_by_kind)
        for stage, time in report.times_ms.items():
            combined.times_ms[stage] = max(combined.times_ms.get(stage, 0), time)
        combined.cut = report.cut
    return combined
