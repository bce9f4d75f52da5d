"""Random logs for Hypothesis: few keys, close times, every kind of rule, so that everything meets everything."""

import json
import re
from dataclasses import replace

from hypothesis import strategies as st

from lab.model.aggregates import AGGREGATES
from lab.model.attributes import SEVERITIES
from lab.model.rules import ACTIONS, CONTROLS, OPERATORS
from lab.model.schema import LOGINS

MINUTE = 60_000
PAIRS = replace(LOGINS, name="pairs", id_fields=("country", "eventId"))  # the same events under another id
# the same events, some of which take back others
RETURNS = replace(LOGINS, name="returns", taken_back="action = returned")
# what `tests.engine.randomlogs` says instead of a field, and how it is derived
DERIVED_FOR = {"country": "place", "ip": "pair", "amount": "twice", "userId": "next"}
DERIVED = (
    ("day", 'date(eventTime, "-01:45")'),  # midnight is in the middle of a log
    ("pair", "sorted(country, ip)"),
    ("place", 'coalesce(country, before(ip, ";"), "nowhere")'),
    ("twice", "amount * 2 - 1.5"),
    ("next", "userId * 2 + 1"),
    ("label", 'concat(day, "/", lower(place), "/", length(ip) + hour(eventTime))'),
    ("rest", "(amount - userId) % 1.5"),
    ("spot", "place(rest * 50, amount % 180)"),
)
DERIVED_WHENS = (
    *("twice > amount", 'pair startsWith "["', 'day = "1969-12-31"', "place != country and rest < 1"),
    *("next >= userId", 'label > "1970-01-01/kr"', "twice in (0.5, 3.5) or rest is null"),
)
# two events for each record, and what rules say instead of a field then
LEGS_FOR = {"userId": "party", "country": "side"}
LEGS = (
    ("out", (("party", "userId"), ("side", "country"))),
    ("in", (("party", "userId + 1"), ("side", "coalesce(ip, country)"))),
)
LEG_WHENS = ('leg = "in"', "leg != out and party > 1", 'leg in (out, "in") or side is null', "party = userId")
KEYS = (
    *([], ["userId"], ["userId"], ["userId", "country"], ["country", "userId"], ["amount"], ["ip"]),
    ["ip", "country"],
)
RETURNED = re.compile(rb'"action": "(login|pay)"')
FILTERS = (
    None,
    {"action": "login"},
    {"country": ["KR", "CN"]},
    {"amount": [1, "2.50"], "action": ["pay", "login"]},
    *("amount > 0 or country is null", "country != KR", "ip not in 10.0.0.0/8 and action = login"),
)
WHENS = (
    *("amount > 2.50", "amount <= 0 or amount is null", "amount in (1, 2.5) and action = login"),
    *("amount not in (1, -3.25)", "amount < userId", "userId >= amount", "eventId != userId"),
    *("country not in (KR, CN)", 'country > "KR"', "country <= ip", 'country = "K,R" or country is null'),
    *('ip startsWith "a;" or ip contains (b, ".1.")', "ip not startsWith (a, 1) and ip not endsWith b"),
    *("ip in (10.0.0.0/8, ::1/128) or country endsWith (R, '\"S', é)",),
    *("ip not in 10.0.0.0/8 and country not contains N",),
    *(
        "hour(eventTime) = 2",
        'hour(eventTime, "-01:30") in (0, 1, 23)',
        'weekday(eventTime, "Asia/Seoul") not in (4, 7)',
    ),
    *("ip is not null and (country != KR or userId = 2)", "userId = 1 and userId = 2"),
)
# a page has none of them
PATTERN_WHENS = (
    *('country matches "^K"', "ip not matches ('[.]1', '(?i)B$')", 'country matches "" or amount > 1'),
    "ip matches '^(?:10[.])*a|^.$' and country not matches '^[^K]\\pL'",
)
SEQUENCES = (
    *("action = login, action = pay", "country = KR, country = CN, country = US", "amount > 1, amount > 1"),
    "action = pay, ip is null, action = login without country = US",
    "amount >= 0, action = login or amount is null, ip = a, action = pay, country != KR",
    "country = KR and amount > 0, country = KR, country = KR without amount < 0 or userId = 2",
)
# conditions on named lists, and what may be in these
LIST_WHENS = (
    *("country in @places", "country not in @places", "country in @places and ip not in @mixed"),
    *("amount in @mixed or userId in @mixed", "amount not in @mixed", "hour(eventTime) in @mixed"),
    *("amount > 1 or ip in @places", "userId not in @mixed and userId in (1, 2)"),
)
LISTED: dict[str, list] = {
    "places": ["KR", "CN", "US", "a"],
    "mixed": [1, "2.50", "2.5", 2, "a", "b", "-3.25", "KR", "01"],
}
TITLES = (
    *(None, "Too much", 'an "é" \\ \u2028 \U0001f600 <b>', 'it\'s, severity low, title "x"', "a\n7: b\tc"),
    *("of the event", "\\", "\x85\u202e"),
)
LABELS = (
    *(None, {}, {"team": "fraud"}, {"b": "", "a.b-c": "x=1, y", "_": "'"}),
    {"when": "at most 1 per 1 h", "at": "null", "with": ", labels a = b", "title": 'with "ip"'},
)
EVENT_FIELDS = (None, [], ["ip"], ["amount", "eventTime", "country"], ["country", "userId"])
WINDOWS = ("1s", "30s", "1m", "2m", "5m", "30m")
UNIQUE = (["ip"], ["country"], ["ip", "country"], ["amount"], ["eventId"])
LAST_EVENTS = st.sampled_from([None, None, None, 1, 2, 3, 10])
ENDS_BEFORE = st.sampled_from([None, None, None, "1s", "1m", "5m"])
NO_OTHER_WINDOW: dict[str, object] = {"lastEvents": None, "endsBefore": None, "sessionGap": None}
OTHER_WINDOWS = st.one_of(
    st.fixed_dictionaries({"lastEvents": LAST_EVENTS, "endsBefore": ENDS_BEFORE}),
    st.fixed_dictionaries({"sessionGap": ENDS_BEFORE}),
)
NOT_NUMBERS = st.sampled_from(["NaN", "Infinity", "-Infinity"])
# habits of a log: how long after the one before a record is logged, ms
LOG_STEPS = ((0, 1), (0, 1, 1_000, 10_000), (1_000, 30_000), (0, 0, 0, 5 * MINUTE))
PAUSES = (1, 1_001, 61_000, 7 * MINUTE)  # before a cut, ms
COUNTING = ("COUNT", "COUNT_FLINK", "COUNT_WITH_RESET", "COUNT_WITH_RESET_FLINK")


