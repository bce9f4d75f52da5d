"""The rule desk, as a user works it: choose, tune, write, publish."""

import gzip
import json
import re
from functools import cache
from html import escape

import pytest
from hypothesis import example, given

from lab.model.field import Field
from lab.model.reference import Reference
from lab.model.rules import BadRule, RuleBook, parse_message, readable_rule_sentence
from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.past.backtest import Past
from lab.past.replay import read_rules
from lab.stream.datasets import dataset
from lab.widgets.ruledesk import RuleDesk
from tests.anylogs import changes, rules

SUM = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"


def lines() -> list[bytes]:
    with gzip.open(dataset("payments") / "payments.jsonl.gz") as file:
        return file.read().splitlines()


@pytest.fixture(scope="module")
def past() -> Past:
    past = Past(PAYMENTS)
    past.add(lines())
    return past


def sent_as(text: str) -> dict:
    return json.loads(text) if text.startswith("{") else parse_message(text, PAYMENTS).rule.to_dict()


def draft(desk: RuleDesk) -> dict:
    """The rule that the desk's text is."""
    return parse_message(desk.text.value, desk.schema, new_id=1).rule.to_dict()


def desk_with(past: Past, *rules: str) -> tuple[RuleDesk, list[dict]]:
    """A desk on a book of rules, and what it published."""
    book, sent = RuleBook(PAYMENTS), []
    for rule in rules:
        book.apply(rule)
    return RuleDesk(PAYMENTS, book=book, past=past, publish=lambda text: sent.append(sent_as(text))), sent


def test_a_chosen_rule_is_loaded_into_form_and_text_and_tried_on_the_past(past):
    rules = read_rules(dataset("payments") / "rules.json")
    desk, _ = desk_with(past, *rules)
    for number, alerts in ((1, 2), (2, 1197), (3, 4), (4, 279)):
        desk.table.selected = str(number)
        assert desk.form.rule_id.value == str(number)
        assert (
            readable_rule_sentence(parse_message(desk.text.value, PAYMENTS).rule)
            in desk.table.rows[number - 1]
        )
        assert f" {alerts:,} alerts" in desk.backtest.said.value


def test_the_form_names_events_again_after_a_rule_with_a_field(past):
    desk, _ = desk_with(past, SUM, "2,(active),(payeeId),,(COUNT),,(>),(3),(20)")
    for number, of in (("1", "paymentAmount"), ("2", "events"), ("1", "paymentAmount")):
        desk.table.selected = number
        assert desk.form.field.label == of
    desk.new.click()
    assert desk.form.field.label == "events" and "aggregateFieldName" not in desk.form.message()


def test_the_limit_slider_changes_rule_and_backtest_at_once(past):
    desk, sent = desk_with(past, *read_rules(dataset("payments") / "rules.json"))
    desk.table.selected = "3"
    slider = desk.backtest.limit
    slider.move("5,000,000")
    assert desk.form.limit.value == "5000000" == str(draft(desk)["limit"])
    rule = parse_message(desk.text.value, PAYMENTS).rule
    expected = int(past.aggregates(rule).alert_mask(rule, 5e6).sum())
    assert expected > 4 and f" {expected} alerts" in desk.backtest.said.value
    desk.publish.click()
    assert sent[0]["limit"] == 5_000_000 and sent[0]["ruleId"] == 3


def test_a_slider_that_only_rounds_leaves_the_rule_alone(past):
    desk, _ = desk_with(past, "1,(active),(paymentType),,(paymentAmount),(SUM),(>),(20000000.01),(60)")
    desk.table.selected = "1"
    assert draft(desk)["limit"] == "20000000.01"
    slider = desk.backtest.limit
    assert slider.text == "20,000,000.01"
    slider.move(slider.text)
    assert desk.form.limit.value == "20000000.01"
    slider.move(slider.texts[slider.position + 1])
    assert desk.form.limit.value != "20000000.01"


def test_the_window_slider_changes_the_window(past):
    desk, _ = desk_with(past, *read_rules(dataset("payments") / "rules.json"))
    desk.table.selected = "1"
    desk.backtest.window.move("60 d")
    assert desk.form.window.value == "60d"
    assert " 3 alerts" in desk.backtest.said.value  # the pair that pays over 35 days is caught as well
    assert draft(desk)["window"] == "60d"


