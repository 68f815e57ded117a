"""Made data of the quality benchmark: for every cell the cases of one draw."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from cells import Case, standardised
from scipy.stats import norm, ortho_group

from gemmed.datasets import make_ring

N_TEST, CASES_A_DRAW = 1000, 2
GROUP_SPREADS, GROUP_DISTANCES = (0.3, 1.0, 2.0), (4.0, 6.0, 9.0)


def clean_case(make: Callable, rng: np.random.Generator, n: int, n_test: int = N_TEST) -> Case:
    """Rows that are all right, with their minority, and new rows of the same kind."""
    X, y, minority = make(rng, n)
    X_test, y_test, _ = make(rng, n_test)
    none = np.zeros(len(y), dtype=bool)
    return standardised(X, y, y, none, none.copy(), X_test, y_test, minority=minority)


def two_classes(rng: Any, n: int, p: int = 4, gap: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, p))
    X[:, 0] += gap * (y - 0.5)
    return X, y


def random_labels(rng: Any) -> Iterator[tuple[str, Case]]:
    """Columns that say nothing about the labels; no label counts as wrong."""
    for number in range(CASES_A_DRAW):
        n_classes, p = int(rng.integers(2, 9)), int(rng.integers(5, 61))
        n = int(np.exp(rng.uniform(np.log(150), np.log(2500))))

        def make(rng: Any, n: int, K: int = n_classes, p: int = p) -> tuple:
            return rng.normal(size=(n, p)), rng.permutation(np.arange(n) % K), None

        yield f"{number}: {n_classes} classes, {p} columns, {n} rows", clean_case(make, rng, n)


def overlap(rng: Any) -> Iterator[tuple[str, Case]]:
    """Two Gaussian classes without a fault whose Bayes error is 20 to 40 %."""
    for number in range(CASES_A_DRAW):
        error, p, n = rng.uniform(0.2, 0.4), int(rng.integers(2, 16)), int(rng.integers(300, 1201))
        rotation = ortho_group.rvs(p, random_state=rng)
        gap = -2.0 * norm.ppf(error)

        def make(rng: Any, n: int, gap: float = gap, rotation: np.ndarray = rotation) -> tuple:
            X, y = two_classes(rng, n, len(rotation), gap)
            return X @ rotation, y, None

        name = f"{number}: Bayes error {error:.2f}, {p} columns, {n} rows"
        yield name, clean_case(make, rng, n)


def mode(rng: Any, n: int, size: int, side: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A small mode of class 0: beyond the other class, beside both, or beyond its own."""
    X, y = two_classes(rng, n)
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.choice(n, size, replace=False)] = True
    centre = np.zeros(4)
    centre[1 if side == "beside" else 0] = -8.0 if side == "beyond its own" else 8.0
    X[chosen] = centre + 0.7 * rng.normal(size=(size, 4))
    y[chosen] = 0
    return X, y, chosen


def imputed(rng: Any, n: int, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of which half of the columns were missing and are filled with the mean."""
    mixing = np.random.default_rng(2).normal(size=(3, 12))
    y = rng.integers(2, size=n)
    hidden = rng.normal(size=(n, 3))
    hidden[:, 0] += 2.5 * (y - 0.5)
    X = hidden @ mixing + 0.5 * rng.normal(size=(n, 12))
    filled = rng.uniform(size=n) < share
    X[np.ix_(filled, np.arange(6))] = X[~filled, :6].mean(axis=0)
    return X, y, filled


def wide(rng: Any, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Many more columns than rows."""
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2000))
    X[:, :20] += 1.6 * (y - 0.5)[:, None]
    return X, y, np.ones(n, dtype=bool)


def repeated(rng: Any, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three rows of ten stand twice."""
    X, y = two_classes(rng, n, 5)
    copies = rng.permutation(n)[: n * 3 // 5].reshape(2, -1)
    X[copies[0]], y[copies[0]] = X[copies[1]], y[copies[1]]
    again = np.zeros(n, dtype=bool)
    again[copies.ravel()] = True
    return X, y, again


def unequal_spreads(rng: Any, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One class is five times as wide as the other."""
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 4)) * np.where(y == 1, 5.0, 1.0)[:, None]
    X[:, 0] += 3.0 * y
    return X, y, y == 1


