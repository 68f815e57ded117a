"""Is the default ever worse than its best member, chosen in hindsight?

python benchmarks/quality/members.py DEFAULT.csv FOREST.csv KERNEL.csv BOOSTING.csv LOGISTIC.csv

Files of run.py. For each table and cell: the default minus the best of the others, and minus the
forest. Means over tables with standard errors, seeds averaged first.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from summary import KEYS, read

MEASURES = ("AP wrong", "accuracy")


def mean_and_error(gap: pd.Series) -> str:
    by_table = gap.groupby("table").mean().dropna()
    error = by_table.std() / np.sqrt(len(by_table)) if len(by_table) > 1 else np.nan
    return f"{by_table.mean():+.4f} ± {error:.4f} ({len(by_table)} tables)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("default")
    parser.add_argument("forest")
    parser.add_argument("others", nargs="*")
    options = parser.parse_args()
    files = [options.default, options.forest, *options.others]
    runs = {Path(path).stem: read(path, ["*"], "").set_index(KEYS) for path in files}
    for measure in MEASURES:
        values = pd.DataFrame({name: own[measure] for name, own in runs.items()}).dropna()
        ours, forest, members = values.iloc[:, 0], values.iloc[:, 1], values.iloc[:, 1:]
        for cell in [*dict.fromkeys(values.index.get_level_values("cell")), "all"]:
            here = [cell in ("all", own) for own in values.index.get_level_values("cell")]
            best = (ours - members.max(axis=1))[here]
            print(f"{measure}, {cell}: minus the best member {mean_and_error(best)}, "
                  f"minus the forest {mean_and_error((ours - forest)[here])}")  # fmt: skip
        names = members.idxmax(axis=1).value_counts()
        print(f"  best member: {', '.join(f'{name} {n}' for name, n in names.items())}")


if __name__ == "__main__":
    main()
