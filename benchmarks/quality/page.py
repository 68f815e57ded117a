"""Write the quality tables of docs/research/benchmarks.md from files of run.py.

python benchmarks/quality/page.py NAME=FILE.csv [NAME=FILE.csv ...] [--page PAGE.md]

The tables replace what is between the two marks of the page. Each has the version and the date.
"""

import argparse
import datetime
from pathlib import Path

import pandas as pd
from summary import level, of_cell, read

import gemmed

PAGE = Path(__file__).parents[2] / "docs" / "research" / "benchmarks.md"
BEGIN, END = "<!-- quality: begin -->", "<!-- quality: end -->"
TABLES = {
    "Ranking: average precision": {
        "wrong labels": "AP wrong",
        "bad rows": "AP bad",
        "either": "AP either",
    },
    "Flags: one kind of fault is more likely than none": {
        "precision": "plain precision",
        "recall": "plain recall",
        "good rows flagged": "plain good flagged",
    },
    "Precise flags": {
        "precision": "precise precision",
        "recall": "precise recall",
        "good rows flagged": "precise good flagged",
    },
    "Coverage of 90 % intervals": {
        "wrong labels": "covers wrong",
        "bad rows": "covers bad",
        "either": "covers either",
    },
    "Accuracy on clean test rows": {"accuracy": "accuracy"},
}


def markdown_table(files: dict[str, pd.DataFrame], cells: list[str], columns: dict) -> str:
    """One line per kind of data, one column per measure and method; empty lines are left out."""
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
    lines = [["data", *(heads[i - 1] for i in kept)], ["---"] * (len(kept) + 1)]
    lines += [[row[0], *(row[i] for i in kept)] for row in rows if any(row[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="NAME=FILE.csv")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    files = {name: read(path, ["*"], "") for name, path in (f.split("=") for f in options.files)}
    cells = list(dict.fromkeys(cell for runs in files.values() for cell in runs["cell"]))
    runs = next(iter(files.values()))
    text = (
        f"Version {gemmed.__version__}, {datetime.date.today()}: means over tables. {len(runs)} "
        f"runs per method, {runs['table'].nunique()} tables and made data sets."
    )
    parts = [text]
    for title, columns in TABLES.items():
        parts += [f"### {title}", markdown_table(files, cells, columns)]
    page = options.page.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    new = f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"
    options.page.write_text(new, encoding="utf-8")
    print(options.page)


if __name__ == "__main__":
    main()
