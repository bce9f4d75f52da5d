"""The six logs for other programs: JSON Schemas of what is in them, and an AsyncAPI page. Made from what the code accepts.

`lab spec` prints the page for a schema of events, docs/asyncapi.yaml is that of payments.
"""

from lab.model.inputspec import (
    control_message_json_schema,
    control_message_texts,
    event_json_schema,
)
from lab.model.jsonschema import Json
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.outputspec import (
    acknowledgement_json_schema,
    alert_json_schema,
    dead_letter,
    statistics_json_schema,
)
from lab.model.schema import Schema

LOGS = {  # name -> (does the engine send or receive it, what it is)
    "events": (
        "receive",
        f"One JSON object a record, of at most {MAX_LINE_BYTES:,} bytes. What does not fit becomes a dead letter.",
    ),
    "control": ("receive", "Rules, changes of their state, and commands. Each is answered once on acks."),
    "alerts": (
        "send",
        "A rule that held at an event; keyed by its group. At least once on Kafka: `alertId` tells repeats.",
    ),
    "acks": (
        "send",
        (
            "The answer to a control message: accepted or rejected, with the place of the message. Also the schema of the events, "
            "when an engine starts with another one."
        ),
    ),
    "deadLetters": ("send", "A record that could not be read: why, where it stands, and its beginning."),
    "stats": ("send", "Counts and times of a micro-batch."),
}


def json_schemas_by_log(schema: Schema) -> dict[str, Json]:
    """The JSON Schema of each log's records, for events of a schema.

    >>> from lab.model.schema import PAYMENTS
    >>> json_schemas_by_log(PAYMENTS)["events"]["required"]
    ['transactionId', 'eventTime']
    """
    made = {
        "events": event_json_schema(schema),
        "control": control_message_json_schema(schema),
        "alerts": alert_json_schema(schema),
        "acks": acknowledgement_json_schema(),
        "deadLetters": dead_letter(),
        "stats": statistics_json_schema(),
    }
    said = {name: what for name, (_, what) in LOGS.items()}
    said["control"] += f" {control_message_texts(schema)}"
    return {name: {"description": said[name], **of} for name, of in made.items()}


def asyncapi_document(schema: Schema, version: str) -> Json:
    """An AsyncAPI 3 document of the engine for events of a schema, as data; `version`: of the kit."""
    payloads = json_schemas_by_log(schema)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"Rules on {schema.name}",
            "version": version,
            "description": "Two logs that the engine reads and four that it writes: Kafka topics, or folders of JSON lines.",
        },
        "defaultContentType": "application/json",
        "channels": {
            name: {"address": name, "messages": {name: {"$ref": f"#/components/messages/{name}"}}}
            for name in LOGS
        },
        "operations": {
            name: {"action": action, "channel": {"$ref": f"#/channels/{name}"}}
            for name, (action, _) in LOGS.items()
        },
        "components": {"messages": {name: {"payload": payload} for name, payload in payloads.items()}},
    }