# of aggregates of the field that a rule names, whatever it is, and of steps
FUNCTIONS = [name for name, row in AGGREGATES.items() if row.argument_kind != "unique" and not row.of_place]


def with_windows_of_functions(rule: dict) -> dict:
    """A rule, or a part of one, in which an aggregate of the judged event alone has no window but the shortest, and one of steps has some."""
    parts: dict[str, object] = {}
    for name in ("limitOf", "plusOf"):
        parts |= {name: with_windows_of_functions(rule[name])} if rule.get(name) else {}
    for joined in ("and", "or"):
        parts |= (
            {joined: [with_windows_of_functions(each) for each in rule[joined]]} if joined in rule else {}
        )
    counts = rule.get("aggregateFieldName") in COUNTING
    if not counts and not AGGREGATES[rule["aggregatorFunctionType"]].has_window:
        parts |= {"window": "1s", "excludeCurrent": None, **NO_OTHER_WINDOW}
    if not counts and AGGREGATES[rule["aggregatorFunctionType"]].argument_kind == "steps":
        some = SEQUENCES[len(json.dumps(rule, default=str)) % len(SEQUENCES)]
        parts |= {"aggregateFieldName": None, "steps": rule.get("steps") or some}
    elif rule.get("steps"):
        parts |= {"steps": None}
    if not counts and AGGREGATES[rule["aggregatorFunctionType"]].of_pair:
        parts |= {"excludeCurrent": None, **NO_OTHER_WINDOW}
    return rule | parts


