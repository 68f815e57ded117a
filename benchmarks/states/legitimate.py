"""Data that look odd and are right: how much of them is accused?

python benchmarks/states/legitimate.py [--seeds 3]

For every kind: share of the minority that is flagged, share of all rows, estimated contamination.
Also alarms of ``screen`` at 5 % on new rows of the same kind, and errors on the minority beside
those of SVC.
"""

import argparse
import warnings

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier

NEW_ROWS = 2000


def two_classes(rng, n, p=4, gap=3.0):
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, p))
    X[:, 0] += gap * (y - 0.5)
    return X, y


def mode(rng, n, size, side):
    """A small mode of class 0: beyond the other class, beside both, or beyond its own."""
    X, y = two_classes(rng, n)
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.choice(n, size, replace=False)] = True
    centre = np.zeros(4)
    centre[1 if side == "beside" else 0] = -8.0 if side == "beyond its own" else 8.0
    X[chosen] = centre + 0.7 * rng.normal(size=(size, 4))
    y[chosen] = 0
    return X, y, chosen


def imputed(rng, n, share):
    """Rows of which half of the columns were missing and are filled with the mean."""
    mixing = np.random.default_rng(2).normal(size=(3, 12))
    y = rng.integers(2, size=n)
    hidden = rng.normal(size=(n, 3))
    hidden[:, 0] += 2.5 * (y - 0.5)
    X = hidden @ mixing + 0.5 * rng.normal(size=(n, 12))
    filled = rng.uniform(size=n) < share
    X[np.ix_(filled, np.arange(6))] = X[~filled, :6].mean(axis=0)
    return X, y, filled


def wide(rng, n):
    """Many more columns than rows."""
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2000))
    X[:, :20] += 1.6 * (y - 0.5)[:, None]
    return X, y, np.ones(n, dtype=bool)


def repeated(rng, n):
    """Three rows of ten stand twice."""
    X, y = two_classes(rng, n, 5)
    copies = rng.permutation(n)[: n * 3 // 5].reshape(2, -1)
    X[copies[0]], y[copies[0]] = X[copies[1]], y[copies[1]]
    again = np.zeros(n, dtype=bool)
    again[copies.ravel()] = True
    return X, y, again


def heavy(rng, n, joint):
    """Tails of a t distribution, for each value or for whole rows."""
    y = rng.integers(2, size=n)
    X = rng.standard_t(2.5, size=(n, 5))
    if joint:
        X = rng.normal(size=(n, 5)) / np.sqrt(rng.chisquare(2.5, size=(n, 1)) / 2.5)
    X[:, 0] += 3.0 * (y - 0.5)
    return X, y, np.ones(n, dtype=bool)


def spreads(rng, n):
    """One class is five times as wide as the other."""
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 4)) * np.where(y == 1, 5.0, 1.0)[:, None]
    X[:, 0] += 3.0 * y
    return X, y, y == 1


def shares(rng, n):
    """Twenty of one class for each of the other."""
    y = (rng.uniform(size=n) < 1 / 21).astype(int)
    X = rng.normal(size=(n, 4))
    X[:, :2] += 3.0 * y[:, None]
    return X, y, y == 1


CASES = {
    "mode of 3 %, beyond the other class": (400, lambda r, n: mode(r, n, n * 3 // 100, "beyond")),
    "mode of 3 %, beside": (400, lambda r, n: mode(r, n, n * 3 // 100, "beside")),
    "mode of 3 %, beyond its own": (400, lambda r, n: mode(r, n, n * 3 // 100, "beyond its own")),
    "mode of 5 rows": (120, lambda r, n: mode(r, n, max(5, n * 5 // 120), "beyond")),
    "15 % imputed": (400, lambda r, n: imputed(r, n, 0.15)),
    "3 % imputed": (400, lambda r, n: imputed(r, n, 0.03)),
    "2,000 columns, 80 rows": (80, wide),
    "repeated rows": (400, repeated),
    "heavy tails": (400, lambda r, n: heavy(r, n, False)),
    "heavy rows": (400, lambda r, n: heavy(r, n, True)),
    "unequal spreads": (400, spreads),
    "1 : 20": (420, shares),
}


def measured(make, n, seed):
    """The five numbers of one run."""
    X, y, minority = make(np.random.default_rng([seed, 1]), n)
    X_new = make(np.random.default_rng([seed, 2]), NEW_ROWS if X.shape[1] < 100 else 500)[0]
    scaler = StandardScaler().fit(X)
    Z = scaler.transform(X)
    fitted = GEMMEDClassifier(random_state=0).fit(Z, y)
    flagged = fitted.nominal_proba_ < 0.5
    svc = SVC().fit(Z, y)
    return (
        flagged[minority].mean(),
        flagged.mean(),
        fitted.contamination_,
        fitted.screen(scaler.transform(X_new), 0.05).mean(),
        np.mean(fitted.predict(Z)[minority] != y[minority]),
        np.mean(svc.predict(Z)[minority] != y[minority]),
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ("minority flagged", "all flagged", "contamination", "alarms", "errors", "SVC")
    print(f"{'':36s}" + "".join(f"{name:>18s}" for name in names))
    for name, (n, make) in CASES.items():
        runs = [measured(make, n, seed) for seed in range(options.seeds)]
        print(f"{name:36s}" + "".join(f"{value:18.3f}" for value in np.mean(runs, axis=0)))


if __name__ == "__main__":
    main()
