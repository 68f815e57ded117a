"""Compare the files of run.py cell by cell: levels, paired differences, coverage.

python benchmarks/quality/summary.py A.csv [B.csv ...] [--cells "flips*"] [--divide PATTERN]
    [--tables]

Levels are means over tables, after seeds are averaged; precision is pooled over all flags. With
two files the difference B - A is over the runs that both have, with its standard error over tables.
"""

import argparse
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd
from cells import TABLE_CELLS

KEYS = ["table", "cell", "seed"]
LEVELS = {  # column: heading
    "AP wrong": "wrong",
    "AP bad": "bad",
    "AP either": "either",
    "AUC bad": "AUCbad",
    "AUC group": "AUCgrp",
    "accuracy": "acc",
    "suggested right": "suggest",
    "plain precision": "prec",
    "plain recall": "recall",
    "plain good flagged": "good",
    "plain minority flagged": "minor",
    "precise precision": "PREC",
    "precise recall": "RECALL",
    "precise good flagged": "GOOD",
    "precise minority flagged": "MINOR",
    "alarms": "alarms",
    "repeat changed flags": "unstable",
    "seconds": "sec",
}
ALL_TABLES = "all tables"
STATES, SHARES = ("nominal", "wrong", "bad"), ("wrong", "bad", "either")


def read(path: str, patterns: list[str], part: str) -> pd.DataFrame:
    """Runs of the wanted cells; a cell is divided by what ``part`` finds in names and details."""
    runs = pd.read_csv(path)
    if "error" in runs:
        failed = runs[runs["error"].notna()]
        for cell, these in failed.groupby("cell"):
            print(
                f"{path}: {len(these)} runs of {cell} failed, e.g. {these['error'].iloc[0][:100]}"
            )
        runs = runs[runs["error"].isna()]
    wanted = [any(fnmatch(cell, pattern) for pattern in patterns) for cell in runs["cell"]]
    runs = runs.loc[np.array(wanted, dtype=bool)]
    if not part:
        return runs
    found = (runs["table"] + ", " + runs["detail"].fillna("")).str.extract(f"({part})")[0]
    return runs.assign(cell=runs["cell"] + (": " + found).fillna(""))


def pooled_precision(runs: pd.DataFrame, kind: str) -> tuple[float, pd.Series]:
    """Right flags over flags, and what each table adds to its error (linearised ratio)."""
    if f"{kind} right" not in runs:
        return np.nan, pd.Series(dtype=float)
    sums = runs.groupby("table")[[f"{kind} right", f"{kind} flagged"]].mean()
    right, flagged = sums.to_numpy().T
    if not flagged.sum() or not runs["faults"].sum():
        return np.nan, pd.Series(dtype=float)
    level = right.sum() / flagged.sum()
    return level, pd.Series((right - level * flagged) / flagged.mean(), sums.index)


def level(runs: pd.DataFrame, column: str) -> float:
    """Mean over tables of the means over seeds."""
    if column.endswith("precision"):
        return pooled_precision(runs, column.split()[0])[0]
    return runs.groupby("table")[column].mean().mean() if column in runs else np.nan


def difference(first: pd.DataFrame, second: pd.DataFrame, column: str) -> tuple[float, float]:
    """B - A and its standard error over tables; both have the same runs."""
    if column.endswith("precision"):
        (a, of_a), (b, of_b) = (pooled_precision(x, column.split()[0]) for x in (first, second))
        change, add = (of_b - of_a).dropna(), b - a
    elif column in first and column in second:
        gap = second.set_index(KEYS)[column] - first.set_index(KEYS)[column]
        change = gap.groupby("table").mean().dropna()
        add = change.mean() if len(change) else np.nan
    else:
        return np.nan, np.nan
    if not len(change):
        return np.nan, np.nan
    return add, change.std() / np.sqrt(len(change)) if len(change) > 1 else np.nan


def calibration_error(runs: pd.DataFrame, state: str) -> float:
    """Expected calibration error over the bins of all runs."""
    names = [[c for c in runs if c.startswith(f"bin {state} {k} ")] for k in ("n", "p", "true")]
    if not names[0]:
        return np.nan
    n, p, true = (runs[columns].sum().to_numpy() for columns in names)
    return np.abs(p - true).sum() / n.sum()


