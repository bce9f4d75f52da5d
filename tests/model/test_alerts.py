import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.alerts import LEAST, MOST, Alert, AlertTable
from lab.model.attributes import carried
from lab.model.group import group_for_alert, group_json, group_key
from lab.model.schema import MAX_TIME

ALERT = Alert(
    rule_id=1,
    rule_version=2,
    key="{payeeId=25;beneficiaryId=12}",
    aggregate=Decimal("2E+7"),
    operator="GREATER",
    limit=Decimal("1E-12"),
    event_id=7,
    event_time=1356998400000,
    group=(("payeeId", 25), ("beneficiaryId", 12)),
)
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**24), max_value=10**24)
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers, times, longs = st.integers(1, MOST), st.integers(0, MAX_TIME - 1), st.integers(LEAST, MOST)
values = longs | texts
alerts = st.builds(
    Alert,
    *(numbers, numbers, texts, decimals, st.just("LESS"), decimals),
    *(values | st.lists(values, min_size=2, max_size=3).map(tuple), times),
    log_time=st.none() | times,
    alert_time=st.none() | times,
    group=st.dictionaries(texts, values).map(lambda group: tuple(group.items())),
    carried=st.builds(
        carried,
        severity=st.none() | st.sampled_from(["low", "high"]),
        title=st.none() | texts,
        labels=st.dictionaries(texts, texts).map(lambda labels: tuple(labels.items())),
    ),
)


def test_an_alert_is_one_json_object_with_the_published_names_in_order():
    assert ALERT.to_json() == (
        '{"alertId":"'
        + ALERT.alert_id
        + '","ruleId":1,"ruleVersion":2,"key":"{payeeId=25;beneficiaryId=12}",'
        '"group":{"payeeId":25,"beneficiaryId":12},"aggregate":"20000000","operator":"GREATER","limit":"0.000000000001",'
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


def changed(**attributes) -> str:
    return json.dumps(json.loads(ALERT.to_json()) | attributes)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "null", "7", b"\xff", "[" * 100_000, '{"ruleId":' + "9" * 5_000 + "}"),
        *(changed(aggregate=value) for value in ("much", 5, "NaN", "Infinity", "1E+999999999", None, "5 ")),
        *(changed(eventTime=value) for value in ("now", 1.5, True, -1, 1 << 63, None)),
        *(changed(logTime=value) for value in ("now", 1 << 63, -1)),
        *(changed(ruleId=value) for value in ("1", 0, True, 1 << 63)),
        *(changed(eventId=value) for value in (None, 1.5, [], [None], {"a": 1}, "\ud800", 1 << 63)),
        *(
            changed(group=value)
            for value in (None, [], 7, {"a": None}, {"a": 1.5}, {"a": [1]}, {"\udc00": 1})
        ),
        *(changed(key=value) for value in (None, 7, "\ud800")),
    ],
)
def test_what_is_no_alert_is_refused(text):
    with pytest.raises(ValueError, match="not an alert"):
        Alert.from_json(text)


@pytest.mark.parametrize("name", ["rule_id", "rule_version", "group", "event_id", "event_time"])
def test_the_alert_id_tells_rule_version_group_and_event_apart(name):
    other = () if name == "group" else 99
    assert replace(ALERT, **{name: other}).alert_id != ALERT.alert_id


@pytest.mark.parametrize("name", ["key", "aggregate", "limit", "log_time", "alert_time"])
def test_the_alert_id_depends_on_nothing_else(name):
    assert replace(ALERT, **{name: 3}).alert_id == ALERT.alert_id


def test_two_groups_with_one_text_are_two_groups_with_two_alert_ids():
    names, groups = ("device", "ip"), (("x;ip=1", "2"), ("x", "1;ip=2"))
    assert len({group_key(names, group) for group in groups}) == 1
    alerts = [replace(ALERT, key=group_key(names, g), group=group_for_alert(names, g)) for g in groups]
    assert len({alert.alert_id for alert in alerts}) == 2
    assert [json.loads(alert.to_json())["group"] for alert in alerts] == [
        {"device": "x;ip=1", "ip": "2"},
        {"device": "x", "ip": "1;ip=2"},
    ]


def test_an_alert_without_its_group_is_refused_with_the_reason():
    line = json.dumps({name: value for name, value in json.loads(ALERT.to_json()).items() if name != "group"})
    with pytest.raises(ValueError, match="expected a group, an object of fields and their values"):
        Alert.from_json(line)


def test_a_group_is_json_in_the_rules_order_with_the_values_of_events():
    group = group_for_alert(("b", "a", "n"), ("서울", Decimal("2E+1"), -5))
    assert group_json(group) == r'{"b":"\uc11c\uc6b8","a":"20","n":-5}'
    assert group_json(()) == "{}"


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
