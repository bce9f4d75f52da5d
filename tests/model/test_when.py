"""`when` of a rule: what it means, what is refused and where, how large it may be, and that it reads back."""

import json
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model import language as speaking
from lab.model.conditions import BadConditions, quote_text
from lab.model.operators import OPERATORS, RELATIONS
from lab.model.rules import RuleBook, parse_message
from lab.model.schema import LOGINS
from lab.model.when import AllOf, AnyOf, Comparison, LocalTimePart, OtherField, is_true, when_text
from lab.model.whenreader import MAX_BRACKETS, MAX_COMPARISONS, MAX_VALUES, parse_when
from tests.model.refusals import TYPES
from tests.strategies import PATTERN_WHENS, WHENS

EVENT = {
    "eventId": 7,
    "eventTime": 1000,
    "userId": 7,
    "action": "login",
    "ip": "10.1.2.3",
    "device": "curl/8.0",
    "country": "KR",
    "amount": Decimal("500.00"),
}
RULE = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "aggregateFieldName": "COUNT"}
RULE |= {"limitOperatorType": ">", "limit": 1, "window": "1m"}


AGENT = "Mozilla/5.0 (X11; Linux x86_64) a=b, 'c' | \"d\" & \\e"


def texts():
    """Texts of the Unicode that Python knows, and those that a grammar stumbles over.

    A browser knows newer letters, and writes words of them without quotes.
    """
    signs = st.sampled_from(
        ["and", "in", "OR", "not", "", " ", "a b", "'", '"', "a|b", "a;b=c", "\\", "(", AGENT, "\n"]
    )
    return signs | st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=20)


def conditions():
    """Conditions on logins as trees, as rules keep them."""
    numbers = st.integers(-(1 << 63), (1 << 63) - 1)
    amounts = st.integers(-(10**18) + 1, 10**18 - 1).map(lambda cents: Decimal(cents).scaleb(-2))
    relation, values = st.sampled_from(list(RELATIONS)), {"userId": numbers, "amount": amounts}
    values |= dict.fromkeys(("action", "device", "country"), texts())
    of_one = [st.builds(Comparison, st.just(name), relation, of) for name, of in values.items()]
    of_some = [
        st.builds(
            Comparison,
            st.just(name),
            st.sampled_from(["in", "not in"]),
            st.sets(of, min_size=1, max_size=4).map(lambda some: tuple(sorted(some))),
        )
        for name, of in values.items()
    ]
    of_texts = st.sampled_from([words for words, each in OPERATORS.items() if each.takes == "texts"])
    several_texts = st.sets(texts(), min_size=2, max_size=4).map(lambda some: tuple(sorted(some)))
    nulls = st.sampled_from(["is null", "is not null"])
    others = st.sampled_from([("userId", "amount"), ("country", "ip"), ("ip", "device")])
    one = st.one_of(
        *of_one,
        *of_some,
        st.builds(Comparison, st.sampled_from(["ip", "device"]), of_texts, texts() | several_texts).filter(
            is_taken
        ),
        st.builds(Comparison, st.sampled_from(LOGINS.names), nulls),
        st.builds(lambda pair, by: Comparison(pair[0], by, OtherField(pair[1])), others, relation),
        st.builds(
            Comparison,
            st.just("eventTime"),
            relation,
            st.integers(1, 7),
            st.sampled_from(
                [
                    LocalTimePart("hour"),
                    LocalTimePart("weekday", "-03:30"),
                    LocalTimePart("hour", "Europe/Berlin"),
                ]
            ),
        ),
        st.sampled_from(["ip in 10.0.0.0/8", "ip not in (10.0.0.0/8, 192.168.0.0/16, ::/0)"]).map(
            lambda text: parse_when(text, LOGINS)
        ),
    )

    def flat(of, some):
        return of(tuple(each for part in some for each in (part.parts if isinstance(part, of) else (part,))))

    def joined(parts):
        return st.builds(flat, st.sampled_from([AllOf, AnyOf]), st.lists(parts, min_size=2, max_size=3))

    return st.recursive(one, joined, max_leaves=8)


def is_taken(of: Comparison) -> bool:
    """Whether the operator takes the texts: not each is a regular expression."""
    operator = OPERATORS[of.operator]
    try:
        return all(operator.check(text) for text in operator.alternatives(of.operand) if text)
    except ValueError:
        return False


@given(conditions())
def test_a_condition_in_words_reads_back_as_itself(when):
    assert parse_when(when_text(when), LOGINS) == when


