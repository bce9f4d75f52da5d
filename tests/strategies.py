"""What random logs are drawn from: few keys, close times, every kind of rule, so that everything meets everything."""

import json
from dataclasses import replace

from lab.model.aggregates import AGGREGATES
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
NO_OTHER_WINDOW: dict[str, object] = {"lastEvents": None, "endsBefore": None, "sessionGap": None}
# habits of a log: how long after the one before a record is logged, ms
LOG_STEPS = ((0, 1), (0, 1, 1_000, 10_000), (1_000, 30_000), (0, 0, 0, 5 * MINUTE))
PAUSES = (1, 1_001, 61_000, 7 * MINUTE)  # before a cut, ms
COUNTING = ("COUNT", "COUNT_FLINK", "COUNT_WITH_RESET", "COUNT_WITH_RESET_FLINK")


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