def test_a_mistake_is_said_while_typing_and_cannot_be_published(past):
    desk, sent = desk_with(past)
    desk.text.value = SUM.replace("payeeId", "payeId")
    assert "did you mean payeeId?" in desk.said.value and desk.publish.disabled
    desk.text.value = ""
    assert "Write a rule, such as SUM(paymentAmount) per payeeId" in desk.said.value and desk.publish.disabled
    desk.text.value = SUM
    assert desk.publish.disabled is False
    desk.form.limit.value = "much"
    assert "limit" in desk.said.value and desk.publish.disabled
    assert sent == []


def test_the_form_makes_the_rule_that_it_shows(past):
    desk, sent = desk_with(past)
    desk.form.group_by.value = ("beneficiaryId", "payeeId")
    desk.form.function.value, desk.form.field.value = "SUM", "paymentAmount"
    desk.form.filter.value, desk.form.operator.value = "paymentType=CSH", ">="
    desk.form.limit.value, desk.form.window.value = "20000000.01", "30d"
    desk.publish.click()
    rule = parse_message(json.dumps(sent[0]), PAYMENTS).rule
    assert rule.describe() == (
        'SUM(paymentAmount) where paymentType = "CSH" per beneficiaryId, payeeId over 30 d >= 20000000.01'
    )


def test_a_filter_on_a_number_compares_numbers():
    desk = RuleDesk(LOGINS)
    desk.form.filter.value = "userId in (7, 8) and action=login"
    assert desk.text.value.startswith('COUNT(events) where action = "login" and userId in (7, 8)')


def test_what_is_typed_stays_as_it_is_typed(past):
    desk, sent = desk_with(past, *read_rules(dataset("payments") / "rules.json"))
    desk.text.value = text = "7,(active),(payeeId),,(paymentAmount),(SUM),(>),(5000000),(20)"
    desk.backtest.recompute_if_due()
    desk.redraw()
    assert desk.text.value == text and desk.form.limit.value == "5000000"
    desk.publish.click()
    assert parse_message(json.dumps(sent[0]), PAYMENTS).rule.first.limit == 5_000_000


@pytest.mark.parametrize("typed", ["1,5", "1,00", "20.000,50", "1,2,3", "12345,678", "1,000,00"])
def test_a_decimal_comma_in_the_form_is_refused_and_no_other_number(typed):
    desk = RuleDesk(LOGINS)
    desk.form.limit.value = typed
    assert f"limit: &quot;{typed}&quot;, expected a decimal number" in desk.said.value
    assert desk.publish.disabled


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("20.000", "write 20 or 20000"),
        (" 1.500.000 ", "write 1500000"),
        ("5 × SUM(", "expected the name of a field"),
    ],
)
def test_a_limit_that_is_read_as_words_says_why_it_is_refused(typed, reason):
    """Else 20.000 would be 20, which a European does not mean."""
    desk = RuleDesk(LOGINS)
    desk.form.limit.value = typed
    assert reason in desk.form.limit_said.value and desk.publish.disabled
    desk.form.limit.value = "20.5"
    assert desk.form.limit_said.value == "" and not desk.publish.disabled


@pytest.mark.parametrize(
    ("typed", "limit"),
    [
        ("20,000,000.5", "20,000,000.5"),
        ("-1,000", "-1,000"),
        (" 7 ", "7"),
        ("1_000", "1,000"),
        ("0.50", "0.5"),
    ],
)
def test_a_number_in_the_form_is_the_limit_that_the_desk_says(typed, limit):
    desk = RuleDesk(LOGINS)
    desk.form.limit.value = typed
    assert desk.said.value.partition("&gt; ")[2].startswith(f"{limit} · becomes rule 1</div>")


@pytest.mark.parametrize(
    ("typed", "window"),
    [
        ("90 min", "90 min"),
        ("36 H", "36 h"),
        (" 5m ", "5 min"),
        ("7", "7 min"),
        ("2d", "2 d"),
        ("2 weeks", "14 d"),
    ],
)
def test_a_duration_in_the_form_may_be_written_as_the_desk_says_it(typed, window):
    desk = RuleDesk(LOGINS)
    desk.form.action.value, desk.form.limit.value = "notify", "3"
    desk.form.window.value = desk.form.ttl.value = typed
    assert f"over {window} &gt; 3, then notify for {window} · " in desk.said.value


