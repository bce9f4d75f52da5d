"""The page reads rules, describes them and evaluates their conditions as the kit does in Python."""

import json
import re
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.kinds import BadRule
from lab.model.messages import parse_message
from lab.model.operators import RELATIONS, parse_ip_address
from lab.model.rule import Rule, readable_rule_sentence
from lab.model.rules import rule_message
from lab.model.schema import LOGINS, Schema
from lab.model.sentence import EXAMPLE
from lab.model.when import is_true, when_text
from lab.model.whenreader import parse_when
from tests.browser.test_page_engine import many
from tests.engine.test_when import events
from tests.model.refusals import table
from tests.model.test_rules import TOO_LONG
from tests.model.test_sentence import ODD, odd_rules
from tests.model.test_when import conditions
from tests.strategies import rules

pytestmark = pytest.mark.browser
TRUTH = """([schema, lines, texts]) => {
    const columns = new Columns(schemaOf(schema));
    for (const line of lines) { const bytes = encoder.encode(line); columns.read(bytes, 0, bytes.length, {}); }
    return texts.map((text) => { const when = readWhen(text, columns.schema), isTrue = truthOf(when, columns); return [whenText(when), lines.map((_, row) => isTrue(row))]; });
}"""
READ = """([given, texts]) => {
    const schema = schemaOf(given);
    return texts.map((text) => {
        try { return meaning(readMessage(text, schema).rule); } catch (error) { if (error instanceof Bad) return null; throw error; }
    });
}"""
WRONG = """([given, texts]) => {
    const schema = schemaOf(given);
    return texts.map((text) => {
        try { readMessage(text, schema); return null; } catch (error) { if (error instanceof Bad) return error.message; throw error; }
    });
}"""
AS_JSON = """([given, texts]) => {
    const schema = schemaOf(given);
    return texts.map((text) => {
        try { return ruleJson(readMessage(text, schema).rule); } catch (error) { if (error instanceof Bad) return null; throw error; }
    });
}"""
SIGNS = (
    "",
    " ",
    "(",
    ")",
    ",",
    "'",
    '"',
    "and",
    "or",
    "not",
    "in",
    "null",
    "amount",
    "7",
    "1_0",
    "é",
    "==",
    "without",
    "×",
    "10.0.0.0/8",
    "%",
    "severity",
    "labels",
    "with",
    '"a"',
)


@many
@given(
    given_events=st.lists(events(), min_size=1, max_size=8),
    whens=st.lists(conditions(), min_size=1, max_size=5),
)
def test_conditions_read_as_they_are_written_and_are_true_where_they_are_in_python(
    opened, given_events, whens
):
    lines = [
        json.dumps({"eventId": n, "eventTime": 1000 + n, "action": "login", **event})
        for n, event in enumerate(given_events)
    ]
    texts = [when_text(when) for when in whens]
    parsed = [LOGINS.parse(line.encode()) for line in lines]
    found = opened.evaluate(TRUTH, [LOGINS.to_dict(), lines, texts])
    assert found == [[text, [is_true(when, event) for event in parsed]] for text, when in zip(texts, whens)]


@many
@given(messages=st.lists(rules(absence=True), min_size=5, max_size=15), rng=st.randoms(use_true_random=True))
def test_rules_are_read_described_and_refused_as_in_python(opened, messages, rng):
    """As JSON, as a sentence, and as a sentence in which something else stands for a word or a sign."""
    texts = []
    for message in messages:
        texts.append(message.decode())
        if told := described(message.decode()):
            words = re.split(r"([\w.-]+|\W)", told)
            words[rng.randrange(len(words))] = rng.choice(SIGNS)
            texts += [f"7 pause: {told}", f"7: {''.join(words)}"]
    assert opened.evaluate(READ, [LOGINS.to_dict(), texts]) == [described(text) for text in texts]


@many
@given(messages=st.lists(odd_rules().map(json.dumps), min_size=5, max_size=15))
def test_rules_are_read_and_described_as_in_python_whatever_fields_are_called(opened, messages):
    sentences = [f"7: {told}" for message in messages if (told := described(message, ODD))]
    texts = [*messages, *sentences]
    assert opened.evaluate(READ, [ODD.to_dict(), texts]) == [described(text, ODD) for text in texts]


@many
@given(messages=st.lists(rules(absence=True), min_size=5, max_size=15))
def test_a_rule_is_the_same_json_as_in_python(opened, messages):
    """As what it is too long is decided by."""
    texts = [message.decode() for message in messages]
    expected = [(rule := read(text)) and json.dumps(rule.to_dict()) for text in texts]
    assert opened.evaluate(AS_JSON, [LOGINS.to_dict(), texts]) == expected


