import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import Aggregation, Condition
from lab.model.deadletters import SHOWN
from lab.model.field import Field
from lab.model.rules import (
    FUNCTIONS,
    OPERATORS,
    BadRule,
    Message,
    Route,
    Rule,
    RuleBook,
    parse_message,
    rule_message,
)
from lab.model.schema import LOGINS, PAYMENTS
from lab.model.when import filter_of_values

DEMO = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId", "beneficiaryId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": "GREATER",
    "limit": 20000000,
    "windowMinutes": 43200,
}
CASE_STUDY = {
    "ruleId": 2,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["userId"],
    "aggregateFieldName": "ip",
    "aggregatorFunctionType": "UNIQUE_COUNT",
    "filter": {"action": "login"},
    "limitOperatorType": "gt",
    "limit": 4,
    "windowMinutes": "3m",
}


def message(base=DEMO, **attributes) -> str:
    return json.dumps(base | attributes)


def rule(base=DEMO, **attributes) -> Rule:
    return parse_message(message(base, **attributes), LOGINS if base is CASE_STUDY else PAYMENTS).rule


def reason(text, schema=PAYMENTS) -> str:
    with pytest.raises(BadRule) as error:
        parse_message(text, schema)
    return str(error.value)


def test_the_demos_rule_loads_unchanged():
    assert rule() == Rule(
        rule_id=1,
        state="ACTIVE",
        keys=("payeeId", "beneficiaryId"),
        filter=None,
        conditions=(
            Condition(Aggregation("SUM", "paymentAmount", (), 30 * 86_400_000), "GREATER", Decimal(20000000)),
        ),
    )
    assert rule().describe() == "SUM(paymentAmount) per payeeId, beneficiaryId over 30 d > 20000000"


def test_a_rule_has_the_largest_id_and_names_of_any_alphabet():
    assert rule(ruleId=2**63 - 1).rule_id == 2**63 - 1
    assert (
        ' where action = "Zürich West" per ' in rule(CASE_STUDY, filter={"action": "Zürich West"}).describe()
    )


def test_the_case_studys_rule_loads_unchanged():
    parsed = rule(CASE_STUDY)
    of = parsed.aggregation
    assert (of.function, of.field, of.unique) == ("UNIQUE_COUNT", None, ("ip",))
    assert (parsed.route.field_values, of.window_ms) == ((("action", ("login",)),), 180_000)
    assert parsed.describe() == 'UNIQUE_COUNT(ip) where action = "login" per userId over 3 min > 4'


@pytest.mark.parametrize(
    ("text", "like"),
    [
        (
            "1,(active),(paymentType&payeeId),,(paymentAmount),(SUM),(>),(50),(20)",
            {"groupingKeyNames": ["paymentType", "payeeId"], "limit": 50, "windowMinutes": 20},
        ),
        (
            " 1 , ( Pause ), () ,(payeeId & paymentType),,( unique_count ),(gt),(0.5),(24h)\n",
            {
                "ruleState": "PAUSE",
                "groupingKeyNames": None,
                "unique": ["payeeId", "paymentType"],
                "aggregateFieldName": None,
                "aggregatorFunctionType": "UNIQUE_COUNT",
                "limit": "0.5",
                "windowMinutes": "24h",
            },
        ),
        (
            "1,active,payeeId,,COUNT_FLINK,SUM,=,3,20",
            {
                "groupingKeyNames": ["payeeId"],
                "aggregateFieldName": "COUNT",
                "limitOperatorType": "EQUAL",
                "limit": 3,
                "windowMinutes": "20m",
            },
        ),
    ],
)
def test_the_plain_text_form_says_the_same_as_json(text, like):
    assert parse_message(text, PAYMENTS) == parse_message(message(**like), PAYMENTS)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("1,(delete)", Message("delete", rule_id=1, state="DELETE")),
        ("1,(pause),,,,,,,()", Message("state", rule_id=1, state="PAUSE")),
        ('{"ruleId": 1, "ruleState": "active", "unique": null}', Message("state", rule_id=1, state="ACTIVE")),
        (message(ruleState="DELETE", limit="any"), Message("delete", rule_id=1, state="DELETE")),
        (
            '{"ruleState": "CONTROL", "controlType": "clear_state_all", "ruleId": "?"}',
            Message("control", state="CONTROL", control="CLEAR_STATE_ALL"),
        ),
    ],
)
def test_messages_that_define_no_rule_are_short(text, parsed):
    assert parse_message(text, PAYMENTS) == parse_message(text.encode(), PAYMENTS) == parsed