def amounts():
    return st.sampled_from(["0", "1", "2.5", "-3.25", "0.01", "9999999999999999.99", "-9999999999999999.99"])


@st.composite
def events(draw, time_ms: int):
    """A login event as JSON bytes; now and then nulls, and now and then a broken record."""
    if draw(st.integers(0, 30)) == 0:
        return draw(
            st.sampled_from(
                [b'{"eventId": 1', b'{"eventId": "x", "eventTime": 5}', b"\xff{}", b'{"eventId": 7}']
            )
        )
    event = {
        "eventId": draw(st.integers(0, 40)),
        "eventTime": time_ms,
        "userId": draw(st.sampled_from([1, 1, 1, 2, None])),
        "action": draw(st.sampled_from(["login", "pay"])),
        "ip": draw(
            st.sampled_from(
                ["a", "a", "b", "a;country=KR", "10.1.2.3", "::1", "x" * 2_000, "x" * 2_001, None]
            )
        ),
        "country": draw(st.sampled_from(["KR", "KR", "CN", "CN", 'U"S', "é", "K,R", None])),
        "amount": None,
    }
    text = json.dumps(event)
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(["userId", "ip", "amount"]))
        text = text.replace(f'"{name}": {json.dumps(event[name])}', f'"{name}": {draw(NOT_NUMBERS)}')
    if draw(st.integers(0, 5)):
        text = text.replace('"amount": null', f'"amount": {draw(amounts())}')
    return text.encode()