@pytest.mark.parametrize("typed", ["1.5 h", "90 months", "1 h 30 min", "min", "-5 m"])
def test_what_is_no_duration_is_told_as_it_was_typed(typed):
    desk = RuleDesk(LOGINS)
    desk.form.limit.value, desk.form.window.value = "3", typed
    assert f"window: &quot;{typed}&quot;, expected whole minutes" in desk.said.value


def test_a_new_rule_has_the_next_free_id_also_when_rules_come_later():
    desk, _ = desk_with(Past(PAYMENTS))
    for number in (1, 2, 3):
        assert desk.form.rule_id.value == "" and desk.form.rule_id.placeholder == str(number)
        assert f"becomes rule {number}" in desk.said.value and desk.text.value.startswith("COUNT(events) per")
        desk.form.limit.value = str(90 + number)  # somebody writes on it
        desk.book.apply(SUM.replace("1,", f"{number},", 1))
        desk.redraw()


def test_a_sentence_needs_no_id_and_has_one_once_it_is_published():
    desk, sent = desk_with(Past(PAYMENTS), SUM)
    desk.text.value = "  SUM(paymentAmount) per payeeId over 1 h > 500"
    assert "becomes rule 2" in desk.said.value and desk.form.limit.value == "500"
    assert desk.form.rule_id.value == ""
    desk.publish.click()
    assert [message["ruleId"] for message in sent] == [2] and desk.form.rule_id.value == "2"
    assert desk.text.value == "2: SUM(paymentAmount) per payeeId over 1 h > 500"
    desk.form.limit.value = "600"
    desk.publish.click()
    assert [message["ruleId"] for message in sent] == [2, 2]  # another version of it, not another rule
    desk.form.rule_id.value = ""
    assert desk.text.value == "SUM(paymentAmount) per payeeId over 1 h > 600"
    desk.form.rule_id.value = "9"
    assert desk.text.value.startswith("9: SUM(")


def test_a_misspelt_field_is_told_whether_or_not_there_is_an_id():
    desk = RuleDesk(PAYMENTS)
    for begins in ("", "5: ", "5 "):
        desk.text.value = f"{begins}SUM(paymentAmont) per payeeId over 1 h > 500"
        assert "did you mean paymentAmount?" in desk.said.value and desk.publish.disabled
    desk.text.value = "5 SUM(paymentAmount) per payeeId over 1 h > 500"
    assert "expected the rule&#x27;s id and a colon" in desk.said.value


def test_placeholders_and_proposals_name_fields_that_the_schema_has():
    form = (desk := RuleDesk(PAYMENTS)).form
    controls = (desk.text, form.filter, form.when, form.where, form.more, form.limit)
    shown = " ".join(f"{control.placeholder} {control.tooltip or ''}" for control in controls)
    assert "paymentAmount" in shown and not re.search(r"\b(amount|userId|ip|country|name)\b", shown), shown


def test_before_a_rule_is_replaced_that_was_not_chosen_the_desk_asks():
    desk, sent = desk_with(Past(PAYMENTS), SUM)
    desk.text.value = changed = SUM.replace("50", "70")
    assert "replaces rule 1 version 1" in desk.said.value
    desk.publish.click()
    assert (
        "Rule 1 is in force" in desk.said.value and "The next free id is 2" in desk.said.value and sent == []
    )
    desk.keep.click()
    assert sent == [] and desk.publish.layout.display == ""
    desk.publish.click()
    desk.replace.click()
    assert [message["limit"] for message in sent] == [70]
    desk.text.value = changed.replace("70", "80")
    desk.publish.click()
    assert len(sent) == 2  # published here: no question
    desk.table.selected = "1"
    desk.new.click()
    desk.text.value = changed.replace("70", "90")
    desk.publish.click()
    assert (
        len(sent) == 2 and "Rule 1 is in force" in desk.said.value
    )  # a new rule with the id of one that was looked at


