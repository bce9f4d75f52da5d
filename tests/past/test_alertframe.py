"""`lab.alerts` gives the alerts of a replay, as a table of the library that the events came in."""

import io
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lab
from lab.cli.main import main
from lab.engine.checkpoint.settings import Settings
from lab.model.alerts import WITHDRAWN_LINE
from lab.model.rules import BadRule, parse_message
from lab.model.schema import LOGINS, Schema
from lab.past.alertframe import alerts
from lab.past.badrows import BadRows
from lab.past.replay import replay
from lab.sources.sources import source_at
from tests.anylogs import rules
from tests.examples import examples
from tests.strategies import PAIRS, RETURNS

try:
    import polars
except ImportError:
    polars = None  # type: ignore[assignment]

START = 1_714_557_600_000
TYPES = pa.schema(
    [
        *[("eventId", pa.int64()), ("eventTime", pa.int64()), ("userId", pa.int64())],
        *[("action", pa.dictionary(pa.int8(), pa.string())), ("ip", pa.string()), ("country", pa.string())],
        ("amount", pa.decimal128(18, 2)),
    ]
)
IN_PANDAS = {pa.int64(): pd.Int64Dtype()}.get


def records_of_pandas(table: pd.DataFrame) -> list[dict]:
    plain = table.astype(object).where(table.notna(), None)
    rows: list[dict] = plain.to_dict("records")  # type: ignore[assignment]
    return [
        row | {"conditions": json.loads(row["conditions"])} if row.get("conditions") else row for row in rows
    ]


KINDS: dict[str, tuple[Callable[[list[dict]], Any], Callable[[Any], list[dict]]]] = {
    "pandas": (lambda rows: arrow(rows).to_pandas(types_mapper=IN_PANDAS), records_of_pandas),
    "pandas with gaps as NaN": (lambda rows: arrow(rows).to_pandas(), records_of_pandas),
    "pyarrow": (lambda rows: arrow(rows), pa.Table.to_pylist),
    "a batch": (lambda rows: arrow(rows).combine_chunks().to_batches()[0], pa.Table.to_pylist),
    "a data set": (lambda rows: pyarrow.dataset.dataset(arrow(rows)), pa.Table.to_pylist),
    "an iterator": (iter, list),
    "dicts": (list, list),
}
if polars:
    KINDS["polars"] = (lambda rows: polars.from_arrow(arrow(rows)), lambda found: found.to_dicts())


def arrow(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, TYPES)


@st.composite
def logins(draw) -> list[dict]:
    rows, time = [], START
    for _ in range(draw(st.integers(1, 25))):
        time += draw(st.sampled_from([0, 1, 1_000, 30_000, 61_000, -400_000]))
        action = draw(st.sampled_from(["login", "pay", "returned"]))
        again = action == "returned" and rows
        row = {
            "eventId": draw(st.integers(0, 40)),
            "eventTime": time,
            "userId": draw(st.sampled_from([1, 1, 1, 2, None])),
            "action": action,
            "ip": draw(st.sampled_from(["a", "10.1.2.3", 'a;"\\', "é", None])),
            "country": draw(st.sampled_from(["KR", "CN", "K,R"])),
            "amount": draw(
                st.sampled_from([None, *map(Decimal, ("0.01", "2.50", "-3.25", "9999999999999999.99"))])
            ),
        }
        rows.append(draw(st.sampled_from(rows)) | {"action": action} if again else row)
    return rows


def lines_of(rows: list[dict]) -> list[str]:
    """Rows as JSON, written without the code that is tested."""
    numbers = [row | {"amount": row["amount"] and f"#{row['amount']}#"} for row in rows]
    return [json.dumps(row).replace('"#', "").replace('#"', "") for row in numbers]


def flat(alert: dict, schema: Schema) -> dict:
    """An alert's JSON as a row of a table without its gaps."""
    row: dict = {}
    for name, value in alert.items():
        if name == "eventId" and len(schema.id_fields) > 1:
            row |= {f"eventId.{field}": part for field, part in zip(schema.id_fields, value)}
        elif isinstance(value, dict):
            row |= {f"{name}.{inner}": each for inner, each in value.items() if each is not None}
        else:
            row[name] = value
    return row


