"""Runs: kept, resumed, interrupted, and what happens when one of them fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401  SciPy has a BLAS of its own
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_info, threadpool_limits

from gemmed._core.exceptions import WorkerDiedError
from gemmed.cli import main
from gemmed.experiments.runner import RunStore, Task, run_tasks

CALLS = []


def record(value):
    CALLS.append(value)
    return {"method": {"square": value**2}}


def explode():
    raise RuntimeError("boom")


def test_finished_runs_are_not_run_again(tmp_path):
    store = RunStore(tmp_path, "1")
    tasks = [Task(f"cell/run-{i}", record, {"value": i}) for i in (1, 2)]
    CALLS.clear()
    first = run_tasks(tasks, store, jobs=1)
    again = run_tasks([*tasks, Task("cell/run-3", record, {"value": 3})], store, jobs=1)
    assert CALLS == [1, 2, 3]
    assert first["cell/run-2"] == again["cell/run-2"] == {"method": {"square": 4}}


def test_results_of_other_arguments_or_versions_are_not_reused(tmp_path):
    CALLS.clear()
    run_tasks([Task("run", record, {"value": 1})], RunStore(tmp_path, "1"), jobs=1)
    run_tasks([Task("run", record, {"value": 2})], RunStore(tmp_path, "1"), jobs=1)
    run_tasks([Task("run", record, {"value": 2})], RunStore(tmp_path, "2"), jobs=1)
    (tmp_path / "run.json").write_text('{"half a fi')
    run_tasks([Task("run", record, {"value": 2})], RunStore(tmp_path, "2"), jobs=1)
    assert CALLS == [1, 2, 2, 2]


def test_an_error_in_a_run_is_raised_and_earlier_runs_are_kept(tmp_path):
    store = RunStore(tmp_path, "1")
    tasks = [Task("good", record, {"value": 5}), Task("bad", explode, {})]
    with pytest.raises(RuntimeError, match="boom"):
        run_tasks(tasks, store, jobs=1)
    assert store.load(tasks[0]) == {"method": {"square": 25}}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_reported(tmp_path):
    with pytest.raises(WorkerDiedError, match="fewer --jobs"):
        run_tasks([Task("doomed", die, {})], RunStore(tmp_path, "1"), jobs=2)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_interrupt_keeps_finished_runs_and_the_next_call_resumes(tmp_path, number):
    pytest.importorskip("matplotlib")
    command = ["reproduce", "precision-recall", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "gemmed", *command, "--runs", "20", "--jobs", "2"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("seed-*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)  # returns only when no worker holds the pipe
    assert process.returncode == 130
    # Joblib's tracker of resources may find that those of a worker are gone.
    lines = [line for line in errors.strip().splitlines() if "resource_tracker" not in line]
    assert lines[-1].startswith("gemmed: interrupted; what was finished is")
    assert "Traceback" not in errors
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("seed-*.json")}
    assert 1 <= len(kept) < 80
    assert main([*command, "--runs", "1", "--jobs", "1"]) == 0
    assert all(path.stat().st_mtime_ns == made for path, made in kept.items())
    assert (tmp_path / "precision-recall.png").exists()


def linger(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)
    return {}


START = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_runner
from gemmed.experiments.runner import RunStore, Task, run_tasks
tasks = [Task(str(i), test_runner.linger, {"folder": sys.argv[2]}) for i in range(2)]
run_tasks(tasks, RunStore(Path(sys.argv[2], "runs"), "1"), jobs=2)
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(Path(__file__).parent), str(tmp_path)],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(list(tmp_path.iterdir())) == 2
    process.kill()
    process.communicate(timeout=20)  # returns only when no worker holds the pipe


def state_of_process():
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return {
        "threads": [library["num_threads"] for library in threadpool_info()],
        "ignored": [signal.getsignal(number) == signal.SIG_IGN for number in ends],
    }


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_have_one_blas_thread_and_workers_leave_signals_to_the_parent(
    tmp_path, monkeypatch, jobs
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    task = Task("state", state_of_process, {})
    before = signal.getsignal(signal.SIGTERM)
    with parallel_config("loky", inner_max_num_threads=1):  # workers that joblib may use again
        Parallel(2)(delayed(abs)(number) for number in range(2))
    with threadpool_limits(2):
        found = run_tasks([task], RunStore(tmp_path, "1"), jobs=jobs)["state"]
    assert found["threads"] and set(found["threads"]) == {1}
    # A worker that dies of a signal to all processes leaves semaphores behind.
    assert found["ignored"] == [jobs == 2] * 3
    assert signal.getsignal(signal.SIGTERM) == before
