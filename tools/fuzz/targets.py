"""What hostile input is fed to, and what must hold whatever comes: two readers agree, and nothing is raised but the refusal."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.loop.route import matching_rows
from lab.engine.records.decode import BadLine, decode_records
from lab.engine.records.feeds import LooseLines
from lab.engine.windows import statefiles
from lab.engine.windows.statefiles import StateFiles, stores_to_table
from lab.followers.export import unique_alert_rows
from lab.model import schemafile
from lab.model.alerts import Alert, AlertTable
from lab.model.deadletters import dead_letter, error_kind
from lab.model.jsontext import BadRecord
from lab.model.messages import MAX_MESSAGE_BYTES, parse_message
from lab.model.rules import BadRule, RuleBook
from lab.model.schema import LOGINS, PAYMENTS, SCHEMAS, Schema
from lab.model.when import passes_filter
from lab.restrict.restrictions import KNOWN, BadRestriction, parse_restriction
from lab.restrict.standing import BadQuestion, Restrictions
from lab.sources.infer import infer
from lab.teach.report import class_page, read_class_report
from tests.engine.test_own_schema import VISITS
from tools.fuzz import hostile

LOG_TIME = 1_356_998_400_000
MAX_RECORD = 1 << 20  # what a topic takes
RECORDS_OF_A_KIND = 200  # hand-ins of a class are read from a folder: so many at once


@dataclass(frozen=True)
class Target:
    """`run` takes inputs and raises for the first that does what it must not; `seeds`, `words`: what inputs are made of."""

    name: str
    run: Callable[[Sequence[bytes]], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    at_once: int = 100  # inputs of a call
    most: int = 1 << 20  # bytes of an input that it has to take
    line_end: bytes = b" "  # what stands for an end of a line, where one input is to stay one record


def names(*schemas: Schema) -> list[bytes]:
    found = {key for schema in schemas for each in schema.fields for key in (each.name, *each.record_path)}
    return [f'"{name}":'.encode() for name in sorted(found)]


# -- lines ---------------------------------------------------------------------------------------------------------


def lines(schema: Schema) -> Callable[[Sequence[bytes]], None]:
    """The compiled reader and the slow one give the same events and the same dead letters."""

    def run(inputs: Sequence[bytes]) -> None:
        data = b"\n".join(inputs)
        found = list(LooseLines(data, LOG_TIME).lines())
        good, bad = [], []
        for place, line in found:
            try:
                event = schema.parse(line)
                schema.check_future(event, LOG_TIME, 1000)
                good.append(event)
            except BadRecord as error:
                bad.append(BadLine(str(error), place, line, LOG_TIME, None))
        columns, kept, letters = decode_records(LooseLines(data, LOG_TIME), schema, 1000)
        assert letters == bad, (letters[:3], bad[:3])
        assert len(kept) == len(good)
        for name in schema.names:
            scale = schema.field(name).scale
            values = pa.array(columns[name]).to_pylist()
            wanted = [event[name] for event in good]
            if scale:
                wanted = [None if value is None else int(value.scaleb(scale)) for value in wanted]
            assert values == wanted, (name, values[:3], wanted[:3])
        for each in bad:
            reason, letter = each.reason, dead_letter(*each)
            assert len(letter) < 1 << 16 and json.loads(letter)["reason"] == reason
            assert letter.isascii() and len(error_kind(reason)) < 200

    return run


def inferred(inputs: Sequence[bytes]) -> None:
    """A proposal is a schema that reads back as the same; or what it lacks, or the refusal, says why."""
    for texts in (False, True):
        try:
            proposal = infer(inputs, "events", texts=texts)
        except ValueError as error:
            assert str(error).startswith("no record"), error
            continue
        text = proposal.toml()
        if not proposal.missing:
            assert schemafile.schema_from_toml(text) == proposal.schema


# -- rules ---------------------------------------------------------------------------------------------------------


def message(inputs: Sequence[bytes]) -> None:
    """Every message is answered; an accepted rule reads back as the same, and a book of them, too."""
    book = RuleBook(LOGINS)
    for text in inputs:
        ack = book.apply(text)
        assert ack["status"] in ("accepted", "rejected")
        assert len(json.dumps(ack)) < MAX_RECORD
        try:
            rule = parse_message(text, LOGINS).rule
        except BadRule as error:
            assert ack["status"] == "rejected" and 0 < len(str(error)) < 5_000
            continue
        if rule:
            assert parse_message(json.dumps(rule.to_dict()), LOGINS).rule == rule
            assert rule.route.id and rule._repr_html_()
            sentence = f"{rule.rule_id} {rule.state}: {rule.describe()}"
            if (
                len(sentence.encode()) <= MAX_MESSAGE_BYTES
            ):  # a character that moves the cursor is written in six
                assert parse_message(sentence, LOGINS).rule == rule
    assert RuleBook.from_json(book.to_json(), LOGINS) == book
    assert len(book.routes()) == len({route.id for route in book.routes()})


@cache
def attempts() -> tuple[list[dict[str, Any]], Any]:
    """Some events, as the reference and as the engine has them."""
    parts = [
        {"eventId": number, "eventTime": number, "userId": user, "action": action, "ip": ip, "amount": amount}
        for number, (user, action, ip, amount) in enumerate(
            (user, action, ip, amount)
            for user in (1, -1, None)
            for action in ("login", "", "é", None)
            for ip in ("a", "\u202e", "\0")
            for amount in ("1", "0.01", "-0", None)
        )
    ]
    data = "\n".join(map(json.dumps, parts)).encode()
    return [LOGINS.parse(line) for line in data.split(b"\n")], decode_records(LooseLines(data), LOGINS)[0]


FILTER_HEAD = b'{"ruleId":1,"ruleState":"ACTIVE","aggregateFieldName":"COUNT","limitOperatorType":">","limit":1,"window":1,'


def filters(inputs: Sequence[bytes]) -> None:
    """A filter passes the same events in the engine as in the reference."""
    events, columns = attempts()
    for text in inputs:
        try:
            rule = parse_message(FILTER_HEAD + text, LOGINS).rule
        except BadRule:
            continue
        if rule is None:
            continue
        wanted = [
            row
            for row, event in enumerate(events)
            if passes_filter(rule.filter, event) and all(event[name] is not None for name in rule.keys)
        ]
        assert matching_rows(_with_log(columns), rule.route, LOGINS).tolist() == wanted


def _with_log(columns: Any) -> Any:
    from lab.engine.records.columns import LOG_TIME as log_time
    from lab.engine.records.columns import SOURCE
    from lab.past.columnpast import _bare

    rows = len(columns["eventId"])
    return {name: _bare(values) for name, values in columns.items()} | {
        log_time: np.arange(rows),
        SOURCE: np.zeros(rows, np.int64),
    }


def schemas(inputs: Sequence[bytes]) -> None:
    """A schema reads back as the same from its own text, and its records are read or refused."""
    for text in inputs:
        try:
            found = schemafile.schema_from_toml(text.decode(errors="replace"))
        except ValueError as error:
            assert 0 < len(str(error)) < 20_000
            continue
        assert schemafile.schema_from_toml(schemafile.schema_to_toml(found)) == found
        assert Schema.from_dict(json.loads(json.dumps(found.to_dict()))) == found
        assert found._repr_html_()
        lines(found)([b'{"id": 1, "time": 5}', b"1,2,3", b"{}"])


# -- alerts and restrictions -----------------------------------------------------------------------------------------


def alerts(inputs: Sequence[bytes]) -> None:
    """A line is an alert that reads back, can be shown and exported, or none."""
    found = []
    for text in inputs:
        try:
            alert = Alert.from_json(text)
        except ValueError as error:
            assert 0 < len(str(error)) < 2_000
            continue
        assert Alert.from_json(alert.to_json()) == alert
        assert alert.alert_id.isprintable() or alert.alert_id
        found.append(alert)
    AlertTable(found)._repr_html_()
    assert len(unique_alert_rows(found)) <= len(found)


def restrictions(inputs: Sequence[bytes]) -> None:
    """A message is a restriction that reads back and answers, or none."""
    standing = Restrictions()
    for text in inputs:
        try:
            found = parse_restriction(text.decode(errors="surrogatepass"))
        except (BadRestriction, UnicodeDecodeError):
            continue
        standing.apply(found)
        assert parse_restriction(found.to_json()) == parse_restriction(
            parse_restriction(found.to_json()).to_json()
        )
    for each in standing.all():
        assert isinstance(each.is_in_force(5), bool) and each.key
    with suppress(BadQuestion):
        standing.against({"action": "login", "userId": 7}, 5)


@cache
def _service() -> Any:
    from lab.restrict.service import Enforcer, WebService

    class Log:
        def tail(self) -> None:
            raise OSError("none")

    return WebService(Enforcer(Log()), ["t" * 32], rate=1e12)


def bodies(inputs: Sequence[bytes]) -> None:
    """Whatever is posted, the answer is a refusal or one answer for each question, and never an error of the service."""

    async def post(body: bytes) -> tuple[int, bytes]:
        sent: list[dict] = []
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict:
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(part: dict) -> None:
            sent.append(part)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/may",
            "raw_path": b"/may",
            "query_string": b"",
            "headers": [
                (b"host", b"127.0.0.1"),
                (b"content-type", b"application/json"),
                (b"authorization", b"Bearer " + b"t" * 32),
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
        }
        await _service()(scope, receive, send)
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])

    async def all_of_them() -> None:
        for text in inputs:
            status, body = await post(text)
            assert status in (200, 400, 413, 422), (status, body[:200])
            answer = json.loads(body)
            if status == 200:
                for question, said in zip(json.loads(text)["questions"], answer["answers"], strict=True):
                    assert not said["allowed"] or question["action"] in KNOWN

    asyncio.run(all_of_them())


# -- hand-ins and state ------------------------------------------------------------------------------------------------


def hand_ins(inputs: Sequence[bytes]) -> None:
    """A class's report is made whatever learners hand in, and what they wrote is text in it."""
    with TemporaryDirectory(prefix="lab-fuzz-") as name:
        for number, text in enumerate(inputs):
            Path(name, f"{number}.jsonl").write_bytes(text)
        Path(name, "whole.jsonl").write_text('{"at": 1, "learner": "a", "state": "begin"}\n')
        html = class_page(read_class_report(Path(name)), {})
        assert "<script" not in html and "<img" not in html


