"""Figures with matplotlib, imported only when a figure is asked for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._core.optional import require
from .._core.types import FloatArray
from .._core.whole_files import replacing
from .palette import ANOMALOUS, CLASSES, DARK_GREY, NOMINAL, method_style

DPI = 150


def import_pyplot() -> Any:
    """matplotlib.pyplot, or an error with the command that installs it."""
    require("matplotlib", "figures need", "plot")
    from matplotlib import pyplot

    return pyplot


def plot_boundaries(
    X: FloatArray,
    y: np.ndarray,
    anomalous: np.ndarray,
    classifiers: Mapping[str, Any],
    *,
    ax: Any = None,
    reach: float | None = None,
    legend: bool = True,
) -> Any:
    """Samples in the plane with the decision boundary of each classifier.

    Parameters
    ----------
    X : array of shape (n_samples, 2)
    y : array of shape (n_samples,), two classes
    anomalous : boolean array of shape (n_samples,), drawn hollow
    classifiers : fitted classifiers by name, each with ``decision_function``
    ax : axes to draw on; new ones by default
    reach : the plot shows [-reach, reach]^2; all samples by default
    legend : whether to draw a legend inside the axes

    Returns
    -------
    The axes.
    """
    pyplot = import_pyplot()
    ax = pyplot.subplots(figsize=(6.4, 5.6), layout="constrained")[1] if ax is None else ax
    for label, (colour, marker, _, _) in zip(np.unique(y), CLASSES, strict=True):
        for broken in (False, True):
            chosen = (y == label) & (anomalous == broken)
            ax.scatter(
                *X[chosen].T,
                s=26,
                marker=marker,
                linewidths=1.0,
                facecolors="none" if broken else colour,
                edgecolors=colour,
                alpha=0.95 if broken else 0.55,
                label=f"class {label}, {'anomalous' if broken else 'nominal'}",
            )
    reach = 1.12 * np.abs(X).max() if reach is None else reach
    axis = np.linspace(-reach, reach, 300)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    for index, (name, classifier) in enumerate(classifiers.items()):
        values = classifier.decision_function(grid.reshape(-1, 2)).reshape(300, 300)
        colour, _, style, _ = method_style(name, index)
        # Broken lines lie on top of unbroken, wider ones: where two fall together both are seen.
        width, zorder = (3.0, 2.5) if style == "-" else (1.8, 3.0)
        lines = {"colors": colour, "linestyles": [style], "linewidths": width, "zorder": zorder}
        ax.contour(axis, axis, values, levels=[0.0], **lines)
        ax.plot([], [], color=colour, linestyle=style, linewidth=width, zorder=zorder, label=name)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), xlabel="x1", ylabel="x2", aspect="equal")
    ax.set_title("Decision boundaries")
    if legend:
        ax.legend(fontsize=8, loc="upper left", framealpha=0.9)
    return ax


def plot_anomaly_scores(
    anomalous: np.ndarray, scores: Mapping[str, FloatArray], *, axes: Any = None
) -> Any:
    """Anomaly score of every training sample, nominal samples first, one panel a method.

    Parameters
    ----------
    anomalous : boolean array of shape (n_samples,)
    scores : anomaly scores (high = anomalous) by name, each of shape (n_samples,)
    axes : one axes for each method; new ones by default
    """
    pyplot = import_pyplot()
    if axes is None:
        _, axes = pyplot.subplots(
            len(scores), 1, sharex=True, figsize=(6.4, 2.2 * len(scores)), layout="constrained"
        )
    order = np.argsort(anomalous, kind="stable")
    n_nominal = int((~anomalous).sum())
    position = np.arange(len(anomalous))
    for ax, (name, values) in zip(np.atleast_1d(axes), scores.items(), strict=True):
        for part, style, label in (
            (slice(None, n_nominal), NOMINAL, "nominal"),
            (slice(n_nominal, None), ANOMALOUS, "anomalous"),
        ):
            ax.bar(position[part], values[order][part], width=1.0, color=style.colour, label=label)
        ax.axvline(n_nominal - 0.5, color=DARK_GREY, linewidth=0.8)
        ax.axhline(0.5, color=DARK_GREY, linewidth=0.8, linestyle="--")
        ax.set(ylim=(0, 1.02), xlim=(-1, len(anomalous)), ylabel="anomaly score", title=name)
    np.atleast_1d(axes)[0].legend(fontsize=8, loc="upper left", framealpha=1.0)
    np.atleast_1d(axes)[-1].set_xlabel("training sample, truly nominal ones first")
    return axes


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a temporary file beside ``path``, then rename: never half a picture."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DPI, format=Path(path).suffix.removeprefix(".") or "png")
    return Path(path)
