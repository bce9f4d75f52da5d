"""The demo's operators in PyFlink; runs in a Python of its own, where only apache-flink is: `python flinkjob.py FILE RULES WARM`.

A branch for each rule: keyed by its keys, one MapState time -> events per key, each event walks the window. Prints the alerts
as JSON, [rule, event] each, and the seconds from the first event after the WARM first ones to the end.
"""

import json
import sys
import time

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

OUT_OF_ORDER = Duration.of_minutes(5)
CENTS = 100


class Times(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["eventTime"]


class Window(KeyedProcessFunction):
    """`DynamicAlertFunction` for one rule, `SUM(paymentAmount) > limit`; a duplicate or a null is no event for it."""

    def __init__(self, rule: dict):
        self.rule_id, self.window_ms = rule["ruleId"], rule["windowMs"]
        self.limit_cents = rule["limit"] * CENTS

    def open(self, runtime_context):
        description = MapStateDescriptor("window", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
        self.window = runtime_context.get_map_state(description)

    def process_element(self, event, context):
        t, event_id = event["eventTime"], event["transactionId"]
        same_time = self.window.get(t) or []
        if event["paymentAmount"] is None or any(other == event_id for other, _ in same_time):
            return
        cents = round(event["paymentAmount"] * CENTS)
        self.window.put(t, [*same_time, (event_id, cents)])
        context.timer_service().register_event_time_timer(t + self.window_ms)
        inside = (events for at, events in self.window.items() if t - self.window_ms <= at <= t)
        if sum(cents for events in inside for _, cents in events) > self.limit_cents:
            yield json.dumps([self.rule_id, event_id])

    def on_timer(self, timestamp, context):
        times = self.window.keys()
        for at in [at for at in times if at <= timestamp - self.window_ms]:
            self.window.remove(at)
        return iter(())


def run(lines: list[str], rules: list[dict]) -> tuple[list[list[int]], float]:
    """The alerts, and the job's seconds as Flink tells them."""
    settings = Configuration()
    settings.set_string("python.execution-mode", "thread")  # without a process between: the faster mode
    settings.set_string("python.executable", sys.executable)
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_parallelism(1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(OUT_OF_ORDER).with_timestamp_assigner(Times())
    events = environment.from_collection(lines, Types.STRING()).map(json.loads)
    events = events.assign_timestamps_and_watermarks(strategy)
    branches = [
        events.key_by(
            lambda event, keys=rule["keys"]: "/".join(str(event[key]) for key in keys), Types.STRING()
        ).process(Window(rule), Types.STRING())
        for rule in rules
    ]
    found = branches[0].union(*branches[1:]).execute_and_collect()
    started = time.perf_counter()
    with found:
        alerts = [json.loads(alert) for alert in found]
    return alerts, time.perf_counter() - started


def main() -> None:
    with open(sys.argv[1]) as file:
        lines = file.read().splitlines()
    rules, warm = json.loads(sys.argv[2]), int(sys.argv[3])
    if warm:
        run(lines[:warm], rules)
    alerts, seconds = run(lines, rules)
    print(json.dumps({"alerts": alerts, "seconds": seconds}))


if __name__ == "__main__":
    main()
