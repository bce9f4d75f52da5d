"""Tables in memory, whichever library has them: pandas, polars, pyarrow, Spark, or one that gives Arrow's C stream.

DataFrame ──► the columns that the schema names, as Arrow's ──► an object a line (`lab.sources.arrowrows`)
alerts    ──► Arrow's columns ──► a table as the events' library has it
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa

from lab.model.field import Field
from lab.model.formatting import plain_text, spreadsheet_cell
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.schema import Schema
from lab.model.times import TEXTS
from lab.sources.arrowrows import AT_ONCE, ROWS, ArrowRows
from lab.sources.csvcolumns import ColumnStyle, column_styles
from lab.sources.records import TAKEN
from lab.sources.sources import EventSource

SAMPLE = 1_000  # texts that say how numbers and dates are written
WHOLE = re.compile(r"-?[0-9]{1,18}")
LARGEST_DECIMAL = 38  # digits, in polars and Spark
WAYS = {  # kinds of values that no field can have -> what would be right
    "duration": "a number of seconds: column.dt.total_seconds()",
    "month_day_nano_interval": "a number of seconds",
    "extension": "its storage: a text or a number",
    "run_end_encoded": "plain values: pyarrow.compute.run_end_decode",
    "sparse_union": "values of one type",
    "dense_union": "values of one type",
}


class TableSource(EventSource):
    """The rows of a table in their order; of a pandas DataFrame an index with a name is a column. The table stays as it is.

    `schema`: only its columns are read. Raises ValueError for a column that cannot be an event's, or if the id's or the time's is missing.
    """

    format, record_format = "a table", "json"

    def __init__(self, table: Any, schema: Schema | None = None):
        self.schema = schema
        self._table = _texts_read_as_cells(arrow_table(table, schema), schema)
        self.columns = self._table.column_names
        self._rows = ArrowRows(schema, self._refuse_long)
        for column in self._table.schema:
            if way := _way_of_refused(column.type):
                raise ValueError(
                    f"column {column.name} is {column.type}, which no event can have; expected {way}; or leave the column out"
                )
        for name in (*schema.id_fields, schema.time_field) if schema else ():
            column = schema.field(name).record_path[0]  # type: ignore[union-attr]
            if column not in self.columns:
                raise ValueError(
                    f"no column {column}, which schema {schema.name} needs; "  # type: ignore[union-attr]
                    f"there are: {', '.join(_names_of(table))}"
                )

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[bytes]:
        most = AT_ONCE * len(self) // max(self._table.nbytes, 1)
        for batch in self._table.to_batches(max_chunksize=max(1, min(ROWS, most))):
            yield from self._rows.lines(batch)

    def place(self, index: int) -> str:
        """`row 0`, as in Python."""
        return f"row {index}"

    def for_schema(self, schema: Schema) -> EventSource:
        return TableSource(self._table, schema)

    @staticmethod
    def _refuse_long(size: int, column: str) -> None:
        raise ValueError(
            f"column {column} has a value of about {size:,} bytes, at most {MAX_LINE_BYTES:,} are allowed; leave the column out, "
            "or shorten its values"
        )


def arrow_table(table: Any, schema: Schema | None = None) -> pa.Table:
    """The columns of a table that a schema names, without one all. Raises TypeError for what is no table, ValueError for values of mixed types."""
    wanted = {field.record_path[0] for field in schema.fields} if schema else None
    library = type(table).__module__.partition(".")[0]
    if getattr(table, "isStreaming", False) is True:
        raise TypeError(
            "a streaming DataFrame, expected one of finished events: spark.read, not spark.readStream; lab.alerts takes both"
        )
    if hasattr(table, "collect_schema") and not hasattr(table, "__arrow_c_stream__"):
        raise TypeError("a LazyFrame, expected a DataFrame: events.collect()")
    names = [name for name in _names_of(table) if wanted is None or name in wanted]
    if len(set(names)) < len(names):
        raise ValueError(f"several columns have the same name, expected different ones: {', '.join(names)}")
    try:
        if library == "pyspark":
            found = table.select([f"`{name.replace('`', '``')}`" for name in names]).toArrow()
        elif library == "pyarrow" and hasattr(table, "to_table"):  # a dataset
            found = table.to_table(columns=names)
        elif library == "pandas":
            found = _of_pandas(table, wanted)
        else:
            found = pa.table(table)
    except OverflowError:
        raise ValueError(
            f"column {_too_large(table)} has an integer of more than 64 bits, which no field can have; "
            "expected a text (column.astype(str)); or leave the column out"
        ) from None
    except pa.ArrowException as error:
        raise ValueError(_mixed_types(error)) from None
    except (TypeError, AttributeError) as error:
        raise TypeError(f"a {type(table).__name__}, expected {TAKEN} ({error})") from None
    return found if wanted is None else found.select([name for name in found.column_names if name in wanted])


def _texts_read_as_cells(table: pa.Table, schema: Schema | None) -> pa.Table:
    """A table whose texts for fields of other types are read as cells of CSV are: 25.03.2024 as a date, 1.234,50 as a number."""
    fields = {field.record_path: field for field in schema.fields} if schema else {}
    for number, column in enumerate(table.schema):
        field = fields.get((column.name,))
        if field and field.type != "string" and _is_text(column.type):
            cells = table.column(number).to_pylist()
            given = ([cell] for cell in islice(filter(None, cells), SAMPLE))
            (style,) = column_styles([column.name], given, ";")
            texts = [cell and _cell_text(field, style, cell.strip()) for cell in cells]
            if field.type == "long" and all(map(WHOLE.fullmatch, filter(None, texts))):
                table = table.set_column(
                    number, column.name, pa.array([int(text) if text else None for text in texts], pa.int64())
                )
            else:
                table = table.set_column(number, column.name, pa.array(texts, pa.large_string()))
    return table


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _cell_text(field: Field, style: ColumnStyle, cell: str) -> str | None:
    """A cell as the field reads it; null if it is empty."""
    if field.type == "time" and field.unit in TEXTS:
        return style.date(cell) or None
    if field.type == "boolean":
        return cell.lower() or None
    if style.has_other_mark(cell):
        return f"{cell}, expected a decimal comma"
    return style.number(cell) or None


def _of_pandas(table: Any, wanted: set[str] | None) -> pa.Table:
    """A pandas DataFrame; an index without a name says nothing about rows."""
    index = [name for name in table.index.names if name is not None]
    some = table if wanted is None else table[[name for name in table.columns if str(name) in wanted]]
    return pa.Table.from_pandas(some.reset_index(index) if index else some, preserve_index=False)


def table_like(events: Any, found: pa.Table, never_null: Sequence[str]) -> Any:
    """A table as the library of `events` has it; of pandas for what is no table. `never_null`: columns of integers without gaps."""
    library = type(events).__module__.partition(".")[0]
    if library == "pyspark":
        return events.sparkSession.createDataFrame(_held_by_others(found, "us"))
    if library == "polars":
        import polars

        return polars.from_arrow(_held_by_others(found, "ms"))
    if library == "pandas" or not hasattr(events, "__arrow_c_stream__") and library != "pyarrow":
        import pandas

        # integers with gaps stay exact
        table = _plain_columns(found).to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)
        for column in found.schema:
            if pa.types.is_decimal(column.type):
                table[column.name] = table[column.name].map(_shortest, na_action="ignore")
        return table.astype(
            {
                column.name: "int64"
                for column in found.schema
                if column.name in never_null and column.type == pa.int64()
            }
        )
    return found


def csv_rows(table: pa.Table) -> Iterator[list[object]]:
    """The header and the rows of a table for a file of CSV: each amount in its shortest form, lists as JSON, gaps as empty cells.

    Texts that a spreadsheet would take for formulas begin with an apostrophe.

    >>> list(csv_rows(pa.table({"n": [Decimal("6.000000"), None], "who": ["=1+1", "kim"], "all": [[1], []]})))
    [['n', 'who', 'all'], ['6', "'=1+1", '[1]'], ['', 'kim', '[]']]
    """
    yield [spreadsheet_cell(name) for name in table.column_names]
    for batch in _plain_columns(table).to_batches(max_chunksize=ROWS):
        for row in zip(*(column.to_pylist() for column in batch.columns)):
            yield [_cell(value) for value in row]


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case Decimal():
            return plain_text(_shortest(value))
        case datetime():
            return str(value)
    return spreadsheet_cell(value)


def _shortest(value: Decimal) -> Decimal:
    """An amount without zeros at the end, which a column has because another of its values needs the digits.

    >>> _shortest(Decimal("6.000000")), _shortest(Decimal("-0.50")), _shortest(Decimal("100"))
    (Decimal('6'), Decimal('-0.5'), Decimal('100'))
    """
    text = plain_text(value)
    return Decimal(text.rstrip("0").rstrip(".")) if "." in text else value


def _plain_columns(found: pa.Table) -> pa.Table:
    """A table without lists and objects, which are JSON text instead."""
    for number, column in enumerate(found.schema):
        if pa.types.is_nested(column.type):
            texts = [None if each is None else _json(each) for each in found.column(number).to_pylist()]
            found = found.set_column(number, column.name, pa.array(texts, pa.string()))
    return found


def _json(value: object) -> str:
    """JSON as an alert has it, with its amounts as texts."""

    def plain(value: object) -> object:
        match value:
            case Decimal():
                return plain_text(_shortest(value))
            case dict():
                return {name: plain(each) for name, each in value.items()}
            case list():
                return [plain(each) for each in value]
        return value

    return json.dumps(plain(value), separators=(",", ":"), default=str)


def _held_by_others(found: pa.Table, unit: str) -> pa.Table:
    """A table without decimals that polars and Spark cannot hold, which become texts, and with times in a unit."""
    kinds = [column.type for column in found.schema]
    for number, kind in enumerate(kinds):
        if pa.types.is_decimal(kind) and kind.precision > LARGEST_DECIMAL:
            kinds[number] = pa.string()
        elif pa.types.is_timestamp(kind):
            kinds[number] = pa.timestamp(unit, kind.tz)
    return found.cast(pa.schema([column.with_type(kind) for column, kind in zip(found.schema, kinds)]))


def _names_of(table: Any) -> list[str]:
    """The names of a table's columns, those of a pandas index included."""
    names = getattr(table, "columns", None)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        schema = getattr(table, "schema", None)
        names = schema.names if isinstance(schema, pa.Schema) else names
    index = getattr(getattr(table, "index", None), "names", ())
    return [
        str(name)
        for name in [*([] if names is None else names), *(name for name in index if name is not None)]
    ]


def _way_of_refused(kind: pa.DataType) -> str:
    """What would be right in place of values of a type that no event can have; "" if it can."""
    if isinstance(kind, pa.BaseExtensionType):
        return WAYS["extension"]
    if pa.types.is_dictionary(kind):
        return _way_of_refused(kind.value_type)
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    ways = [WAYS.get(re.split(r"[\[<]", str(kind))[0], ""), *map(_way_of_refused, inner)]
    return next(filter(None, ways), "")


def _too_large(table: Any) -> str:
    """The first column of a pandas DataFrame with an integer that Arrow cannot hold."""
    for name in table.columns:
        try:
            pa.array(table[name], from_pandas=True)
        except OverflowError:
            return str(name)
        except pa.ArrowException:
            pass  # another column's fault is told first
    return "index"


def _mixed_types(error: Exception) -> str:
    """What is wrong with a column whose values Arrow cannot hold, such as numbers beside texts in a pandas column of objects."""
    said = "; ".join(map(str, error.args))
    column = re.search("Conversion failed for column (.*) with type", said)
    return (
        f"{f'column {column[1]}' if column else 'a column'} has values of several types, or of one that no event can have; "
        f"expected all texts (column.astype(str)), numbers or times; or leave the column out ({error.args[0]})"
    )