@cache
def state_file() -> bytes:
    """A file as the engine writes it."""
    events = {name: np.arange(5) for name in ("time", "id", "seq", "keyGroup", "key:payeeId")}
    resets = {name: np.arange(2) for name in ("rule", "seq", "keyGroup", "key:payeeId")}
    with TemporaryDirectory(prefix="lab-fuzz-") as name:
        files = StateFiles(CheckpointFolder(name), 0, 4)
        written = files.write(0, 0, 0, stores_to_table([(1, events, resets)]))
        return Path(name, "state", written.name).read_bytes()


def with_checksum(data: bytes) -> bytes:
    """The bytes of a file with the checksum that belongs to them."""
    whole = bytearray(data)
    for at in statefiles._places(whole):
        whole[at : at + statefiles.CHECKSUM_DIGITS] = b"%08x" % statefiles._checksum(data)
    return bytes(whole)


def state_files(inputs: Sequence[bytes]) -> None:
    """A file of state is read, or refused by a ValueError that names it."""
    with TemporaryDirectory(prefix="lab-fuzz-") as name:
        folder = Path(name, "state")
        folder.mkdir()
        path = folder / "000000000-000000000-00000-00004.arrow"
        for text in inputs:
            path.write_bytes(with_checksum(text))  # what it is to protect is tried, too
            files = StateFiles(CheckpointFolder(name), 0, 4)
            try:
                for file in files.find(0, begins_next_epoch=False)[0]:
                    files.read(file)
            except ValueError as error:
                assert path.name in str(error), error


