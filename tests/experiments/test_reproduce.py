"""Targets: one registry, and the files that each of them writes."""

import json
import shutil

import numpy as np
import pytest

from gemmed._core.exceptions import StoredRunError, UnknownTargetError
from gemmed.cli.main import build_parser
from gemmed.experiments.registry import SIMULATION, TARGETS, names_of, resolve_targets
from gemmed.experiments.reproduce import reproduce
from gemmed.experiments.ring import grid
from gemmed.experiments.ring.grid import ring_task
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
    shared = {task.name for task in TARGETS["noise"].make().tasks(2)}
    assert ring_task("paper", 55, 0.2, 1).name in shared
    assert shared <= {task.name for task in TARGETS["auc"].make().tasks(2)}


NAMES = ["noise", "precision-recall", "boundary"]


@pytest.fixture
def fewer_radii(monkeypatch):
    monkeypatch.setattr(grid, "RADII", (15, 55))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three targets, made by one process."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "RADII", (15, 55))
        reproduce(NAMES, folder, n_runs=1, jobs=1, version="test")
    return folder


def test_files_do_not_depend_on_the_number_of_jobs(made, fewer_radii, tmp_path):
    reproduce(NAMES, tmp_path, n_runs=1, jobs=2, version="test")
    for name in NAMES:
        for ending in ("csv", "json", "png"):
            first, second = (folder / f"{name}.{ending}" for folder in (made, tmp_path))
            assert first.read_bytes() == second.read_bytes(), first.name
    manifest = json.loads((made / "noise.manifest.json").read_text())
    assert manifest["runs"] == 1 and manifest["seeds"] == [0] and manifest["gemmed"] == "test"
    assert manifest["parameters"]["radii"] == [15, 55]
    assert "GEM-MED" in manifest["parameters"]["methods"]
    rows = json.loads((made / "noise.json").read_text())["rows"]
    assert {row["R"] for row in rows} == {15, 55}


def test_a_stored_run_that_lacks_a_method_is_reported(made, fewer_radii, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    stored = next(tmp_path.rglob("seed-000.json"))
    content = json.loads(stored.read_text())
    del content["result"]["SVM"]
    stored.write_text(json.dumps(content))
    with pytest.raises(StoredRunError, match="delete the folder"):
        reproduce(["noise"], tmp_path, n_runs=1, jobs=1, version="test")


def test_every_target_can_be_made_and_is_in_the_help(capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["reproduce", "--help"])
    words = set(capsys.readouterr().out.replace(",", " ").replace(";", " ").split())
    for name, entry in TARGETS.items():
        target = entry.make(quick=True)
        assert target.description and target.parameters
        assert len(target.tasks(2)) == 2 * len(target.tasks(1))
        assert 1 <= entry.quick_runs < entry.default_runs
        assert name in words