@pytest.mark.parametrize(
    ("written", "operator"),
    [
        *((name, name) for name in OPERATORS),
        *(("=", "EQUAL"), ("!=", "NOT_EQUAL"), (">", "GREATER"), (">=", "GREATER_EQUAL")),
        *(("<", "LESS"), ("<=", "LESS_EQUAL"), ("gt", "GREATER"), ("Lt", "LESS"), ("equal", "EQUAL")),
    ],
)
def test_operators_are_names_symbols_and_words(written, operator):
    assert rule(limitOperatorType=written).first.operator == operator


@pytest.mark.parametrize(
    ("operator", "below", "at", "above"),
    [
        ("EQUAL", False, True, False),
        ("NOT_EQUAL", True, False, True),
        ("GREATER", False, False, True),
        ("GREATER_EQUAL", False, True, True),
        ("LESS", True, False, False),
        ("LESS_EQUAL", True, True, False),
    ],
)
def test_each_operator_compares_the_aggregate_with_the_limit(operator, below, at, above):
    holds = rule(limitOperatorType=operator, limit=5).first.holds
    assert (holds(Decimal("4.99")), holds(5), holds(Decimal("5.01"))) == (below, at, above)


def test_a_limit_of_36_digits_is_compared_without_rounding():
    limit = "999999999999999999999999.999999999999"
    greater = rule(limit=limit)
    assert (greater.first.holds(Decimal(limit)), greater.first.holds(10**24)) == (False, True)
    third = Fraction(1, 3 * 10**12)
    assert (greater.first.holds(Fraction(limit) - third), greater.first.holds(Fraction(limit) + third)) == (
        False,
        True,
    )


def test_a_standard_deviation_is_compared_by_its_square():
    above, below = (
        rule(aggregatorFunctionType="STDDEV", limit="1.5").first.holds,
        rule(aggregatorFunctionType="STDDEV", limitOperatorType="LESS_EQUAL", limit="-1.5").first.holds,
    )
    assert (above(Fraction("2.25")), above(Fraction("2.250000000001")), below(0)) == (False, True, False)


@pytest.mark.parametrize(
    ("name", "function", "parsed"),
    [
        ("COUNT", None, ("COUNT", None)),
        ("COUNT_FLINK", "SUM", ("COUNT", None)),
        ("COUNT_FLINK", "COUNT_WITH_RESET", ("COUNT", None)),
        ("COUNT_WITH_RESET", "AVG", ("COUNT_WITH_RESET", None)),
        ("COUNT_WITH_RESET_FLINK", "UNIQUE_COUNT", ("COUNT_WITH_RESET", None)),
        (None, "COUNT_FLINK", ("COUNT", None)),
        (None, "count_with_reset_flink", ("COUNT_WITH_RESET", None)),
        ("paymentType", "COUNT", ("COUNT", "paymentType")),
        ("paymentAmount", "COUNT_WITH_RESET", ("COUNT_WITH_RESET", "paymentAmount")),
        ("payeeId", "MIN", ("MIN", "payeeId")),
        ("paymentAmount", "avg", ("AVG", "paymentAmount")),
    ],
)
def test_a_count_may_be_spelled_in_either_attribute(name, function, parsed):
    result = rule(aggregateFieldName=name, aggregatorFunctionType=function)
    assert (result.aggregation.function, result.aggregation.field) == parsed


