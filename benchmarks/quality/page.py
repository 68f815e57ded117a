"""Write the quality tables of docs/research/benchmarks.md from files of run.py.

python benchmarks/quality/page.py NAME=FILE.csv [NAME=FILE.csv ...]

The tables are docs/figures/quality-*.json.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd
from summary import level, of_cell, read

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import write_figures

TABLES = {
    "quality-ranking": (
        "Average precision by kind of data",
        {"wrong labels": "AP wrong", "bad rows": "AP bad", "either": "AP either"},
    ),
    "quality-flags": (
        "Flags by kind of data",
        {
            "precision": "plain precision",
            "recall": "plain recall",
            "good rows flagged": "plain good flagged",
        },
    ),
    "quality-precise-flags": (
        "Precise flags by kind of data",
        {
            "precision": "precise precision",
            "recall": "precise recall",
            "good rows flagged": "precise good flagged",
        },
    ),
    "quality-intervals": (
        "Coverage of the 90 % intervals by kind of data",
        {"wrong labels": "covers wrong", "bad rows": "covers bad", "either": "covers either"},
    ),
    "quality-accuracy": ("Accuracy on clean test rows by kind of data", {"accuracy": "accuracy"}),
}


def table_of(files: dict[str, pd.DataFrame], cells: list[str], columns: dict) -> list[list[str]]:
    """Heading and one line per kind of data, one column per measure and method; none is empty."""
    heads = [f"{measure}, {name}" for measure in columns for name in files]
    rows = []
    for cell in cells:
        values = [
            level(of_cell(runs, cell), column)
            for column in columns.values()
            for runs in files.values()
        ]
        rows.append([cell, *("" if pd.isna(v) else f"{v:.3f}" for v in values)])
    kept = [i for i in range(1, len(heads) + 1) if any(row[i] for row in rows)]
    lines = [["data", *(heads[i - 1] for i in kept)]]
    return lines + [[row[0], *(row[i] for i in kept)] for row in rows if any(row[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="NAME=FILE.csv")
    options = parser.parse_args()
    files = {name: read(path, ["*"], "") for name, path in (f.split("=") for f in options.files)}
    cells = list(dict.fromkeys(cell for runs in files.values() for cell in runs["cell"]))
    runs = next(iter(files.values()))
    size = f"{len(runs)} runs per method, {runs['table'].nunique()} tables and made data sets"
    for name, (title, columns) in TABLES.items():
        heads, *rows = table_of(files, cells, columns)
        command = f"python benchmarks/quality/page.py {' '.join(options.files)}"
        write_figures(name, f"{title} ({size})", heads, rows, command)
        print(name)


if __name__ == "__main__":
    main()
