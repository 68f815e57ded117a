"""Clusters of Dask: one made for a command, or a scheduler that is there already.

Whoever may talk to a scheduler or worker can run code in it. A cluster made here therefore speaks
TLS with certificates of its own, which never leave these processes, and has no pages.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._core.exceptions import WorkerDiedError, reason
from .._core.interrupts import without_interrupts
from .._core.optional import require
from .terminal import note

ANSWER_WITHIN = 10
"""Seconds a scheduler may take to answer."""
LOCAL = "local"
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Dask opens a port for HTTP in every process; no page is behind it."""
TLS_FILES = ("tls_ca", "tls_cert", "tls_key")


def add_cluster_options(group: Any) -> None:
    """Options of commands that can use a cluster."""
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="fit on a Dask cluster: tls://HOST:PORT or tcp://HOST:PORT of its scheduler, or local "
        "for worker processes on this computer (needs gemmed[dask])",
    )
    group.add_argument(
        "--workers", type=int, metavar="N", help="worker processes of local (default: one a core)"
    )
    for name, what in zip(
        TLS_FILES, ("certificate authority", "certificate", "key of the certificate"), strict=True
    ):
        group.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="FILE",
            help=f"{what} for tls:// (default: as Dask is configured)",
        )


def check_cluster_options(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if options.workers is not None:
        if options.scheduler != LOCAL:
            raise ValueError(f"--workers {options.workers} goes with --scheduler local only")
        if options.workers < 1:
            raise ValueError(f"--workers {options.workers} must be at least 1")
    given = [name for name in TLS_FILES if getattr(options, name) is not None]
    if not given:
        return
    if not str(options.scheduler).startswith("tls://"):
        option = f"--{given[0].replace('_', '-')}"
        raise ValueError(f"{option} goes with --scheduler tls://HOST:PORT only")
    if len(given) < len(TLS_FILES):
        raise ValueError("tls:// needs all of --tls-ca, --tls-cert and --tls-key, or none of them")
    for name in given:
        if not Path(getattr(options, name)).is_file():
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} {getattr(options, name)!r} is not a file")


@contextmanager
def cluster(options: argparse.Namespace) -> Iterator[Any]:
    """A client of the cluster that the options name, or of one made for this."""
    require("distributed", "--scheduler needs", "dask")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    address = options.scheduler
    opened = _local(options.workers) if address == LOCAL else _remote(address, options)
    with opened as client:
        yield client


@contextmanager
def _local(n_workers: int | None) -> Iterator[Any]:
    require("cryptography", "--scheduler local needs", "dask")
    dask, distributed = (importlib.import_module(name) for name in ("dask", "distributed"))
    with dask.config.set(QUIET), warnings.catch_warnings(), without_interrupts():
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
def _remote(address: str, options: argparse.Namespace) -> Iterator[Any]:
    import asyncio  # takes a third of the time in which the command line starts

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
        client = distributed.Client(address, timeout=ANSWER_WITHIN, security=security)
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
    import asyncio

    core = importlib.import_module("distributed.core")
    arguments = security.get_connection_args("client")
    async with asyncio.timeout(ANSWER_WITHIN), core.rpc(address, connection_args=arguments) as peer:
        found = await peer.identity()
    if found["type"] != "Scheduler":
        raise ValueError(f"it is a {found['type']}")