def excess_above_half(runs: pd.DataFrame, state: str) -> float:
    """Mean probability less true share, over the rows above one half."""
    upper = range(5, 10)
    n, p, true = (
        runs[[f"bin {state} {kind} {b}" for b in upper]].to_numpy().sum()
        for kind in ("n", "p", "true")
    )
    return (p - true) / n if n else np.nan


def table(rows: list[dict], digits: int = 3) -> str:
    frame = pd.DataFrame(rows).dropna(axis=1, how="all")
    return frame.to_string(index=False, na_rep="", float_format=lambda v: f"{v:.{digits}f}")


def of_cell(runs: pd.DataFrame, cell: str) -> pd.DataFrame:
    """Runs of a cell; ALL_TABLES stands for all cells of tables with faults."""
    if cell == ALL_TABLES:
        return runs[runs["cell"].isin(TABLE_CELLS[1:])]
    return runs[runs["cell"] == cell]


def levels(files: dict[str, pd.DataFrame], cells: list[str]) -> str:
    rows = []
    for cell in cells:
        for name, runs in files.items():
            part = of_cell(runs, cell)
            if len(part):
                found = {LEVELS[column]: level(part, column) for column in LEVELS}
                rows.append({"cell": cell, "file": name, "n": part["table"].nunique(), **found})
    return table(rows)


def coverage(files: dict[str, pd.DataFrame], cells: list[str]) -> str:
    rows = []
    for cell in [*cells, "all"]:
        for name, runs in files.items():
            part = runs if cell == "all" else of_cell(runs, cell)
            if not len(part) or "covers either" not in part:
                continue
            found = {"cell": cell, "file": name, "runs": len(part)}
            for kind in SHARES:
                found[f"{kind} true"] = part[f"share {kind}"].mean()
                found[f"{kind} est"] = part[f"estimate {kind}"].mean()
                found[f"{kind} covers"] = part[f"covers {kind}"].mean()
                found[f"{kind} width"] = part[f"width {kind}"].mean()
            for state in STATES:
                found[f"ECE {state}"] = calibration_error(part, state)
            for state in STATES[1:]:
                found[f"over {state}"] = excess_above_half(part, state)
            rows.append(found)
    return table(rows) if rows else "no intervals"


def differences(files: dict[str, pd.DataFrame], cells: list[str]) -> str:
    (a, first), (b, second) = files.items()
    shared = first[KEYS].merge(second[KEYS])
    first, second = first.merge(shared), second.merge(shared)
    rows = []
    for cell in cells:
        parts = [of_cell(runs, cell) for runs in (first, second)]
        if not len(parts[0]):
            continue
        found: dict = {"cell": cell, "n": parts[0]["table"].nunique()}
        for column, heading in LEVELS.items():
            change, error = difference(*parts, column)
            found[heading] = f"{change:+.3f}±{error:.3f}" if np.isfinite(change) else None
        rows.append(found)
    return f"{b} - {a}\n" + table(rows)


def by_table(files: dict[str, pd.DataFrame], cells: list[str]) -> str:
    rows = []
    for cell in cells:
        for name in sorted({t for runs in files.values() for t in runs["table"]}):
            for file, runs in files.items():
                part = runs[(runs["cell"] == cell) & (runs["table"] == name)]
                if len(part):
                    found = {LEVELS[column]: level(part, column) for column in LEVELS}
                    rows.append({"cell": cell, "table": name, "file": file, **found})
    return table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+")
    parser.add_argument("--cells", default="*", help="patterns separated by commas")
    parser.add_argument("--divide", default="", help='cells by a pattern: "R \\d+", "spread [^,]+"')
    parser.add_argument("--tables", action="store_true", help="levels of every table as well")
    options = parser.parse_args()
    files = {Path(f).stem: read(f, options.cells.split(","), options.divide) for f in options.files}
    cells = list(dict.fromkeys(cell for runs in files.values() for cell in runs["cell"]))
    cells += [ALL_TABLES] if len(set(cells) & set(TABLE_CELLS)) > 1 else []
    print("Levels (capitals: precise flags)\n" + levels(files, cells))
    print("\nShares, 90 % intervals, calibration (over: mean probability above 0.5 less truth)")
    print(coverage(files, cells))
    if len(files) == 2:
        print("\nPaired differences with standard errors over tables: " + differences(files, cells))
    if options.tables:
        print("\nTables\n" + by_table(files, cells))


if __name__ == "__main__":
    main()
