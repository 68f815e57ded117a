"""Figures without runs: those of the paper that explain, and the first run of the simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import stats
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

from ..._core.types import FloatArray
from ...report import plots
from ...report.palette import BLUE, GREEN, GREY, ORANGE, VERMILLION
from ..runner import Target
from ..summary import Rows
from .curves import ORACLE, REFERENCE, chosen_rows, panels
from .grid import (
    CORRUPTION_RADIUS,
    LAYOUTS,
    NEWER,
    NOISE_RATE,
    fit_methods,
    simulation_parameters,
    training_set,
)

INTRO_RATE = 0.4  # Share of anomalies in the first figure
LEVEL, MASS = 0.1, 0.8
"""The level and the mass that the sets of the second figure are drawn for."""
GRID = np.linspace(-8.0, 8.0, 4001)
N_EDGES = 2  # Neighbours in the drawn graph, as in the paper's figure
N_GRAPH = 24  # Samples a class in the drawn graph


BOUNDARY_METHODS = ("SVM", "ROD-0.02", "ROD-0.2", NEWER, REFERENCE, ORACLE)
CENTRE = 16  # Reach of the enlarged part of the boundaries
SCORE_METHODS = (REFERENCE, NEWER, "ROD-0.02", "ROD-0.2", "ROD-0.6")


def _intro() -> Rows:
    """Linear SVM of the clean and of the corrupted training set."""
    data = training_set("separated", CORRUPTION_RADIUS, INTRO_RATE, 0)
    rows: Rows = []
    clean = ~data.anomalous
    for name, kept in (("clean", clean), ("corrupted", np.ones_like(clean))):
        model = SVC(kernel="linear").fit(data.X[kept], data.y[kept])
        (w1, w2), b = model.coef_[0], model.intercept_[0]
        error = 100.0 * float(1.0 - model.score(data.X_test, data.y_test))
        numbers = {"w1": float(w1), "w2": float(w2), "b": float(b), "test_error": error}
        rows.append({"training_set": name, **numbers})
    return rows


def _draw_intro(rows: Rows, path: Path) -> None:
    data = training_set("separated", CORRUPTION_RADIUS, INTRO_RATE, 0)
    figure, ((train, test),) = panels(1, 2, (11, 6))
    lines = {
        f"SVM of the {row['training_set']} set: {row['test_error']:.1f} % test error": _linear(row)
        for row in rows
    }
    clean = np.zeros(len(data.y_test[::10]), dtype=bool)
    plots.plot_boundaries(data.X, data.y, data.anomalous, lines, ax=train, legend=False)
    train.set_title(f"training set, {INTRO_RATE:.0%} of it corrupted (open)")
    shown = data.X_test[::10], data.y_test[::10]
    plots.plot_boundaries(*shown, clean, lines, ax=test, reach=CENTRE, legend=False)
    test.set_title("clean test set")
    handles = train.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)
    plots.save_figure(figure, path)


def _densities() -> dict[str, FloatArray]:
    """One narrow density and one with two modes, on the grid."""
    two = 0.6 * stats.norm.pdf(GRID, -2.0, 1.0) + 0.4 * stats.norm.pdf(GRID, 2.5, 1.2)
    return {"one mode": stats.norm.pdf(GRID, 0.0, 1.0), "two modes": two}


def _level_of_mass(density: FloatArray, mass: float) -> float:
    """Largest level whose set {density >= level} has at least this mass."""
    falling = np.sort(density)[::-1]
    held = np.cumsum(falling) * (GRID[1] - GRID[0])
    return float(falling[int(np.searchsorted(held, mass))])


def _sets() -> Rows:
    rows: Rows = []
    for name, density in _densities().items():
        for kind, level in (("level set", LEVEL), ("epigraph set", _level_of_mass(density, MASS))):
            part, step = density[density >= level], GRID[1] - GRID[0]
            row = {"kind": kind, "density": name, "level": level, "mass": float(part.sum() * step)}
            rows.append({**row, "entropy": float(-(part * np.log(part)).sum() * step)})
    return rows


def _draw_sets(rows: Rows, path: Path) -> None:
    figure, axes = panels(2, 2, (10, 6), sharex=True, sharey=True)
    given = {"level set": f"given level {LEVEL:g}", "epigraph set": f"given mass {MASS:g}"}
    for row_of_axes, (name, density) in zip(axes, _densities().items(), strict=True):
        for ax, kind in zip(row_of_axes, given, strict=True):
            (row,) = chosen_rows(rows, density=name, kind=kind)
            ax.plot(GRID, density, color=BLUE)
            ax.fill_between(GRID, density, where=density >= row["level"], color=BLUE, alpha=0.25)
            ax.axhline(row["level"], color=GREY, linestyle="--", linewidth=1)
            numbers = f"level {row['level']:.3f}\nmass {row['mass']:.2f}"
            ax.annotate(f"{numbers}\nentropy {row['entropy']:.2f}", (-7.6, 0.25))
            ax.set_title(f"{kind}, {given[kind]}")
        row_of_axes[0].set_ylabel("p(x)")
    plots.save_figure(figure, path)


def _graph_data() -> tuple[FloatArray, np.ndarray, np.ndarray]:
    """Points, their class and whether each is a reference; the last point is an outlier."""
    rng = np.random.default_rng(1)
    centres = np.array([[-3.0, 0.0], [3.0, 0.0]])
    X = np.vstack([rng.multivariate_normal(c, np.eye(2), N_GRAPH) for c in centres])
    X = np.vstack([X, [0.0, 5.0]])
    labels = np.append(np.repeat([0, 1], N_GRAPH), 0)
    reference = np.append(np.tile([True, False], N_GRAPH), False)
    return X, labels, reference


def _graph() -> Rows:
    """d of every scored point: mean distance to its nearest references of the own class."""
    X, labels, reference = _graph_data()
    rows: Rows = []
    for label in (0, 1):
        known = np.flatnonzero(reference & (labels == label))
        search = NearestNeighbors(n_neighbors=N_EDGES).fit(X[known])
        for n in np.flatnonzero(~reference & (labels == label)):
            far, near = search.kneighbors(X[n : n + 1])
            ends = known[near[0]].tolist()
            found = {"distance": float(far.mean()), "neighbours": " ".join(map(str, ends))}
            outlier = bool(n == len(X) - 1)
            rows.append({"sample": int(n), "class": label, "outlier": outlier, **found})
    return rows


def _draw_graph(rows: Rows, path: Path) -> None:
    X, labels, reference = _graph_data()
    figure, ((sets, graph),) = panels(1, 2, (12, 5.5), sharey=True)
    radius = float(np.sqrt(stats.chi2.ppf(MASS, 2)))
    for label, colour, marker in zip((0, 1), (ORANGE, GREEN), "os", strict=True):
        centre = (-3.0 if label == 0 else 3.0, 0.0)
        sets.add_patch(plots.import_pyplot().Circle(centre, radius, color=colour, alpha=0.25, lw=0))
        own = labels == label
        sets.scatter(*X[own][:N_GRAPH].T, s=30, color=BLUE, marker=marker)
        for known, face in ((True, "none"), (False, BLUE)):
            points = X[own & (reference == known)]
            name = "reference" if known else "scored"
            graph.scatter(
                *points.T,
                s=34,
                marker=marker,
                edgecolor=BLUE,
                facecolor=face,
                label=f"class {label + 1}, {name}",
            )
    for row in rows:
        start = X[row["sample"]]
        for end in map(int, row["neighbours"].split()):
            colour = VERMILLION if row["outlier"] else GREY
            graph.plot(*np.array([start, X[end]]).T, color=colour, linewidth=0.9, zorder=0)
    for ax in (sets, graph):
        ax.scatter(*X[-1], s=70, color=VERMILLION, marker="^", label="outlier", zorder=3)
        ax.set_aspect("equal")
    nominal, anomalous = (
        np.mean([r["distance"] for r in chosen_rows(rows, outlier=outlier)])
        for outlier in (False, True)
    )
    sets.set_title(f"minimal-entropy sets of mass {MASS:g}")
    graph.set_title(f"mean 2-NN distance: nominal {nominal:.2f}, outlier {anomalous:.2f}")
    graph.legend(fontsize=8)
    plots.save_figure(figure, path)


def _linear(row: Mapping[str, Any]) -> SimpleNamespace:
    """w1 x1 + w2 x2 + b, as the method that the boundary plot asks for."""
    w, b = [row["w1"], row["w2"]], row["b"]
    return SimpleNamespace(decision_function=lambda X: np.asarray(X) @ w + b)


def _score_rows() -> Rows:
    """The training sets of the first run with the scores of every method."""
    rows: Rows = []
    for layout in LAYOUTS:
        data = training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        models = fit_methods(data, 0, SCORE_METHODS)
        for n in range(len(data.y)):
            rows.append(
                {
                    "layout": layout,
                    "x1": float(data.X[n, 0]),
                    "x2": float(data.X[n, 1]),
                    "y": int(data.y[n]),
                    "anomalous": bool(data.anomalous[n]),
                    **{f"score {k}": float(m.anomaly_scores_[n]) for k, m in models.items()},
                }
            )
    return rows


def _boundary_rows() -> Rows:
    """Weights of the linear decision functions: w1 x1 + w2 x2 + b."""
    rows: Rows = []
    for layout in LAYOUTS:
        data = training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        for name, model in fit_methods(data, 0, BOUNDARY_METHODS).items():
            b, f1, f2 = model.decision_function([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
            error = 100.0 * float(np.mean(model.predict(data.X_test) != data.y_test))
            weights = {"w1": float(f1 - b), "w2": float(f2 - b), "b": float(b)}
            rows.append({"layout": layout, "method": name, **weights, "error": error})
    return rows


def _draw_boundary(rows: Rows, path: Path) -> None:
    """A row for each layout: the whole ring, and its centre enlarged."""
    figure, axes = panels(2, 2, (12.5, 13.2))
    for (whole, centre), layout in zip(axes, LAYOUTS, strict=True):
        data = training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        lines = {row["method"]: _linear(row) for row in chosen_rows(rows, layout=layout)}
        sample = (data.X, data.y, data.anomalous, lines)
        plots.plot_boundaries(*sample, ax=whole, legend=False)
        whole.set_title(f"layout {layout!r}, R = {CORRUPTION_RADIUS}, r_a = {NOISE_RATE}")
        plots.plot_boundaries(*sample, ax=centre, reach=CENTRE, legend=False)
        centre.set_title("its centre")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        *handles, loc="outside lower center", ncols=6, fontsize=9, title="one training set (seed 0)"
    )
    plots.save_figure(figure, path)


def _draw_scores(rows: Rows, path: Path) -> None:
    figure, axes = panels(len(SCORE_METHODS), 2, (12.5, 10), sharex=True)
    for column, layout in enumerate(LAYOUTS):
        chosen = chosen_rows(rows, layout=layout)
        anomalous = np.array([row["anomalous"] for row in chosen])
        scores = {
            f"{name} ({layout!r} layout)": np.array([row[f"score {name}"] for row in chosen])
            for name in SCORE_METHODS
        }
        plots.plot_anomaly_scores(anomalous, scores, axes=axes[:, column])
    figure.suptitle(f"one training set (seed 0), R = {CORRUPTION_RADIUS}, r_a = {NOISE_RATE}")
    plots.save_figure(figure, path)


def _example(
    description: str,
    rows: Callable[[], Rows],
    draw: Callable[[Rows, Path], None],
    parameters: Mapping[str, Any],
) -> Callable[[bool], Target]:
    """Makes a target without runs: what it shows is computed when its rows are made."""
    return lambda quick: Target(
        description, lambda n: [], lambda runs, n: rows(), draw, parameters, repeats=False
    )


FIRST_CELL = simulation_parameters([CORRUPTION_RADIUS], [NOISE_RATE])
intro_target = _example(
    "corruption in the training data shifts the boundary",
    _intro,
    _draw_intro,
    {"layout": "separated", "R": CORRUPTION_RADIUS, "r_a": INTRO_RATE, "seed": 0},
)
sets_target = _example(
    "level sets and epigraph sets of two densities",
    _sets,
    _draw_sets,
    {"level": LEVEL, "mass": MASS},
)
graph_target = _example(
    "minimal-entropy sets and the bipartite 2-NN graph",
    _graph,
    _draw_graph,
    {"samples_per_class": N_GRAPH, "neighbors": N_EDGES, "mass": MASS},
)
boundary_target = _example(
    "decision boundaries of SVM, ROD and GEM-MED with the data",
    _boundary_rows,
    _draw_boundary,
    FIRST_CELL,
)
scores_target = _example("anomaly scores of GEM-MED and ROD", _score_rows, _draw_scores, FIRST_CELL)