def test_before_a_version_is_replaced_that_somebody_else_published_meanwhile_the_desk_asks(past):
    """As in two rooms on one engine: else what the other person changed is gone without a word."""
    book, sent = RuleBook(PAYMENTS), []

    def publish(text: str) -> str:
        book.apply(text)
        sent.append(sent_as(text))
        return "control:1"

    book.apply(SUM)
    desk = RuleDesk(PAYMENTS, book=book, past=past, publish=publish)
    desk.table.selected = "1"
    desk.form.limit.value = "60"
    book.apply(SUM.replace("50", "7000"))
    desk.redraw()
    desk.publish.click()
    assert sent == [] and "Rule 1 is in force" in desk.said.value and "7,000" in desk.said.value
    desk.replace.click()
    desk.form.limit.value = "61"
    desk.publish.click()
    assert [message["limit"] for message in sent] == [60, 61]
    book.apply(SUM.replace("50", "8000"))
    desk.pause.click()  # pauses what is in force; the draft is still of the version before
    desk.publish.click()
    assert [message["limit"] for message in sent] == [
        60,
        61,
        8000,
    ] and "Rule 1 is in force" in desk.said.value


def test_pause_activate_and_delete_send_what_a_compacted_log_can_keep(past):
    desk, sent = desk_with(past, SUM)
    assert desk.pause.disabled
    desk.table.selected = "1"
    assert desk.activate.disabled and not desk.pause.disabled  # it is active
    for button in (desk.pause, desk.activate, desk.delete):
        button.click()
    assert [message["ruleState"] for message in sent] == ["PAUSE", "ACTIVE", "DELETE"]
    assert sent[0]["limit"] == 50 and sent[2] == {"ruleId": 1, "ruleState": "DELETE"}


def test_without_an_engine_the_desks_own_book_answers():
    desk = RuleDesk(PAYMENTS)
    desk.text.value = SUM
    desk.publish.click()
    desk.publish.click()
    assert desk.table.rows[0][1:3] == ["1 v2", "ACTIVE"]
    assert "accepted rule 1 version 2: ACTIVE" in desk.acks.value


def test_an_answer_goes_when_the_person_goes_on():
    desk = RuleDesk(PAYMENTS)
    for rule in (SUM, SUM.replace("1,", "9,", 1)):
        desk.text.value = rule
        desk.publish.click()
    assert "accepted rule 9 version 1: ACTIVE" in desk.acks.value
    desk.table.selected = "1"
    assert desk.acks.value == ""
    desk.pause.click()
    assert "accepted rule 1 version 2: PAUSE" in desk.acks.value
    desk.form.limit.value = "60"
    assert desk.acks.value == ""
    desk.publish.click()
    assert "accepted rule 1 version 3: PAUSE" in desk.acks.value
    desk.new.click()
    assert desk.acks.value == ""


def test_an_answer_stays_when_somebody_else_takes_the_id_of_the_draft():
    desk = RuleDesk(PAYMENTS)
    desk.publish.click()
    desk.text.value = "COUNT(events) over 1 h > 5"
    desk.acks.value = "an answer"
    desk.book.apply(SUM.replace("1,", "2,", 1))
    desk.redraw()
    assert "becomes rule 3" in desk.said.value and desk.acks.value == "an answer"


def test_what_cannot_be_published_is_said(past):
    def gone(message: str) -> str:
        raise ConnectionError("no broker at 127.0.0.1:9092")

    desk = RuleDesk(PAYMENTS, past=past, publish=gone)
    desk.publish.click()
    assert "Not published: no broker at 127.0.0.1:9092" in desk.said.value


def test_text_of_others_is_shown_as_text(past):
    desk, _ = desk_with(past)
    desk.text.value = '{"ruleId": 1, "<img src=x onerror=alert(1)>": 2}'
    assert "<img" not in desk.said.value


def test_the_reference_agrees_with_the_count_shown(past):
    first = lines()[:5000]
    few = Past(PAYMENTS)
    few.add(first)
    desk = RuleDesk(PAYMENTS, past=few)
    desk.text.value = text = "7,(active),(paymentType),,(paymentAmount),(AVG),(>),(14),(60)"
    reference = Reference(PAYMENTS)
    reference.control(text)
    for line in first:
        reference.event(line)
    assert f" {len(reference.alerts):,} alerts" in desk.backtest.said.value


