"""Tables that do not fit into memory: fitted in blocks, here or on a Dask cluster, and audited.

Whoever may talk to a scheduler or worker of Dask can run code in it. A cluster made here therefore
speaks TLS with certificates of its own, which never leave these processes, and has no pages.
"""

import argparse
import asyncio
import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._core.exceptions import WorkerDiedError, reason
from .._core.interrupts import without_interrupts
from .._core.optional import require
from .._core.threads import block_threads
from ..estimators.column_plan import feature_frame
from ..estimators.table_blocks import Scan, cluster_blocks, local_blocks, scan_table
from ..estimators.whole_fit import only_samples
from ..report.audited import Audited, reading_facts
from ..report.findings import Findings
from ..rows.tables import CSVBatches, ParquetBatches, open_batches
from .options import (
    STREAM_FROM_BYTES,
    TLS_FILES,
    option_name,
    reading_of,
    refuse,
    review_arguments,
)
from .terminal import busy, fit_progress, note, warnings_as_notes
from .training import (
    Training,
    classifier_of,
    handling_of,
    names_of_rows,
    preparation_of,
    report_left_out,
    report_notes,
    roles_of,
)

Batches = CSVBatches | ParquetBatches
MAX_LISTED = 100_000
"""Rows of an audit that get reasons, the most suspicious ones."""
SAMPLE_ROWS = 20_000
"""Random rows of an audit that are kept."""
IN_MEMORY_OPTIONS = (
    "unlabelled", "embeddings", "pred_probs", "strata", "annotators", "answers", "sensor", "prefix",
    "order", "spans",
)  # fmt: skip
"""Options that need the table in memory."""
IN_MEMORY_CHOICES = {"duplicates": "once", "recordings": "yes", "sensors": "together"}
"""Values of options that do."""
IN_BLOCKS = (
    "needs the whole table, which is read in blocks (--stream, a folder, or 500 MB and more)"
)
ANSWER_SECONDS = 10
"""Seconds a scheduler may take to answer."""
LOCAL = "local"
DASK_SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Dask opens a port for HTTP in every process; no page is behind it."""


def is_streamed(options: argparse.Namespace) -> bool:
    """Whether a table goes through in blocks; checks the options about it."""
    _check_cluster_options(options)
    path = Path(options.table)
    large = options.table != "-" and (
        path.is_dir() or (path.is_file() and path.stat().st_size >= STREAM_FROM_BYTES)
    )
    return bool(options.stream) or options.scheduler is not None or large


def train_in_blocks(
    options: argparse.Namespace, *, not_features: tuple[str, ...] = ()
) -> tuple[Training, Scan, Batches]:
    """Read the table batch by batch and fit; what was left out is said on standard error.

    Returns
    -------
    what was learned, what the first reading found, and the table, to be read once more
    """
    refuse(options, IN_MEMORY_OPTIONS, IN_BLOCKS)
    for name, choice in IN_MEMORY_CHOICES.items():
        if getattr(options, name) == choice:
            raise ValueError(f"--{name} {choice} {IN_BLOCKS}")
    classifier, roles = classifier_of(options), roles_of(options, not_features=not_features)
    if options.sheet is not None:
        raise ValueError("--sheet: Excel files are not streamed, leave --stream out")
    batches = open_batches(options.table, **reading_of(options))
    with cluster(options) if options.scheduler is not None else nullcontext() as client:
        with busy("reading"):
            handling, how = handling_of(options), preparation_of(options)
            scan = scan_table(batches, roles, classifier, handling, seed=options.seed, **how)
        report_notes(scan.notes)
        report_left_out(scan.plan, scan.n_unlabelled)
        with busy("preparing"):
            blocks: Any = (
                local_blocks(batches, scan, n_threads=block_threads(None))
                if client is None
                else cluster_blocks(batches, scan, client)
            )
        with warnings_as_notes(), fit_progress():
            classifier.fit_blocks(blocks, scan.labels, **scan.options)
    return Training(scan.pipeline, scan.plan, scan.labels, scan.n_unlabelled), scan, batches


def streamed_audit(options: argparse.Namespace) -> tuple[Training, Findings]:
    """Fit in blocks, judge all rows, and read once more those that are shown.

    Cells are kept of the rows that are listed, and of a random sample that stands for the others
    where rows are compared.
    """
    refuse(options, ("known",), IN_BLOCKS)
    training, scan, batches = train_in_blocks(options, not_features=tuple(options.id))
    model, n = training.classifier, len(scan.labels)
    class_index = np.searchsorted(model.classes_, scan.labels)
    judged = only_samples(model, slice(None), np.empty((n, 0)), class_index)
    whole = Findings(_of_all(options, scan, judged))
    kept, sampled = _kept_rows(options, whole)
    with busy("reading"):
        frame, named = _read(options, batches, scan, np.flatnonzero(scan.used)[kept])
    X = np.asarray(training.pipeline[0].transform_frame(frame), dtype=float)
    of_all = whole.audited
    said = (
        f"all rows are judged; columns, slices and copies are those of {len(kept)} rows, which are "
        f"the listed ones and {len(sampled)} random ones"
    )
    audited = replace(
        of_all,
        table_rows=of_all.table_rows[kept],
        labels=of_all.labels[kept],
        frame=frame,
        categories=list(scan.plan.categories),
        X=X,
        classifier=only_samples(model, kept, X, class_index[kept]),
        fitted=np.arange(len(kept)),
        identifiers=named,
        cells=frame,
        sampled=sampled,
        facts=[*of_all.facts, ("read in blocks", said)],
    )
    findings = Findings(audited, whole)
    findings.worth_a_look = np.searchsorted(kept, whole.worth_a_look)
    return training, findings


def _of_all(options: argparse.Namespace, scan: Scan, model: Any) -> Audited:
    """All rows without their cells."""
    import pandas as pd

    n = len(scan.labels)
    return Audited(
        name=str(options.table),
        target=options.target,
        table_rows=np.flatnonzero(scan.used),
        labels=scan.labels.astype(str),
        frame=pd.DataFrame(index=range(n)),
        categories=[],
        X=np.empty((n, 0)),
        classifier=model,
        fitted=np.arange(n),
        facts=reading_facts(scan.notes, scan.plan, scan.n_unlabelled),
        arguments=review_arguments(options),
    )


def _kept_rows(options: argparse.Namespace, whole: Findings) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose cells are kept, in their order, and the places of the random ones among them."""
    listed = whole.flagged(options.threshold, options.each)
    if len(listed) > MAX_LISTED:
        note(
            f"{len(listed)} rows are suspicious: the first {MAX_LISTED} are listed; a higher "
            "--threshold lists fewer"
        )
        listed = listed[:MAX_LISTED]
    n = len(whole.fitted)
    rng = np.random.default_rng(options.seed)
    sample = np.sort(rng.choice(n, min(n, SAMPLE_ROWS), replace=False))
    kept = np.unique(np.concatenate([listed, whole.worth_a_look, sample]))
    return kept, np.searchsorted(kept, sample)


