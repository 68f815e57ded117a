"""Which training samples may calibrate p-values, and distances to the nearest trusted ones.

Distrust alone does not make a sample unfit for calibration. A robust fit distrusts the outskirts of
clean data as well. A calibration sample without its outskirts calls them anomalous later. Only
distrusted samples that a gap separates from the rest are left out (docs/research/screening.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from .._core.exceptions import DegenerateDataError, NeighborsReducedWarning, warn_of_class
from .._core.types import BoolArray, FloatArray
from ..model.kernels.landmarks import TRUSTED
from .conformal import DIGITS
from .distances import Distances
from .neighbours import for_class
from .references import mean_of_smallest

Contamination = Literal["auto"] | float | FloatArray
GAP_WIDTH = 0.5
"""Smallest gap, as a share of the middle 80 % of the trusted samples on the same scale."""
GAP_LEVEL = 0.05
"""Chance, at most, that clean data with a Pareto tail show a gap somewhere."""


def beyond_gap(scores: FloatArray, trusted: BoolArray, *, level: float = GAP_LEVEL) -> BoolArray:
    """Distrusted samples that lie beyond a gap in the scores of their class.

    Above the median of the trusted samples take the logarithms of the distinct scores. If the
    scores have a Pareto tail, the spacings times the number of samples beyond them are independent
    and exponential (Rényi), so that for the j-th of them

        P(D_j / (D_1 + ... + D_{j-1}) > q) = (1 + q)^-(j-1).

    Lighter tails have smaller spacings further out. Tried are the spacings beyond which at least
    half of the samples are distrusted. The gap is the innermost that is significant at ``level``
    (Bonferroni) and half as wide as the middle 80 % of the trusted samples. The second condition is
    needed because with many samples beyond, a slightly uneven density is significant, too.

    Parameters
    ----------
    scores : scores of the samples of one class, shape (n,), finite
    trusted : shape (n,)

    Returns
    -------
    boolean array of shape (n,)
    """
    nothing = np.zeros(len(scores), dtype=bool)
    positive = scores[trusted & (scores > 0)]
    if not positive.size or trusted.all():
        return nothing
    start = max(float(np.median(scores[trusted])), float(positive.min()))
    logs = np.log(np.maximum(scores, start))
    # Scores that differ by rounding are one value: zero spacings say nothing of the tail.
    values, counts = np.unique(np.round(logs, DIGITS), return_counts=True)
    gaps = np.diff(values)
    beyond = np.cumsum(counts[::-1])[::-1][1:]
    among_distrusted = np.sort(np.round(logs[~trusted], DIGITS))
    distrusted = len(among_distrusted) - np.searchsorted(among_distrusted, values[1:])
    spacings = beyond * gaps
    earlier = np.cumsum(spacings) - spacings
    middle = np.quantile(np.log(np.maximum(scores[trusted], positive.min())), (0.1, 0.9))
    wide = gaps >= GAP_WIDTH * (middle[1] - middle[0])
    tried = np.flatnonzero(2 * distrusted >= beyond)
    tried = tried[tried >= 1]
    p_values = (1.0 + spacings[tried] / earlier[tried]) ** -tried.astype(float)
    significant = tried[wide[tried] & (p_values * len(tried) <= level)]
    if not significant.size:
        return nothing
    return ~trusted & (np.round(logs, DIGITS) >= values[significant[0] + 1])


def least_trusted(scores: FloatArray, trust: FloatArray, share: float) -> BoolArray:
    """The given share of the samples with the least trust; of equal ones, the larger scores.

    At least one sample is left.
    """
    chosen = np.zeros(len(scores), dtype=bool)
    n_chosen = min(round(share * len(scores)), len(scores) - 1)
    chosen[np.lexsort((-scores, trust))[:n_chosen]] = True
    return chosen


def anomalous_samples(
    own: FloatArray,
    own_class: np.ndarray,
    trust: FloatArray,
    contamination: Contamination,
    n_classes: int,
) -> BoolArray:
    """Samples that are left out of the calibration, class by class.

    Parameters
    ----------
    own : statistic of each sample for its own class, shape (n,)
    own_class : its class, 0 to n_classes - 1, shape (n,)
    trust : shape (n,)
    contamination : "auto" for what lies beyond a gap, or the share of each class

    Returns
    -------
    boolean array of shape (n,)
    """
    left_out = np.zeros(len(own), dtype=bool)
    automatic = isinstance(contamination, str)
    if isinstance(contamination, str):
        if contamination != "auto":
            raise ValueError(f"contamination={contamination!r} must be 'auto' or numbers.")
        shares = np.zeros(n_classes)
    else:
        shares = np.broadcast_to(np.asarray(contamination, dtype=float), (n_classes,))
        if not np.all((shares >= 0.0) & (shares < 1.0)):
            raise ValueError(f"contamination={contamination!r} must be at least 0 and below 1.")
    for z in range(n_classes):
        members = np.flatnonzero(own_class == z)
        left_out[members] = (
            beyond_gap(own[members], trust[members] >= TRUSTED)
            if automatic
            else least_trusted(own[members], trust[members], float(shares[z]))
        )
    return left_out


BLOCK_SIZE = 8_000_000
"""Distances held in memory at a time."""


def usable_neighbors(
    references: np.ndarray,
    calibration: np.ndarray,
    class_index: np.ndarray,
    groups: np.ndarray | None,
    n_neighbors: int,
    names: list,
) -> np.ndarray:
    """k for each class: what every calibration sample of the class finds outside its group."""
    group_of = np.arange(len(class_index))
    if groups is not None:
        group_of = np.unique(groups, return_inverse=True)[1]
    used = np.empty(len(names), dtype=np.intp)
    for z, name in enumerate(names):
        trusted_groups = group_of[references[class_index[references] == z]]
        in_group = np.bincount(trusted_groups, minlength=int(group_of.max()) + 1)
        scored = group_of[calibration[class_index[calibration] == z]]
        available = len(trusted_groups) - int(in_group[scored].max())
        if available < 1:
            raise DegenerateDataError(
                f"screening{for_class(name)}: {len(trusted_groups)} samples are trusted (at least "
                f"{TRUSTED:g}), and some sample finds none outside its own group. Add samples, "
                "groups, or trust."
            )
        if available < n_neighbors:
            warn_of_class(
                f"n_neighbors={n_neighbors} is too large{for_class(name)}: only {available} "
                f"trusted rows are available; using n_neighbors={available} for screening.",
                NeighborsReducedWarning,
                stacklevel=4,
            )
        used[z] = min(n_neighbors, available)
    return used


def training_means(
    distances: Distances,
    references: np.ndarray,
    calibration: np.ndarray,
    class_index: np.ndarray,
    kin: Sequence[np.ndarray],
    n_neighbors: np.ndarray,
) -> FloatArray:
    """Mean distances to the nearest references of each class, (n_calibration, n_classes).

    Samples that are equal in one of ``kin`` (groups, copies) are no neighbours of each other.
    Infinite where the kin of a sample leaves too few references in another class.
    """
    means = np.empty((len(calibration), len(n_neighbors)))
    for block in blocks(len(calibration), len(references)):
        rows = calibration[block]
        part = distances.between(rows, references)
        part[rows[:, None] == references] = np.inf
        for kind in kin:
            part[kind[rows][:, None] == kind[references]] = np.inf
        means[block] = nearest_means(part, class_index[references], n_neighbors)
    return means


def nearest_means(
    distances: FloatArray, reference_class: np.ndarray, n_neighbors: np.ndarray
) -> FloatArray:
    """Mean of the k smallest distances to each class, shape (n_rows, n_classes)."""
    return np.column_stack(
        [
            mean_of_smallest(distances[:, reference_class == z], int(k))
            for z, k in enumerate(n_neighbors)
        ]
    )


def class_scale(distances: FloatArray) -> float:
    """Median, or what is left of it where most samples are duplicates."""
    for scale in (np.median(distances), distances.mean()) if distances.size else ():
        if scale > 0:
            return float(scale)
    return 1.0


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows that many distances at a time allow for."""
    size = max(1, BLOCK_SIZE // max(n_columns, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
