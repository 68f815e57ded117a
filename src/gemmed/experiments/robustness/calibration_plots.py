"""Reliability of nominal probabilities, and the estimated share of faulty samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...report.palette import BLACK, GREY, NOMINAL, REFERENCE_LINE, SERIES, Style
from ...report.plots import import_pyplot, save_figure
from ..summary import Rows
from .runs import N_BINS

FAMILIES = {
    "all": Style(BLACK, "o", "-", ""),
    "clean": Style(GREY, "D", ":", ""),
    "labels": SERIES[0]._replace(marker="s", line="--"),
    "measurements": SERIES[1]._replace(marker="^", line="-."),
    "both": SERIES[4]._replace(marker="P"),
}
"""Faults of one kind: colour, marker and line."""


def draw_calibration(rows: Rows, contamination: Rows, path: Path) -> None:
    """Left: share of truly nominal samples against the probability; below, how many samples have
    such a probability. Right: estimated against true contamination.

    Parameters
    ----------
    rows : family, mean_probability, share_nominal, samples, expected_calibration_error
    contamination : family, truth, estimate, standard_error, runs
    """
    pyplot = import_pyplot()
    figure, axes = pyplot.subplot_mosaic(
        [["curve", "share"], ["count", "share"]],
        figsize=(12.0, 6.4),
        height_ratios=[3.2, 1.0],
        layout="constrained",
    )
    _draw_curve(axes["curve"], rows)
    _draw_counts(axes["count"], [row for row in rows if row["family"] == "all"])
    _draw_contamination(axes["share"], contamination)
    save_figure(figure, path)


def _draw_curve(ax: Any, rows: Rows) -> None:
    ax.plot([0, 1], [0, 1], color=REFERENCE_LINE, linestyle="--", linewidth=1, label="calibrated")
    for family in dict.fromkeys(row["family"] for row in rows):
        points = sorted(
            (row for row in rows if row["family"] == family),
            key=lambda row: float(row["mean_probability"]),
        )
        error = points[0]["expected_calibration_error"]
        ax.plot(
            [p["mean_probability"] for p in points],
            [p["share_nominal"] for p in points],
            color=FAMILIES[family].colour,
            marker=FAMILIES[family].marker,
            linestyle=FAMILIES[family].line,
            linewidth=2.4 if family == "all" else 1.3,
            label=f"{family}: ECE {error:.3f}",
        )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.04), ylabel="share of truly nominal samples")
    ax.set_title("Reliability of nominal_proba_")
    ax.grid(alpha=0.25)
    ax.legend(fontsize=9, loc="upper left")


def _draw_counts(ax: Any, rows: Rows) -> None:
    total = sum(row["samples"] for row in rows)
    ax.bar(
        [(row["bin"] + 0.5) / N_BINS for row in rows],
        [100.0 * row["samples"] / total for row in rows],
        width=0.09,
        color=NOMINAL.colour,
    )
    ax.set(xlim=(-0.02, 1.02), xlabel="nominal_proba_", ylabel="% of samples")


def _draw_contamination(ax: Any, rows: Rows) -> None:
    runs = max((row["runs"] for row in rows), default=0)
    limit = 0.02 + max([0.5, *(max(row["truth"], row["estimate"]) for row in rows)])
    ax.plot([0, limit], [0, limit], color=REFERENCE_LINE, linestyle="--", linewidth=1)
    for family in dict.fromkeys(row["family"] for row in rows):
        points = [row for row in rows if row["family"] == family]
        ax.errorbar(
            [p["truth"] for p in points],
            [p["estimate"] for p in points],
            [p["standard_error"] for p in points],
            linestyle="none",
            markersize=5,
            elinewidth=0.7,
            alpha=0.6,
            color=FAMILIES[family].colour,
            marker=FAMILIES[family].marker,
            label=family,
        )
    ax.set(xlim=(-0.01, limit), ylim=(-0.01, limit), aspect="equal")
    ax.set(xlabel="true share of faulty samples", ylabel="estimated share")
    ax.set_title("Contamination, one point for each table and fault")
    ax.grid(alpha=0.25)
    ax.legend(
        fontsize=9,
        loc="upper left",
        title=f"mean and standard error of {runs} runs",
        title_fontsize=9,
    )