def test_the_first_rule_on_own_events_is_by_a_field_that_groups_them():
    id, at = Field("id", "string"), Field("at", "time", unit="s")
    for more, keys in (((Field("amount", "decimal(18,2)"), Field("city", "string")), ["city"]), ((), [])):
        desk = RuleDesk(Schema("visits", (id, at, *more), ("id",), "at"))
        assert draft(desk)["groupingKeyNames"] == keys


BLOCKING = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["userId"],
    "aggregatorFunctionType": "COUNT",
}
BLOCKING |= {"limitOperatorType": ">", "limit": 4, "window": "5m", "action": "block_login", "ttl": "30m"}


SEQUENCE = {"aggregatorFunctionType": "SEQUENCE", "steps": "action = a, action = b", "window": "1h"}
SEQUENCE |= {"limitOperatorType": ">=", "limit": "1"}


def logins_rule(**changed) -> str:
    return json.dumps(BLOCKING | changed)


@given(rules(live=True) | changes())
@example(logins_rule())
@example(logins_rule(action="notify", groupingKeyNames=[], ttl="90s"))
@example(logins_rule(aggregateFieldName="country"))  # counts events that have a country
@example(logins_rule(aggregateFieldName="ip", aggregatorFunctionType="COUNT_WITH_RESET"))
@example(logins_rule(groupingKeyNames=["eventTime", "userId", "eventId"]))
@example(logins_rule(aggregatorFunctionType="UNIQUE_COUNT", unique=["eventTime", "ip"]))
@example(logins_rule(aggregatorFunctionType="SEQUENCE", steps="action = a, amount > 5 without action = b"))
@example(logins_rule(**{"and": [SEQUENCE]}))
@example(logins_rule(ruleId=(1 << 63) - 1))
@example(logins_rule(severity="high", title="a, b = c", labels={"team": 'x, "y" = z', "q": ""}))
@example(logins_rule(limit="123456789012345678901234.123456789012".removeprefix("1")))
@example(
    logins_rule(filter={"device": ["Mozilla/5.0 (X11; Linux) a=b, c|d", "", "and", '"', " x "], "userId": 7})
)
@example(logins_rule(filter={"amount": ["1.50", "-3", "9999999999999999.99"], "eventId": 5}))
def test_a_rule_that_goes_through_the_form_is_the_same_rule(message):
    """Whatever of the form is touched: nothing of the rule is lost on the way."""
    try:
        rule = parse_message(message, LOGINS).rule
    except BadRule:
        rule = None
    if rule:
        desk, sent = one_desk()
        desk.book.apply(message)
        sent.clear()
        desk.table.selected = ""
        desk.table.selected = str(rule.rule_id)
        desk.publish.click()
        operator = desk.form.operator.value
        desk.form.operator.value = "<" if operator != "<" else ">"
        desk.form.operator.value = operator
        desk.publish.click()
        assert [parse_message(text, LOGINS).rule for text in sent] == [rule, rule]


@cache
def one_desk() -> tuple[RuleDesk, list[str]]:
    """One for many examples: a desk takes a tenth of a second to make."""
    sent: list[str] = []
    return RuleDesk(LOGINS, publish=sent.append), sent


def test_a_paused_rule_stays_paused_while_it_is_written_on():
    desk = RuleDesk(LOGINS)
    desk.text.value = logins_rule(ruleState="PAUSE")
    desk.form.filter.value = "country = "  # not a rule for a moment
    assert desk.publish.disabled and desk.form.state.value == "PAUSE"
    desk.form.filter.value = "country = KR"
    assert draft(desk)["ruleState"] == "PAUSE" and not desk.publish.disabled


def test_what_is_written_in_the_form_is_not_rewritten_under_the_writer():
    desk = RuleDesk(LOGINS)
    for control, steps in (
        (desk.form.window, ("6", "60", "600", "600s")),  # 60 is 1h, too
        (
            desk.form.filter,
            ("country=K", "country=KR", "country=KR ", "country=KR and action=login", "amount>5"),
        ),
        (desk.form.limit, ("1", "1,000", "1,000.", "1,000.50")),
    ):
        for text in steps:
            control.value = text
            assert control.value == text and not desk.publish.disabled


