"""`lab run --metrics PORT`: the metrics of an engine for Prometheus, and a health check.

/metrics     rate, lag, stages, alerts by rule, dead letters, state; counters begin at 0 with each start
/healthz     200, or 503 and why: no cut for a minute although there is input, or the query has ended
/livez       200 unless the query has ended: waiting for Kafka is no reason to restart an engine
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from importlib import metadata
from itertools import pairwise
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder

from lab.engine.records.feeds import Feed
from lab.logs.positions import Positions
from lab.model.routestats import COUNTS, FATES
from lab.model.rule import Rule
from lab.model.rules import MAX_RULES
from lab.model.statuslines import ALERT_COUNTS, STAGES
from lab.running.boundedserver import BoundedServer, send_answer
from lab.running.enginemonitor import STALE_S

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

LOOPBACK = "127.0.0.1"
OWN_NAMES = (LOOPBACK, "localhost", "")  # of the loopback; a request of HTTP/1.0 names nothing
STAGE_NAMES = {"start": "plan"}
BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
RULES_AT_MOST = 1000  # that have counters of their own; the others share rule="other"
ROUTES_AT_MOST = 200  # likewise
REASONS_AT_MOST, TASKS_AT_MOST = 500, 1000
WAITS_S = 5.0  # what has waited for less may be taken already: the engine's lines are read once a second
LAG_S = 2.0  # how long a request waits for the ends of the events: a broker that is away answers later than the deadline
ANSWERS = ("accepted", "rejected")
STATES_IN_FORCE = ("ACTIVE", "SHADOW", "PAUSE")
OUTCOMES = [name for name in COUNTS if name != "records"]


class Metrics:
    """Counters of one start of an engine.

    >>> metrics = Metrics()
    >>> metrics.add_stats({"batch": 0, "keyGroups": [0, 15], "records": 3, "evaluated": 3, "alertsByRule": {"1.2": 1}})
    >>> metrics.registry.get_sample_value("lab_alerts_total", {"rule": "1", "version": "2"})
    1.0
    """

    def __init__(self, now: Callable[[], float] = time.time):
        self.registry, self._now = CollectorRegistry(), now
        one: dict[str, Any] = {"registry": self.registry}
        self._records = Counter("lab_records", "records read", **one)
        self._fates = Counter(
            "lab_fates", "records by outcome, and events summed over routes by outcome", ["fate"], **one
        )
        self._routes = Counter("lab_route_events", "events of a route by outcome", ["route", "fate"], **one)
        self._alerts = {
            kind.by_rule: Counter(kind.metric, kind.about, ["rule", "version"], **one)
            for kind in ALERT_COUNTS.values()
        }
        self._letters = Counter(
            "lab_dead_letters", "dead letters by what is wrong: a field, or the record", ["reason"], **one
        )
        self._batches = Counter("lab_batches", "micro-batches that reported statistics", **one)
        self._stages = Histogram(
            "lab_stage_seconds", "time of a stage of a micro-batch", ["stage"], buckets=BUCKETS_S, **one
        )
        self._stored_events = Gauge("lab_held_events", "events stored in windows", ["key_groups"], **one)
        self._state = Gauge("lab_state_bytes", "bytes of durable state", ["key_groups"], **one)
        self._memory = Gauge("lab_memory_bytes", "bytes of windows in shared memory", ["key_groups"], **one)
        self._disk = Gauge(
            "lab_memory_on_disk_bytes", "those of lab_memory_bytes in files on a disk", ["key_groups"], **one
        )
        self._disk_waits = Counter("lab_disk_wait_seconds", "time that saves waited for the disk", **one)
        self._lag = Gauge("lab_lag_records", "records logged and not read yet", ["partition"], **one)
        self._log_up = Gauge(
            "lab_events_log_up", "1 if the events log answered when it was last asked, else 0", **one
        )
        self._answers = Counter(
            "lab_control", "control messages by answer: accepted or rejected", ["status"], **one
        )
        self._states = Gauge("lab_rules", "rules in force by state", ["state"], **one)
        self._state_by_rule: dict[int, str] = {}
        Info("lab_build", "the version of the engine", **one).info({"version": metadata.version("rules-lab")})
        age = Gauge("lab_batch_age_seconds", "seconds since the last micro-batch ended", **one)
        age.set_function(self.last_batch_age_s)
        self._began = self._last = now()
        self._knows_input = False  # at the last check
        self._waits_since: float | None = None  # when events that wait were first seen
        # what has counters of its own
        self._rules, self._named, self._reasons, self._tasks = set(), set(), set(), set()
        self._events: Feed | None = None
        self._asking: Future[Positions] | None = None
        self._query: StreamingQuery | None = None
        self._read: Mapping[str, int] = {}  # how far cuts have read the events, by partition
        for fate in OUTCOMES:
            self._fates.labels(fate)
        for status in ANSWERS:
            self._answers.labels(status)
        for state in STATES_IN_FORCE:
            self._states.labels(state).set_function(partial(self._rules_in, state))

    def watch_query(
        self, events: Feed, query: "StreamingQuery", start_offset_by_partition: Mapping[str, int]
    ) -> None:
        """Measures from now on how far the query (Spark's `StreamingQuery`) is behind the end of `events`; it starts at `start_offset_by_partition`."""
        self._events, self._query, self._read, self._last = (
            events,
            query,
            start_offset_by_partition,
            self._now(),
        )

    def add_stats(self, stats: dict) -> None:
        """Takes in a line of the stats log."""
        self._records.inc(stats.get("records", 0))
        for fate in OUTCOMES:
            self._fates.labels(fate).inc(stats.get(fate, 0))
        for route, counts in stats.get("routes", {}).items():
            self._route(self._one_of(self._named, route, ROUTES_AT_MOST), counts)
        self._route("other", stats.get("otherRoutes", {}))
        for of, counter in self._alerts.items():
            for name, count in stats.get(of, {}).items():
                rule, _, version = self._one_of(self._rules, name, RULES_AT_MOST).partition(".")
                counter.labels(rule, version).inc(count)
        for reason, count in stats.get("deadLettersBy", {}).items():
            self._letters.labels(self._one_of(self._reasons, reason, REASONS_AT_MOST)).inc(count)
        task = self._one_of(self._tasks, "{}-{}".format(*stats["keyGroups"]), TASKS_AT_MOST)
        for gauge, name in (
            (self._stored_events, "heldEvents"),
            (self._state, "stateBytes"),
            (self._memory, "memoryBytes"),
            (self._disk, "diskBytes"),
        ):
            gauge.labels(task).set(stats.get(name, 0))
        self._disk_waits.inc(stats.get("diskWaitMs", 0) / 1000)
        self._read = stats.get("cut", {}).get("events", self._read)
        self._waits_since = None
        self._times(stats.get("times", {}))

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Takes in the rules that are in force when the engine starts; `add_ack` follows them from there."""
        self._state_by_rule = {rule.rule_id: rule.state for rule in rules}

    def add_ack(self, ack: dict) -> None:
        """Takes in the answer to a control message.

        >>> metrics = Metrics()
        >>> metrics.add_ack({"status": "accepted", "ruleId": 1, "version": 1, "ruleState": "PAUSE"})
        >>> metrics.registry.get_sample_value("lab_rules", {"state": "PAUSE"})
        1.0
        """
        if ack["status"] not in ANSWERS:
            return
        self._answers.labels(ack["status"]).inc()
        if ack["status"] == "rejected":
            return
        if ack.get("controlType") == "DELETE_RULES_ALL":
            self._state_by_rule.clear()
        elif ack.get("ruleState") == "DELETE":
            self._state_by_rule.pop(ack["ruleId"], None)
        elif "ruleState" in ack and len(self._state_by_rule) < MAX_RULES:
            self._state_by_rule[ack["ruleId"]] = ack["ruleState"]

    def _rules_in(self, state: str) -> int:
        return list(self._state_by_rule.values()).count(state)

    def _one_of(self, known: set[str], name: str, at_most: int) -> str:
        """The name, if it has a counter of its own by now, else `other`."""
        if name not in known and len(known) < at_most:
            known.add(name)
        return name if name in known else "other"

    def _route(self, route: str, counts: Mapping[str, Any]) -> None:
        for fate in FATES:
            if counts.get(fate):
                self._routes.labels(route, fate).inc(counts[fate])

    def _times(self, times: Mapping[str, int]) -> None:
        if "end" in times:
            self._last = min(times["end"] / 1000, self._now())
        if times.get("start"):  # one task tells them
            self._batches.inc()
            # if the cut was chosen before, by an engine that was killed since then, nobody planned it now
            stages = STAGES if times["start"] / 1000 >= self._began else STAGES[1:]
            for name, following in pairwise(stages):
                seconds = max(times[following] - times[name], 0) / 1000
                self._stages.labels(STAGE_NAMES.get(name, name)).observe(seconds)

    def last_batch_age_s(self) -> float:
        """Seconds since the last cut ended, or the start."""
        now = self._now()
        self._last = min(self._last, now)  # the clock may have stepped back
        return now - self._last

    def update_lag(self) -> int | None:
        """Sets the lag of each partition; returns the sum, None if it cannot be known."""
        ends = None if self._events is None else self._ends(self._events)
        self._log_up.set(ends is not None)
        if self._events is None or ends is None:
            return None
        lags = {
            number: self._events.estimated_records(number, self._read.get(str(number), 0), end)
            for number, end in ends.items()
        }
        for number, lag in lags.items():
            self._lag.labels(str(number)).set(max(lag, 0))
        return sum(lags.values())

    def _ends(self, events: Feed) -> Positions | None:
        """Where the events' partitions end; None if that is not known within LAG_S. One thread at a time asks, and one request waits."""
        if self._asking and not self._asking.done():
            return None
        asking = self._asking = Future()

        def ask() -> None:
            try:
                asking.set_result(events.ends())
            except Exception as error:  # noqa: BLE001  (a broker that is away: the batches' age tells)
                asking.set_exception(error)

        Thread(target=ask, daemon=True, name="lag").start()
        with suppress(Exception):
            return asking.result(LAG_S)
        return None

    @property
    def has_ended(self) -> bool:
        """Whether the query has ended, so that only a new start helps."""
        return self._query is not None and not self._query.isActive

    def unhealthy_reason(self) -> str:
        """Why the engine is unhealthy; "" if it is healthy."""
        if self._query is None:
            return "starting"
        if self.has_ended:
            return "the query has ended"
        self.check_input()
        if self._waits_since is None or self._now() < self._waits_since + WAITS_S:
            return ""
        cause = (
            " although there is input" if self._knows_input else ", and the log of the events does not answer"
        )
        return f"no cut for {self.last_batch_age_s():.0f} s{cause}"

    def check_input(self) -> None:
        """Notes since when events wait although no cut comes. Called now and then, so that a single health check knows it."""
        now = self._now()
        lag = None if self.last_batch_age_s() <= STALE_S else self.update_lag()
        self._knows_input = lag is not None
        if self.last_batch_age_s() <= STALE_S or lag == 0:
            self._waits_since = None
        else:
            self._waits_since = now if self._waits_since is None else min(self._waits_since, now)


class MetricsServer(BoundedServer):
    """Serves the metrics until the end of its `with`. Raises OSError if the port is taken."""

    def __init__(self, metrics: Metrics, port: int, host: str = LOOPBACK):
        about = {"metrics": metrics, "lock": Lock(), "own_names_only": host == LOOPBACK}
        super().__init__(host, port, type("Page", (_Page,), about), "metrics")


class _Page(BaseHTTPRequestHandler):
    metrics: Metrics
    lock: Lock  # metrics are looked up by one thread at a time
    own_names_only: bool  # else a web page could read them under a name that it points at this machine

    def do_GET(self) -> None:
        with self.lock:
            answer = self._page()
        send_answer(self, *answer)

    def _page(self) -> tuple[int, str, bytes]:
        name = self.headers.get("Host", "").partition(":")[0].lower()
        if self.own_names_only and name not in OWN_NAMES:
            refusal = b"expected the host 127.0.0.1 or localhost; --metrics-host serves others\n"
            return 403, "text/plain", refusal
        if self.path == "/healthz":
            why = self.metrics.unhealthy_reason()
            return 503 if why else 200, "text/plain", f"{why or 'ok'}\n".encode()
        if self.path == "/livez":
            has_ended = self.metrics.has_ended
            return 503 if has_ended else 200, "text/plain", b"the query has ended\n" if has_ended else b"ok\n"
        if self.path.partition("?")[0] == "/metrics":
            self.metrics.update_lag()
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            return 200, kind, encode(self.metrics.registry)
        return 404, "text/plain", b"there are /metrics, /healthz and /livez\n"

    def log_message(self, *_) -> None:
        pass
