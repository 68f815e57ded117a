"""Targets: one registry, and the files that each of them writes."""

import json

import numpy as np
import pytest

from gemmed._core.exceptions import StoredRunError, UnknownTargetError
from gemmed.cli.main import build_parser
from gemmed.experiments.registry import SIMULATION, TARGETS, names_of, resolve_targets
from gemmed.experiments.reproduce import reproduce
from gemmed.experiments.ring.runs import ring_task
from gemmed.experiments.runner import Options
from gemmed.experiments.summary import summarise


def test_summary_is_paired():
    runs = [
        {"A": {"error": 3.0}, "B": {"error": 1.0}},
        {"A": {"error": 5.0}, "B": {"error": 3.0}},
    ]
    a, b = summarise({"R": 15}, runs, ["error"], "B")
    assert (a["mean"], a["minus_B"], a["standard_error_of_difference"]) == (4.0, 2.0, 0.0)
    assert a["standard_error"] == pytest.approx(np.std([3, 5], ddof=1) / np.sqrt(2))
    assert b["minus_B"] == 0.0


def test_targets_are_resolved_in_the_order_of_the_registry_and_share_runs():
    assert resolve_targets(["scores", "boundary"]) == ["boundary", "scores"]
    assert resolve_targets(["all"]) == names_of(SIMULATION)
    with pytest.raises(UnknownTargetError, match="unknown target 'nois'"):
        resolve_targets(["noise", "nois"])
    shared = {task.name for task in TARGETS["noise"].make(Options()).tasks(2)}
    assert ring_task("paper", 55, 0.2, 1).name in shared
    assert shared <= {task.name for task in TARGETS["auc"].make(Options()).tasks(2)}


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


def test_a_stored_run_that_lacks_a_method_is_reported(tmp_path):
    pytest.importorskip("matplotlib")
    reproduce(["noise"], tmp_path, n_runs=1, jobs=1, version="test")
    stored = next(tmp_path.rglob("seed-000.json"))
    content = json.loads(stored.read_text())
    del content["result"]["SVM"]
    stored.write_text(json.dumps(content))
    with pytest.raises(StoredRunError, match="delete the folder"):
        reproduce(["noise"], tmp_path, n_runs=1, jobs=1, version="test")


def test_every_target_can_be_made_and_is_in_the_help(tmp_path, capsys):
    (tmp_path / "fsdd").mkdir()
    with pytest.raises(SystemExit):
        build_parser().parse_args(["reproduce", "--help"])
    words = set(capsys.readouterr().out.replace(",", " ").replace(";", " ").split())
    for name, entry in TARGETS.items():
        target = entry.make(Options(tmp_path, "sklearn:iris", quick=True))
        assert target.description and target.parameters
        assert len(target.tasks(2)) == 2 * len(target.tasks(1))
        assert 1 <= entry.quick_runs < entry.default_runs
        assert name in words