# -- all ---------------------------------------------------------------------------------------------------------------


PAYMENT = b'{"transactionId": 1, "eventTime": 1356998400000, "payeeId": 25, "beneficiaryId": 12, "paymentAmount": 21.5, "paymentType": "CSH"}'
LOGIN = b'{"eventId": 1, "eventTime": 1356998400000, "userId": 7, "action": "login", "ip": "203.0.113.5", "amount": null}'
VISIT = b'{"visit": {"id": "V-1", "at": "2012-12-31T10:00:00.1239+09:00"}, "who": {"user": 7, "country": "KR"}, "first": "a", "paid": true, "total": {"amount": "2.50"}}'
RULE = b'{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId", "ip"], "filter": {"action": ["login", "pay"], "amount": [1, "2.5"]}, "aggregateFieldName": "amount", "aggregatorFunctionType": "SUM", "limitOperatorType": ">", "limit": "50.5", "window": "10m", "action": "block_login", "ttl": "30m", "severity": "high", "title": "Too much", "labels": {"team": "fraud"}, "eventFields": ["ip"]}'
ORDERS = b'name = "orders"\nid = "id"\ntime = "time"\n[fields.id]\ntype = "long"\n[fields.time]\npath = "order.at"\ntype = "time"\nunit = "iso"\nexample = "2024-05-01T10:00:00Z"\n[fields.amount]\ntype = "decimal(18,2)"\nexamples = ["1.5", "2"]\n'
ALERT = b'{"alertId":"1.2.7.5.7958a627","ruleId":1,"ruleVersion":2,"key":"{payeeId=25}","aggregate":"50.10","operator":"GREATER","limit":"50","eventId":7,"eventTime":1356998400000,"logTime":5,"alertTime":6}'
RESTRICTION = b'{"action": "block_login", "subject": {"userId": 7}, "from": 1000, "until": 61000, "ruleId": 1, "ruleVersion": 2, "alertId": "x"}'
LIFT = b'{"action": "block_login", "subject": {"userId": 7}, "lift": 5000, "by": "ann"}'
STUMBLE = b'{"at": 90, "learner": "7f", "name": "Ada", "exercise": "3.2", "state": "wrong", "said": "Both ends count.", "answer": "x"}'
SOLVED = (
    b'{"at": 95, "learner": "7f", "exercise": "3.4", "state": "right", "replay": "{\\"float\\":\\"864.0\\"}"}'
)
QUESTIONS = b'{"questions": [{"action": "login", "userId": 7, "ip": "203.0.113.5"}, {"action": "payment", "device": "x"}]}'
TIMES = (b'"2012-12-31T10:00:00"', b'"2012-02-30T10:00:00Z"', b'"2012-12-31T24:00:00Z"', b"1356998400.5")
RULE_WORDS = [f'"{name}":'.encode() for name in ("ruleId", "ruleState", "groupingKeyNames", "filter", "unique", "aggregateFieldName", "aggregatorFunctionType", "limitOperatorType", "limit", "window", "windowMinutes", "controlType", "action", "ttl", "version", "when")] + [b'"PAUSE"', b'"CONTROL"', b'"DELETE"', b'"CLEAR_STATE_ALL"', b'"EXPORT_RULES_CURRENT"', b'"DELETE_RULES_ALL"', b'"COUNT"', b'"COUNT_WITH_RESET"', b'"UNIQUE_COUNT"', b'"STDDEV"', b'"userId"', b'"amount"', b'"eventTime"', b'"90d"', b'"notify"']  # fmt: skip
TOML_WORDS = [b"[fields.x]\n", b'type = "string"\n', b'type = "boolean"\n', b'unit = "ns"\n', b'path = ["a", "b.c"]\n', b"examples = []\n", b"[[a]]\n", b"'''", b'"""', b"a.b = 1\n", b"1979-05-27", b"inf", b'doc = "\\u007f"\n']  # fmt: skip

