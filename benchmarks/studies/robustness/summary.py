"""Numbers of the robustness suite: means over seeds, ranks over tables, calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from gemmed._core.types import FloatArray
from gemmed.experiments.runner import Result, Runs
from gemmed.experiments.summary import Rows, mean_and_error

from .methods import GEM_MED, METHODS
from .runs import N_BINS, ORACLE, Cell, Suite

MEASURES = (
    "error",
    "excess_error",
    "excess_over_oracle",
    "auc",
    "average_precision",
    "contamination",
)
SIGNIFICANCE = 0.05
EVERY_FAULT = "all faults"


class MeanRanks(NamedTuple):
    """Mean rank of each method by test error, 1 is best, over one family of faults."""

    family: str
    ranks: dict[str, float]
    n_tables: int
    critical_difference: float
    """Nemenyi: mean ranks that differ by less are not told apart (level 0.05)."""
    p_value: float
    """Friedman test that all methods are equal; NaN for fewer than three tables."""


def method_names(runs: Runs) -> list[str]:
    """The methods that took part, in the order of the registry."""
    present = {name for result in runs.values() for name in result}
    return [name for name in METHODS if name in present]


def _results(suite: Suite, runs: Runs, table: str, cell: Cell, n_runs: int) -> list[Result]:
    return [runs[suite.task(table, cell, seed).name] for seed in range(n_runs)]


def rows_of_cells(suite: Suite, runs: Runs, n_runs: int) -> Rows:
    """One row per table, fault, method and measure, averaged over the seeds.

    Differences to GEM-MED are paired, seed by seed. ``failures`` counts seeds without a result.
    """
    rows: Rows = []
    names = [*method_names(runs), ORACLE]
    for table in suite.tables:
        for cell in suite.cells:
            results = _results(suite, runs, table, cell, n_runs)
            for name in names:
                for measure in MEASURES:
                    row = _row(results, name, measure)
                    if row is not None:
                        place = {"table": table, "corruption": cell.label, "family": cell.family}
                        rows.append({**place, **row})
    return rows


def _row(results: Sequence[Result], name: str, measure: str) -> dict[str, Any] | None:
    measured = [r for r in results if measure in r[name]]
    if not measured:
        return None
    mean, error = mean_and_error([r[name][measure] for r in measured])
    row = {
        "method": name,
        "measure": measure,
        "runs": len(measured),
        "failures": sum("failure" in r[name] for r in results),
        "mean": mean,
        "standard_error": error,
        f"minus_{GEM_MED}": "",
        "standard_error_of_difference": "",
    }
    paired = [
        r[name][measure] - r[GEM_MED][measure] for r in measured if measure in r.get(GEM_MED, {})
    ]
    if paired:
        row[f"minus_{GEM_MED}"], row["standard_error_of_difference"] = mean_and_error(paired)
    return row


def mean_ranks(suite: Suite, runs: Runs, n_runs: int) -> list[MeanRanks]:
    """Ranks by test error, for the clean cell, each family of faults and all faults.

    In each cell methods are ranked by their error averaged over the seeds (ties share a rank, a
    method that failed comes last). Ranks are averaged over the cells of a table, then over tables:
    cells of one table are not independent, so tables are what the tests count.
    """
    names = method_names(runs)
    families = dict.fromkeys(cell.family for cell in suite.cells)
    groups = {EVERY_FAULT: [cell for cell in suite.cells if cell.kind is not None]}
    groups |= {f: [cell for cell in suite.cells if cell.family == f] for f in families}
    found = []
    for family, cells in groups.items():
        if not cells:
            continue
        by_table = np.array(
            [
                np.mean([_ranks(_results(suite, runs, t, c, n_runs), names) for c in cells], axis=0)
                for t in suite.tables
            ]
        )
        means = dict(zip(names, by_table.mean(axis=0).tolist(), strict=True))
        found.append(
            MeanRanks(
                family,
                means,
                len(suite.tables),
                critical_difference(len(names), len(suite.tables)),
                _friedman(by_table),
            )
        )
    return found


def _ranks(results: Sequence[Result], names: Sequence[str]) -> FloatArray:
    errors = [
        np.inf
        if any("failure" in r[name] for r in results)
        else np.mean([r[name]["error"] for r in results])
        for name in names
    ]
    ranks: FloatArray = stats.rankdata(np.round(errors, 9))
    return ranks


def critical_difference(n_methods: int, n_blocks: int) -> float:
    """Nemenyi's critical difference of mean ranks, q sqrt(k (k + 1) / (6 N)), at level 0.05."""
    q = stats.studentized_range.ppf(1.0 - SIGNIFICANCE, n_methods, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_blocks)))