@pytest.mark.parametrize("text", (*WHENS, *PATTERN_WHENS))
def test_a_rule_keeps_its_condition_in_words_and_in_its_description(text):
    rule = parse_message(json.dumps(RULE | {"when": text}), LOGINS).rule
    assert parse_message(json.dumps(rule.to_dict()), LOGINS).rule == rule
    assert f"COUNT(events) per userId over 1 min > 1, when {rule.to_dict()['when']}" == rule.describe()


def test_a_rule_without_a_condition_is_written_as_ever():
    rule = parse_message(json.dumps(RULE), LOGINS).rule
    assert rule.when is None and "when" not in rule.to_dict() and "when" not in rule.describe()
    assert rule == parse_message(json.dumps(RULE | {"when": None}), LOGINS).rule


def test_a_book_of_rules_with_conditions_reads_back():
    book = RuleBook(LOGINS)
    for number, text in enumerate(WHENS, 1):
        assert book.apply(json.dumps(RULE | {"ruleId": number, "when": text}))["status"] == "accepted"
    assert RuleBook.from_json(book.to_json(), LOGINS) == book
    assert len(book.routes()) == 1


TRUE = (
    *("amount >= 500", "amount = 500.00", "amount != 499.99", "amount < 500.01", "userId = eventId"),
    *("amount > userId", "country = KR", 'country = "KR"', "country in (KR, CN)", "country not in (US)"),
    *("country > CN", "device startsWith curl", 'device startsWith "curl/"', "device not startsWith x"),
    *("device startsWith (curl, wget)", "device not startsWith (x, y)", "device not contains (x, y)"),
    *(
        "device contains rl",
        'device contains ("bot", "url")',
        "device not contains Curl",
        "device contains ''",
    ),
    *("country endsWith R", "country endsWith (S, KR)", "country not endsWith (r, K)", "country endsWith ''"),
    *(
        "device matches '^curl/[0-9]'",
        'device matches (bot, "(?i)CURL")',
        "device not matches ('^url', CURL)",
    ),
    *("ip in 10.0.0.0/8", "ip in (192.168.0.0/16, 10.1.2.3)", "ip in (10.1.2.3/32)", "ip not in 11.0.0.0/8"),
    *("ip not in ::/0", "device not in 10.0.0.0/8", "amount is not null", "country = KR OR country = CN"),
    *("amount > 500 or amount < 1 or userId IN (7)", "(amount > 500 or userId = 7) and country = KR"),
    *("country = US and userId = 8 or amount = 500", "action != country"),
)


@pytest.mark.parametrize("text", TRUE)
def test_conditions_that_are_true(text):
    assert is_true(parse_when(text, LOGINS), EVENT)


@pytest.mark.parametrize("name", LOGINS.names)
def test_a_comparison_with_null_is_false_whichever_it_is(name):
    numeric = LOGINS.field(name).is_number_or_time
    event, value = EVENT | {name: None}, "7" if numeric else '"KR"'
    other = "amount" if name == "userId" else "userId" if numeric else "ip" if name != "ip" else "country"
    compared = [f"{name} {sign} {value}" for sign in RELATIONS]
    compared += [f"{name} {sign} {other}" for sign in RELATIONS] + [
        f"{other} {sign} {name}" for sign in RELATIONS
    ]
    compared += [f"{name} in ({value})", f"{name} not in ({value})"]
    if not numeric:
        of_texts = [words for words, each in OPERATORS.items() if each.takes == "texts"]
        compared += [f"{name} {words} {texts}" for words in of_texts for texts in ("K", "(K, '')")]
        compared += [f"{name} in 10.0.0.0/8", f"{name} not in 10.0.0.0/8"]
    assert [text for text in compared if is_true(parse_when(text, LOGINS), event)] == []
    assert is_true(parse_when(f"{name} is null", LOGINS), event)
    assert not is_true(parse_when(f"{name} is not null", LOGINS), event)


def test_texts_are_compared_by_code_points():
    ascending = ["", "A", "Z", "a", "é", "\uffee", "\U0001f600"]
    for n, one in enumerate(ascending):
        for m, other in enumerate(ascending):
            when = parse_when(f"country < {json.dumps(other)}", LOGINS)
            assert is_true(when, EVENT | {"country": one}) == (n < m)


@pytest.mark.parametrize(
    "pattern, text, matches",
    [
        *[("(?i)STRASSE|ÉTÉ", "été", True), (r"^.\pL$", "é한", True), (r"\bx", "\U0001f600x", True)],
        *[(".", "\n", False), ("a$", "a\n", False), ("", "", True), ("a\0b", "xa\0b", True)],
    ],
)
def test_a_regular_expression_sees_characters_of_unicode(pattern, text, matches):
    when = parse_when(f"country matches {quote_text(pattern)}", LOGINS)
    assert is_true(when, EVENT | {"country": text}) == matches
    assert parse_when(when_text(when), LOGINS) == when