def test_a_mistake_in_only_where_is_marked_and_what_would_be_right_is_said():
    desk = RuleDesk(LOGINS)
    desk.form.filter.value = "action=login, country=<b>"
    assert "write and between two conditions" in desk.said.value
    assert "action=login<mark>,</mark> country=&lt;b&gt;" in desk.form.filter_said.value
    assert desk.publish.disabled
    desk.form.filter.value = "action=login and country=KR"
    assert desk.form.filter_said.value == "" and not desk.publish.disabled
    assert draft(desk)["filter"] == {"action": "login", "country": "KR"}
    desk.form.filter.value = "action=login, country=KR"
    desk.text.value = logins_rule()  # what was written last is what is meant
    assert desk.form.filter_said.value == desk.form.filter.value == "" and not desk.publish.disabled


def test_a_mistake_in_and_when_is_marked_and_a_condition_stays_as_it_is_typed():
    desk = RuleDesk(LOGINS)
    desk.form.when.value = "contry = <b>"
    assert "did you mean country?" in desk.said.value and desk.publish.disabled
    assert "<mark>contry</mark> = &lt;b&gt;" in desk.form.when_said.value
    for text in ("country=KR", "country=KR ", "country=KR and amount>500"):
        desk.form.when.value = text
        assert desk.form.when.value == text and not desk.publish.disabled and not desk.form.when_said.value
    assert ', when country = "KR" and amount > 500.00' in desk.text.value


def test_steps_are_typed_as_they_are_in_a_sentence():
    desk = RuleDesk(LOGINS)
    desk.form.function.value = "SEQUENCE"
    assert "steps: nothing, expected the steps of SEQUENCE" in desk.said.value and desk.publish.disabled
    desk.form.steps.value = "action = reset, contry = KR"
    assert "<mark>contry</mark>" in desk.form.steps_said.value and desk.publish.disabled
    desk.form.steps.value = "action = reset, country = KR"
    assert 'SEQUENCE(action = "reset", country = "KR")' in desk.text.value and not desk.publish.disabled


def test_only_what_a_function_takes_is_offered():
    form = RuleDesk(PAYMENTS).form
    form.function.value = "SUM"
    assert form.field.value == "paymentAmount" and "paymentType" not in dict(form.field.options)
    form.function.value = "UNIQUE_COUNT"
    assert form.field.layout.display == "none" and form.unique.layout.display == ""
    form.function.value = "SEQUENCE"
    assert (
        form.unique.layout.display == form.field.layout.display == "none" and form.steps.layout.display == ""
    )
    assert form.ttl.layout.display == "none"
    form.action.value = "notify"
    assert form.ttl.layout.display == ""


def test_a_rule_that_hardly_means_what_it_says_is_published_with_a_hint():
    desk = RuleDesk(LOGINS)
    desk.text.value = logins_rule(limit=0, limitOperatorType="=")
    assert "Hint: COUNT = 0 is never true" in desk.hints.value and not desk.publish.disabled
    desk.publish.click()
    assert "accepted rule 1 version 1: ACTIVE. Hint: COUNT = 0 is never true" in desk.acks.value
    desk.form.limit.value = "3"
    assert desk.hints.value == ""


def test_a_value_that_never_occurred_is_said_with_those_that_do(past):
    desk, _ = desk_with(past)
    for text, hint in (
        ("paymentType = csh", "paymentType = csh occurs in none of the 2"),
        ("paymentType = CSH", ""),
    ):
        desk.form.filter.value = text
        assert hint in desk.hints.value and bool(desk.hints.value) == bool(hint)
        assert (
            "frequent values: CRD, CSH" in desk.hints.value
            or "frequent values: CSH, CRD" in desk.hints.value
            or not hint
        )
    desk.form.filter.value = "paymentAmount in (-5, 20) and payeeId = -1"
    assert "paymentAmount = -5.00 occurs in none" in desk.hints.value and "payeeId = -1" in desk.hints.value
    assert "paymentAmount = 20" not in desk.hints.value
    assert RuleDesk(LOGINS).hints.value == ""  # no events, no hint


def test_a_hint_is_said_once_however_many_events_come():
    desk = RuleDesk(PAYMENTS)
    desk.form.filter.value = "paymentType in (a, b, c, d)"
    assert desk.hints.value == ""
    desk.backtest.past.add([b"1,2013-01-01 00:00:00,25,12,CSH,30"])
    desk.hints.show(desk._draft)
    said = desk.hints.value
    assert "paymentType = a occurs in none of the 1 events" in said and "paymentType = c" not in said
    desk.backtest.past.add([b"2,2013-01-01 00:00:00,25,12,CSH,30"])
    desk.hints.show(desk._draft)
    assert desk.hints.value == said
    desk.backtest.past.add([b"3,2013-01-01 00:00:00,25,12,a,30"])
    desk.hints.show(desk._draft)
    assert "paymentType = a is" not in desk.hints.value