def as_json(row: dict) -> dict:
    """A row of a table without its gaps, with the values of an alert's JSON."""

    def plain(value):
        match value:
            case Decimal():
                return f"{value.normalize():f}"
            case datetime():
                return round(value.timestamp() * 1000)
            case dict():
                return {name: plain(each) for name, each in value.items()}
        return (
            [plain(each) for each in value]
            if hasattr(value, "__len__") and not isinstance(value, str)
            else value
        )

    return {name: plain(value) for name, value in row.items() if value is not None}


def normalized(value, name: str = ""):
    """JSON whose amounts are in their shortest form."""
    if isinstance(value, dict):
        return {key: normalized(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [normalized(each) for each in value]
    if name in ("aggregate", "limit", "group.amount", "event.amount") and value is not None:
        return f"{Decimal(value).normalize():f}"
    return value


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(24), deadline=None)
@given(logins(), st.lists(rules(), min_size=1, max_size=4), st.sampled_from([LOGINS, PAIRS, RETURNS]))
def test_a_table_raises_the_alerts_of_a_replay_of_its_rows_as_json_lines(
    tmp_path_factory, kind, rows, of, schema
):
    events = tmp_path_factory.mktemp("events") / "events.jsonl"
    events.write_text("\n".join(lines_of(rows)))
    make, read = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is late or a duplicate
        try:
            wanted = replay(events, of, engine="reference", settings=Settings(schema))
        except BadRule:  # such as to pause a rule that is not there
            with pytest.raises(BadRule):
                alerts(make(rows), of, schema)
            return
        found = read(alerts(make(rows), of, schema))
    lines = [line for line in wanted.alert_lines if not line.startswith(WITHDRAWN_LINE)]
    if kind in ("dicts", "an iterator"):
        assert [{name: row[name] for name in row if name != "withdrawn"} for row in found] == list(
            map(json.loads, lines)
        )
        return
    expected = [normalized(flat(json.loads(line), schema)) for line in lines]
    without = [{name: row[name] for name in row if name != "withdrawn"} for row in found]
    assert [normalized(as_json(row)) for row in without] == expected


PURCHASES = [
    {
        "id": f"A-{n}",
        "at": datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=n),
        "card": n % 3,
        "amount": n / 4,
    }
    for n in range(60)
]
RULE = "SUM(amount) per card over 1 h > 100"


def test_a_table_needs_a_rule_and_no_more():
    frame = pd.DataFrame(PURCHASES)
    before = frame.copy()
    found = lab.alerts(frame, RULE)
    assert list(found.columns) == [
        *(
            "alertId",
            "ruleId",
            "ruleVersion",
            "key",
            "group.card",
            "aggregate",
            "operator",
            "limit",
            "eventId",
        ),
        "eventTime",
    ]
    assert len(found) > 5 and found["aggregate"].min() > 100 and set(found["ruleId"]) == {1}
    joined = frame.merge(found, left_on=["id", "at"], right_on=["eventId", "eventTime"])
    assert len(joined) == len(found) and (joined["card"] == joined["group.card"]).all()
    assert frame.equals(before)


def test_rules_come_in_any_form(tmp_path):
    rows, schema = PURCHASES, lab.infer(PURCHASES, "events").schema
    rule = parse_message(f"1: {RULE}", schema).rule
    file = tmp_path / "rules.txt"
    file.write_text(f"1: {RULE}\n")
    wanted = alerts(rows, RULE, schema)
    assert wanted
    message = rule.to_dict()
    for form in (
        f"1: {RULE}",
        message,
        json.dumps(message),
        json.dumps(message).encode(),
        rule,
        file,
        str(file),
    ):
        assert alerts(rows, form, schema) == alerts(rows, [form], schema) == wanted
    both = alerts(rows, [RULE, f"7: {RULE}", RULE], schema)
    assert {alert["ruleId"] for alert in both} == {1, 3, 7}
    with pytest.raises(BadRule, match="rule 1 of 2 has no id, and another one has the id 1"):
        alerts(rows, [RULE, f"1: {RULE}"], schema)
    with pytest.raises(BadRule, match="cards"):
        alerts(rows, "SUM(amount) per cards over 1 h > 100", schema)
    with pytest.raises(TypeError, match="a int in place of a rule"):
        alerts(rows, [5], schema)
    with pytest.raises(TypeError, match="rules: a int"):
        alerts(rows, 5, schema)  # type: ignore[arg-type]