def _friedman(by_table: FloatArray) -> float:
    if len(by_table) < 3 or by_table.shape[1] < 3:
        return float("nan")
    return float(stats.friedmanchisquare(*by_table.T).pvalue)


def rows_of_ranks(ranks: Iterable[MeanRanks]) -> Rows:
    """The mean ranks as a table."""
    return [
        {
            "family": group.family,
            "method": name,
            "told": METHODS[name].told,
            "mean_rank": rank,
            "tables": group.n_tables,
            "critical_difference": group.critical_difference,
            # Not a number is not JSON.
            "friedman_p_value": "" if np.isnan(group.p_value) else group.p_value,
        }
        for group in ranks
        for name, rank in sorted(group.ranks.items(), key=lambda item: item[1])
    ]


def calibration_rows(suite: Suite, runs: Runs, n_runs: int) -> Rows:
    """Reliability of nominal_proba_, samples of all tables and seeds together, by family.

    ``expected_calibration_error`` is the mean over samples of |share nominal - mean probability| of
    their bin.
    """
    totals: dict[str, dict[str, FloatArray]] = {}
    for table in suite.tables:
        for cell in suite.cells:
            for result in _results(suite, runs, table, cell, n_runs):
                part = result.get(GEM_MED, {}).get("reliability")
                for family in (cell.family, "all") if part else ():
                    total = totals.setdefault(family, {key: np.zeros(N_BINS) for key in part})
                    for key, values in part.items():
                        total[key] += values
    rows: Rows = []
    for family, total in totals.items():
        gap = np.abs(total["nominal"] - total["probability"])
        overall = float(gap.sum() / total["count"].sum())
        for index in np.flatnonzero(total["count"]):
            count = total["count"][index]
            rows.append(
                {
                    "family": family,
                    "bin": int(index),
                    "samples": int(count),
                    "mean_probability": float(total["probability"][index] / count),
                    "share_nominal": float(total["nominal"][index] / count),
                    "expected_calibration_error": overall,
                }
            )
    return rows


def contamination_rows(rows: Rows) -> Rows:
    """Estimated and true share of faulty samples, for each table and fault."""
    chosen = [row for row in rows if row["measure"] == "contamination"]
    truth = {(r["table"], r["corruption"]): r["mean"] for r in chosen if r["method"] == ORACLE}
    return [
        {
            "table": row["table"],
            "corruption": row["corruption"],
            "family": row["family"],
            "truth": truth[row["table"], row["corruption"]],
            "estimate": row["mean"],
            "standard_error": row["standard_error"],
            "runs": row["runs"],
        }
        for row in chosen
        if row["method"] == GEM_MED
    ]


def run_details(runs: Runs) -> dict[str, Any]:
    """For the manifest: mean fit time, number of warnings and failures of each method."""
    details: dict[str, Any] = {"fit_seconds": {}, "warnings": {}, "failures": {}}
    for name in method_names(runs):
        measured = [result[name] for result in runs.values() if name in result]
        times = [m["fit_seconds"] for m in measured if "fit_seconds" in m]
        details["fit_seconds"][name] = round(float(np.mean(times)), 4) if times else None
        details["warnings"][name] = sum(m.get("warnings", 0) for m in measured)
        failures = [m["failure"] for m in measured if "failure" in m]
        if failures:
            details["failures"][name] = {"runs": len(failures), "first": failures[0]}
    return details
