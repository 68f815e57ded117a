"""The paper's simulation: one run, and means over runs on cells of layout, R and r_a."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score
from sklearn.svm import SVC

from ...datasets import Layout, RingData, make_ring
from ...estimators.detector import GEMDetector
from ...estimators.gemmed import GEMMEDClassifier
from ...estimators.med import MEDClassifier
from ...paper import GEMMEDClassifier as PaperGEMMEDClassifier
from ...paper import RampSVC, RODClassifier, TwoStageClassifier
from ..files import write_text
from ..runner import Result, Runs, Target, Task
from ..summary import Rows, lead_of_best, markdown_table, mean_and_error, summarise
from . import curves
from .curves import BAYES_ERROR, ORACLE, REFERENCE, chosen_rows

RADII = (15, 35, 55, 75)
RATES = (0.2, 0.3, 0.4, 0.5)
LAYOUTS: tuple[Layout, ...] = ("separated", "paper")
NOISE_RATE, CORRUPTION_RADIUS = 0.2, 55
N_PER_CLASS = 100
ROD_FRACTIONS = (0.02, 0.2, 0.6)
RECALL_GRID = np.linspace(0.0, 1.0, 101)
N_NEIGHBORS = 5  # k of the paper's simulation
NEWER = "state model"  # ``gemmed.GEMMEDClassifier``, the later model of this package


def _rod(fraction: float, seed: int) -> RODClassifier:
    return RODClassifier("linear", outlier_fraction=fraction, random_state=seed)


METHODS: dict[str, Callable[[int], Any]] = {
    "SVM": lambda seed: SVC(kernel="linear"),
    "MED": lambda seed: MEDClassifier("linear"),
    **{f"ROD-{fraction}": partial(_rod, fraction) for fraction in ROD_FRACTIONS},
    "ramp": lambda seed: RampSVC("linear", random_state=seed),
    "GEM+SVM": lambda seed: TwoStageClassifier(
        GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed), SVC(kernel="linear")
    ),
    "GEM+MED": lambda seed: TwoStageClassifier(
        GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed), MEDClassifier("linear")
    ),
    NEWER: lambda seed: GEMMEDClassifier("linear", base=None, random_state=seed),
    REFERENCE: lambda seed: PaperGEMMEDClassifier(
        "linear", n_neighbors=N_NEIGHBORS, random_state=seed
    ),
}


def training_set(layout: Layout, radius: float, rate: float, seed: int) -> RingData:
    """The data of one run; the same for every method and every target."""
    return make_ring(N_PER_CLASS, radius=radius, corruption=rate, layout=layout, random_state=seed)


def fit_methods(data: RingData, seed: int, names: tuple[str, ...]) -> dict[str, Any]:
    """The named methods trained on the contaminated set, the oracle on its clean part."""
    models = {name: METHODS[name](seed).fit(data.X, data.y) for name in names if name != ORACLE}
    if ORACLE in names:
        clean = ~data.anomalous
        models[ORACLE] = MEDClassifier("linear").fit(data.X[clean], data.y[clean])
    return models


def evaluate_run(layout: Layout, radius: float, rate: float, seed: int) -> Result:
    """Test error (%) of every method; AUC, average precision and curve where samples are scored."""
    data = training_set(layout, radius, rate, seed)
    models = fit_methods(data, seed, (*METHODS, ORACLE))
    result: Result = {}
    for name, model in models.items():
        error = 100.0 * float(np.mean(model.predict(data.X_test) != data.y_test))
        result[name] = {"error": error}
        if name != ORACLE:
            result[name].update(_detection(data.anomalous, model))
        if hasattr(model, "duality_gap_") and hasattr(model, "objective_"):
            result[name]["relative_gap"] = model.duality_gap_ / model.objective_
    oracle = result[ORACLE]["error"]
    for measures in result.values():
        measures["excess_error"] = measures["error"] - oracle
    return result


def _detection(anomalous: np.ndarray, model: Any) -> dict[str, Any]:
    scores = getattr(model, "anomaly_scores_", None)
    if scores is None:
        return {}
    precision, recall, _ = precision_recall_curve(anomalous, scores)
    order = np.argsort(recall, kind="stable")
    # Precision at a recall level: the best that reaches at least that level.
    best = np.maximum.accumulate(precision[order][::-1])[::-1]
    place = np.searchsorted(recall[order], RECALL_GRID - 1e-12, side="left")
    return {
        "auc": float(roc_auc_score(anomalous, scores)),
        "average_precision": float(average_precision_score(anomalous, scores)),
        "precision_at_recall": [float(p) for p in best[np.minimum(place, len(best) - 1)]],
    }


def ring_task(layout: Layout, radius: float, rate: float, seed: int) -> Task:
    """The task behind one point of a figure; targets that need the same cell share it."""
    return Task(
        f"ring/{layout}-R{radius:g}-r{rate:g}/seed-{seed:03d}",
        evaluate_run,
        {"layout": layout, "radius": radius, "rate": rate, "seed": seed},
    )


def method_parameters() -> dict[str, Any]:
    """What the manifest says of sample size and methods."""
    return {
        "samples_per_class": N_PER_CLASS,
        "methods": {key: repr(make(0)) for key, make in METHODS.items()},
    }


def simulation_parameters(radii: Sequence[float], rates: Sequence[float]) -> dict[str, Any]:
    """What the manifest says of runs on these cells."""
    return {
        **method_parameters(),
        "layouts": LAYOUTS,
        "radii": list(radii),
        "rates": list(rates),
    }


CURVE_RADII = (15, 55)
MINUS = f"minus_{REFERENCE}"  # Column of the paired difference


class RingCell(NamedTuple):
    """Where all methods are compared."""

    layout: Layout
    radius: float
    rate: float

    @property
    def columns(self) -> dict[str, object]:
        """The first columns of its rows."""
        return {"layout": self.layout, "R": self.radius, "r_a": self.rate}

    def tasks(self, n_runs: int) -> list[Task]:
        return [ring_task(*self, seed) for seed in range(n_runs)]

    def results(self, runs: Runs, n_runs: int) -> list[Result]:
        """Its runs, methods in the order of the registry (files are sorted by name)."""
        stored = [runs[task.name] for task in self.tasks(n_runs)]
        return [{name: result[name] for name in (*METHODS, ORACLE)} for result in stored]


def noise_target(quick: bool) -> Target:
    """Error against the noise level."""
    return _grid_target(
        "test error against the noise level R at r_a = 0.2",
        RADII,
        (NOISE_RATE,),
        _summaries(("error", "excess_error")),
        lambda rows, path: curves.draw_errors(rows, path, x="R", label="noise level R"),
    )


def corruption_target(quick: bool) -> Target:
    """Error against the corruption rate."""
    return _grid_target(
        "test error against the corruption rate r_a at R = 55",
        (CORRUPTION_RADIUS,),
        RATES,
        _summaries(("error", "excess_error")),
        lambda rows, path: curves.draw_errors(rows, path, x="r_a", label="corruption rate"),
    )


def precision_recall_target(quick: bool) -> Target:
    """Precision at every recall."""
    return _grid_target(
        "precision against recall of the anomaly scores at r_a = 0.2",
        CURVE_RADII,
        (NOISE_RATE,),
        _precision_recall_rows,
        curves.draw_precision_recall,
    )


def auc_target(quick: bool) -> Target:
    """Detection on the whole grid."""
    return _grid_target(
        "AUC and average precision of the anomaly scores on the whole grid of R and r_a",
        RADII,
        RATES,
        _summaries(("auc", "average_precision", "error", "excess_error")),
        curves.draw_auc,
        tables="auc-tables.md",
    )


RowsOfCell = Callable[[RingCell, list[Result]], Rows]


def _grid_target(
    description: str,
    radii: Sequence[float],
    rates: Sequence[float],
    rows_of_cell: RowsOfCell,
    draw: Callable[[Rows, Path], None],
    tables: str = "",
) -> Target:
    cells = [RingCell(layout, R, q) for layout in LAYOUTS for R in radii for q in rates]

    def tasks(n_runs: int) -> list[Task]:
        return [task for cell in cells for task in cell.tasks(n_runs)]

    def rows(runs: Runs, n_runs: int) -> Rows:
        return [row for cell in cells for row in rows_of_cell(cell, cell.results(runs, n_runs))]

    def write_tables(runs: Runs, n_runs: int, folder: Path) -> list[str]:
        if tables:
            write_text(folder / tables, markdown(rows(runs, n_runs)))
        return [tables] if tables else []

    parameters = simulation_parameters(radii, rates)
    return Target(description, tasks, rows, draw, parameters, more_files=write_tables)


def markdown(rows: Rows) -> str:
    """Tables of error and AUC for every layout: cells by methods, mean ± standard error.

    Below each are the differences to GEM-MED, paired by training set, and in how many cells GEM-MED
    is the best or within one standard error of the paired difference.
    """
    lines: list[str] = []
    for measure, digits in (("error", 2), ("auc", 3)):
        for layout in LAYOUTS:
            own = chosen_rows(rows, layout=layout, measure=measure)
            names = list(dict.fromkeys(r["method"] for r in own))
            cells = list(dict.fromkeys((r["R"], r["r_a"]) for r in own))
            title = f"Test error, percent (Bayes {BAYES_ERROR[layout]:.2f})"
            title = title if measure == "error" else "AUC of the anomaly scores"
            title = f"{title}, layout `{layout}`, {own[0]['runs']} runs"
            shown, paired, held = [], [], 0
            for radius, rate in cells:
                cell = chosen_rows(own, R=radius, r_a=rate)
                head = [f"{radius:g}", f"{rate:g}"]
                means = [(r["mean"], r["standard_error"]) for r in cell]
                others = [r for r in cell if r["method"] != REFERENCE]
                gaps = [(r[MINUS], r["standard_error_of_difference"]) for r in others]
                shown.append(head + [f"{a:.{digits}f} ± {b:.{digits}f}" for a, b in means])
                paired.append(head + [f"{a:+.{digits}f} ± {b:.{digits}f}" for a, b in gaps])
                rivals = [r for r in cell if r["method"] != ORACLE]
                held += lead_of_best(rivals, REFERENCE, smallest=measure == "error").holds
            overall = [np.mean([r["mean"] for r in chosen_rows(own, method=n)]) for n in names]
            shown.append(["mean", "", *(f"{mean:.{digits}f}" for mean in overall)])
            rest = [name for name in names if name != REFERENCE]
            lines += [
                f"**{title}**\n",
                markdown_table(["R", "r_a", *names], shown),
                f"**The same minus {REFERENCE}, paired**\n",
                markdown_table(["R", "r_a", *rest], paired),
                f"{REFERENCE} is the best or within one standard error (paired) of the best other "
                f"method, the oracle apart, in {held} of {len(cells)} cells.",
                "",
            ]
    return "\n".join(lines)


def _summaries(measures: Sequence[str]) -> RowsOfCell:
    return lambda cell, results: summarise(cell.columns, results, measures, REFERENCE)


def _precision_recall_rows(cell: RingCell, results: list[Result]) -> Rows:
    rows: Rows = []
    for method, measures in results[0].items():
        if "precision_at_recall" not in measures:
            continue
        curves_of_runs = np.array([r[method]["precision_at_recall"] for r in results])
        for index, recall in enumerate(RECALL_GRID):
            mean, error = mean_and_error(curves_of_runs[:, index].tolist())
            rows.append(
                {
                    **cell.columns,
                    "method": method,
                    "recall": round(float(recall), 2),
                    "runs": len(results),
                    "mean": mean,
                    "standard_error": error,
                }
            )
    return rows