def unequal_shares(rng: Any, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Twenty of one class for each of the other."""
    y = (rng.uniform(size=n) < 1 / 21).astype(int)
    X = rng.normal(size=(n, 4))
    X[:, :2] += 3.0 * y[:, None]
    return X, y, y == 1


LEGITIMATE = {
    "mode of 3 %, beyond the other class": (400, lambda r, n: mode(r, n, n * 3 // 100, "beyond")),
    "mode of 3 %, beside": (400, lambda r, n: mode(r, n, n * 3 // 100, "beside")),
    "mode of 3 %, beyond its own": (400, lambda r, n: mode(r, n, n * 3 // 100, "beyond its own")),
    "mode of 5 rows": (120, lambda r, n: mode(r, n, max(5, n * 5 // 120), "beyond")),
    "15 % imputed": (400, lambda r, n: imputed(r, n, 0.15)),
    "3 % imputed": (400, lambda r, n: imputed(r, n, 0.03)),
    "2000 columns, 80 rows": (80, wide),
    "repeated rows": (400, repeated),
    "unequal spreads": (400, unequal_spreads),
    "1 : 20": (420, unequal_shares),
}


def legitimate(rng: Any) -> Iterator[tuple[str, Case]]:
    """Rows that look odd and are right."""
    for name, (n, make) in LEGITIMATE.items():
        yield name, clean_case(make, rng, n, 500 if make is wide else N_TEST)


def heavy_tails(rng: Any) -> Iterator[tuple[str, Case]]:
    """Tails of a t distribution, for each value or for whole rows."""
    for is_joint in (False, True):
        freedom = rng.uniform(2.0, 4.0)

        def make(rng: Any, n: int, joint: bool = is_joint, df: float = freedom) -> tuple:
            _, y = two_classes(rng, n)
            X = rng.normal(size=(n, 5)) / np.sqrt(rng.chisquare(df, (n, 1 if joint else 5)) / df)
            X[:, 0] += 3.0 * (y - 0.5)
            return X, y, None

        kind = "rows" if is_joint else "values"
        yield f"{kind}, {freedom:.1f} degrees of freedom", clean_case(make, rng, 400)


def groups(rng: Any, has_chance_labels: bool) -> Iterator[tuple[str, Case]]:
    """A group of 5 to 20 rows away from two classes, with pure labels or with labels of chance.

    The distance is counted from the centre of the group's class in deviations of that class. The
    other class is at least as far. With labels of chance the group's rows are bad.
    """
    for spread in GROUP_SPREADS:
        for distance in GROUP_DISTANCES:
            size, p = int(rng.integers(5, 21)), int(rng.integers(3, 9))
            n = int(rng.choice([120, 400]))
            X, y = two_classes(rng, n, p)
            direction = rng.normal(size=p)
            direction[0] = -abs(direction[0])  # away from class 1
            centre = distance * direction / np.linalg.norm(direction)
            centre[0] -= 1.5
            rows = rng.choice(n, size, replace=False)
            X[rows] = centre + spread * rng.normal(size=(size, p))
            truth = y.copy()
            truth[rows] = 0
            y = truth.copy()
            if has_chance_labels:
                y[rows] = rng.permutation(np.arange(size) % 2)
            group = np.zeros(n, dtype=bool)
            group[rows] = True
            none = np.zeros(n, dtype=bool)
            case = standardised(
                X, y, truth, none, group if has_chance_labels else none.copy(),
                *two_classes(rng, N_TEST, p), group=group,
                minority=None if has_chance_labels else group,
            )  # fmt: skip
            yield f"spread {spread:g}, distance {distance:g}, {size} of {n} rows", case


def ring(rng: Any) -> Iterator[tuple[str, Case]]:
    """The rings of the paper: anomalies far from both classes."""
    for radius in (15, 35, 55, 75):
        corruption, layout = rng.uniform(0.2, 0.5), str(rng.choice(["paper", "separated"]))
        data = make_ring(radius=radius, corruption=corruption, layout=layout, random_state=rng)
        y, bad = (data.y > 0).astype(int), np.asarray(data.anomalous)
        case = standardised(
            data.X, y, y, np.zeros(len(y), dtype=bool), bad, data.X_test, data.y_test > 0
        )
        yield f"R {radius}, {layout}, {corruption:.2f} moved", case


MADE_CELLS: dict[str, Callable] = {
    "random labels": random_labels,
    "overlap": overlap,
    "legitimate": legitimate,
    "groups pure": lambda rng: groups(rng, False),
    "groups chance": lambda rng: groups(rng, True),
    "ring": ring,
    "heavy tails": heavy_tails,
}


def made_cases(cell: str, draw: int) -> Iterator[tuple[str, Case]]:
    """Names and cases of one draw; a name occurs once."""
    rng = np.random.default_rng([draw, 13, list(MADE_CELLS).index(cell)])
    for name, case in MADE_CELLS[cell](rng):
        yield f"{name} (draw {draw})", case
