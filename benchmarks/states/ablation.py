"""What does each part of the states bring? Every source and check left out in turn, paired.

python benchmarks/states/ablation.py FOLDER [--rows 500] [--seeds 1] [--out FILE.csv]

GEM-MED without a base on the tables and cells of ``compare.py``, and on legitimate data and rings.
Differences "without minus with" of average precision (either fault), accuracy, rows flagged wrongly
and rightly (shares of all rows), with standard errors over tables.
"""

import argparse
import warnings
from contextlib import ExitStack
from unittest import mock

import legitimate
import numpy as np
import pandas as pd
from protocol import CELLS, average_precision, damage, split, tables
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.datasets import make_ring


def nothing(*arguments, **options):
    return None


def never(*arguments, **options):
    return False


def no_far_groups(distances, knn, class_index, seed, considered=None):
    from gemmed.evidence.far_groups import FarGroups

    return FarGroups(np.zeros(len(knn)), np.zeros(len(knn), dtype=bool))


def nobody(rows_or_distances, *arguments):
    n = getattr(rows_or_distances, "n_samples", None)
    return np.zeros(len(arguments[0]) if n is None else n, dtype=bool)


JUDGED = "gemmed.evidence.bad_rows.judged"
WITHOUT = {
    "everything": {},
    "statistics of single rows": {"gemmed.estimators.state_fit.judge_measurements": nothing},
    "tight places": {f"{JUDGED}.find_dense_place": nothing},
    "far groups": {"gemmed.evidence.shared_faults.far_groups": no_far_groups},
    "stuck readings": {"gemmed.evidence.shared_faults.stuck_rows": nobody},
    "dead rows": {"gemmed.evidence.shared_faults.dead_rows": nobody},
    "gross values": {"gemmed.evidence.shared_faults.gross_rows": nobody},
    "company": {f"{JUDGED}.COMPANY": 0.0},
    "vouching for far groups": {"gemmed.evidence.far_groups.vouched_for": nobody},
    "veto of predictions": {"gemmed.evidence.kernel_and_veto.is_learnable": never},
    "empty boundary": {"gemmed.model.states.likelihood.CLEAR": 0.0},
}


def cases(options):
    """Name of the group, rows, labels, faults, test rows and labels."""
    for seed in range(options.seeds):
        for name in tables(options.folder):
            for cell in CELLS:
                X, truth, X_test, y_test = split(options.folder, name, seed, options.rows)
                X, y, wrong, bad = damage(X, truth, cell, seed)
                scaler = StandardScaler().fit(X)
                tested = scaler.transform(X_test), y_test
                yield (cell, f"{name} {seed}", scaler.transform(X), y, wrong | bad, *tested)
        for name, (n, make) in legitimate.CASES.items():
            X, y, _ = make(np.random.default_rng([seed, 1]), n)
            Z = StandardScaler().fit_transform(X)
            yield ("legitimate", f"{name} {seed}", Z, y, np.zeros(n, dtype=bool), Z, y)
        for radius in (15, 35, 55, 75):
            for share in (0.2, 0.3, 0.4, 0.5):
                ring = make_ring(100, radius=radius, corruption=share, random_state=seed)
                key = f"{radius} {share} {seed}"
                yield ("ring", key, ring.X, ring.y, ring.anomalous, ring.X_test, ring.y_test)


def measured(model, X, y, faults, X_test, y_test):
    fitted = model.fit(X, y)
    flagged = fitted.nominal_proba_ < 0.5
    return {
        "AP": average_precision(faults, fitted.anomaly_scores_),
        "accuracy": 100.0 * np.mean(fitted.predict(X_test) == y_test),
        "flagged wrongly": 100.0 * np.mean(flagged & ~faults),
        "flagged rightly": 100.0 * np.mean(flagged & faults),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", default="ablation.csv")
    options = parser.parse_args()
    results = []
    for group, key, *data in cases(options):
        kernel = "linear" if group == "ring" else "rbf"
        for left_out, replaced in WITHOUT.items():
            with ExitStack() as stack, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for name, other in replaced.items():
                    stack.enter_context(mock.patch(name, other))
                try:
                    found = measured(GEMMEDClassifier(kernel, random_state=0), *data)
                except ValueError:  # a class that damage left too small
                    continue
            results.append({"group": group, "key": key, "without": left_out, **found})
        pd.DataFrame(results).to_csv(options.out, index=False)
    frame = pd.DataFrame(results).set_index(["group", "key", "without"]).unstack("without")
    for left_out in list(WITHOUT)[1:]:
        print(f"\nwithout {left_out}: difference (standard error)")
        for measure in ("AP", "accuracy", "flagged wrongly", "flagged rightly"):
            difference = frame[measure][left_out] - frame[measure]["everything"]
            by_group = difference.groupby("group", sort=False)
            mean, error = by_group.mean(), by_group.std() / np.sqrt(by_group.count())
            cells = [f"{name} {mean[name]:+.3f} ({error[name]:.3f})" for name in mean.index]
            print(f"  {measure}: " + ", ".join(cells))


if __name__ == "__main__":
    main()
