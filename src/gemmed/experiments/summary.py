"""Means, standard errors and paired differences over runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Rows = list[dict[str, Any]]  # A table of numbers; all rows have the same columns


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error (zero for a single value)."""
    array = np.asarray(values, dtype=float)
    error = float(array.std(ddof=1) / np.sqrt(len(array))) if len(array) > 1 else 0.0
    return float(array.mean()), error


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, with a line end."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def mean_text(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard error; empty without values."""
    if not values:
        return ""
    mean, error = mean_and_error(values)
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def summarise(
    cell: Mapping[str, Any],
    runs: Sequence[Mapping[str, Mapping[str, float]]],
    measures: Sequence[str],
    reference: str,
) -> Rows:
    """One row per method and measure; differences are paired: run by run to the reference method.

    Parameters
    ----------
    cell : what the runs have in common; becomes the first columns
    runs : for each run, measures by method
    """
    rows: Rows = []
    for method in runs[0]:
        for measure in measures:
            if measure not in runs[0][method]:
                continue
            values = [run[method][measure] for run in runs]
            mean, error = mean_and_error(values)
            row = {
                **cell,
                "method": method,
                "measure": measure,
                "runs": len(runs),
                "mean": mean,
                "standard_error": error,
                f"minus_{reference}": "",
                "standard_error_of_difference": "",
            }
            if measure in runs[0].get(reference, {}):
                differences = [run[method][measure] - run[reference][measure] for run in runs]
                row[f"minus_{reference}"], row["standard_error_of_difference"] = mean_and_error(
                    differences
                )
            rows.append(row)
    return rows


class Lead(NamedTuple):
    """How far the best method leads the reference."""

    best: str
    mean: float  # Mean paired difference of the best method to the reference
    error: float  # Standard error of that difference
    holds: bool  # Whether the reference is the best, or within one standard error of it

    def __str__(self) -> str:
        return "0" if self.mean == 0 else f"{self.mean:.1f} ± {self.error:.1f} ({self.best})"


def lead_of_best(rows: Rows, reference: str, *, smallest: bool = False) -> Lead:
    """The lead of the best of the methods, one row each as :func:`summarise` makes them."""
    best = (min if smallest else max)(rows, key=lambda row: row["mean"])
    if best["method"] == reference:
        return Lead(reference, 0.0, 0.0, True)
    mean, error = best[f"minus_{reference}"], best["standard_error_of_difference"]
    return Lead(best["method"], mean, error, abs(mean) <= error)
