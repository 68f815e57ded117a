"""Changes of the data that should not matter: the largest difference that each makes.

python tests/attack/invariance.py [TABLES]        (default: 2 tables for each number of classes)

The estimators are those of tests/estimators/test_metamorphic.py, which holds them to the tolerances
that docs/reliability.md promises. Differences are of probabilities, of detectors of scores.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

if __package__ is None:
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "estimators"), str(tests.parent / "src")]

import test_metamorphic as metamorphic

CHANGES = ("rows", "columns", "names", "constant", "weight 0")
N_ROWS = 120


def sample(n_classes, seed):
    """Rows with wrong labels and bad measurements, and new rows."""
    rng = np.random.default_rng([seed, n_classes])
    true = np.arange(N_ROWS) % n_classes
    X = rng.normal(size=(N_ROWS, 4)) + 2.0 * np.eye(4)[true]
    y = true.copy()
    wrong = rng.permutation(N_ROWS)[:8]
    y[wrong] = (y[wrong] + 1) % n_classes
    X[rng.permutation(N_ROWS)[:4]] *= 5.0
    return X, y, rng.normal(size=(40, 4)) + 2.0 * np.eye(4)[np.arange(40) % n_classes]


def differences(name, n_classes, seed):
    """Largest difference of each of CHANGES; None where there is no such change."""
    X, y, new = sample(n_classes, seed)

    def found(*data, **options):
        return metamorphic.found_by(name, *data, **options)

    plain = found(X, y, new)
    order = np.random.default_rng(seed).permutation(N_ROWS)
    yield largest(plain, found(X[order], y[order], new), rows=np.argsort(order))
    columns = [2, 0, 3, 1]
    yield largest(plain, found(X[:, columns], y, new[:, columns]))
    number = np.roll(np.arange(n_classes), 1)
    yield largest(plain, found(X, number[y], new), classes=number)
    yield largest(
        plain, found(*(np.insert(X, 2, -7e5, axis=1), y, np.insert(new, 2, -7e5, axis=1)))
    )
    if name not in metamorphic.WEIGHTED:
        yield None
        return
    more, labels = np.vstack([X, np.full((1, 4), 1e4), X[:1]]), np.append(y, [0, 1 - min(y[0], 1)])
    weights = np.append(np.ones(N_ROWS), [0.0, 0.0])
    yield largest(plain, found(more, labels, new, sample_weight=weights), rows=np.arange(N_ROWS))


def largest(plain, changed, *, rows=None, classes=None):
    worst = 0.0
    for known, values in plain.items():
        others = changed[known]
        if known == "p_values":
            continue
        if rows is not None and known in metamorphic.PER_SAMPLE:
            others = others[rows]
        if classes is not None and known in metamorphic.OF_CLASSES:
            others = others[:, classes]
        worst = max(worst, float(np.abs(others - values).max()))
    return worst


def main(n_tables=2):
    warnings.simplefilter("ignore")
    print(f"{'estimator':14}" + "".join(f"{change:>10}" for change in CHANGES))
    for name in metamorphic.ESTIMATORS:
        cases = [k for own, k in metamorphic.CASES if own == name]
        worst = [None] * len(CHANGES)
        for k in cases:
            for seed in range(n_tables):
                for i, value in enumerate(differences(name, k, seed)):
                    worst[i] = value if worst[i] is None else max(worst[i], value)
        print(
            f"{name:14}" + "".join(f"{'-' if w is None else f'{w:.2g}':>10}" for w in worst),
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