def test_a_schema_is_one_or_a_name_or_a_file_or_is_proposed(tmp_path):
    proposal, file = lab.infer(PURCHASES, "events"), tmp_path / "events.toml"
    file.write_text(proposal.toml())
    wanted = alerts(PURCHASES, RULE)
    for schema in (proposal.schema, file, str(file)):
        assert alerts(PURCHASES, RULE, schema) == wanted
    rows = [{"transactionId": 1, "eventTime": 5, "payeeId": 7, "paymentAmount": 3}]
    assert len(alerts(rows, "COUNT(events) per payeeId over 1 h > 0", "payments")) == 1
    with pytest.raises(ValueError, match=r"no schema was given, and none can be proposed: no id.*lab\.infer"):
        alerts([{"at": START, "x": 1}] * 20, "COUNT(events) over 1 h > 0")
    with pytest.warns(UserWarning, match=r"the schema is proposed \(id id, time at\), with doubts"):
        alerts(
            [
                {"id": 1, "at": 1 + START},
                {"id": 1, "at": START},
                *({"id": n, "at": START + n} for n in range(2, 30)),
            ],
            "COUNT(events) over 1 h > 100",
        )


def test_a_path_gives_a_pandas_frame(tmp_path):
    frame = pd.DataFrame(PURCHASES)
    wanted = alerts(frame, RULE)
    frame.to_parquet(parquet := tmp_path / "events.parquet")
    frame.to_csv(csv := tmp_path / "events.csv", index=False)
    frame.to_json(lines := tmp_path / "events.jsonl", orient="records", lines=True, date_unit="ms")
    for path in (parquet, csv, lines, str(csv), lab.source_at(parquet)):
        pd.testing.assert_frame_equal(alerts(path, RULE), wanted)


def test_no_rows_and_no_alerts_have_the_columns_of_alerts():
    frame, of = (
        pd.DataFrame(PURCHASES),
        [f"{RULE}, labels team = a, with at of the event", "COUNT(events) over 1 h > 9"],
    )
    schema = lab.infer(frame, "events").schema
    some, none = alerts(frame, of, schema), alerts(frame[:0], of, schema)
    assert len(some) and not len(none)
    assert some.dtypes.to_dict() == none.dtypes.to_dict()
    assert alerts([], of, schema) == alerts([], of) == []
    few = alerts(frame[:0], of)  # no rows tell what the fields of a group are
    assert list(few.columns) == [name for name in some.columns if "." not in name]
    assert (
        alerts(arrow([]), "COUNT(events) over 1 h > 9", LOGINS).schema
        == alerts(arrow([{"eventId": 1, "eventTime": 1}]), "COUNT(events) over 1 h > 0", LOGINS).schema
    )


def test_a_row_that_is_no_event_is_an_error_or_a_warning():
    rows = [*PURCHASES, {"id": None, "at": PURCHASES[-1]["at"], "card": 1, "amount": 3}]
    for table in (rows, pd.DataFrame(rows)):
        schema = lab.infer(PURCHASES, "events").schema
        with pytest.raises(
            ValueError, match=r'1 of 61 rows are no events: row 60: id: nothing.*bad_rows="warn"'
        ):
            alerts(table, RULE, schema)
        with pytest.warns(BadRows, match="1 of 61 rows are no events: row 60"):
            found = alerts(table, RULE, schema, bad_rows="warn")
        assert len(found) == len(alerts(PURCHASES, RULE, schema))
    with pytest.raises(ValueError, match="bad_rows: 'skip', expected 'raise' or 'warn'"):
        alerts(PURCHASES, RULE, bad_rows="skip")


def test_rows_that_come_late_and_columns_that_are_not_there_are_told():
    frame = pd.DataFrame([row | {"at": row["at"] + timedelta(hours=n)} for n, row in enumerate(PURCHASES)])
    schema = lab.infer(frame, "events").schema
    with pytest.warns(UserWarning, match="dropped.*the order of the rows counts: sort them by at"):
        alerts(frame[::-1], RULE, schema)
    with pytest.warns(UserWarning, match="no column card, which rules name: it counts as null in each row"):
        assert alerts(frame.drop(columns="card"), RULE, schema).empty


def test_doubts_about_the_fields_that_rules_name_are_told(tmp_path):
    file = tmp_path / "cards.csv"
    cells = [f"{n},2024-05-01 10:0{n}:00,a,{n}.500\n" for n in range(1, 7)]
    file.write_text("id,at,card,amt\n" + "".join(cells))
    with pytest.warns(
        UserWarning, match='doubts about amt, which rules name: "1.500" is read as 1.500, but it'
    ):
        alerts(file, "SUM(amt) per card over 1 h > 1000")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alerts(file, "COUNT(events) per card over 1 h > 3")