@pytest.mark.parametrize(
    "text, reason",
    [
        (
            "x matches '(?=a)'",
            'not a regular expression of RE2: "invalid perl operator: (?=" (at "\'(?=a)\'", ',
        ),
        (
            'x matches (a, "b(")',
            'not a regular expression of RE2: "missing ): b(" (at "\\"b(\\"", character 21)',
        ),
        (r"x matches '(a)\1'", "not a regular expression of RE2: "),
        (r"x matches '\pL{500}'", 'not a regular expression of RE2: "pattern too large'),
        (f"x matches {'a' * 1001}", "a regular expression has at most 1,000 characters"),
        ("amount matches 5", "amount is no text: matches is for texts"),
    ],
)
def test_what_is_no_regular_expression_is_refused_with_its_place(text, reason, monkeypatch):
    with pytest.raises(BadConditions, match=re.escape(reason)) as caught:
        parse_when(text.replace("x ", "country "), LOGINS)
    for language in ("ko", "zh"):
        monkeypatch.setattr(speaking, "_chosen", [language])
        assert speaking.translated(str(caught.value)) != str(caught.value)


def test_a_regular_expression_needs_time_in_proportion_to_the_text():
    when = parse_when("country matches '^(a|a?)+b$'", LOGINS)  # a search that goes back needs 2^2,000 steps
    assert not is_true(when, EVENT | {"country": "a" * 2000})


@pytest.mark.parametrize(
    "text", ["", "10.1.2", "010.1.2.3", " 10.1.2.3", "10.1.2.3:80", "::ffff:10.1.2.3", "x"]
)
def test_a_text_that_is_no_address_is_in_no_network(text):
    event = EVENT | {"ip": text}
    assert not is_true(parse_when("ip in 10.0.0.0/8", LOGINS), event)
    assert is_true(parse_when("ip not in 10.0.0.0/8", LOGINS), event)


def test_a_word_that_names_a_field_is_that_field_unless_it_stands_in_quotes_or_a_list():
    event = {"home": "country", "country": "KR", "count": 5, "5": 4, "price": None, "ok": "true"}
    assert not is_true(parse_when("home = country", TYPES), event)
    assert is_true(parse_when('home = "country"', TYPES), event)
    assert is_true(parse_when("home in (country)", TYPES), event)
    assert is_true(parse_when("count = 5", TYPES), event), "a number where one is expected"
    assert is_true(parse_when("ok = true", TYPES), event)


def test_times_and_booleans_compare_as_far_as_that_means_something():
    assert is_true(parse_when("seen <= at and ok != false", TYPES), {"seen": 5, "at": 5, "ok": "true"})


def test_and_binds_before_or_and_brackets_that_change_nothing_leave_no_trace():
    of = "userId = 1 or (userId = 2 and ((amount > 1 and country = KR)))"
    assert (
        when_text(parse_when(of, LOGINS)) == 'userId = 1 or userId = 2 and amount > 1.00 and country = "KR"'
    )
    kept = "(userId = 1 or userId = 2) and amount > 1.00"
    assert when_text(parse_when(kept, LOGINS)) == kept


def test_instead_of_between_that_is_suggested_which_it_means():
    with pytest.raises(BadConditions) as raised:
        parse_when("hour(eventTime) between 22 and 6", LOGINS)
    when = parse_when(re.search(r"write (.*) \(at", str(raised.value))[1], LOGINS)
    hours = [hour for hour in range(24) if is_true(when, {"eventTime": hour * 3_600_000})]
    assert hours == [0, 1, 2, 3, 4, 5, 6, 22, 23]


def test_the_size_of_a_condition_is_bounded():
    def many(count: int) -> str:
        return " and ".join(["userId = 1"] * count)

    def deep(count: int) -> str:
        return "(" * count + "userId = 1 or userId = 2" + ")" * count

    def long(count: int) -> str:
        return f"userId in ({', '.join(map(str, range(count)))})"

    for of, most, reason in (
        (many, MAX_COMPARISONS, "at most 100 comparisons"),
        (deep, MAX_BRACKETS, "at most 10 brackets in each other"),
        (long, MAX_VALUES, "at most 1,000 values"),
    ):
        assert parse_when(when_text(parse_when(of(most), LOGINS)), LOGINS)
        with pytest.raises(BadConditions, match=reason):
            parse_when(of(most + 1), LOGINS)
