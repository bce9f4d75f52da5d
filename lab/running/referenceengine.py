"""The engine for a page: the reference on file logs, where there is neither Numba nor a thread.

events, control ──► those logged before now, in log order ──► FastReference ──► alerts, acks, dead letters, stats
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.logs.positions import Record
from lab.model.alerts import Alert
from lab.model.deadletters import dead_letter
from lab.model.enginelogs import READ, WRITTEN
from lab.model.routestats import COUNTS, RouteTallies
from lab.model.statuslines import ALERT_COUNTS
from lab.model.times import now_ms
from lab.past.fastreference import FastReference
from lab.stream.background import BackgroundTask

AT_ONCE = 200  # records, so that a page goes on in between


class ReferenceEngine(BackgroundTask):
    """The alerts of the engine, some thousand events a second. Nothing is durable: state lives as long as the object.

    >>> import tempfile
    >>> from pathlib import Path
    >>> logs = FileLogs(Path(tempfile.mkdtemp()))
    >>> engine = ReferenceEngine(logs, Settings(), every_s=0.1)
    >>> _ = logs.log("control").append(["1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"], 1_400_000_000_000)
    >>> _ = logs.log("events").append(["1,2013-01-01 00:00:00,25,12,CSH,51"], 1_400_000_000_000)
    >>> engine.step()
    2
    >>> [json.loads(line)["key"] for line in logs.log("alerts").read()]
    ['{payeeId=25}']
    """

    def __init__(self, logs: FileLogs, settings: Settings, every_s: float):
        super().__init__("engine")
        self._logs, self._settings, self._every_s = logs, settings, every_s
        self._tails = {name: logs.log(name).tail() for name in READ}
        self._reference = FastReference.of_settings(settings)
        self._waiting: list[tuple[str, Record]] = []
        self._batch = 0

    def steps(self) -> Iterator[float]:
        """Runs micro-batches without end."""
        while True:
            yield 0 if self.step() == AT_ONCE else self._every_s

    def step(self) -> int:
        """Evaluates what is new in the logs, and returns how many records: a micro-batch."""
        start = now_ms()
        for name, tail in self._tails.items():
            self._waiting += ((name, record) for record in tail.records())
        # by log time, then control before events; what is logged now may not all be there
        self._waiting.sort(key=lambda each: (each[1].log_time_ms, each[0] != "control"))
        taken = [each for each in self._waiting[:AT_ONCE] if each[1].log_time_ms < start]
        reference, before = self._reference, Counter(self._reference.counts)
        if not taken and not any(wait.until_log_time < start for wait in reference.waits):
            return 0
        self._waiting = self._waiting[len(taken) :]
        nan_before, reference.tallies = reference.nan_as_null.total(), RouteTallies()
        reference.suppressed.clear()
        reference.muted.clear()
        out: dict[str, list[str]] = {name: [] for name in WRITTEN}
        fired = {"alerts": Counter[str](), "shadow": Counter[str]()}  # by log
        for name, record in taken:
            if name == "control":
                ack = reference.control(record.line) | {"place": record.place, "logTime": record.log_time_ms}
                out["acks"].append(json.dumps(ack))
                continue
            raw = record.line.encode()
            reference.event(raw, record.place, record.log_time_ms)
            for letter in reference.dead_letters:
                line = dead_letter(letter["reason"], record.place, raw, record.log_time_ms)
                out["deadLetters"].append(line)
            self._append_alerts(out, fired, record.log_time_ms)
            reference.dead_letters.clear()
        if not self._waiting or self._waiting[0][1].log_time_ms >= start:
            reference.advance_to(start)
        self._append_alerts(out, fired)
        reference.acks.clear()
        new = {name: reference.counts[name] - before[name] for name in COUNTS}
        stats = {"batch": self._batch, "keyGroups": [0, self._settings.key_groups - 1], **new}
        counted = fired["alerts"], fired["shadow"], reference.suppressed, reference.muted
        for (name, kind), by_rule in zip(ALERT_COUNTS.items(), counted, strict=True):
            if by_rule:
                stats |= {name: by_rule.total(), kind.by_rule: dict(by_rule)}
        stats |= {
            "heldEvents": sum(map(len, reference.stored_events.values())),
            "groups": len(reference.stored_events),
        }
        stats |= reference.tallies.to_stats()
        stats["nanAsNull"] = reference.nan_as_null.total() - nan_before
        stats["times"] = dict.fromkeys(("start", "decode", "route", "evaluate"), start) | {"end": now_ms()}
        out["stats"].append(json.dumps(stats))
        for name, lines in out.items():
            if lines:
                self._logs.log(name).append(lines)
        self._batch += 1
        return len(taken)

    def _append_alerts(
        self, out: dict[str, list[str]], fired: dict[str, Counter[str]], log_time: int | None = None
    ) -> None:
        """Writes what there is for the logs of alerts, and counts it in `fired`; `log_time`: of lines that do not have their own."""
        reference = self._reference
        told: dict[str, list] = {
            "alerts": reference.alerts_and_withdrawals,
            "shadow": reference.shadow_alerts,
        }
        for name, lines in told.items():
            for line in lines:
                if isinstance(line, Alert):
                    fired[name][f"{line.rule_id}.{line.rule_version}"] += 1
                dated = replace(line, log_time=line.log_time or log_time, alert_time=now_ms())
                out[name].append(dated.to_json())
            lines.clear()
