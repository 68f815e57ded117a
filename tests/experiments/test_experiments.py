"""Runs, summaries and files of the experiments."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gemmed._core.exceptions import (
    OutputError,
    StoredRunError,
    UnknownTargetError,
    WorkerDiedError,
)
from gemmed.experiments.files import prepare_folder, write_csv, write_json
from gemmed.experiments.reproduce import reproduce, resolve_targets
from gemmed.experiments.ring import METHODS, evaluate_run, ring_task
from gemmed.experiments.runner import RunStore, Task, run_tasks
from gemmed.experiments.summary import summarise
from gemmed.experiments.targets import TARGETS

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


def test_summary_is_paired():
    runs = [
        {"A": {"error": 3.0}, "B": {"error": 1.0}},
        {"A": {"error": 5.0}, "B": {"error": 3.0}},
    ]
    a, b = summarise({"R": 15}, runs, ["error"], "B")
    assert (a["mean"], a["minus_B"], a["standard_error_of_difference"]) == (4.0, 2.0, 0.0)
    assert a["standard_error"] == pytest.approx(np.std([3, 5], ddof=1) / np.sqrt(2))
    assert b["minus_B"] == 0.0


def test_one_run_holds_every_method():
    result = evaluate_run("separated", 55, 0.2, 0)
    assert set(result) == {*METHODS, "oracle"}
    assert result["oracle"]["excess_error"] == 0.0
    assert result["GEM-MED"]["auc"] > 0.99 > result["ROD-0.02"]["auc"]
    assert len(result["GEM-MED"]["precision_at_recall"]) == 101
    assert max(m.get("relative_gap", 0.0) for m in result.values()) <= 0.01


def test_targets():
    assert resolve_targets(["scores", "boundary"]) == ["boundary", "scores"]
    assert resolve_targets(["all"]) == list(TARGETS)
    with pytest.raises(UnknownTargetError, match="unknown target 'nois'"):
        resolve_targets(["noise", "nois"])
    shared = {task.name for task in TARGETS["noise"].tasks(2)}
    assert ring_task("paper", 55, 0.2, 1).name in shared
    assert shared <= {task.name for task in TARGETS["auc"].tasks(2)}


def test_files_do_not_depend_on_the_number_of_jobs(tmp_path):
    pytest.importorskip("matplotlib")
    names = ["noise", "precision-recall", "boundary"]
    for jobs in (1, 2):
        reproduce(names, tmp_path / str(jobs), n_runs=1, jobs=jobs, version="test")
    for name in names:
        for ending in ("csv", "json", "png"):
            first, second = (tmp_path / str(jobs) / f"{name}.{ending}" for jobs in (1, 2))
            assert first.read_bytes() == second.read_bytes(), first.name
    manifest = json.loads((tmp_path / "1" / "noise.manifest.json").read_text())
    assert manifest["runs"] == 1 and manifest["seeds"] == [0] and manifest["gemmed"] == "test"
    assert manifest["parameters"]["radii"] == [15, 35, 55, 75]
    assert "GEM-MED" in manifest["parameters"]["methods"]
    rows = json.loads((tmp_path / "1" / "noise.json").read_text())["rows"]
    assert {row["R"] for row in rows} == {15, 35, 55, 75}


def test_writing_leaves_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "table.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    write_csv(tmp_path / "table.csv", [{"a": 1, "b": "x"}])
    assert (tmp_path / "table.csv").read_text() == "a,b\n1,x\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["table.csv", "table.json"]


def test_links_are_followed_and_devices_are_left_alone(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_csv(link, [{"a": 1}])
    assert link.is_symlink()
    assert target.read_text() == "a\n1\n"
    assert target.stat().st_mode & 0o777 == 0o600
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="not a regular file"):
        write_csv(pipe, [{"a": 1}])
    assert pipe.is_fifo()


def test_a_stored_run_that_lacks_a_method_is_reported(tmp_path):
    pytest.importorskip("matplotlib")
    reproduce(["noise"], tmp_path, n_runs=1, jobs=1, version="test")
    stored = next(tmp_path.rglob("seed-000.json"))
    content = json.loads(stored.read_text())
    del content["result"]["SVM"]
    stored.write_text(json.dumps(content))
    with pytest.raises(StoredRunError, match="delete the folder"):
        reproduce(["noise"], tmp_path, n_runs=1, jobs=1, version="test")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_reported(tmp_path):
    with pytest.raises(WorkerDiedError, match="fewer --jobs"):
        run_tasks([Task("doomed", die, {})], RunStore(tmp_path, "1"), jobs=2)


def test_a_file_in_the_way_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="--out"):
        prepare_folder(tmp_path / "file" / "folder")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_finished_runs_and_the_next_call_resumes(tmp_path, number):
    command = [sys.executable, "-m", "gemmed", "reproduce", "noise", "--runs", "4", "--jobs", "2"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("seed-*.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)  # returns only when no worker holds the pipe
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1].startswith("gemmed: interrupted")
    assert "Traceback" not in errors
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("seed-*.json")}
    assert kept
    subprocess.run(
        [*command[:-4], "--runs", "1", "--jobs", "2", "--out", str(tmp_path)], check=True
    )
    assert all(path.stat().st_mtime_ns == made for path, made in kept.items())
    assert (tmp_path / "noise.png").exists()
