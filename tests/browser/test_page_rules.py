"""The page has rules read by the project's own Python, and evaluates their conditions as the kit does in Python."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.operators import RELATIONS, parse_ip_address
from lab.model.schema import LOGINS
from lab.model.sentence import EXAMPLE
from lab.model.when import When, is_true, when_text
from lab.model.whenreader import parse_when
from lab.page.front import Book, condition_for_page
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
NUMBERS = """([schema, rules, fields]) => {
    const book = front.Book(schema);
    rules.forEach((rule, n) => book.carry_out(`${n + 1}: ${rule}`));
    return book.numbers("userId", JSON.stringify(fields));
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
    found = engine.evaluate(TRUTH, [LOGINS.to_dict(), lines, trees(whens)])
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
    schema, here = json.dumps(LOGINS.to_dict()), []
    book = Book(schema)
    here = [json.loads(book.carry_out(f"{number}: {rule}")) for number, rule in enumerate(RULES, 1)]
    fields = sorted({name for each in here for name in each["rule"]["needs"]} | {"!4.3"})
    numbers = book.numbers("userId", json.dumps(fields))
    assert engine.evaluate(NUMBERS, [schema, RULES, fields]) == numbers
    assert all(json.loads(numbers)["arrays"].values())


EDGES = sorted(
    {sign * (1 << bits) + more for bits in (0, 31, 32, 53, 62) for sign in (1, -1) for more in (-1, 0, 1)}
)


def test_numbers_are_compared_exactly_wherever_they_change_their_bits(engine):
    lines = [
        json.dumps({"eventId": n + 1, "eventTime": 5, "userId": number}) for n, number in enumerate(EDGES)
    ]
    whens = [parse_when(f"userId {sign} {number}", LOGINS) for number in EDGES for sign in RELATIONS]
    found = engine.evaluate(TRUTH, [LOGINS.to_dict(), lines, trees(whens)])
    events = [{"userId": number} for number in EDGES]
    assert found == [[is_true(when, event) for event in events] for when in whens]


ADDRESSES = (
    *(
        "1.2.3.4",
        "01.2.3.4",
        "1.2.3",
        "256.1.1.1",
        "::",
        ":",
        ":::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7:8",
        "::ffff:1.2.3.4",
    ),
    *(
        "1:2:3:4:5:6:7::",
        "1::3:4:5:6:7:8",
        "1::2::3",
        ":1::2",
        "1:2:3:4:5:6:1.2.3.4",
        "12345::",
        "fe80::1%eth0",
        "::1%",
        "1:1.2.3.4",
        "g::",
    ),
)


def test_addresses_are_those_of_python(opened):
    found = opened.evaluate(
        "(addresses) => addresses.map((text) => { const of = addressOf(text); return of && [of.version, String(of.number)]; })",
        ADDRESSES,
    )
    addresses = [parse_ip_address(text) for text in ADDRESSES]
    assert found == [each and [each.version, str(int(each))] for each in addresses]
