"""Parquet files read with their values as they are, and up to a limit.

Whole numbers stay whole numbers where some are missing, and columns that pandas wrote as its index
stay columns. A small file can promise any number of rows or repeat a long text in a few bits: sizes
are checked before values are read and while they are.
"""

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .cells import Note
from .compressed_files import FREE_BYTES, MAX_RATIO, free_memory, too_large

FREE_COLUMN_BYTES = 4 * FREE_BYTES
"""Bytes of the columns of a file of any size; eight for each number."""
MEMORY_PER_COLUMN_BYTE = 2
"""Bytes of memory that a byte of a column needs while it becomes a DataFrame."""
BATCH_ROWS = 65_536
CHECKED_BYTES = FREE_BYTES
"""Largest file whose columns are met by the reader before their metadata are read."""
TEXT_TYPES = ("string", "large_string", "binary", "large_binary")
UNNAMED_INDEX = "__index_level_"
"""What pandas calls the index of a table if it has no name, with a number behind."""
REMEDY = "save it in several files, or as CSV, if you know where it is from"


def parquet_batches(
    source: str | os.PathLike[str] | bytes,
    name: str,
    *,
    batch_rows: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    is_held: bool = True,
) -> Iterator[Any]:
    """Record batches of a file; an error once they are larger than a file of its size may be.

    ``source``: path, or the bytes of the file. ``name``: what to call the file in messages.
    ``is_held``: whether all batches will be in memory at the same time.
    """
    from pyarrow import parquet

    limit = check_size(source, name, is_held=is_held)
    metadata = parquet.read_metadata(_opened(source))
    schema = metadata.schema.to_arrow_schema()
    # Dictionaries show how long repeated texts are before they are written out.
    delta = {c.path_in_schema for c in _chunks(metadata) if "DELTA_" in "".join(c.encodings)}
    texts = [f.name for f in schema if str(f.type) in TEXT_TYPES and f.name not in delta]
    batch_rows = min(batch_rows, _safe_rows(metadata, texts, limit))
    file = parquet.ParquetFile(_opened(source), metadata=metadata, read_dictionary=texts)
    groups = range(metadata.num_row_groups) if row_groups is None else row_groups
    total = 0
    for batch in file.iter_batches(batch_rows, row_groups=list(groups), columns=columns):
        total += _decoded_bytes(batch, texts)
        if total > limit:
            raise too_large(name, limit, REMEDY)
        batch = _decoded(batch, schema)
        batch.validate(full=True)  # text that is no UTF-8 would fail where it is used
        yield batch


def read_parquet(source: str | os.PathLike[str] | bytes, name: str) -> Any:
    """A file as a pyarrow table, with the metadata of its schema."""
    import pyarrow
    from pyarrow import parquet

    schema = parquet.read_schema(_opened(source))
    return pyarrow.Table.from_batches(parquet_batches(source, name), schema=schema)


def frame_of(arrow: Any) -> Any:
    """A DataFrame of a table or batch: every column, and whole numbers also where some are missing.

    Whole numbers beyond 2**53 would change as floats, which pandas makes of them by default.
    """
    import pandas as pd
    import pyarrow

    nullable = {
        pyarrow.type_for_alias(name.lower()): getattr(pd, f"{name}Dtype")()
        for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    }
    frame = arrow.to_pandas(ignore_metadata=True)
    for place, field in enumerate(arrow.schema):
        if field.type in nullable and arrow.column(place).null_count:
            column = arrow.column(place).to_pandas(types_mapper=nullable.get)
            frame[field.name] = column.set_axis(frame.index)
    return frame


def index_columns(schema: Any) -> list[str]:
    """Columns that pandas wrote as the index of its table; a range has none."""
    described = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in described if isinstance(name, str) and name in schema.names]


def unnamed_index(schema: Any) -> str | None:
    """The index without a name, which names the rows; None if there is none."""
    return next((n for n in index_columns(schema) if n.startswith(UNNAMED_INDEX)), None)


def index_notes(schema: Any, name: str) -> list[Note]:
    """What became of the index."""
    unnamed = unnamed_index(schema)
    taken = "taken for the names of the rows and not learned from"
    notes = []
    for column in index_columns(schema):
        became = taken if column == unnamed else "read as a column"
        notes.append(Note("index", f"the pandas index {column!r} of {name} is {became}", column))
    return notes


def check_size(source: str | os.PathLike[str] | bytes, name: str, *, is_held: bool = True) -> int:
    """Refuse a file whose metadata promise too much; bytes that its columns may have."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(_opened(source))
    stored = len(source) if isinstance(source, bytes) else Path(source).stat().st_size
    limit: float = FREE_COLUMN_BYTES + MAX_RATIO * stored
    if is_held:
        limit = min(limit, free_memory() / MEMORY_PER_COLUMN_BYTE)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    pages = sum(group.total_byte_size for group in groups)
    # A page of a few bytes can stand for any number of equal values.
    values = metadata.num_rows * sum(map(_width, metadata.schema.to_arrow_schema().types))
    if max(pages, values) > limit:
        raise too_large(name, int(limit), REMEDY)
    if stored <= CHECKED_BYTES:
        _read_first_row(source)
    if sum(chunk.total_uncompressed_size for chunk in _chunks(metadata)) > limit:
        raise too_large(name, int(limit), REMEDY)
    return int(limit)


def _read_first_row(source: str | os.PathLike[str] | bytes) -> None:
    """Let the reader of pyarrow meet columns that contradict the schema: it raises an error.

    Their metadata alone end the process (pyarrow 26).
    """
    from pyarrow import parquet

    next(parquet.ParquetFile(_opened(source), pre_buffer=True).iter_batches(1), None)


def _opened(source: str | os.PathLike[str] | bytes) -> str | os.PathLike[str] | BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else source


def _chunks(metadata: Any) -> Iterator[Any]:
    """Every column of every row group."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        yield from (group.column(i) for i in range(group.num_columns))


def _width(kind: Any) -> float:
    """Bytes of a value in a DataFrame, at least: of an object its address."""
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind):
        return float(kind.bit_width) / 8
    return 8.0


def _safe_rows(metadata: Any, texts: Sequence[str], limit: int) -> int:
    """Rows of a batch within the limit, though texts that are not in ``texts`` may repeat.

    Such a text is at most as long as the pages of its column.
    """
    lengths = [
        chunk.total_uncompressed_size
        for chunk in _chunks(metadata)
        if chunk.physical_type == "BYTE_ARRAY"
        and chunk.path_in_schema not in texts
        and "DELTA_LENGTH_BYTE_ARRAY" not in chunk.encodings
    ]
    return max(1, limit // max([1, *lengths]))


def _decoded_bytes(batch: Any, texts: Sequence[str]) -> int:
    """Bytes of a batch once its dictionaries are written out."""
    from pyarrow import compute

    total = int(batch.nbytes)
    for place, field in enumerate(batch.schema):
        if field.name in texts:
            column = batch.column(place)
            lengths = compute.binary_length(column.dictionary).cast("int64")
            total += compute.sum(lengths.take(column.indices)).as_py() or 0
    return total


def _decoded(batch: Any, schema: Any) -> Any:
    """The batch with the types of the file."""
    import pyarrow

    fields = [schema.field(field.name) for field in batch.schema]
    columns = [
        column.cast(field.type) if column.type != field.type else column
        for column, field in zip(batch.columns, fields, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=pyarrow.schema(fields))
