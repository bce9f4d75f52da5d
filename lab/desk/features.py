"""The values of rules' windows as a table, for example to train a model: `lab.features`, `lab features`.

events, rules ──► World.features ──► a row for each event, a column for each aggregate ──► a table as the events' library has it
"""

from typing import Any

from lab.desk.world import NoEvents, World
from lab.past.alertframe import AnySchema, is_list_of_rows


def features(events: Any, rules: Any, schema: AnySchema = None, *, bad_rows: str = "raise") -> Any:
    """The value of each aggregate of rules at each event, as a table of the same library: a row for each event that has one.

    `events`, `rules`, `schema`, `bad_rows`: as `lab.alerts` takes them, and what comes out is of the same kind. The columns are eventId (of
    several fields `eventId.NAME`), eventTime and the words of each aggregate, such as `SUM(amount) per card over 1 h`. The values are
    those that the conditions of the rules see, as exact decimals (quotients and roots rounded to 6 digits), whatever their limits, `when` and `at most`; null where there is none.
    Without events and without a schema there are no columns of aggregates.

    >>> events = [{"id": n, "at": 1714557600000 + n, "card": "a", "amount": 30 * n} for n in range(1, 4)]
    >>> [row["SUM(amount) per card over 1 h"] for row in features(events, "SUM(amount) per card over 1 h > 80")]
    [Decimal('30'), Decimal('90'), Decimal('180')]
    """
    try:
        world = World(events, rules, schema, bad_rows=bad_rows)
    except NoEvents:
        world = None
    if is_list_of_rows(events):
        return world.features() if world else []
    from lab.sources.tables import table_like  # which loads pyarrow

    if not world:
        return table_like(events, _no_columns(), ("eventId",))
    ids = [f"eventId.{name}" for name in world.schema.event_id_fields]
    return table_like(events, feature_columns(world), ("eventId", *ids))


def _no_columns() -> Any:
    """The columns of no events, of which nothing is known."""
    import pyarrow as pa

    from lab.past.alertcolumns import TIME

    return pa.table({"eventId": pa.array([], pa.int64()), "eventTime": pa.array([], TIME)})


def feature_columns(world: World) -> Any:
    """The features of a world as Arrow's columns, whose names and types follow from the rules and the schema alone."""
    import pyarrow as pa

    from lab.past.alertcolumns import TIME, decimal_type, type_of

    rows, schema = world.features(), world.schema
    if len(schema.event_id_fields) > 1:
        columns = {
            f"eventId.{name}": pa.array([row["eventId"][n] for row in rows], type_of(schema.field(name)))
            for n, name in enumerate(schema.event_id_fields)
        }
    else:
        kind = type_of(schema.field(schema.id_fields[0]))
        columns = {"eventId": pa.array([row["eventId"] for row in rows], kind)}
    columns["eventTime"] = pa.array([row["eventTime"] for row in rows], pa.int64()).cast(TIME)
    for name, rule in world.rules_of_features().items():
        values = [row[name] for row in rows]
        columns[name] = pa.array(values, decimal_type([rule], schema, values))
    return pa.table(columns)