def test_unique_is_kept_for_unique_count_only():
    both = {"unique": ["paymentType", "payeeId"], "aggregateFieldName": "paymentAmount"}
    counted = rule(aggregatorFunctionType="UNIQUE_COUNT", **both)
    assert (counted.aggregation.field, counted.aggregation.unique, counted.stored_field_names) == (
        None,
        ("paymentType", "payeeId"),
        ("payeeId", "paymentType"),
    )
    summed = rule(aggregatorFunctionType="SUM", **both)
    assert (summed.aggregation.field, summed.aggregation.unique, summed.stored_field_names) == (
        "paymentAmount",
        (),
        ("paymentAmount",),
    )
    assert rule(aggregateFieldName="COUNT").stored_field_names == ()


@pytest.mark.parametrize(
    ("window", "seconds", "shortest"),
    [
        *((20, 1200, "20m"), ("20", 1200, "20m"), ("10s", 10, "10s"), ("90s", 90, "90s"), ("60s", 60, "1m")),
        *(("24h", 86_400, "1d"), ("36h", 129_600, "36h"), ("3660d", 316_224_000, "3660d"), (120, 7200, "2h")),
    ],
)
@pytest.mark.parametrize("name", ["window", "windowMinutes"])
def test_a_window_is_minutes_or_text_with_a_unit_under_either_name(name, window, seconds, shortest):
    parsed = rule(**({"windowMinutes": None} | {name: window}))
    assert parsed.aggregation.window_ms == seconds * 1000
    assert parsed.to_dict()["window"] == shortest


def test_both_windows_may_be_given_when_they_say_the_same():
    assert rule(windowMinutes=60, window="1h").aggregation.window_ms == 3_600_000


@pytest.mark.parametrize(
    ("limit", "plain"),
    [
        ("50", "50"),
        ("2e7", "20000000"),
        ('"0.50"', "0.5"),
        ("-0.0", "0"),
        ("1e-12", "0.000000000001"),
        ("1200", "1200"),
    ],
)
def test_a_limit_is_exact_and_kept_in_its_shortest_plain_form(limit, plain):
    text = message(limit="?").replace('"?"', limit)
    parsed = parse_message(text, PAYMENTS).rule
    assert f"{parsed.first.limit:f}" == plain
    assert parsed.describe().endswith(f" > {plain}")


def test_a_filter_is_typed_by_its_field_sorted_and_distinct():
    filter = {"country": ["KR", "CN", "KR"], "amount": ["2.5", 10, 2.50], "action": "login"}
    assert rule(CASE_STUDY, filter=filter).route.field_values == (
        ("action", ("login",)),
        ("amount", (Decimal("2.50"), Decimal("10.00"))),
        ("country", ("CN", "KR")),
    )
    assert rule(filter={}).filter == rule(filter=None).filter is None


def test_a_rule_groups_by_sixteen_fields_at_most():
    fields = tuple(Field(f"f{n}", "long") for n in range(17))
    wide = replace(PAYMENTS, fields=(*PAYMENTS.fields, *fields))
    names = [field.name for field in fields]
    assert "groupingKeyNames: 17 fields, expected at most 16" in reason(message(groupingKeyNames=names), wide)
    assert len(parse_message(message(groupingKeyNames=names[1:]), wide).rule.keys) == 16


def test_rules_share_a_route_when_the_set_of_keys_and_the_filter_are_the_same():
    one = rule(
        CASE_STUDY, groupingKeyNames=["userId", "ip"], filter={"country": ["KR", "CN"], "action": "login"}
    )
    two = rule(
        CASE_STUDY, groupingKeyNames=["ip", "userId"], filter={"action": ["login"], "country": ["CN", "KR"]}
    )
    assert one.keys != two.keys
    assert one.route == two.route
    assert one.route.id == "ip,userId|action=login&country=CN,KR"
    assert rule(groupingKeyNames=[]).route.id == "{}"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
filters = st.dictionaries(
    st.sampled_from(["action", "country"]),
    st.lists(texts | st.sampled_from(["a&b=c", 'a,"']), min_size=1, max_size=3),
)


