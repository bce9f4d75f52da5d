import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.alerts import Alert, AlertTable, group_key

ALERT = Alert(
    rule_id=1,
    rule_version=2,
    key="{payeeId=25;beneficiaryId=12}",
    aggregate=Decimal("2E+7"),
    operator="GREATER",
    limit=Decimal("1E-12"),
    event_id=7,
    event_time=1356998400000,
)
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**24), max_value=10**24)
texts = st.text(st.characters(exclude_categories=["Cs"]))
alerts = st.builds(
    Alert,
    *(st.integers(), st.integers(), texts, decimals, st.just("LESS"), decimals, st.integers(), st.integers()),
    log_time=st.none() | st.integers(),
    alert_time=st.none() | st.integers(),
)


def test_an_alert_is_one_json_object_with_the_published_names_in_order():
    assert ALERT.to_json() == (
        '{"alertId":"'
        + ALERT.alert_id
        + '","ruleId":1,"ruleVersion":2,"key":"{payeeId=25;beneficiaryId=12}",'
        '"aggregate":"20000000","operator":"GREATER","limit":"0.000000000001",'
        '"eventId":7,"eventTime":1356998400000}'
    )


def test_the_logs_times_are_written_only_when_set():
    live = replace(ALERT, log_time=5, alert_time=6)
    assert list(json.loads(live.to_json()))[-2:] == ["logTime", "alertTime"]
    assert list(json.loads(ALERT.to_json()))[-1] == "eventTime"


@given(alerts)
def test_every_alert_is_one_line_and_reads_back_equal(alert):
    line = alert.to_json()
    assert len(line.splitlines()) == 1
    assert Alert.from_json(line) == alert == Alert.from_json(line.encode())


@pytest.mark.parametrize("text", ["", "[]", "{}", ALERT.to_json().replace("20000000", "much"), b"\xff"])
def test_what_is_no_alert_is_refused(text):
    with pytest.raises(ValueError, match="not an alert"):
        Alert.from_json(text)


@pytest.mark.parametrize("name", ["rule_id", "rule_version", "key", "event_id", "event_time"])
def test_the_alert_id_tells_rule_version_group_and_event_apart(name):
    other = "{}" if name == "key" else 99
    assert replace(ALERT, **{name: other}).alert_id != ALERT.alert_id


@pytest.mark.parametrize("name", ["aggregate", "limit", "log_time", "alert_time"])
def test_the_alert_id_depends_on_nothing_else(name):
    assert replace(ALERT, **{name: 3}).alert_id == ALERT.alert_id


def test_a_group_key_lists_fields_in_the_rules_order_and_decimals_plainly():
    assert group_key(("payeeId", "beneficiaryId"), (25, 12)) == "{payeeId=25;beneficiaryId=12}"
    assert group_key(("b", "a"), ("서울", Decimal("2E+1"))) == "{b=서울;a=20}"
    assert group_key((), ()) == "{}"


def test_a_long_group_is_its_beginning_and_a_hash_that_tells_it_from_others():
    longest, *longer = (group_key(("ip",), ("é" * count,)) for count in (1_995, 1_996, 1_997))
    assert longest == "{ip=" + "é" * 1_995 + "}"
    for key in longer:
        assert key.startswith("{ip=" + "é" * 1_996 + "…") and len(key) == 2_034 and key.endswith("}")
    assert len(set(longer)) == 2
    assert len(Alert(1, 1, longer[0], Decimal(1), "GREATER", Decimal(0), 7, 0).to_json()) < 13_000


def test_a_table_shows_the_newest_fifty_and_says_how_many_more():
    table = AlertTable(replace(ALERT, event_id=1000 + n, rule_id=n % 2) for n in range(53))
    html = table._repr_html_()
    assert "3 earlier alerts are not shown" in html
    assert "<td>1002</td>" not in html
    assert html.index("<td>1003</td>") < html.index("<td>1052</td>")
    assert table.by_rule() == {0: 27, 1: 26}


def test_a_short_table_shows_everything_without_a_note():
    html = AlertTable([ALERT])._repr_html_()
    assert html == ALERT._repr_html_()
    assert "not shown" not in html
    assert ">2013-01-01 00:00:00.000</td>" in html


def test_a_table_tells_amounts_as_people_write_them():
    alert = replace(ALERT, aggregate=Decimal("21000000.50"), limit=Decimal("2E+7"))
    assert ">21,000,000.50 &gt; 20,000,000</td>" in alert._repr_html_()


def test_html_is_escaped():
    assert "{a=&lt;b&gt;}" in replace(ALERT, key="{a=<b>}")._repr_html_()