def _read(
    options: argparse.Namespace, batches: Batches, scan: Scan, wanted: np.ndarray
) -> tuple[Any, dict[str, np.ndarray]]:
    """Columns that were learned from, and what names the rows, of some rows of the table."""
    import pandas as pd

    frames: list[Any] = []
    cells: dict[str, list[np.ndarray]] = {}
    for table in batches.batches():
        assert table.row_numbers is not None
        chosen = np.isin(table.row_numbers, wanted, assume_unique=True)
        if not chosen.any():
            continue
        part = replace(
            table,
            frame=table.frame[chosen].reset_index(drop=True),
            row_numbers=table.row_numbers[chosen],
            _converted={},
        )
        frames.append(feature_frame(part, scan.plan))
        index = () if part.index is None else (part.index,)
        for name in dict.fromkeys((*index, *names_of_rows(options))):
            cells.setdefault(name, []).append(part.text(name)[0])
    named = {name: np.concatenate(parts) for name, parts in cells.items()}
    return pd.concat(frames, ignore_index=True), named


def _check_cluster_options(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if options.workers is not None and options.scheduler != LOCAL:
        raise ValueError(f"--workers {options.workers} goes with --scheduler local only")
    given = [name for name in TLS_FILES if getattr(options, name) is not None]
    if not given:
        return
    if not str(options.scheduler).startswith("tls://"):
        raise ValueError(f"{option_name(given[0])} goes with --scheduler tls://HOST:PORT only")
    if len(given) < len(TLS_FILES):
        raise ValueError("tls:// needs all of --tls-ca, --tls-cert and --tls-key, or none of them")
    for name in given:
        if not Path(getattr(options, name)).is_file():
            raise ValueError(f"{option_name(name)} {getattr(options, name)!r} is not a file")


def cluster(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """A client of the cluster that the options name, or of one made for this."""
    require("distributed", "--scheduler needs", "dask")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return _local(options.workers) if options.scheduler == LOCAL else _remote(options)


@contextmanager
def _local(n_workers: int | None) -> Iterator[Any]:
    require("cryptography", "--scheduler local needs", "dask")
    dask, distributed = (importlib.import_module(name) for name in ("dask", "distributed"))
    with dask.config.set(DASK_SETTINGS), warnings.catch_warnings(), without_interrupts():
        warnings.simplefilter("ignore")  # of ports
        try:
            made = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                security=distributed.Security.temporary(),
                silence_logs=logging.CRITICAL,
            )
        except (RuntimeError, TimeoutError) as error:
            raise WorkerDiedError(
                f"a worker process of --scheduler local ended while it started ({error}): run the "
                "command again, with fewer --workers if memory is short"
            ) from error
    with made, distributed.Client(made) as client:
        yield client


@contextmanager
def _remote(options: argparse.Namespace) -> Iterator[Any]:
    address = options.scheduler
    distributed = importlib.import_module("distributed")
    security = distributed.Security()
    if options.tls_ca is not None:
        security = distributed.Security(
            tls_ca_file=options.tls_ca,
            tls_client_cert=options.tls_cert,
            tls_client_key=options.tls_key,
            require_encryption=True,
        )
    try:
        asyncio.run(_check_scheduler(address, security))
        client = distributed.Client(address, timeout=ANSWER_SECONDS, security=security)
    except Exception as error:  # Dask takes the words of another server for lengths and numbers
        raise ValueError(
            f"--scheduler {address!r}: no Dask scheduler answers there ({reason(error)}); give "
            "tls://HOST:PORT or tcp://HOST:PORT, or local"
        ) from error
    with client:
        n_found = len(client.nthreads())
        note(f"{n_found} workers at {address}")
        yield client


async def _check_scheduler(address: str, security: Any) -> None:
    """Ask who is there: a client would wait without end for a server that says nothing."""
    core = importlib.import_module("distributed.core")
    arguments = security.get_connection_args("client")
    async with (
        asyncio.timeout(ANSWER_SECONDS),
        core.rpc(address, connection_args=arguments) as peer,
    ):
        found = await peer.identity()
    if found["type"] != "Scheduler":
        raise ValueError(f"it is a {found['type']}")