@st.composite
def rules(draw, absence: bool = False):
    """A rule message for logins as JSON bytes; `absence`: perhaps of one that says so, for which a log needs log times."""
    rule = {
        "ruleId": draw(st.integers(1, 5)),
        "ruleState": draw(st.sampled_from(["ACTIVE", "ACTIVE", "ACTIVE", "PAUSE", "SHADOW"])),
        "groupingKeyNames": draw(st.sampled_from(KEYS)),
        "filter": draw(st.sampled_from(FILTERS)),
        "limitOperatorType": draw(st.sampled_from(OPERATORS)),
        "limit": draw(
            st.sampled_from(["0", "1", "2", "2.5", "3", "5", "-3.25", "0.333333", "19999999999999999.98"])
        ),
        "window": draw(st.sampled_from(WINDOWS)),
    }
    if draw(st.integers(0, 2)) == 0:
        rule |= {"when": draw(st.sampled_from(WHENS))}
    if absence and draw(st.integers(0, 3)) == 0:
        rule |= {draw(st.sampled_from(["when", "filter"])): draw(st.sampled_from(LIST_WHENS))}
    kind = draw(st.integers(0, 3))
    if kind == 0:
        rule |= {"aggregateFieldName": draw(st.sampled_from(COUNTING)), "aggregatorFunctionType": "SUM"}
    elif kind == 1:
        rule |= {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": draw(st.sampled_from(UNIQUE))}
    else:
        functions = st.sampled_from(FUNCTIONS)
        fields = st.sampled_from(["amount", "amount", "amount", "userId"])
        rule |= {"aggregateFieldName": draw(fields), "aggregatorFunctionType": draw(functions)}
    if draw(st.integers(0, 4)) == 0:
        per = draw(st.sampled_from(WINDOWS))
        rule |= {"atMost": {"alerts": draw(st.sampled_from([1, 1, 2, 5])), "per": per}}
    if draw(st.integers(0, 2)) == 0:
        rule |= draw(more_said(rule["aggregatorFunctionType"]))
    rule = with_windows_of_functions(rule)
    if absence and draw(st.integers(0, 5)) == 0:
        same = ("ruleId", "ruleState", "groupingKeyNames", "filter", "window", "when", "where")
        rule = {name: rule[name] for name in same if name in rule} | {"absence": True}
    if draw(st.integers(0, 3)) == 0:
        rule |= {"action": draw(st.sampled_from(ACTIONS if rule["groupingKeyNames"] else ["notify"]))}
        rule |= {"ttl": draw(st.sampled_from(["30s", "5m", "7d"]))}
    if draw(st.integers(0, 3)) == 0:
        said = {
            "severity": draw(st.sampled_from([None, *SEVERITIES])),
            "title": draw(st.sampled_from(TITLES)),
        }
        rule |= said | {"labels": draw(st.sampled_from(LABELS))}
        rule |= {"eventFields": draw(st.sampled_from(EVENT_FIELDS))}
    return json.dumps(rule).encode()


@st.composite
def aggregations(draw, comparable: bool = False):
    """The attributes of an aggregation; `comparable`: of one that a limit can be a multiple of."""
    functions = [
        "UNIQUE_COUNT",
        *(name for name in FUNCTIONS if not comparable or not AGGREGATES[name].resets),
    ]
    of = {
        "aggregatorFunctionType": draw(st.sampled_from(functions)),
        "window": draw(st.sampled_from(WINDOWS)),
    }
    if of["aggregatorFunctionType"] == "UNIQUE_COUNT":
        of |= {"unique": draw(st.sampled_from(UNIQUE))}
    else:
        of |= {"aggregateFieldName": "amount"}
    return of | {
        "where": draw(st.sampled_from([None, *WHENS])),
        "excludeCurrent": draw(st.sampled_from([None, False, True])),
        **draw(OTHER_WINDOWS),
    }


@st.composite
def more_said(draw, function: str | None = None):
    """What makes a rule, or a condition whose aggregate is of a function, more than plain."""
    said = {
        "where": draw(st.sampled_from([None, *WHENS])),
        "excludeCurrent": draw(st.sampled_from([None, True])),
        **draw(OTHER_WINDOWS),
    }
    if draw(st.booleans()):
        divisors = st.sampled_from([None, 1, 3, 60])
        base = draw(aggregations(comparable=True)) | {"dividedBy": draw(divisors)}
        base |= {"plus": draw(st.sampled_from([None, None, "0", "1", "-3.25", "0.000000000001"]))}
        if draw(st.booleans()):
            times = draw(st.sampled_from([None, "1", "-1", "2.5", "-0.000000000001", "1000000"]))
            more = draw(aggregations(comparable=True)) | {"times": times, "dividedBy": draw(divisors)}
            base |= {"plusOf": more}
        roots = [
            each for each in (base, base.get("plusOf", {})) if each.get("aggregatorFunctionType") == "STDDEV"
        ]
        for each in roots[function != "STDDEV" :]:
            each["aggregatorFunctionType"] = "VARIANCE"
        said |= {
            "limitOf": base,
            "limit": draw(st.sampled_from(["1", "2", "0.5", "1.000000000001", "1000000"])),
        }
    if draw(st.booleans()):
        conditions = []
        for _ in range(draw(st.integers(1, 3))):
            of = draw(aggregations()) | {"limitOperatorType": draw(st.sampled_from(OPERATORS))}
            conditions.append(of | {"limit": draw(st.sampled_from(["0", "1", "2.5", "-3.25", "3"]))})
        said |= {draw(st.sampled_from(["and", "or"])): conditions}
    return said


@st.composite
def list_changes(draw):
    """A message that changes a list, or mutes a rule or one of its groups."""
    until = draw(st.sampled_from([None, None, *(100 * MINUTE + n for n in (0, 1, 20_000, 5 * MINUTE))]))
    if draw(st.integers(0, 2)) == 0:
        group = draw(st.sampled_from([None, {}, {"userId": 1}, {"userId": 1, "country": "KR"}, {"ip": "a"}]))
        if draw(st.integers(0, 3)) == 0:
            return json.dumps({"unmute": draw(st.integers(1, 5)), "group": group}).encode()
        return json.dumps({"mute": draw(st.integers(1, 5)), "group": group, "until": until}).encode()
    name, values = draw(st.sampled_from(sorted(LISTED.items())))
    some = st.lists(st.sampled_from(values), max_size=3)
    said = {"list": name, "add": draw(some), "remove": draw(some), "clear": draw(st.integers(0, 9)) == 0}
    return json.dumps(said | ({"until": until} if said["add"] else {})).encode()


def changes(absence: bool = False):
    """Messages that change rules in force; `absence`: as of `rules`."""
    states = st.builds(
        lambda i, s: json.dumps({"ruleId": i, "ruleState": s}).encode(),
        st.integers(1, 5),
        st.sampled_from(["ACTIVE", "PAUSE", "SHADOW", "DELETE"]),
    )
    controls = st.sampled_from(CONTROLS).map(
        lambda name: json.dumps({"ruleState": "CONTROL", "controlType": name}).encode()
    )
    lists = [list_changes(), list_changes()] if absence else []
    return st.one_of(states, states, rules(absence), controls, st.just(b"nonsense"), *lists)


@st.composite
def other_windows(draw, log: list[tuple[str, bytes]]):
    """A rule of the log with another window: windows that shrink and grow again show what is held."""
    given = [text for kind, text in log if kind == "control" and b'"window"' in text]
    return json.dumps(
        json.loads(draw(st.sampled_from(given))) | {"window": draw(st.sampled_from(WINDOWS))}
    ).encode()


@st.composite
def logs(draw, trailing_ms: int = 50 * MINUTE, live: bool = False):
    """A log of ("event", line) and ("control", message): rules first, then events with changes between them.

    Time moves on by some seconds an event; some events trail behind by seconds, minutes, or more than any window, but by no
    more than `trailing_ms`; unless that is a few minutes, some are dated ahead. A `live` one has also rules that say `absence`, and events that take back others (`RETURNS`).
    """
    log = [("control", rule) for rule in draw(st.lists(rules(live), min_size=1, max_size=5))]
    now = 100 * MINUTE
    for _ in range(draw(st.integers(5, 80))):
        if draw(st.integers(0, 9)) == 0:
            log.append(("control", draw(st.one_of(changes(live), other_windows(log)))))
            continue
        now += draw(st.sampled_from([0, 1, 10_000, 10_000, 20_000, MINUTE, 4 * MINUTE]))
        behind = draw(
            st.sampled_from([0, 0, 0, 0, 0, 1, 10_000, 30_000, 2 * MINUTE, 7 * MINUTE, 50 * MINUTE])
        )
        if live and draw(st.integers(0, 7)) == 0:
            log.append(draw(st.sampled_from(log[-5:])))
            if draw(st.booleans()):
                log[-1] = log[-1][0], RETURNED.sub(b'"action": "returned"', log[-1][1])
            continue
        is_ahead = trailing_ms > 5 * MINUTE and draw(st.integers(0, 19)) == 0
        ahead = draw(st.sampled_from([7 * MINUTE, 20 * 60 * MINUTE])) if is_ahead else 0
        log.append(("event", draw(events(now - min(behind, trailing_ms) + ahead))))
    return log


@st.composite
def log_gaps(draw, log: list[tuple[str, bytes]]):
    """How long after the one before each entry of a log is logged, ms: a control message always later, events often together."""
    steps = draw(st.sampled_from(LOG_STEPS))
    return [max(draw(st.sampled_from(steps)), kind == "control") for kind, _ in log]


def cuts(log_length: int):
    """Where a log is cut into micro-batches."""
    return st.lists(st.integers(0, log_length), max_size=12).map(sorted)