@given(filters, filters)
def test_routes_have_equal_ids_only_when_they_are_equal(one, two):
    routes = [rule(CASE_STUDY, filter=filter).route for filter in (one, two)]
    assert (routes[0].id == routes[1].id) == (routes[0] == routes[1])


def test_a_route_whose_values_hold_separators_keeps_its_own_id():
    assert Route((), filter_of_values([("s", ("a,b",))])).id == '{}|s="a,b"'
    assert Route((), filter_of_values([("s", ("a", "b"))])).id == "{}|s=a,b"


@given(st.binary(max_size=40) | st.text(max_size=40) | st.text(max_size=40).map(lambda text: "{" + text))
def test_any_text_is_accepted_or_rejected_and_a_rejected_one_changes_nothing(text):
    book = RuleBook(PAYMENTS)
    ack = book.apply(text)
    assert ack["status"] == "rejected"
    assert book == RuleBook(PAYMENTS)
    json.dumps(ack, ensure_ascii=False).encode()


def test_a_rejected_message_comes_back_as_it_came():
    book = RuleBook(PAYMENTS)
    assert book.apply("1,(한)")["message"] == "1,(한)"
    assert book.apply(b"1,(\xff)")["message"] == r"1,(\xff)"


rules = st.builds(
    lambda **attributes: message(CASE_STUDY, **attributes),
    ruleId=st.integers(1, 4),
    ruleState=st.sampled_from(["ACTIVE", "PAUSE", "DELETE"]),
    groupingKeyNames=st.lists(st.sampled_from(["userId", "ip", "device"]), unique=True),
    filter=filters | st.just({"amount": ["1.50", 2]}),
    aggregateFieldName=st.sampled_from(["amount", "COUNT_FLINK"]),
    aggregatorFunctionType=st.sampled_from(
        [
            name
            for name in FUNCTIONS
            if (row := AGGREGATES[name]).has_window and not row.of_place and row.argument_kind != "steps"
        ]
    ),
    unique=st.just(None) | st.just(["ip", "device"]),
    limitOperatorType=st.sampled_from(OPERATORS),
    limit=st.decimals(-1000, 1000, places=3).map(str) | st.integers(-(10**24) + 1, 10**24 - 1),
    windowMinutes=st.integers(1, 10_000) | st.integers(1, 10_000).map(lambda seconds: f"{seconds}s"),
)


@given(st.lists(rules, max_size=8))
def test_a_book_survives_its_json_exactly(messages):
    book = RuleBook(LOGINS)
    for text in messages:
        book.apply(text)
    copy = RuleBook.from_json(book.to_json(), LOGINS)
    assert copy == book
    assert copy.to_json() == book.to_json()
    assert [rule.describe() for rule in copy.sorted()] == [rule.describe() for rule in book.sorted()]


@given(rules)
def test_an_exported_rule_is_a_message_that_gives_the_same_rule(text):
    original = parse_message(text, LOGINS).rule
    if original:
        assert parse_message(json.dumps(original.to_dict()), LOGINS).rule == original


def test_the_exported_form_uses_the_published_names():
    assert rule(CASE_STUDY, limit="4.50").to_dict() == {
        "ruleId": 2,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["userId"],
        "filter": {"action": "login"},
        "aggregatorFunctionType": "UNIQUE_COUNT",
        "unique": ["ip"],
        "limitOperatorType": "GREATER",
        "limit": "4.5",
        "window": "3m",
    }


def test_versions_go_on_counting_through_every_change_and_deletion():
    book = RuleBook(PAYMENTS)
    states = ["ACTIVE", "PAUSE", "ACTIVE", "DELETE"]
    texts = [message(), "1,(pause)", "1,(active)", "1,(delete)"]
    for version, (text, state) in enumerate(zip(texts, states, strict=True), start=1):
        assert book.apply(text) == {"status": "accepted", "ruleId": 1, "version": version, "ruleState": state}
    assert book.rules == {}
    assert book.apply(message())["version"] == 5
    assert book.rules[1].version == 5