def test_seconds_read_as_milliseconds_are_told():
    rows = [{"eventId": n, "eventTime": 1_714_557_600 + n} for n in range(20)]
    rule = "COUNT(events) over 1 h > 90"
    with pytest.warns(
        UserWarning, match='in 1970, because eventTime is read in ms; if .* in s, .* unit = "s"'
    ):
        alerts(pd.DataFrame(rows), rule, LOGINS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale, shift in ((1000, 0), (1, -1_714_557_600)):
            alerts([row | {"eventTime": (row["eventTime"] + shift) * scale} for row in rows], rule, LOGINS)


@pytest.mark.parametrize("made", [list, pd.DataFrame])
def test_a_text_that_no_row_has_is_told(made):
    rows = made([{"eventId": n, "eventTime": 9, "country": "de" if n else "fr"} for n in range(20)])
    with pytest.warns(UserWarning, match='rule 1: no event has country "De"; the values are de, fr'):
        assert not len(alerts(rows, 'COUNT(events where country = "De") over 1 h > 0', LOGINS))


def frame(**columns) -> pd.DataFrame:
    made = {"id": range(6), "at": pd.date_range("2024-05-01", periods=6, tz="UTC"), "card": "a", "amt": 1.5}
    return pd.DataFrame(made | columns)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"amt": list("123456")}, "if its texts are numbers, .*decimal.*column.astype"),
        ({"at": "01.05.2024 00:00"}, 'name the field with time="NAME".*events."at". = pandas.to_datetime'),
        ({"amt": [2**70, 1, 1, 1, 1, 1]}, "column amt has an integer of more than 64 bits"),
        (
            {"id": [1, 2, None, 4, 5, 6]},
            'id is null in 1 of 6 records; .*events."id"..astype."Int64".*id="NAME"',
        ),
        ({"id": [*"ab", None, *"def"]}, 'id is null in 1 of 6 records; name the id with id="NAME"'),
    ],
)
def test_what_is_refused_names_the_column_and_a_way_in_python(columns, said):
    with pytest.raises(ValueError, match=said) as refused:
        alerts(frame(**columns), "SUM(amt) per card over 1 h > 5")
    assert "--" not in str(refused.value)


def test_a_time_that_is_none_is_refused_with_what_makes_it_one():
    with pytest.raises(ValueError, match='time="at": "01.05.2024 00:00", expected times.*pandas.to_datetime'):
        lab.infer(frame(at="01.05.2024 00:00"), "events", time="at")


def test_one_id_needs_no_list():
    assert lab.infer(frame(), "events", id="id").id_fields == ("id",)


def test_a_replay_says_that_it_assumes_payments():
    with pytest.raises(BadRule, match="payments are assumed.*settings=lab.Settings"):
        lab.replay(frame(), ["1: SUM(amt) per card over 1 h > 5"])


def test_a_table_of_a_library_with_other_methods_is_read_by_its_stream():
    class Relation:
        def to_table(self, name: str) -> None: ...

        def __arrow_c_stream__(self, requested=None):
            return pa.Table.from_pandas(frame()).__arrow_c_stream__(requested)

    assert not len(alerts(Relation(), "SUM(amt) per card over 1 h > 5"))


def test_a_wait_that_lasts_beyond_the_newest_event_ends_the_table_without_an_alert():
    rows = [{"id": number, "at": START + 600_000 * number, "card": "ab"[number % 2]} for number in range(5)]
    found = alerts(pd.DataFrame(rows), "NO(events) per card within 15 min after")
    assert found["eventId"].tolist() == [0, 1, 2]


def test_alerts_whose_event_was_taken_back_say_so():
    row = {"eventId": 1, "eventTime": 5, "userId": 7, "action": "pay"}
    rows = [row, row | {"action": "returned"}, row | {"eventId": 2}]
    rule = "COUNT(events) per userId over 1 h > 0"
    assert [alert["withdrawn"] for alert in alerts(rows, rule, RETURNS)] == [True, False]
    assert alerts(pd.DataFrame(rows), rule, RETURNS)["withdrawn"].tolist() == [True, False]


