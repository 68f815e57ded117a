"""Run a piece of code in a process of its own, with limits on memory and time."""

import importlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
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


IMPORTED = [
    "gemmed.cli", "gemmed.acoustics", "gemmed.estimators.annotators", "gemmed.estimators.gemmed",
    "gemmed.experiments", "gemmed.report.html_report", "jinja2", "joblib", "matplotlib", "pandas",
    "pyarrow.csv", "pyarrow.parquet", "rich", "scipy.optimize", "scipy.stats", "skops.io",
    "sklearn.ensemble", "soundfile", "soxr",
]  # fmt: skip
"""What commands import, for children that are forked."""


def import_everything():
    """So that forked children need not."""
    for name in IMPORTED:
        importlib.import_module(name)


def forked_gemmed(
    *arguments, blow=None, more_memory=None, seconds=None, file_size=None, timeout=600
):
    """The command line in a fork of this process, which has imported everything: a second less.

    Parameters
    ----------
    blow : seconds after which a signal is sent, and its number; None for no signal
    more_memory : bytes of address space beyond what this process has
    timeout : seconds after which the child is killed; its exit code is then -9

    Returns
    -------
    subprocess.CompletedProcess
    """
    import_everything()
    memory = None
    if more_memory is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        memory = pages * resource.getpagesize() + more_memory
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _run_child([str(part) for part in arguments], said, limits(memory, seconds, file_size))
        end = time.perf_counter() + timeout
        strike = time.perf_counter() + blow[0] if blow else end
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.perf_counter() > min(strike, end):
                os.kill(child, blow[1] if strike <= end and blow else signal.SIGKILL)
                blow, strike = None, end
            time.sleep(0.002)
        said.seek(0)
        text = said.read().decode(errors="replace")
    return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), "", text)


def _run_child(arguments, said, apply_limits):
    """Run the command and end this process."""
    code = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(said.fileno(), 2)
        apply_limits()
        from gemmed.cli import main

        code = main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