def test_a_state_change_keeps_the_definition():
    book = RuleBook(PAYMENTS)
    book.apply(message())
    book.apply("1,(pause)")
    assert book.rules[1].state == "PAUSE"
    assert book.rules[1].describe() == rule().describe()


@pytest.mark.parametrize("text", ["7,(pause)", "7,(active)", "7,(delete)"])
def test_changing_a_rule_that_does_not_exist_is_rejected_naming_those_that_do(text):
    book = RuleBook(PAYMENTS)
    assert book.apply(text)["reason"] == "ruleId: 7, expected a rule in force (there are: none)"
    book.apply(message(ruleId=12))
    book.apply(message(ruleId=3))
    assert book.apply(text) == {
        "status": "rejected",
        "reason": "ruleId: 7, expected a rule in force (there are: 3, 12)",
        "message": text,
    }
    assert book.versions == {3: 1, 12: 1}


def test_of_many_rules_in_force_twenty_are_named():
    book = RuleBook(PAYMENTS)
    for count, end in [(20, "19, 20)"), (21, "19, 20, ...)")]:
        for rule_id in range(1, count + 1):
            book.apply(message(ruleId=rule_id))
        assert book.apply("99,(pause)")["reason"].endswith(end)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_an_export_holds_the_rules_that_fit_a_record_and_says_how_many_do_not(left, monkeypatch):
    book = RuleBook(PAYMENTS)
    for rule_id in (1, 2, 3):
        book.apply(message(ruleId=rule_id))
    fits = sum(len(json.dumps(rule.to_dict())) for rule in book.sorted()[left:])
    monkeypatch.setattr("lab.model.rules.MAX_EXPORT", fits)
    answer = book.apply('{"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"}')
    assert [given["ruleId"] for given in answer["rules"]] == [1, 2, 3][: 3 - left]
    assert answer.get("leftOut", 0) == left and ("leftOut" in answer) == (left > 0)


def test_controls_act_on_the_book_and_are_acknowledged():
    book = RuleBook(PAYMENTS)
    book.apply(message(ruleId=9))
    book.apply(message(ruleId=3))

    def control(name):
        return book.apply(json.dumps({"ruleState": "CONTROL", "controlType": name}))

    for name in ("CLEAR_STATE_ALL", "CLEAR_STATE_ALL_STOP"):
        assert control(name) == {"status": "accepted", "controlType": name}
    exported = control("EXPORT_RULES_CURRENT")["rules"]
    assert [(given["ruleId"], given["version"]) for given in exported] == [(3, 1), (9, 1)]
    assert control("DELETE_RULES_ALL") == {
        "status": "accepted",
        "controlType": "DELETE_RULES_ALL",
        "ruleIds": [3, 9],
    }
    assert (book.rules, book.versions) == ({}, {9: 1, 3: 1})
    assert [book.apply(json.dumps(given))["version"] for given in exported] == [2, 2]


def test_routes_come_by_their_lowest_rule_id_and_hold_paused_rules():
    book = RuleBook(PAYMENTS)
    for rule_id, keys in [(4, ["payeeId"]), (2, ["beneficiaryId"]), (1, ["payeeId"])]:
        book.apply(message(ruleId=rule_id, groupingKeyNames=keys))
    book.apply("4,(pause)")
    routes = {route.id: [rule.rule_id for rule in rules] for route, rules in book.routes().items()}
    assert list(routes.items()) == [("payeeId", [1, 4]), ("beneficiaryId", [2])]


def test_a_book_holds_so_many_rules_and_refuses_one_more(monkeypatch):
    monkeypatch.setattr("lab.model.rules.MAX_RULES", 1000)
    book = RuleBook(PAYMENTS)
    for rule_id in range(1, 1001):
        assert book.apply(message(ruleId=rule_id))["status"] == "accepted"
    assert "at most 1000 rules are allowed" in book.apply(message(ruleId=1001))["reason"]
    assert 1001 not in book.versions
    assert book.apply(message(ruleId=1000))["version"] == 2
    assert book.apply("2000,(pause)")["reason"].endswith("19, 20, ...)")


