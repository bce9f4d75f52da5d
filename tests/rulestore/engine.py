"""Stands in for the engine: the reference over logs that grow, with acknowledgements and alerts as the engine writes them."""

import json
from dataclasses import replace

from lab.model.reference import Reference
from lab.model.schema import PAYMENTS, Schema
from lab.model.times import now_ms


class Engine:
    """Takes what came at each `step`: control messages first, then events."""

    def __init__(self, logs, schema: Schema = PAYMENTS):
        self.reference = Reference(schema)
        self._control, self._events = (logs.log(name).tail() for name in ("control", "events"))
        self._acks, self._alerts = logs.log("acks"), logs.log("alerts")
        self._alerted = 0

    def step(self) -> None:
        acks = [
            self.reference.control(record.line) | {"place": record.place, "logTime": record.log_time_ms}
            for record in self._control.records()
        ]
        alerts = []
        for record in self._events.records():
            self.reference.event(record.line.encode())
            for alert in self.reference.alerts[self._alerted :]:
                alerts.append(replace(alert, log_time=record.log_time_ms, alert_time=now_ms()))
            self._alerted = len(self.reference.alerts)
        for log, lines in (
            (self._acks, list(map(json.dumps, acks))),
            (self._alerts, [alert.to_json() for alert in alerts]),
        ):
            if lines:
                log.publish(lines, ["stand-in"] * len(lines))
