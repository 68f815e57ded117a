"""The footstep experiment: splits by subject, tables with the paper's numbers, files."""

import json

import numpy as np
import pytest
from sklearn.svm import SVC

from gemmed.acoustics import read_manifest
from gemmed.cli.main import main
from gemmed.experiments.footsteps import runs as footsteps
from gemmed.experiments.footsteps.methods import (
    DETECTING,
    METHODS,
    ORACLE,
    choose_gamma,
    gamma_unit,
)
from gemmed.experiments.footsteps.runs import SENSORS, Size, simulated_segments, split_data
from gemmed.experiments.footsteps.tables import TABLES, markdown, table_rows, verdict
from gemmed.experiments.footsteps.target import footsteps_target
from gemmed.experiments.target import Options

SMALL = Size(n_human=7, n_animal=7, n_train=5)


@pytest.fixture(scope="module")
def segments():
    return simulated_segments(0, SMALL.n_human, SMALL.n_animal)


@pytest.fixture(scope="module")
def result():
    # ROD on few samples need not converge, and is not what is tested here.
    return footsteps.evaluate_split("4", 0, 0, *SMALL)


def test_every_subject_gives_24_segments_of_1950_features_at_four_sensors(segments):
    assert segments.mfcc.shape == (14 * 24, 4, 1950)
    assert np.bincount(segments.y).tolist() == [7 * 24, 7 * 24]
    assert np.all(segments.anomalous.mean(axis=0) > 0.1)


def test_subjects_are_trained_on_or_tested_on_never_both(segments):
    for split in range(3):
        train = footsteps.training_mask(segments, 5, split)
        assert not set(segments.subjects[train]) & set(segments.subjects[~train])
        assert np.bincount(segments.y[train]).tolist() == [120, 120]
    assert np.any(footsteps.training_mask(segments, 5, 0) != train)


def test_components_do_not_depend_on_the_test_segments(segments):
    train = footsteps.training_mask(segments, 5, 0)
    changed = segments.mfcc.copy()
    changed[~train] += 100.0
    before = split_data(segments, (0, 1), 5, 0)
    after = split_data(segments._replace(mfcc=changed), (0, 1), 5, 0)
    assert before.X.shape == (240, 100)
    np.testing.assert_array_equal(before.X, after.X)
    assert not np.allclose(before.X_test, after.X_test)


def test_with_several_sensors_one_faulty_sensor_is_enough(segments):
    together = split_data(segments, SENSORS["1,2,3,4"], 5, 0).anomalous
    alone = [split_data(segments, (s,), 5, 0).anomalous for s in range(4)]
    np.testing.assert_array_equal(together, np.any(alone, axis=0))


@pytest.mark.parametrize("row", ["1", "3"])
def test_faults_in_the_training_set_harm_an_svm(row):
    """Otherwise no method could show that it withstands them."""
    data = simulated_segments(30, 20, 20)
    scores = []
    for split in range(4):
        parts = split_data(data, SENSORS[row], 12, split)
        fine = ~parts.anomalous_test
        scores.append(
            [
                SVC(C=10.0, gamma=gamma_unit(parts.X))
                .fit(parts.X[kept], parts.y[kept])
                .score(parts.X_test[fine], parts.y_test[fine])
                for kept in (~parts.anomalous, np.ones(len(parts.y), dtype=bool))
            ]
        )
    without, with_faults = np.mean(scores, axis=0)
    assert 0.8 < without < 0.9
    assert with_faults < without - 0.04


def test_gamma_comes_from_the_grid_and_rod_takes_that_of_the_svm(segments):
    data = split_data(segments, (1,), 5, 0)
    gamma = choose_gamma("SVM", data, 0, chosen={})
    assert gamma / gamma_unit(data.X) in (0.25, 0.5, 1.0, 2.0, 4.0)
    assert choose_gamma("ROD-0.2", data, 0, chosen={"SVM": 0.123}) == 0.123


