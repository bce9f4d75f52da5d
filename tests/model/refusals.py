"""What readers of rules refuse, and the whole sentence with which they do: `refusals.tsv`, one table for Python and the page.

`python -m tests.model.refusals` writes the sentences anew as they are now, for the change to be read in a diff.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lab.model.conditions import BadConditions
from lab.model.field import Field
from lab.model.kinds import BadRule
from lab.model.messages import parse_message
from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.model.sentence import parse_rule_sentence
from lab.model.whenreader import parse_filter, parse_when

TABLE = Path(__file__).with_name("refusals.tsv")
TYPES = Schema(
    "types",
    (
        *(Field("id", "long"), Field("at", "time", unit="ms"), Field("seen", "time", unit="s")),
        *(Field("ok", "boolean"), Field("home", "string"), Field("country", "string")),
        *(Field("price", "decimal(9,4)"), Field("count", "long"), Field("5", "long")),
    ),
    id_fields=("id",),
    time_field="at",
)
RULE = {"ruleId": 1, "ruleState": "ACTIVE", "window": "10m"}
COUNT = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 1}
SUM: dict[str, object] = {"aggregatorFunctionType": "SUM", "aggregateFieldName": "paymentAmount"}
SUM |= {"limitOperatorType": "GREATER", "limit": 20_000_000, "groupingKeyNames": ["payeeId", "beneficiaryId"]}


def attributes(rule: dict, schema: Schema) -> Callable[[str], object]:
    """Reads a rule of which some attributes are others, given as JSON."""
    return lambda text: parse_message(json.dumps(rule | json.loads(text)), schema)


READERS: dict[str, Callable[[str], object]] = {
    "sentences": partial(parse_rule_sentence, schema=LOGINS),
    "conditions": partial(parse_when, schema=LOGINS),
    "conditions on times and booleans": partial(parse_when, schema=TYPES),
    "filters": partial(parse_filter, schema=LOGINS),
    "messages": partial(parse_message, schema=PAYMENTS),
    "attributes of a sum of payments": attributes(RULE | SUM, PAYMENTS),
    "attributes of a count of logins": attributes(RULE | COUNT, LOGINS),
    "attributes beside absence": attributes(RULE | {"absence": True}, LOGINS),
}


def table() -> dict[str, dict[str, str]]:
    """Reader -> what it refuses -> the sentence."""
    found: dict[str, dict[str, str]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            refused = found.setdefault(line[2:], {})
        else:
            text, reason = line.split("\t")
            refused[text] = reason
    return found


def refusal(reader: str, text: str) -> BadRule | BadConditions:
    """The error of a reader. Raises AssertionError if it reads the text."""
    try:
        READERS[reader](text)
    except (BadRule, BadConditions) as error:
        return error
    raise AssertionError(f"{text!r} is read by the reader of {reader}")


def main() -> None:
    lines = []
    for reader, refused in table().items():
        lines += [f"# {reader}", *(f"{text}\t{refusal(reader, text)}" for text in refused)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
