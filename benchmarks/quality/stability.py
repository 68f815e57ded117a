"""Do flags stay the same where nothing that matters has changed?

python benchmarks/quality/stability.py FOLDER [--tables 10] [--rows 500] [--out FILE.csv]

The first tables of FOLDER (cells.py) that have as many training rows, cell "mixed". One table at
a time is changed in five ways:

seed        another random_state of the classifier
draw        other faults on the same rows: as many, at other places
copies      every row twice; flags of the first copies are compared
groups      the same, and groups say which rows are copies
order       the same rows in another order

For seeds and draws: the largest number of flags over the smallest. For copies and orders: the share
of flags that change, which is those of one fit only over those of either. The table is written to
docs/figures/verdict-stability.json.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from cells import Case, damage, split, standardised, table_names

from gemmed import GEMMEDClassifier

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import write_figures

N_REPEATS = 5
KINDS = ("plain", "precise")
CHANGES = {  # change: what is measured, and what was demanded
    "seed": ("largest / smallest number of flags", 1.2),
    "draw": ("largest / smallest number of flags", 1.3),
    "copies": ("share of flags that change", 0.1),
    "groups": ("share of flags that change", 0.1),
    "order": ("share of flags that change", 0.1),
}


def cases(folder: str, name: str, n_rows: int) -> list[Case]:
    """The same rows with faults drawn several times."""
    X, truth, *test = split(folder, name, 0, n_rows)
    found = []
    for draw in range(N_REPEATS):
        rng = np.random.default_rng([draw, 11, crc32(name.encode())])
        rows, y, wrong, bad, _ = damage(X, truth, "mixed", rng)
        found.append(standardised(rows, y, truth, wrong, bad, *test))
    return found


def flags(Z: np.ndarray, y: np.ndarray, seed: int = 0, groups: Any = None) -> dict[str, np.ndarray]:
    model = GEMMEDClassifier(random_state=seed).fit(Z, y, groups=groups)
    return {kind: model.flagged(kind) for kind in KINDS}


def ratio(counts: list[int]) -> float:
    """Largest over smallest number, where one flag is as good as none."""
    return max(*counts, 1) / max(min(counts), 1)


def changed(first: np.ndarray, second: np.ndarray) -> float:
    """Share of the flags of either that only one has."""
    return float((first ^ second).sum() / max((first | second).sum(), 1))


def measured(drawn: list[Case]) -> Iterator[dict[str, Any]]:
    """One line for each change and kind of flags."""
    Z, y = drawn[0].Z, drawn[0].y
    order = np.random.default_rng(0).permutation(len(y))
    seeds = [flags(Z, y, seed) for seed in range(N_REPEATS)]
    draws = [seeds[0], *(flags(own.Z, own.y) for own in drawn[1:])]
    twice = np.vstack([Z, Z]), np.concatenate([y, y])
    copies, groups = flags(*twice), flags(*twice, groups=np.tile(np.arange(len(y)), 2))
    moved = flags(Z[order], y[order])
    for kind in KINDS:
        first = seeds[0][kind]
        values = {
            "seed": ratio([int(own[kind].sum()) for own in seeds]),
            "draw": ratio([int(own[kind].sum()) for own in draws]),
            "copies": changed(first, copies[kind][: len(y)]),
            "groups": changed(first, groups[kind][: len(y)]),
            "order": changed(first[order], moved[kind]),
        }
        for change, value in values.items():
            yield {"change": change, "kind": kind, "value": value, "flags": int(first.sum())}


def write_table(runs: pd.DataFrame, command: str) -> None:
    lines = []
    for change, (measure, target) in CHANGES.items():
        for kind in KINDS:
            values = runs.loc[(runs["change"] == change) & (runs["kind"] == kind), "value"]
            n_within = int((values <= target).sum())
            lines.append(
                [change, kind, measure, f"{values.median():.2f}", f"{values.max():.2f}",
                 f"{target:g}", f"{n_within} of {len(values)}"]
            )  # fmt: skip
    columns = ["changed", "flags", "measure", "median", "largest", "limit", "tables within"]
    size = f"{runs['table'].nunique()} tables, 10 % wrong labels and 6 % bad rows"
    write_figures("verdict-stability", f"Stability of flags ({size})", columns, lines, command)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--out", help="write the measures of every table to a CSV file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    every = ((name, cases(options.folder, name, options.rows)) for name in
             table_names(options.folder))  # fmt: skip
    large = ((name, drawn) for name, drawn in every if len(drawn[0].y) == options.rows)
    runs = []
    for name, drawn in islice(large, options.tables):
        runs += [{"table": name, **line} for line in measured(drawn)]
        print(
            name, *(f"{r['change']} {r['kind']} {r['value']:.2f}" for r in runs[-10:]), flush=True
        )
    frame = pd.DataFrame(runs)
    if options.out:
        frame.to_csv(options.out, index=False)
    sizes = f"--tables {options.tables} --rows {options.rows}"
    write_table(frame, f"python benchmarks/quality/stability.py FOLDER {sizes}")


if __name__ == "__main__":
    main()