TARGETS = {
    target.name: target
    for target in (
        Target("payments", lines(PAYMENTS), [PAYMENT, b"1,2012-12-31 00:00:00,1001,1002,CSH,21.5,1", *(make(300) for make in hostile.LINES.values())], [*names(PAYMENTS), *TIMES]),
        Target("logins", lines(LOGINS), [LOGIN, b"1,5,7,login,1,d,KR,"], names(LOGINS)),
        Target("visits", lines(VISITS), [VISIT, b"V-1,2012-12-31T10:00:00Z,7,KR,a,true,2.5"], [*names(VISITS), *TIMES]),
        Target("infer", inferred, [PAYMENT, LOGIN, VISIT], [*names(VISITS, LOGINS), *TIMES], at_once=5),
        Target("messages", message, [RULE, RULE.replace(b'"action": "block', b'"when": "amount > 5 and (country not in (KR, \\"a b\\") or ip in 10.0.0.0/8 and ip startsWith 1)", "action": "block'), b"1,(active),(userId&ip),,(amount),(SUM),(>),(50),(20)", b'{"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"}', *(make(300) for make in hostile.MESSAGES.values())], RULE_WORDS),
        Target("filters", filters, [b'"filter": {"action": ["login", ""], "amount": "1"}}', b'"groupingKeyNames": ["amount"], "filter": {"userId": [1, -1], "ip": "\\u0000"}}', b'"filter": "amount >= 0 and (ip in (10.0.0.0/8, ::/0) or action not in (login) and ip is not null) or hour(eventTime, \\"+09:00\\") < 6"}'], [*names(LOGINS), *RULE_WORDS[:4]]),
        Target("schemas", schemas, [ORDERS, schemafile.schema_to_toml(VISITS).encode(), *(schemafile.schema_to_toml(each).encode() for each in SCHEMAS.values()), *(make(300) for make in hostile.SCHEMAS.values())], TOML_WORDS, at_once=10, most=schemafile.MAX_BYTES, line_end=b"\n"),
        Target("alerts", alerts, [ALERT], [b'"eventId":"', b'"aggregate":"1E+999999"', b'"key":', b'"eventTime":']),
        Target("restrictions", restrictions, [RESTRICTION, LIFT], [b'"lift":', b'"until":', b'"subject":']),
        Target("bodies", bodies, [QUESTIONS], [b'"action":', b'{"action": "login"},', b'"questions":', b'"userId": 1e5,', b'"action": "transfer",'], at_once=20),
        Target("hand-ins", hand_ins, [STUMBLE, STUMBLE + b"\n" + SOLVED], [b'"replay": "[1]"', b'\\"tuple\\":', b'\\"dict\\":', b'\\"decimal\\":', b'"3.1"', b'"at":', b'"exercise":', b'"<script>"', b'"state":', b'"right"', b'"error"', b'"begin"', b'"name":'], at_once=RECORDS_OF_A_KIND),
        Target("state-files", state_files, [state_file()], [b"ARROW1", b"\xff\xff\xff\xff", b"\0\0\0\0", b'{"level": 0, "events": {"0": 1}, "newest": []}'], at_once=20),
    )
}  # fmt: skip