def test_the_squares_of_the_largest_numbers_stay_exact():
    rows = [
        {"eventId": n, "eventTime": n, "amount": Decimal("9999999999999999.99") * (-1) ** n} for n in range(3)
    ]
    rule, wanted = "VARIANCE(amount) over 1 h > 0", Decimal("99999999999999999800000000000000.0001")
    assert Decimal(alerts(rows, rule, LOGINS)[0]["aggregate"]) == wanted
    assert alerts(pd.DataFrame(rows), rule, LOGINS)["aggregate"][0] == wanted
    assert alerts(arrow(rows), rule, LOGINS)["aggregate"][0].as_py() == wanted
    if polars:
        assert Decimal(alerts(polars.from_arrow(arrow(rows)), rule, LOGINS)["aggregate"][0]) == wanted


def test_a_table_of_texts_is_read_as_the_file_of_the_same_cells(tmp_path):
    cells = [f"{n};2024-03-25 00:{n:02}:00;{n % 3};1.{n:03},50;TRUE\n" for n in range(40)]
    cells[7] = "7;25.03.2024 00:07;;2.000,25;true\n"
    cells[20] = "20;2024-03-25 00:20:00;2;22.56;FALSE\n"
    (tmp_path / "cards.csv").write_text("id;at;card;amt;ok\n" + "".join(cells))
    (tmp_path / "cards.toml").write_text(
        'name = "cards"\nid = "id"\ntime = "at"\n[fields.id]\ntype = "long"\n[fields.at]\ntype = "time"\nunit = "local"\n'
        'zone = "Europe/Berlin"\n[fields.card]\ntype = "long"\n[fields.amt]\ntype = "decimal(18,2)"\n[fields.ok]\ntype = "boolean"\n'
    )
    rule, schema = "SUM(amt) per card over 1 h > 5000, when ok = true", str(tmp_path / "cards.toml")
    frame = pd.read_csv(tmp_path / "cards.csv", sep=";", dtype=str)
    with pytest.warns(BadRows, match="1 of 40 rows are no events.*22.56"):
        of_file = alerts(tmp_path / "cards.csv", rule, schema, bad_rows="warn")
    with pytest.warns(BadRows, match='1 of 40 rows are no events.*"22.56, expected a decimal comma"'):
        of_frame = alerts(frame, rule, schema, bad_rows="warn")
    assert len(of_file) > 20 and of_frame.equals(of_file)
    source = source_at(tmp_path / "cards.csv")
    doubts = lab.infer(source, "cards", texts=True, styles=source.styles).doubts["at"]
    said = '1 of the first 40 are not written as "2024-03-25 00:00:00", the first is "25.03.2024 00:07": both are read'
    assert any(doubt.startswith(said) for doubt in doubts)


def test_alerts_in_a_csv_file_have_each_value_in_its_own_form_and_are_safe_for_a_spreadsheet(tmp_path):
    rules = [
        "1: COUNT(events) per card over 1 h >= 3 and SUM(amount) over 1 h > 10, title '=1+1'",
        "2: AVG(amount) per card over 1 h > 20.125",
    ]
    rows = [
        {"id": n, "at": START + n, "card": "@a", "amount": amount} for n, amount in enumerate([20, 21, 25])
    ]
    schema = lab.infer(rows, "cards", id=["id"], time="at").schema
    (tmp_path / "cards.toml").write_text(lab.infer(rows, "cards", id=["id"], time="at").toml())
    (tmp_path / "rules.txt").write_text("\n".join(rules))
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    frame = alerts(pd.DataFrame(rows), rules, schema)
    said = frame.to_csv(index=False)
    conditions = '[{"aggregate":"3","operator":"GREATER_EQUAL","limit":"3"},{"aggregate":"66","operator":"GREATER","limit":"10"}]'
    assert (
        len(said.splitlines()) == 4
        and conditions.replace('"', '""') in said
        and ",3,GREATER_EQUAL,3," in said
    )
    assert ",20.5,GREATER,20.125," in said and ",22,GREATER,20.125," in said
    given = [
        str(tmp_path / "events.jsonl"),
        "--schema",
        str(tmp_path / "cards.toml"),
        "--rules",
        str(tmp_path / "rules.txt"),
    ]
    assert main(["replay", *given, "--engine", "reference", "--out", str(tmp_path / "alerts.csv")]) == 0
    written = pd.read_csv(tmp_path / "alerts.csv", dtype=str, keep_default_na=False)
    as_text = pd.read_csv(io.StringIO(said), dtype=str, keep_default_na=False)
    assert set(written["title"]) == {"", "'=1+1"} and set(written["group.card"]) == {"'@a"}
    texts = ["title", "group.card"]
    assert written.drop(columns=texts).equals(as_text.drop(columns=texts))
    assert (tmp_path / "alerts.csv").stat().st_mode & 0o077 == 0
    for option, name in (("--out", "a.xlsx"), ("--out", "a.parquet"), ("--dead-letters", "a.csv")):
        assert main(["replay", *given, option, str(tmp_path / name)]) == 2
    assert main(["features", *given, "--out", str(tmp_path / "features.csv")]) == 0
    assert (tmp_path / "features.csv").read_text().splitlines()[3].endswith(",3,66,22")
    assert main(["features", *given, "--out", str(tmp_path / "features.json")]) == 2


