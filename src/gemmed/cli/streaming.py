"""A fit of tables that do not fit into memory, here or on a Dask cluster."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .clusters import add_cluster_options, check_cluster_options, cluster
from .progress import FitProgress
from .reading_options import reading_of
from .terminal import busy, warnings_as_notes
from .training import (
    Learned,
    classifier_of,
    handling_of,
    report_left_out,
    report_notes,
    roles_of,
)

if TYPE_CHECKING:
    from ..estimators.table_blocks import Scan
    from ..rows.tables import CSVBatches, ParquetBatches

    Batches = CSVBatches | ParquetBatches

STREAM_FROM = 500_000_000
"""Bytes of a file from which on it is not read into memory as a whole."""


def add_streaming_options(parser: Any, *, cluster: bool = True) -> None:
    """Options for tables of any size."""
    group = parser.add_argument_group("large tables")
    text = "never hold the table in memory: read it twice and keep the numbers in a temporary file"
    if not cluster:
        group.add_argument("--stream", action="store_true", help=text)
        parser.set_defaults(scheduler=None)
        return
    unasked = f" (done anyway from {STREAM_FROM // 10**6} MB on, and for a folder)"
    group.add_argument("--stream", action="store_true", help=text + unasked)
    add_cluster_options(group)


def is_streamed(options: argparse.Namespace) -> bool:
    """Whether a table goes through in blocks; checks the options about it."""
    check_cluster_options(options)
    path = Path(options.table)
    large = options.table != "-" and (
        path.is_dir() or (path.is_file() and path.stat().st_size >= STREAM_FROM)
    )
    return bool(options.stream) or options.scheduler is not None or large


def train_in_blocks(
    options: argparse.Namespace, *, not_features: tuple[str, ...] = ()
) -> tuple[Learned, Scan, Batches]:
    """Read the table batch by batch and fit; what was left out is said on standard error.

    Returns
    -------
    what was learned, what the first reading found, and the table, to be read once more
    """
    from .._core.threads import block_threads
    from ..estimators.table_blocks import cluster_blocks, local_blocks, scan_table
    from ..rows.tables import open_batches

    classifier, roles = classifier_of(options), roles_of(options, not_features=not_features)
    if options.sheet is not None:
        raise ValueError("--sheet: Excel files are not streamed, leave --stream out")
    batches = open_batches(options.table, **reading_of(options))
    with ExitStack() as stack:
        client = None
        if options.scheduler is not None:
            client = stack.enter_context(cluster(options))
        with busy("reading"):
            scan = scan_table(
                batches,
                roles,
                classifier,
                scaling=options.scaling,
                seed=options.seed,
                handling=handling_of(options),
            )
        n_unlabelled = scan.n_unlabelled
        report_notes(scan.notes)
        report_left_out(scan.plan, n_unlabelled)
        with busy("preparing"):
            blocks: Any
            if client is None:
                blocks = local_blocks(batches, scan, n_threads=block_threads(None))
            else:
                blocks = cluster_blocks(batches, scan, client)
        with warnings_as_notes(), FitProgress():
            classifier.fit_blocks(blocks, scan.labels, **scan.options)
    learned = Learned(
        scan.pipeline, scan.plan, scan.labels, n_unlabelled, scan.sample, scan.sample_labels
    )
    return learned, scan, batches
