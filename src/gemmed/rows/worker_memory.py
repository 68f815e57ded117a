"""Memory of a worker process that is used again.

Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536. That fixes both limits of the allocator of
glibc, which otherwise grow with what a process frees. Every array from 128 kB on is then new memory
that the system clears page by page, and takes back when it is freed. A pass over features
makes many such arrays, and took twice as long as in a process that was started otherwise.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

TRIM_THRESHOLD_OF_DASK = "65536"
"""What ``MALLOC_TRIM_THRESHOLD_`` is unless somebody chose another value."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of the limits in glibc's ``malloc.h``."""
MAX_REUSED_BYTES = 32 * 1024 * 1024
"""Bytes of an array that is taken from memory in hand; where the limits grow, they end here too."""


@cache
def reuse_memory() -> bool:
    """Let this process keep up to 2 MAX_REUSED_BYTES of free memory; whether it now does.

    Only where Dask's own setting holds: who chose another one meant it.
    """
    if (
        sys.platform != "linux"
        or os.environ.get("MALLOC_TRIM_THRESHOLD_") != TRIM_THRESHOLD_OF_DASK
    ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another allocator than that of glibc
        return False
    return bool(
        mallopt(MMAP_THRESHOLD, MAX_REUSED_BYTES) and mallopt(TRIM_THRESHOLD, 2 * MAX_REUSED_BYTES)
    )
