"""Run a piece of code in a process of its own, with limits on memory and time."""

import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GIGABYTE = 10**9


def limits(memory=None, seconds=None, file_size=None):
    """What the child does before it begins."""

    def apply():
        for kind, value in (
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_FSIZE, file_size),
        ):
            if value is not None:
                resource.setrlimit(kind, (int(value), int(value)))

    return apply


def environment():
    """Of a child: the sources under test, one thread (each has a stack that counts)."""
    folders = [str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folders),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }


def run(command, *, memory=None, seconds=None, file_size=None, timeout=600, **options):
    """A finished command; ``memory`` and ``file_size`` in bytes, ``seconds`` of processor time."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        errors="replace",
        env=environment(),
        preexec_fn=limits(memory, seconds, file_size),
        timeout=timeout,
        check=False,
        **options,
    )


def python(code, *arguments, **options):
    return run([sys.executable, "-c", code, *arguments], **options)


def gemmed(*arguments, **options):
    """The command line."""
    return run([sys.executable, "-m", "gemmed", *arguments], **options)
