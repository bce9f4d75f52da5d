"""What the page finds out about somebody's own events, with the kit's own inference."""

import json
import re

import pytest

from lab.model.schema import LOGINS
from lab.page.inference import NO_ID, NO_RECORD, NO_TIME, ONE_LIST, inferred


class Bytes(bytes):
    """As JavaScript gives them."""

    def to_bytes(self) -> bytes:
        return self


def found(text: str, is_whole: bool = True) -> dict:
    known = [LOGINS.to_dict() | {"optional": ["amount"]}]
    return json.loads(inferred("x", Bytes(text.encode()), is_whole, json.dumps(known)))


@pytest.mark.parametrize(
    ("text", "fields", "texts"),
    [
        (
            "id,on_date,sum\na,2024-05-01,100.00\nb,2024-05-02,50.00",
            "id string,on_date time utc,sum decimal(18,2)",
            [],
        ),
        (
            "id;at;sum\na;2024-05-01 10:00;12,50\nb;2024-05-01 10:00;3",
            "id string,at time utc,sum string",
            ["sum"],
        ),
        (
            "id,at,zip\na,2024-05-01 10:00,01234\nb,2024-05-01 10:00,99999",
            "id string,at time utc,zip string",
            [],
        ),
        (f"id,at\n{2**62},2024-05-01 10:00\n{2**63 - 1},2024-05-01 10:00", "id long,at time utc", []),
        ('id,at,x\n"a,2024-05-01 10:00,1\nb,2024-05-01 10:00,1', "id string,at time utc,x long", []),
        (
            '{"id": "a", "timeUnixNano": "1714525200123456789", "sum": "100.00", "code": "17"}',
            "id string,timeUnixNano time ns,sum decimal(18,2),code string",
            [],
        ),
    ],
    ids=["cents", "commas", "zeros", "19 digits", "an open quote", "texts of numbers"],
)
def test_values_are_read_as_lab_infer_reads_them_or_named_as_texts(text, fields, texts):
    of = found(text)
    read = [f"{field['name']} {field['type']} {field['unit']}".strip() for field in of["schema"]["fields"]]
    assert [name for name in read if name != "line long"] == re.split(r",(?!2\))", fields)
    assert of["texts"] == texts


def test_columns_keep_their_order_and_those_that_say_nothing_are_texts():
    of = found("at;a b;id;;a_b\n2024-05-01 10:00;;x;;1\n2024-05-01 10:00;;y;;1")
    assert [field["name"] for field in of["schema"]["fields"]] == ["at", "a_b_", "id", "column_4", "a_b"]
    assert (of["ids"], of["times"], of["schema"]["delimiter"], of["skip"]) == (["id"], ["at"], ";", 15)


def test_rows_that_only_several_columns_tell_apart_have_these_as_their_id():
    rows = (f"h{n % 3},{n // 3},2024-05-01 10:00" for n in range(9))
    assert found("\n".join(["host,seq,at", *rows]))["ids"] == ["host, seq"]


def test_an_incomplete_line_and_a_mark_of_byte_order_are_no_part_of_the_events():
    of = found(
        '\ufeff{"id":1,"at":"2024-05-01T10:00:00Z"}\n{"id":2,"at":"2024-05-01T10:00:00Z"}\n{"id":', False
    )
    assert (of["ids"], of["skip"], of["known"]) == (["id", "line"], 0, None)
    assert found("\ufeffid,at\n1,2024-05-01 10:00\n")["skip"] == 9


def test_events_of_a_known_schema_are_known_unless_they_are_read_otherwise():
    event = {
        "eventId": 1,
        "eventTime": 5,
        "userId": 1,
        "action": "a",
        "ip": "x",
        "device": "x",
        "country": "KR",
    }
    time = {"eventTime": 1_700_000_000_000}
    lines = [json.dumps(event | time | {"eventId": number}) for number in range(100)]
    assert found("\n".join([*lines, "{broken"]))["known"] == "logins"
    assert found("\n".join(line.replace('"userId": 1', '"userId": "x"') for line in lines))["known"] is None


@pytest.mark.parametrize(
    "text, reason",
    [("[1]", ONE_LIST), ("", NO_RECORD), ("a,b\n1,2", NO_TIME), ("at\n" + "2024-05-01 10:00\n" * 2, NO_ID)],
)
def test_what_cannot_be_played_says_why(text, reason):
    assert found(text) == {"error": reason}