@pytest.mark.parametrize(("filter", "form"), TOO_LONG)
def test_a_rule_that_could_not_be_read_back_is_refused_as_in_python(opened, filter, form):
    """Whole numbers become longer in a sentence, other texts than ASCII in JSON; by one value less it is short enough."""
    (name, values), *_ = filter.items()
    rule = rule_message(1, ["userId"], None, "COUNT", "GREATER", 20_000_000, "1h")
    texts = [
        json.dumps(rule | {"filter": {name: values[:count]}}, ensure_ascii=False)
        for count in range(1, len(values), 7)
    ]
    reasons = [refusal(text) for text in texts]
    assert opened.evaluate(WRONG, [LOGINS.to_dict(), texts]) == reasons
    sizes = [re.fullmatch(rf"rule as {form} of ([0-9]+) bytes, .*", reason) for reason in reasons if reason]
    assert all(sizes) and min(int(size[1]) for size in sizes) < 65536 + 200 and None in reasons


def test_a_mistake_in_a_sentence_or_a_condition_is_told_as_in_python(opened):
    refused = table()
    texts = [f"7: {text}" for text in refused["sentences"]]
    for text in (*refused["conditions"], *refused["filters"]):
        texts += [f"7: {EXAMPLE}, when {text}", f"7: COUNT(events where {text}) over 1 h > 3"]
    texts += [
        EXAMPLE,
        f" 7 {EXAMPLE}",
        "no(events) within 1 h after",
        "SUMé (amount) over 1 h > 3",
        "minutes",
    ]
    found = opened.evaluate(WRONG, [LOGINS.to_dict(), texts])
    # which the page does not tell: what was probably meant
    suggested = re.compile(r", did you mean [^?]*\?|(?<=goes in quotes), such as .*(?= \(at)")
    assert found == [suggested.sub("", told(text)) for text in texts]


def read(text: str) -> Rule | None:
    """The rule that a message means; None if it is refused."""
    try:
        return parse_message(text, LOGINS).rule
    except BadRule:
        return None


def refusal(text: str) -> str | None:
    """Why a message is refused; None if it is not."""
    try:
        parse_message(text, LOGINS)
    except BadRule as error:
        return str(error)
    return None


def told(text: str) -> str:
    with pytest.raises(BadRule) as error:
        parse_message(text, LOGINS)
    return str(error.value)


def described(text: str, schema: Schema = LOGINS) -> str | None:
    """The rule that a message means, in words; None if it is refused."""
    try:
        return readable_rule_sentence(parse_message(text, schema).rule)
    except BadRule:
        return None


EDGES = sorted(
    {sign * (1 << bits) + more for bits in (0, 31, 32, 53, 62) for sign in (1, -1) for more in (-1, 0, 1)}
)


def test_numbers_are_compared_exactly_wherever_they_change_their_bits(opened):
    lines = [
        json.dumps({"eventId": n + 1, "eventTime": 5, "userId": number}) for n, number in enumerate(EDGES)
    ]
    texts = [f"userId {sign} {number}" for number in EDGES for sign in RELATIONS]
    found = opened.evaluate(TRUTH, [LOGINS.to_dict(), lines, texts])
    events = [{"userId": number} for number in EDGES]
    assert found == [[text, [is_true(parse_when(text, LOGINS), event) for event in events]] for text in texts]


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
NETWORKS = (
    *(
        "10.0.0.0/8",
        "10.0.0.1/8",
        "10.0.0.0/255.0.0.0",
        "10.0.0.0/0.255.255.255",
        "10.0.0.0/255.0.255.0",
        "10.0.0.0/33",
        "1.2.3.4/32",
    ),
    *(
        "0.0.0.0/0",
        "::/0",
        "::1/128",
        "2001:db8:0:0:1::/80",
        "1:0:0:2::/64",
        "1::/129",
        "10.0.0.0/08",
        "10.0.0.0/",
        "/8",
        "::/0.0.0.0",
    ),
)


def test_addresses_and_networks_are_those_of_python(opened):
    def network(text: str) -> str | None:
        try:
            return str(ip_network(text, strict=False))
        except ValueError:
            return None

    given = [ADDRESSES, [text for text in NETWORKS if "/" in text]]
    found = opened.evaluate(
        "([addresses, networks]) => [addresses.map((text) => { const of = addressOf(text); return of && [of.version, String(of.number)]; }), "
        "networks.map((text) => networkOf(text)?.text ?? null)]",
        given,
    )
    addresses = [parse_ip_address(text) for text in ADDRESSES]
    assert found[0] == [each and [each.version, str(int(each))] for each in addresses]
    assert found[1] == [network(text) for text in NETWORKS]
