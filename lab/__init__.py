"""Rules that change at run time, evaluated on event streams.

>>> import lab
>>> lab.PAYMENTS.id_field
'transactionId'

What notebooks use is here, and imported when it is first asked for: `import lab` is fast, and Spark waits for `lab.session()`.
"""

import sys
from importlib import import_module
from types import ModuleType

_HOMES = {
    "alerts": ("Alert", "AlertTable", "group_key"),
    "contrast.buckets": ("Buckets", "bucketed"),
    "contrast.delays": ("race_sliding",),
    "contrast.mapstate": ("textbook",),
    "contrast.realtime": ("try_real_time",),
    "contrast.restore": ("Keys", "Snapshot", "compare_restores"),
    "contrast.sliding": ("cost_of_sliding",),
    "demo": ("first_rules",),
    "doctor": ("doctor",),
    "engine.ends": ("FileLogs", "KafkaLogs"),
    "engine.pipeline": ("start",),
    "engine.route": ("route",),
    "engine.settings": ("Settings",),
    "keygroups": ("digest", "key_groups_of", "keygroups"),
    "logs.files": ("FileLog",),
    "logs.kafka": ("KafkaLog",),
    "past": ("Past",),
    "placement": ("placement",),
    "player": ("Player",),
    "reference": ("Reference",),
    "replay": ("Replayed", "Source", "read_rules", "replay"),
    "rescale": ("rescale",),
    "rules": ("BadRule", "Route", "Rule", "RuleBook", "parse_message"),
    "schema": ("FLIGHTS", "LOGINS", "PAYMENTS", "SCHEMAS", "Field", "Schema"),
    "session": ("session",),
    "state": ("State", "read_state"),
    "studio": ("Studio",),
    "teach": ("check", "check_function", "dataset", "predict"),
    "teach.rehearsal": ("rehearse",),
    "testing": ("Stages",),
    "watch": ("Latencies",),
    "widgets.alertfeed": ("AlertFeed",),
    "widgets.controlroom": ("ControlRoom", "FrontDoor", "Room"),
    "widgets.keygroupscope": ("KeyGroupScope",),
    "widgets.latencyscope": ("LatencyScope",),
    "widgets.look": ("figure",),
    "widgets.ruledesk": ("RuleDesk",),
    "widgets.streampanel": ("StreamPanel",),
    "widgets.windowscope": ("WindowScope",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lab' has no attribute {name!r}; there are: {', '.join(__all__)}")
    module = import_module(f"lab.{_HOME_OF[name]}")
    return module if name == _HOME_OF[name] else getattr(module, name)


def __dir__() -> list[str]:
    return __all__


def make_callable(name: str) -> None:
    """Lets the module `lab.NAME` be called as its function NAME: `lab.session()` is `lab.session.session()`."""

    class Callable(ModuleType):
        def __call__(self, *arguments, **named):
            return getattr(self, name)(*arguments, **named)

    sys.modules[f"lab.{name}"].__class__ = Callable