@pytest.mark.slow
def test_a_dataframe_of_spark_gives_one_of_spark(spark, tmp_path):
    frame = spark.createDataFrame(pd.DataFrame(PURCHASES))
    found = alerts(frame, RULE)
    wanted = alerts(pd.DataFrame(PURCHASES), RULE)
    assert found.columns == list(wanted.columns)
    rows = [(row["eventId"], row["aggregate"], row["group.card"]) for row in found.collect()]
    assert rows == list(zip(wanted["eventId"], wanted["aggregate"], wanted["group.card"]))
    assert alerts(frame.limit(0), RULE, lab.infer(PURCHASES, "events").schema).schema == found.schema
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="a streaming DataFrame, expected also the folder"):
        alerts(stream, RULE)
    with pytest.raises(ValueError, match="a streaming DataFrame, expected also its schema"):
        alerts(stream, RULE, checkpoint=tmp_path)
    with pytest.raises(
        ValueError, match="no column card, which schema cards needs; there are: timestamp, value"
    ):
        alerts(
            stream,
            RULE,
            replace(lab.infer(PURCHASES, "cards").schema, id_fields=("card",)),
            checkpoint=tmp_path,
        )
    with pytest.raises(TypeError, match="a streaming DataFrame, expected one of finished events"):
        lab.infer(stream, "rates")
    with pytest.raises(ValueError, match="a checkpoint is for a streaming DataFrame"):
        alerts(PURCHASES, RULE, checkpoint=tmp_path)


def test_other_files_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alerts(PURCHASES, RULE)
    assert list(Path().iterdir()) == []


def test_a_proposal_is_a_schema_and_an_empty_rule_is_refused():
    proposal = lab.infer(PURCHASES, "events")
    assert alerts(PURCHASES, RULE, proposal) == alerts(PURCHASES, RULE, proposal.schema)
    with pytest.raises(TypeError, match=r"a SchemaProposal, expected a Schema.*lab.infer\(…\).schema"):
        lab.Settings(schema=proposal)
    for rule in ("", " \n"):
        with pytest.raises(BadRule, match="the rule is empty, expected a sentence"):
            alerts(PURCHASES, rule)
    with pytest.raises(ValueError, match="no event time: "):
        alerts([{"a": 1}], RULE, lab.infer([{"a": 1}], "events"))


def test_floats_that_nobody_rounded_say_how_to_round_them():
    """The schema that is proposed for them has no room for their digits, and the advice was to leave such rows out."""
    rng = Random(1)
    rows = [row | {"Amt Paid": rng.lognormvariate(3, 1)} for row in PURCHASES]
    rule = "SUM(Amt_Paid) per card over 1 h > 2"
    for table in (frame := pd.DataFrame(rows), rows):
        with pytest.raises(ValueError, match="the point and 1[0-9] after it.* round Amt Paid") as error:
            alerts(table, rule)
        assert "bad_rows" not in str(error.value)
        assert ('df["Amt Paid"] = df["Amt Paid"].round(6)' in str(error.value)) == (table is frame)
    frame["Amt Paid"] = frame["Amt Paid"].round(6)
    assert len(alerts(frame, rule))
    two = lab.infer(PURCHASES, "events").schema
    with pytest.raises(ValueError, match=r"amount.*round\(2\)"):
        alerts(pd.DataFrame(PURCHASES).assign(amount=2 / 3), RULE, two)
    with pytest.raises(ValueError, match='bad_rows="warn"'):
        alerts(pd.DataFrame(PURCHASES).assign(amount="1.234"), RULE, two)
