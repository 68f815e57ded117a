"""A classifier from a table of any size: the rows go through once and stay in blocks of numbers.

``scan_table`` reads the table once: labels and what else is known of the rows, and a random sample
of rows from which columns are planned and scaled. A second reading turns rows into numbers, here
(``local_blocks``) or on the workers of a Dask cluster (``cluster_blocks``), where they stay. Both
cut the same blocks, so that both fits are the same. A table of at most SAMPLE_ROWS rows gets the
columns that ``table_model`` would give it.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import TableError
from .._core.types import BoolArray
from ..rows.blocks import LocalBlocks
from ..rows.cells import Note
from ..rows.dask_blocks import (
    DaskBlocks,
    Partition,
    itself,
    partition_bounds,
    partition_homes,
    submit_partition,
)
from ..rows.sources import spool_rows
from ..rows.tables import CSVBatches, ParquetBatches, RowGroup, Table
from .column_plan import ColumnPlan, feature_frame
from .table_columns import Handling, Roles, table_pipeline
from .table_preparation import TablePreparation

SAMPLE_ROWS = 50_000
"""Rows from which columns are planned and scaled, at most."""


class Scan(NamedTuple):
    """What a first reading finds; arrays have one entry per row with a label."""

    labels: np.ndarray
    options: dict[str, np.ndarray]
    """Further arguments of fit."""
    used: BoolArray
    """Rows of the table that have a label, shape (n_rows_of_the_table,)."""
    batch_sizes: list[int]
    pipeline: Any
    """Steps "columns", fitted, and "classifier", not fitted."""
    plan: ColumnPlan
    notes: tuple[Note, ...]
    """What was read how."""
    n_unlabelled: int

    @property
    def block_sizes(self) -> list[int]:
        """Used rows of every batch."""
        bounds = np.cumsum([0, *self.batch_sizes])
        return [int(n) for n in np.add.reduceat(self.used, bounds[:-1], dtype=np.intp)]


def scan_table(
    batches: ParquetBatches | CSVBatches,
    roles: Roles,
    classifier: Any,
    handling: Handling,
    *,
    seed: int,
    **options: Any,
) -> Scan:
    """Read labels, plan and scale the columns; duplicates are kept whatever ``handling`` says.

    ``classifier`` is the unfitted end of the pipeline, ``seed`` that of the sample of rows, and
    ``options`` are those of TablePreparation.
    """
    import pandas as pd

    handling.check()
    roles.check(Table(batches.name, pd.DataFrame(columns=batches.columns)))
    known, sample, sizes = _first_pass(batches, roles, np.random.default_rng(seed))
    found = roles.what_is_known(known, handling)
    rows = found.rows
    used = np.zeros(len(known), dtype=bool)
    used[rows] = True
    assert sample.row_numbers is not None
    usable = np.flatnonzero(used[sample.row_numbers])
    plan = roles.plan(sample, usable, handling.spelling)
    frame = feature_frame(sample, plan).iloc[usable].reset_index(drop=True)
    pipeline = table_pipeline(classifier, frame, plan, **options)
    notes = (*batches.notes, *found.notes, *plan.notes)
    return Scan(found.labels, found.options, used, sizes, pipeline, plan, notes, found.n_unlabelled)


def local_blocks(
    batches: ParquetBatches | CSVBatches, scan: Scan, *, n_threads: int
) -> LocalBlocks:
    """The rows as numbers in a temporary file, in blocks."""
    matrices = (matrix for table in batches.batches() for matrix in _matrix(scan, table))
    sizes = [size for size in scan.block_sizes if size]
    return LocalBlocks(spool_rows(matrices), n_threads=n_threads, sizes=sizes)


def cluster_blocks(batches: ParquetBatches | CSVBatches, scan: Scan, client: Any) -> DaskBlocks:
    """The rows as numbers in the memory of the workers, in blocks.

    Workers read Parquet files themselves: paths must mean the same to all of them. Rows of a CSV
    file are read here and sent, and kept by the scheduler in case a worker dies.
    """
    homes = partition_homes(client)
    bounds = partition_bounds(scan.batch_sizes, len(homes))
    if isinstance(batches, CSVBatches):
        contents = _sent_partitions(batches, scan, bounds)
    else:
        contents = _read_partitions(batches, scan, bounds)
    sizes = scan.block_sizes
    partitions = []
    for (first, last), home, content in zip(bounds, itertools.cycle(homes), contents, strict=False):
        own = tuple(size for size in sizes[first:last] if size)
        future = submit_partition(client, home, *content)
        partitions.append(Partition(future, tuple(range(len(own))), own))
    return DaskBlocks(client, [partition for partition in partitions if partition.sizes])


def _first_pass(
    batches: ParquetBatches | CSVBatches, roles: Roles, rng: np.random.Generator
) -> tuple[Table, Table, list[int]]:
    """The special columns of all rows, all columns of a random sample, and the sizes of batches.

    The sample are the rows with the smallest of random keys, in their order.
    """
    import pandas as pd

    known, sizes = [], []
    frames, keys = [], []
    table = None
    for table in batches.batches():
        known.append(table.frame[roles.special])
        sizes.append(len(table))
        frames.append(table.frame.set_axis(table.row_numbers))
        keys.append(rng.random(len(table)))
        if sum(map(len, keys)) > 2 * SAMPLE_ROWS:
            frames, keys = _smallest(frames, keys)
    if table is None:
        raise TableError(f"{batches.name} has a header but no rows")
    drawn = _smallest(frames, keys)[0][0]
    numbers = drawn.index.to_numpy()
    rest: dict[str, Any] = {name: getattr(table, name) for name in ("form", "decimal", "index")}
    read = (table.decimal_comma, table.missing)
    special = pd.concat(known, ignore_index=True)
    return (
        Table(batches.name, special, *read, **rest),
        Table(batches.name, drawn.reset_index(drop=True), *read, numbers, **rest),
        sizes,
    )


def _smallest(frames: list[Any], keys: list[np.ndarray]) -> tuple[list[Any], list[np.ndarray]]:
    """One frame with the SAMPLE_ROWS rows of the smallest keys."""
    import pandas as pd

    frame, key = pd.concat(frames), np.concatenate(keys)
    if len(key) > SAMPLE_ROWS:
        chosen = np.sort(np.argpartition(key, SAMPLE_ROWS)[:SAMPLE_ROWS])
        frame, key = frame.iloc[chosen], key[chosen]
    return [frame], [key]


def _matrix(scan: Scan, table: Table) -> Iterator[np.ndarray]:
    """The used rows of a batch as numbers, if there are any."""
    assert table.row_numbers is not None
    used = scan.used[table.row_numbers]
    if used.any():
        yield _numbers(scan.pipeline[0], table, used)


def _numbers(columns: TablePreparation, table: Table, used: BoolArray) -> np.ndarray:
    """The used rows of a batch in single precision; ``used`` is of shape (n_rows,)."""
    frame = feature_frame(table, columns.plan_)[used]
    return np.ascontiguousarray(columns.transform_frame(frame), dtype=np.float32)


def _sent_partitions(
    batches: CSVBatches, scan: Scan, bounds: list[tuple[int, int]]
) -> Iterator[tuple[Any, ...]]:
    """The task of every partition: its blocks, made here."""
    tables = batches.batches()
    for first, last in bounds:
        part = itertools.islice(tables, last - first)
        yield itself, [matrix for table in part for matrix in _matrix(scan, table)]


def _read_partitions(
    batches: ParquetBatches, scan: Scan, bounds: list[tuple[int, int]]
) -> Iterator[tuple[Any, ...]]:
    """The task of every partition: which parts of which row groups to read."""
    starts = np.cumsum([0, *scan.batch_sizes])
    for first, last in bounds:
        start, stop = int(starts[first]), int(starts[last])
        groups = [
            group
            for group in batches.groups
            if group.first_row < stop and group.first_row + group.n_rows > start
        ]
        yield _read_rows, groups, start, scan.used[start:stop], scan.pipeline[0]


# Tasks.


def _read_rows(
    groups: list[RowGroup], start: int, used: BoolArray, columns: TablePreparation
) -> list[np.ndarray]:
    """Blocks of the batches from row ``start`` on; ``used`` has an entry for each of their rows."""
    blocks = []
    for group in groups:
        for table in group.batches([*columns.numeric_, *columns.categories_]):
            assert table.row_numbers is not None
            position = int(table.row_numbers[0]) - start
            if position >= len(used):
                break
            own = used[position : position + len(table)] if position >= 0 else used[:0]
            if own.any():
                blocks.append(_numbers(columns, table, own))
    return blocks