def test_a_stored_book_that_no_longer_fits_the_schema_says_what_is_missing():
    book = RuleBook(PAYMENTS)
    book.apply(message())
    with pytest.raises(BadRule, match='groupingKeyNames: unknown logins field "payeeId"'):
        RuleBook.from_json(book.to_json(), LOGINS)


def test_rules_show_as_an_escaped_table():
    book = RuleBook(LOGINS)
    book.apply(message(CASE_STUDY, filter={"action": "<b>"}))
    html = book._repr_html_()
    assert '<td>2</td><td>1</td><td style="text-align:left">ACTIVE</td>' in html
    assert "&lt;b&gt;" in html and "<b>" not in html
    assert html == book.rules[2]._repr_html_()


def test_the_answer_to_a_long_message_holds_only_its_beginning():
    """As long as the message it would be more than a broker takes, and the engine could never go on."""
    message = '{"ruleId": ' + "\x01" * 900_000
    answer = RuleBook(PAYMENTS).apply(message)
    assert answer["status"] == "rejected" and message.startswith(answer["message"])
    assert answer["bytes"] == len(message) and answer["sha256"] == sha256(message.encode()).hexdigest()
    assert len(json.dumps(answer)) < 64_000
    assert "sha256" not in RuleBook(PAYMENTS).apply("x" * SHOWN)


def test_an_action_and_its_time_to_live_are_kept_by_the_rule_and_the_book():
    given = rule(action="block_login", ttl="30m")
    assert (given.action, given.ttl_ms) == ("block_login", 1_800_000)
    assert given.describe().endswith("> 20000000, then block_login for 30 min")
    book = RuleBook(PAYMENTS)
    book.apply(message(action="block_login", ttl="30m", changeId="store.7"))
    book.apply(message({"ruleId": 1, "ruleState": "PAUSE"}))
    again = RuleBook.from_json(book.to_json(), PAYMENTS)
    assert again == book and again.rules[1].action == "block_login" and again.rules[1].version == 2


def test_a_filter_may_be_written_in_words():
    rule = {
        "ruleId": 1,
        "ruleState": "ACTIVE",
        "aggregateFieldName": "COUNT",
        "limit": 1,
        "limitOperatorType": ">",
    }
    rule |= {"window": "1m"}
    as_object = {"action": "login", "country": ["CN", "KR"]}
    told = [
        parse_message(json.dumps(rule | {"filter": filter}), LOGINS).rule
        for filter in (as_object, "country in (KR, CN) and action = login")
    ]
    assert told[0] == told[1] and told[1].to_dict()["filter"] == as_object


TOO_LONG = [  # filters, and the form in which their rule is too long
    ({"country": [f"{chr(0xAC00 + n)}{n}" for n in range(5_000)]}, "JSON"),
    ({"amount": list(range(9_000))}, "a sentence"),
]


@pytest.mark.parametrize(("filter", "form"), TOO_LONG, ids=["texts", "amounts"])
def test_a_rule_that_could_not_be_read_back_is_refused_with_its_size(filter, form):
    rule = rule_message(1, ["userId"], None, "COUNT", "GREATER", 5, "1h", filter=filter)
    with pytest.raises(BadRule, match=rf"^rule as {form} of [0-9]{{5}} bytes, at most 65536 are allowed$"):
        parse_message(json.dumps(rule, ensure_ascii=False), LOGINS)
    shorter = {name: values[: len(values) // 2] for name, values in filter.items()}
    rule = parse_message(json.dumps(rule | {"filter": shorter}, ensure_ascii=False), LOGINS).rule
    for text in (json.dumps(rule.to_dict()), f"1: {rule.describe()}"):
        assert parse_message(text, LOGINS).rule.filter == rule.filter
