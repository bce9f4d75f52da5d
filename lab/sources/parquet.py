"""Parquet, a batch of rows at a time: each row becomes an object with its columns' names (`lab.sources.arrowrows`)."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.schema import Schema
from lab.sources.arrowrows import AT_ONCE, ROWS, ArrowRows, list_bytes
from lab.sources.records import Format, UnreadableFile


class ParquetTable(Format):
    """A Parquet file. Raises UnreadableFile if it is broken."""

    name = "Parquet"

    def __init__(self, path: Path, schema: Schema | None):
        self._path, self._rows = path, ArrowRows(schema, self._refuse_long)
        with self._open() as file:
            names = file.schema_arrow.names
        if len(set(names)) < len(names):
            raise UnreadableFile(
                f"{path} is Parquet with several columns of the same name: {', '.join(names)}"
            )

    def _open(self) -> pq.ParquetFile:
        try:
            file = pq.ParquetFile(self._path)
            # of a text that comes again and again, also in lists, one copy is in memory
            columns = map(file.schema.column, range(len(file.schema)))
            again = [each.path for each in columns if _is_text(each)]
            return pq.ParquetFile(self._path, read_dictionary=again) if again else file
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFile(
                f"{self._path} is Parquet that cannot be read; is the file complete? {error}"
            ) from None

    def count(self) -> int:
        with self._open() as file:
            return file.metadata.num_rows

    def lines(self) -> Iterator[bytes]:
        with self._open() as file:
            try:
                for number in range(file.num_row_groups):
                    group = file.metadata.row_group(number)
                    for column in (group.column(each) for each in range(group.num_columns)):
                        texts = column.physical_type == "BYTE_ARRAY"
                        size = max(column.total_uncompressed_size * texts, list_bytes(column.num_values))
                        self._rows.refuse_if_long(size // max(group.num_rows, 1), column.path_in_schema)
                    for batch in file.iter_batches(_rows(group), [number]):
                        yield from self._rows.lines(batch)
            except (pa.ArrowException, OSError) as error:
                raise UnreadableFile(
                    f"{self._path} is Parquet that cannot be read; is the file complete? {error}"
                ) from None

    def _refuse_long(self, size: int, column: str) -> None:
        """Raises UnreadableFile for a value of so many bytes."""
        raise UnreadableFile(
            f"{self._path} has a value of about {size:,} bytes in column {column}, at most {MAX_LINE_BYTES:,} are allowed; "
            "write the file again without that column, or with shorter values"
        )

    def place(self, index: int) -> str:
        return f"row {index + 1}"


def _is_text(column: pq.ColumnSchema) -> bool:
    """Whether a column has texts or bytes."""
    numbers = column.logical_type.type == "DECIMAL" or column.converted_type == "DECIMAL"
    return column.physical_type == "BYTE_ARRAY" and not numbers


def _rows(group: pq.RowGroupMetaData) -> int:
    """How many rows of a group are read at once: fewer if they are large, or have long lists."""
    columns = [group.column(number) for number in range(group.num_columns)]
    size = max(group.total_byte_size, 16 * max((column.num_values for column in columns), default=0))
    return max(1, min(ROWS, AT_ONCE * group.num_rows // max(size, 1)))
