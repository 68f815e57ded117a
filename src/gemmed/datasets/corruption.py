"""Faults put into clean training data, with the truth about every row.

Features are expected in units of their standard deviation (StandardScaler); the strengths below are
in those units. ``rate`` is a share of each class. A row has a wrong label, a wrong measurement, or
both.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from .._core.types import BoolArray, FloatArray

Corruption = Literal[
    "flips",
    "one-sided flips",
    "feature noise",
    "stuck sensor",
    "failed block",
    "cluster",
    "flips + noise",
]
Labels = npt.NDArray[Any]
KINDS: tuple[Corruption, ...] = get_args(Corruption)
NOMINAL, LABEL, MEASUREMENT, BOTH = "", "label", "measurement", "both"
MAX_RATE = 0.5

NOISE = 3.0
"""Standard deviation of the noise added by "feature noise"."""
STUCK_DISTANCE_DEVIATIONS = 3.0
"""Distance from the mean at which a stuck sensor reads."""
BLOCK_NOISE = 2.0
"""Standard deviation of what a failed block reads."""
CLUSTER_PLACE, CLUSTER_WIDTH = 0.75, 0.1
"""The cluster lies this far from the mean of its own class to that of the other class."""


class Corrupted(NamedTuple):
    """Training data with faults, and the truth.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.datasets import corrupt
    >>> X, y = np.random.default_rng(0).normal(size=(100, 4)), np.repeat([0, 1], 50)
    >>> faulty = corrupt(X, y, "flips + noise", 0.2, random_state=0)
    >>> {str(kind): int((faulty.fault == kind).sum()) for kind in np.unique(faulty.fault)}
    {'': 80, 'both': 9, 'label': 3, 'measurement': 8}
    """

    X: FloatArray
    """Shape (n_samples, n_features)."""
    y: npt.NDArray[Any]
    """Given labels, shape (n_samples,)."""
    corrupted: BoolArray
    """Shape (n_samples,)."""
    fault: npt.NDArray[np.str_]
    """"label", "measurement", "both" or "" (nominal), shape (n_samples,)."""


def corrupt(
    X: Any,
    y: Any,
    kind: Corruption,
    rate: float,
    *,
    random_state: int | Generator | None = None,
) -> Corrupted:
    """Copy of the data in which a known part of each class is faulty.

    In class z the faulty rows are n_z = round(rate * N_z) rows drawn without replacement. The
    symbol e is standard Gaussian noise, one number per row and feature.

    ``"flips"``
        The label becomes another class, drawn uniformly among the classes with room. A class loses
        and gains at most n_z rows, so that at most the share ``rate`` of the rows *labelled* z is
        wrong. With unequal classes a plain rate of 0.4 would leave the small class mostly wrong.
        Rows without a class to go to stay as they are.
    ``"one-sided flips"``
        As flips, but only rows of one class, drawn at random, change their label, all n_z of them.
    ``"feature noise"``
        x + 3 e.
    ``"stuck sensor"``
        A third of the features, the same in every faulty row, read -3 or +3, each always the same.
    ``"failed block"``
        A contiguous half of the features, the same in every faulty row, reads 2 e: nothing of the
        sample is left there.
    ``"cluster"``
        n_z rows of one class z, drawn at random, are replaced by m_z + 0.75 (m_o - m_z) + 0.1 e.
        Here m_z is the mean of the class and m_o that of the nearest other class. This is a dense
        cluster on the wrong side of the midpoint. The label stays z.
    ``"flips + noise"``
        Each faulty row has a flip, noise or both, with equal chances (noise alone where the class
        to flip to has no room).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Standardised features.
    y : array-like of shape (n_samples,)
        Labels of two or more classes.
    kind : name of the fault, see above
    rate : share of each class that is faulty, 0 to 0.5
    random_state : seed or generator

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.datasets import corrupt
    >>> X, y = np.random.default_rng(0).normal(size=(100, 4)), np.repeat([0, 1], 50)
    >>> faulty = corrupt(X, y, "flips", 0.2, random_state=0)
    >>> int(faulty.corrupted.sum()), int((faulty.y != y).sum())
    (20, 20)
    """
    X = np.array(X, dtype=np.float64)
    y = np.array(y)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"X has shape {X.shape} and y has shape {y.shape}: give (n_samples, n_features) and "
            "(n_samples,)."
        )
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {', '.join(KINDS)}.")
    if not 0.0 <= rate <= MAX_RATE:
        raise ValueError(
            f"rate={rate!r} must lie between 0 and {MAX_RATE:g}: above that the faults are the "
            "majority of a class."
        )
    if len(np.unique(y)) < 2:
        raise ValueError(f"y holds {len(np.unique(y))} class: give two or more.")
    rng = np.random.default_rng(random_state)
    fault = np.full(len(y), NOMINAL, dtype=f"<U{len(MEASUREMENT)}")
    FAULTS[kind](X, y, fault, rate, rng)
    return Corrupted(X, y, fault != NOMINAL, fault)


def _faulty_rows(y: Labels, rate: float, rng: Generator) -> npt.NDArray[np.intp]:
    """round(rate * N_z) rows of each class, in random order."""
    rows = [
        rng.choice(members, round(rate * len(members)), replace=False)
        for members in (np.flatnonzero(y == label) for label in np.unique(y))
    ]
    return rng.permutation(np.concatenate(rows))


def _flip(
    y: Labels, rows: npt.NDArray[np.intp], rate: float, rng: Generator
) -> npt.NDArray[np.intp]:
    """Change labels in place where a class has room; the rows whose label changed."""
    classes, sizes = np.unique(y, return_counts=True)
    room = {label: round(rate * size) for label, size in zip(classes, sizes, strict=True)}
    flipped = []
    for row in rows:
        targets = [label for label in classes if label != y[row] and room[label] > 0]
        if targets:
            new = targets[rng.integers(len(targets))]
            room[new] -= 1
            y[row] = new
            flipped.append(row)
    return np.array(flipped, dtype=np.intp)


def _rows_of_one_class(y: Labels, rate: float, rng: Generator) -> tuple[int, npt.NDArray[np.intp]]:
    """Index of a class drawn at random, and round(rate * N_z) of its rows."""
    classes = np.unique(y)
    own = int(rng.integers(len(classes)))
    members = np.flatnonzero(y == classes[own])
    return own, rng.choice(members, round(rate * len(members)), replace=False)


def _flips(X: FloatArray, y: Labels, fault: Any, rate: float, rng: Generator) -> None:
    fault[_flip(y, _faulty_rows(y, rate, rng), rate, rng)] = LABEL


def _one_sided_flips(X: FloatArray, y: Labels, fault: Any, rate: float, rng: Generator) -> None:
    classes = np.unique(y)
    source, rows = _rows_of_one_class(y, rate, rng)
    y[rows] = rng.choice(np.delete(classes, source), len(rows))
    fault[rows] = LABEL


def _cluster(X: FloatArray, y: Labels, fault: Any, rate: float, rng: Generator) -> None:
    own, rows = _rows_of_one_class(y, rate, rng)
    means = np.stack([X[y == label].mean(axis=0) for label in np.unique(y)])
    distances = np.linalg.norm(means - means[own], axis=1)
    distances[own] = np.inf
    centre = means[own] + CLUSTER_PLACE * (means[np.argmin(distances)] - means[own])
    X[rows] = centre + CLUSTER_WIDTH * rng.normal(size=(len(rows), X.shape[1]))
    fault[rows] = MEASUREMENT


def _wrong_features(
    X: FloatArray, y: Labels, fault: Any, rate: float, rng: Generator, kind: Corruption
) -> None:
    """Noise everywhere, stuck sensors or a failed block, in some rows of each class."""
    rows, n_features = _faulty_rows(y, rate, rng), X.shape[1]
    if kind == "feature noise":
        X[rows] += NOISE * rng.normal(size=(len(rows), n_features))
    elif kind == "stuck sensor":
        n_stuck = max(1, round(n_features / 3))
        sensors = rng.choice(n_features, n_stuck, replace=False)
        X[np.ix_(rows, sensors)] = STUCK_DISTANCE_DEVIATIONS * rng.choice([-1.0, 1.0], n_stuck)
    else:
        width = max(1, n_features // 2)
        start = int(rng.integers(n_features - width + 1))
        X[rows, start : start + width] = BLOCK_NOISE * rng.normal(size=(len(rows), width))
    fault[rows] = MEASUREMENT


def _flips_and_noise(X: FloatArray, y: Labels, fault: Any, rate: float, rng: Generator) -> None:
    rows = _faulty_rows(y, rate, rng)
    kind = rng.integers(3, size=len(rows))
    flipped = _flip(y, rows[kind != 1], rate, rng)
    without_room = np.setdiff1d(rows[kind == 0], flipped)
    noisy = np.union1d(rows[kind != 0], without_room)
    X[noisy] += NOISE * rng.normal(size=(len(noisy), X.shape[1]))
    fault[noisy] = MEASUREMENT
    fault[np.setdiff1d(flipped, noisy)] = LABEL
    fault[np.intersect1d(flipped, noisy)] = BOTH


FAULTS: dict[Corruption, Callable[..., None]] = {
    "flips": _flips,
    "one-sided flips": _one_sided_flips,
    **{
        kind: partial(_wrong_features, kind=kind)
        for kind in ("feature noise", "stuck sensor", "failed block")
    },
    "cluster": _cluster,
    "flips + noise": _flips_and_noise,
}
"""Each changes X, y and fault in place."""