def test_a_rule_that_says_more_is_typed_as_a_sentence_and_stays_what_it_is_in_the_form():
    desk = RuleDesk(LOGINS, book=RuleBook(LOGINS), past=Past(LOGINS), publish=print)
    words = (
        'COUNT(events where action = "failed") per userId over 10 min without the current event '
        ">= 2 × COUNT(events) over 1 d ÷ 24 and UNIQUE_COUNT(ip) over 1 d >= 3"
    )
    desk.text.value = f"7: {words}"
    assert desk.form.where.value == 'action = "failed"' and desk.form.exclude.value
    assert desk.form.limit.value == "2 × COUNT(events) over 1 d ÷ 24"
    assert desk.form.more.value == "and UNIQUE_COUNT(ip) over 1 d >= 3"
    desk.form.window.value = "20m"
    rule = parse_message(desk.text.value, LOGINS).rule
    assert rule and rule.describe() == words.replace("10 min", "20 min")


def test_a_sentence_says_what_alerts_carry_and_the_table_only_when_they_come():
    desk = RuleDesk(LOGINS)
    when = "COUNT(events) per userId over 10 min >= 5, at most 1 per 1 h"
    carried = 'severity high, title "Too, much", labels desk = "2, left", team = "fraud", with ip, country of the event'
    desk.text.value = f"7: {when}, {carried}"
    assert (desk.form.carried["severity"].value, desk.form.carried["title"].value) == ("high", "Too, much")
    assert desk.form.carried["labels"].value == 'desk = "2, left", team = "fraud"'
    assert desk.form.event_fields.value == ("ip", "country")
    assert escape(f"{when}, {carried}") in desk.said.value
    desk.form.carried["labels"].value = "team = web"
    assert escape('labels team = "web"') in desk.said.value
    desk.publish.click()
    assert desk.table.rows == [["7", "7 v1", "ACTIVE", when]]


@pytest.mark.parametrize(
    ("control", "text", "wrong"),
    [
        ("where", "contry = KR", "contry"),
        ("more", "and COUNT(events) over 1 month > 3", "month"),
        ("limit", "5 × COUNT(evnts) over 1 h", "evnts"),
        ("labels", "team = fraud, desk", "desk"),
    ],
)
def test_a_mistake_in_the_words_of_a_condition_is_marked_and_nothing_is_published_instead(
    control, text, wrong
):
    desk = RuleDesk(LOGINS, book=RuleBook(LOGINS), past=Past(LOGINS), publish=print)
    desk.text.value = "7: COUNT(events) per userId over 10 min >= 5"
    assert not desk.publish.disabled
    form, is_carried = desk.form, control in desk.form.carried
    (form.carried[control] if is_carried else getattr(form, control)).value = text
    assert desk.publish.disabled
    said = form.carried_said[control] if is_carried else getattr(form, f"{control}_said")
    assert f"<mark>{wrong}</mark>" in said.value


def test_the_form_offers_named_lists_and_an_unknown_one_is_doubted():
    desk = RuleDesk(LOGINS)
    form = desk.form
    assert form.in_list.layout.display == "none"
    for text in ("add KR to @highrisk", "add KR to @watched", "mute rule 1"):
        desk.book.apply(text)
    desk.redraw()
    assert form.list_name.options[1:] == (("@highrisk", "highrisk"), ("@watched", "watched"))
    assert form.in_list.layout.display == "" and form.list_field.value == "action"
    form.list_field.value = field = "country"
    form.list_name.value = "highrisk"
    assert desk._draft.to_dict()["when"] == f"{field} in @highrisk" and desk.hints.value == ""
    form.when.value = f"{field} = KR or {field} = CN"
    form.list_name.value = "watched"
    assert form.when.value == f"({field} = KR or {field} = CN) and {field} in @watched"
    form.when.value = f"{field} in @unheard"
    assert "the list @unheard is empty, so no value is in it" in desk.hints.value
