"""The page has rules read by the project's own Python, and evaluates their conditions as the kit does in Python."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.operators import RELATIONS
from lab.model.schema import LOGINS
from lab.model.sentence import EXAMPLE
from lab.model.when import When, is_true, when_text
from lab.model.whenreader import parse_when
from lab.page.conditions import condition_for_page
from lab.page.front import Book
from lab.page.reader import described
from tests.browser.test_page_engine import many
from tests.engine.test_when import events
from tests.model.refusals import table
from tests.model.test_when import conditions

pytestmark = pytest.mark.browser
TRUTH = """([schema, lines, trees]) => {
    const engine = new Engine(state.wasm, schemaOf(schema)), { columns } = engine, found = [];
    engine.lines.take(encoder.encode(lines.join("\\n")), () => found.push(...trees.map((tree) => { const isTrue = truthOf(fromPython(tree), columns); return lines.map((_, row) => isTrue(row)); })));
    return found;
}"""
RULES = [
    "SUM(amount) per userId over 1 h > 5",
    'MAX(amount where country = "KR") per userId over 2 h > 3 × AVG(amount) over 3 h + 0.5',
    "COUNT_WITH_RESET(events) per userId over 1 h >= 3 or VARIANCE(amount) over 5 min > 7, when amount > 2.5",
    "UNIQUE_COUNT(ip, country) per userId over 1 h without the current event > 3, at most 1 per 1 h",
]
CARRIED_OUT = """([schema, messages]) => {
    const book = front.Book(schema);
    return messages.map((text) => book.carry_out(text));
}"""
JUDGE = """([schema, texts]) => {
    const book = front.Book(schema);
    return texts.map((text) => book.judge(text, "7", "ACTIVE"));
}"""


def has_no_pattern(when: When) -> bool:
    """Whether the page takes a condition: it has no RE2."""
    return "matches" not in when_text(when)


@many
@given(
    given_events=st.lists(events(), min_size=1, max_size=8),
    whens=st.lists(conditions().filter(has_no_pattern), min_size=1, max_size=5),
)
def test_conditions_are_true_where_they_are_in_python(engine, given_events, whens):
    lines = [
        json.dumps({"eventId": n, "eventTime": 1000 + n, "action": "login", **event})
        for n, event in enumerate(given_events)
    ]
    parsed = [LOGINS.parse(line.encode()) for line in lines]
    found = engine.evaluate(TRUTH, [described(LOGINS.to_dict()), lines, trees(whens)])
    assert found == [[is_true(when, event) for event in parsed] for when in whens]


def trees(whens: list[When]) -> list[str]:
    return [json.dumps(condition_for_page(when, LOGINS)) for when in whens]


def test_python_in_the_page_judges_rules_as_here(engine):
    """Mistakes in sentences, conditions and filters, and rules that are none or whole messages."""
    refused = table()
    texts = [
        *refused["sentences"],
        EXAMPLE,
        "SUMé (amount) over 1 h > 3",
        "{}",
        '{"ruleId": 7, "ruleState": "PAUSE"}',
    ]
    for text in (*refused["conditions"], *refused["filters"]):
        texts += [f"{EXAMPLE}, when {text}", f"7: COUNT(events where {text}) over 1 h > 3"]
    schema = json.dumps(LOGINS.to_dict())
    here = [Book(schema).judge(text, "7", "ACTIVE") for text in texts]
    assert engine.evaluate(JUDGE, [schema, texts]) == here


def test_rules_become_the_same_numbers_in_the_page_without_numpy(engine):
    schema, messages = json.dumps(LOGINS.to_dict()), [f"{n}: {rule}" for n, rule in enumerate(RULES, 1)]
    book = Book(schema)
    here = [book.carry_out(text) for text in messages]
    assert engine.evaluate(CARRIED_OUT, [schema, messages]) == here
    assert all(json.loads(here[-1])["routes"][0]["changed"]["arrays"].values())


EDGES = sorted(
    {sign * (1 << bits) + more for bits in (0, 31, 32, 53, 62) for sign in (1, -1) for more in (-1, 0, 1)}
)


def test_numbers_are_compared_exactly_wherever_they_change_their_bits(engine):
    lines = [
        json.dumps({"eventId": n + 1, "eventTime": 5, "userId": number}) for n, number in enumerate(EDGES)
    ]
    whens = [parse_when(f"userId {sign} {number}", LOGINS) for number in EDGES for sign in RELATIONS]
    found = engine.evaluate(TRUTH, [described(LOGINS.to_dict()), lines, trees(whens)])
    events = [{"userId": number} for number in EDGES]
    assert found == [[is_true(when, event) for event in events] for when in whens]


ADDRESSES = (
    *("1.2.3.4", "01.2.3.4", "1.2.3", "256.1.1.1", "::", ":", ":::", "::1", "1::", "1:2:3:4:5:6:7:8"),
    *("1:2:3:4:5:6:7::", "1::3:4:5:6:7:8", "1::2::3", ":1::2", "1:2:3:4:5:6:1.2.3.4", "12345::"),
    *("fe80::1%eth0", "::1%", "1:1.2.3.4", "g::", "::ffff:1.2.3.4", ""),
)
NETWORKS = ("0.0.0.0/0", "1.2.3.4/32", "::/0", "fe80::/10", "::1/128", "::ffff:0:0/96", "1.0.0.0/8, ::/8")


def test_networks_have_the_addresses_that_they_have_in_python(engine):
    events = [
        {"eventId": n, "eventTime": 5, "userId": 1, "action": "login", "ip": address}
        for n, address in enumerate(ADDRESSES, 1)
    ]
    whens = [
        parse_when(f"ip {words} {of}" if "," not in of else f"ip {words} ({of})", LOGINS)
        for words in ("in", "not in")
        for of in NETWORKS
    ]
    found = engine.evaluate(
        TRUTH, [described(LOGINS.to_dict()), [json.dumps(event) for event in events], trees(whens)]
    )
    assert found == [[is_true(when, event) for event in events] for when in whens]


# when clocks are turned forward and back: a month of Berlin, half an hour at Lord Howe, a day that Samoa left out, Liberia by 44:30
ZONES = {
    "Europe/Berlin": (1711846800, 1729990800),
    "Australia/Lord_Howe": (1728142200, 1712415600),
    "Pacific/Apia": (1325239200,),
    "Africa/Monrovia": (63593070,),
    "+05:45": (1711846800,),
}


def test_clocks_show_what_they_show_in_python_where_they_are_turned(engine):
    turned = sorted({(zone, at) for zone, times in ZONES.items() for at in times})
    times = sorted(
        {
            1000 * at + ms
            for _, at in turned
            for around in (0, 450, 900, 1800, 3600, 7200)
            for ms in (1000 * around - 1, 1000 * around, -1000 * around - 1, -1000 * around, 1_234)
        }
    )
    events = [
        {"eventId": n, "eventTime": time, "userId": 1, "action": "login"} for n, time in enumerate(times, 1)
    ]
    whens = [
        parse_when(f'{part}(eventTime, "{zone}") {test}', LOGINS)
        for zone in ZONES
        for part, test in (("hour", "< 3"), ("hour", "in (1, 3, 23)"), ("weekday", ">= 6"))
    ]
    found = engine.evaluate(
        TRUTH, [described(LOGINS.to_dict()), [json.dumps(event) for event in events], trees(whens)]
    )
    assert found == [[is_true(when, event) for event in events] for when in whens]
    assert all(len({*each}) == 2 for each in found[:12])  # of the zones whose clocks are turned


COUNTED = """([schema, lines, trees]) => {
    const engine = new Engine(state.wasm, schemaOf(schema)), { columns } = engine, asked = [], whens = trees.map(fromPython);
    columns.python = { judged: (text, values) => { asked.push(...JSON.parse(values)); return engine.book.python.judged(text, values); } };
    const judge = (some) => engine.lines.take(encoder.encode(some.join("\\n")), () => whens.forEach((when) => truthOf(when, columns)));
    judge(lines);
    judge(lines);
    const before = asked.length;
    columns.texts.forget();
    judge(lines);
    return [before, asked.length];
}"""


def test_python_is_asked_of_each_different_value_once_until_texts_are_forgotten(engine):
    lines = [
        json.dumps(
            {"eventId": n, "eventTime": 1000 * n, "userId": 1, "action": "login", "ip": f"10.0.0.{n % 3}"}
        )
        for n in range(1, 2_001)
    ]
    whens = [
        parse_when(text, LOGINS) for text in ("ip in 10.0.0.1/32", "ip startsWith 1", "hour(eventTime) > 3")
    ]
    quarters, texts = 3, 3
    once = 2 * texts + quarters
    assert engine.evaluate(COUNTED, [described(LOGINS.to_dict()), lines, trees(whens)]) == [once, 2 * once]
