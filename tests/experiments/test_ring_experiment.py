"""The simulation: one run, the figures that explain, Algorithm 1 against its steps."""

import pytest

from gemmed.experiments.ring import algorithm_one, concepts
from gemmed.experiments.ring.grid import LAYOUTS, METHODS, evaluate_run, markdown
from gemmed.experiments.summary import summarise


def test_one_run_holds_every_method():
    result = evaluate_run("separated", 55, 0.2, 0)
    assert set(result) == {*METHODS, "oracle"}
    assert result["oracle"]["excess_error"] == 0.0
    for name in ("GEM-MED", "state model"):
        assert result[name]["auc"] > 0.99 > result["ROD-0.02"]["auc"]
        assert len(result[name]["precision_at_recall"]) == 101
    assert max(m.get("relative_gap", 0.0) for m in result.values()) <= 0.01


def test_tables_compare_the_paper_s_model_with_the_best_other_method():
    rows = []
    for layout in LAYOUTS:
        for radius, ahead in ((15, 1.0), (55, -1.0)):
            runs = [
                {
                    "SVM": {"error": 10.0 + seed + ahead, "auc": 0.5},
                    "GEM-MED": {"error": 10.0 + seed, "auc": 0.9},
                    "oracle": {"error": 0.0},
                }
                for seed in range(3)
            ]
            cell = {"layout": layout, "R": radius, "r_a": 0.2}
            rows += summarise(cell, runs, ("error", "auc"), "GEM-MED")
    text = markdown(rows)
    assert "| 15 | 0.2 | 12.00 ± 0.58 | 11.00 ± 0.58 |" in text
    assert text.count("in 1 of 2 cells") == 2  # errors: better at one radius of each layout
    assert text.count("in 2 of 2 cells") == 2  # AUC: better at both


def test_epigraph_sets_have_the_mass_and_level_sets_the_level():
    rows = {(row["kind"], row["density"]): row for row in concepts._sets()}
    for density in ("one mode", "two modes"):
        assert rows["epigraph set", density]["mass"] == pytest.approx(concepts.MASS, abs=0.01)
        assert rows["level set", density]["level"] == concepts.LEVEL
    assert rows["level set", "one mode"]["mass"] > rows["level set", "two modes"]["mass"] + 0.1


def test_the_outlier_is_far_from_its_references():
    rows = concepts._graph()
    (outlier,) = (row["distance"] for row in rows if row["outlier"])
    assert outlier > 2 * max(row["distance"] for row in rows if not row["outlier"])


def test_corruption_costs_the_svm_accuracy():
    clean, corrupted = (row["test_error"] for row in concepts._intro())
    assert corrupted > clean


def test_algorithm_one_is_judged_by_the_exact_dual(monkeypatch, tmp_path):
    monkeypatch.setattr(algorithm_one, "STEPS", (5, 400))
    monkeypatch.setattr(algorithm_one, "SIZES", {10: algorithm_one.SIZES[10]})
    target = algorithm_one.iterations_target(None)
    runs = {task.name: task.function(**task.arguments) for task in target.tasks(1)}
    rows = {(row["mode"], row["steps"]): row for row in target.rows(runs, 1)}
    assert all(row["gap"] > -1e-6 for row in rows.values())
    assert rows["convergent", 400]["gap"] < rows["convergent", 5]["gap"]
    assert rows["printed", 400]["gap"] > 10
    pytest.importorskip("matplotlib").use("agg")
    target.draw(list(rows.values()), tmp_path / "algorithm_one.png")
    assert (tmp_path / "algorithm_one.png").stat().st_size > 1000
