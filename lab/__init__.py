"""Rules that change at run time, evaluated on event streams.

>>> import lab
>>> lab.PAYMENTS.id_fields
('transactionId',)

What notebooks use is here, and imported when it is first asked for: `import lab` is fast, and Spark waits for `lab.session()`.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "model.alerts": ("Alert", "AlertTable"),
    "contrast.buckets": ("Buckets", "bucketed"),
    "contrast.delays": ("race_sliding", "describe_race"),
    "contrast.mapstate": ("textbook",),
    "contrast.realtime": ("try_real_time",),
    "contrast.restore": ("Keys", "Snapshot", "compare_restores"),
    "contrast.sliding": ("cost_of_sliding",),
    "apps.demo": ("first_rules",),
    "engine.loop.ends": ("FileLogs", "KafkaLogs"),
    "engine.spark.pipeline": ("start",),
    "engine.checkpoint.settings": ("Settings",),
    "model.language": ("speak",),
    "model.group": ("group_key",),
    "model.keygroups": ("digest", "key_groups_of"),
    "logs.files": ("FileLog",),
    "logs.kafka": ("KafkaLog",),
    "apps.backtest": ("Past",),
    "stream.player": ("Player",),
    "model.reference": ("Reference",),
    "apps.infer": ("infer",),
    "apps.replay": ("Replayed", "read_rules", "replay"),
    "apps.sources": ("Source", "TopicSource", "source_at"),
    "state.rescale": ("rescale",),
    "model.rules": ("BadRule", "Route", "Rule", "RuleBook", "parse_message"),
    "model.field": ("Field",),
    "model.schemafile": ("schema",),
    "model.schema": ("FLIGHTS", "LOGINS", "PAYMENTS", "SCHEMAS", "Schema"),
    "machine.session": ("session",),
    "state.read": ("State", "read_state"),
    "apps.studio": ("Studio",),
    "apps.guard": ("Guard",),
    "rulestore.store": ("RuleStore",),
    "stream.datasets": ("dataset",),
    "teach": ("check", "check_function", "hint", "predict", "solution"),
    "teach.attack": ("attack",),
    "teach.clock": ("running_time",),
    "teach.board": ("progress",),
    "teach.progress": ("hand_in", "log_stumbles"),
    "teach.rehearsal": ("rehearse",),
    "engine.loop.stages": ("Stages",),
    "apps.watch": ("Latencies",),
    "widgets.alertfeed": ("AlertFeed",),
    "widgets.faultroom": ("FaultRoom",),
    "widgets.controlroom": ("ControlRoom", "Room"),
    "widgets.frontdoor": ("FrontDoor",),
    "widgets.keygroupscope": ("KeyGroupScope",),
    "widgets.latencyscope": ("LatencyScope",),
    "widgets.look": ("figure",),
    "widgets.ruledesk": ("RuleDesk",),
    "widgets.streampanel": ("StreamPanel",),
    "widgets.windowscope": ("WindowScope",),
    "machine": ("doctor",),
    "model": ("keygroups",),
    "state": ("placement",),
    "widgets": ("pictures",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lab' has no attribute {name!r}; there are: {', '.join(__all__)}")
    home = f"lab.{_HOME_OF[name]}"
    found = getattr(import_module(home), name, None)
    return found or import_module(f"{home}.{name}")


def __dir__() -> list[str]:
    return __all__