def test_a_run_measures_every_method(result):
    json.dumps(result)
    assert set(result["methods"]) == {*METHODS, ORACLE}
    for name, measures in result["methods"].items():
        assert 0 <= measures["nominal_accuracy"] <= 100
        assert ("detection_accuracy" in measures) == (name in DETECTING)
    assert len(result["detected"]["truth"]) == 14 * 24


def test_detection_accuracy_is_the_share_of_equal_flags(result):
    truth = np.array(list(result["detected"]["truth"])) == "1"
    for name in DETECTING:
        found = np.array(list(result["detected"][name])) == "1"
        expected = 100 * np.mean(found == truth)
        assert result["methods"][name]["detection_accuracy"] == pytest.approx(expected)
        recall = 100 * found[truth].mean()
        assert result["methods"][name]["detection_recall"] == pytest.approx(recall)


def made_up_runs(values):
    """For each method its nominal accuracies, split by split."""
    n_splits = len(next(iter(values.values())))
    return [
        {name: {"nominal_accuracy": v[s]} for name, v in values.items()} for s in range(n_splits)
    ]


def test_the_verdict_is_paired():
    others = {name: [50.0, 60.0, 70.0] for name in METHODS}
    ahead = {**others, "GEM-MED": [51.0, 61.0, 71.0]}
    assert verdict(made_up_runs(ahead), "nominal_accuracy").holds
    behind = {**others, "GEM-MED": [49.0, 59.0, 69.0]}
    found = verdict(made_up_runs(behind), "nominal_accuracy")
    # One point behind in every split: far within the spread of splits, and still clearly behind.
    assert found.behind == pytest.approx(1.0)
    assert not found.holds
    close = {**others, "GEM-MED": [52.0, 60.0, 65.0]}
    assert verdict(made_up_runs(close), "nominal_accuracy").holds


def test_tables_show_the_numbers_of_the_paper_beside_ours(result):
    runs = {row: [result["methods"]] * 2 for row in SENSORS}
    rows = table_rows(runs)
    chosen = [r for r in rows if (r["table"], r["sensors"]) == ("detection", "4")]
    known = {r["method"]: r["paper"] for r in chosen if r["paper"] != ""}
    assert known == {"ROD-0.02": 22.8, "ROD-0.2": 65.2, "GEM-MED": 88.1}
    text = markdown(runs)
    assert text.count("| sensors |") == len(TABLES)
    assert f"{result['methods']['SVM']['nominal_accuracy']:.1f} ± 0.0 [59.6]" in text.replace(
        "**", ""
    )


def test_the_target_writes_tables_and_pictures(result, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    target = footsteps_target(Options(), SMALL)
    tasks = target.tasks(1)
    assert [task.arguments["row"] for task in tasks] == list(SENSORS)
    runs = {task.name: result for task in tasks}
    target.draw(target.rows(runs, 1), tmp_path / "footsteps.png")
    names = target.more_files(runs, 1, tmp_path)
    for name in ("footsteps.png", *names):
        assert (tmp_path / name).stat().st_size > 1000, name
    assert target.details(runs)["data"]["all"]["anomalous_train"] > 0


def test_simulate_footsteps_writes_recordings_manifest_and_truth(tmp_path, capsys):
    out = tmp_path / "steps"
    command = ["simulate", "footsteps", "--out", str(out), "--humans", "2", "--animals", "1"]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    entries = read_manifest(out / "manifest.csv")
    assert len(entries) == summary["recordings"] == 12
    assert all(entry.located(out).is_file() for entry in entries)
    assert {entry.label for entry in entries} == {"human", "human_with_animal"}
    lines = (out / "segments.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 4 * 24
    anomalous = sum(line.endswith(",1") for line in lines[1:])
    assert anomalous == summary["anomalous"] > 0


def test_simulate_footsteps_refuses_to_simulate_nobody(tmp_path, capsys):
    out = tmp_path / "none"
    arguments = ["simulate", "footsteps", "--out", str(out), "--humans", "0", "--animals", "0"]
    assert main(arguments) == 2
    assert "at least one subject" in capsys.readouterr().err
    assert not out.exists()
