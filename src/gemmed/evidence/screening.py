"""Is a new sample like the training samples that are trusted? (docs/research/screening.md)

The statistic of a sample for a class is its mean distance to the k nearest trusted training samples
of that class, over the class median. The pooled statistic is the smallest over the classes. A
training sample is measured in the same way, without itself, its group and its copies; a new one as
if it had been scaled along with them. The share of training samples that lie as far out as a new
sample is its conformal p-value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from .._core.exceptions import (
    CalibrationWarning,
    DegenerateDataError,
    UnscaledDataError,
    warn_of_class,
)
from .._core.types import BoolArray, FloatArray
from ..model.kernels.landmarks import MIN_TRUST
from .distances import (
    MAX_REFERENCES,
    Distances,
    blocks,
    euclidean,
    fewest_outside,
    for_class,
    from_products,
    mean_of_smallest,
    median_or_mean,
    usable_neighbors,
)
from .scaled_along import FittedScale, TrainingDistances, one_of_each, training_distances

TIE_DIGITS = 9
MAX_TIE_DIFFERENCE = 10.0**-TIE_DIGITS
"""Statistics that differ by less than this share are equal but for rounding."""


def conformal_p_values(
    calibration: FloatArray, statistics: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """p(s) = (w + sum_i w_i [s_i >= s]) / (w + sum_i w_i), where w is the largest weight (35).

    For a nominal sample exchangeable with the calibration samples, P(p <= level) <= level. Ties
    count against an alarm.

    Parameters
    ----------
    calibration : statistics of the calibration samples, shape (n,)
    statistics : of new samples, any shape
    weights : positive, how many samples each calibration sample stands for; one by default

    Returns
    -------
    array of the shape of ``statistics``
    """
    weights = np.ones(len(calibration)) if weights is None else weights
    order = np.argsort(calibration, kind="stable")
    # Entry j: weight of the samples from rank j upwards.
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    lowered = statistics - MAX_TIE_DIFFERENCE * np.abs(statistics)
    first = np.searchsorted(calibration[order], lowered, side="left")
    own = float(weights.max(initial=0.0)) or 1.0
    result: FloatArray = (own + above[first]) / (own + above[0])
    return result


def conformal_threshold(calibration: FloatArray, level: float) -> float:
    """The largest statistic whose p-value still exceeds ``level``; alarms lie above it.

    Infinite when so few calibration samples cannot give a p-value as small as ``level``.
    """
    # p <= level  <=>  number of values >= statistic  <=  level (n + 1) - 1
    allowed = int(np.floor(level * (len(calibration) + 1) * (1.0 + 1e-12)))
    if allowed < 1:
        return np.inf
    return float(np.sort(calibration)[len(calibration) - allowed])


DistanceRows = Callable[[slice], FloatArray]
"""Distances of some of the new samples to all references, shape (rows, n_references)."""


class Screening(NamedTuple):
    """p-values of new samples."""

    p_values: FloatArray
    """"The sample is nominal, of one class or another", shape (n_new,)."""
    class_p_values: FloatArray
    """"The sample is a nominal sample of this class", shape (n_new, n_classes)."""


@dataclass(frozen=True, eq=False)
class TrustedReference:
    """What screening keeps of the training set; made by ``trust_points`` or ``trust_distances``."""

    reference_index: np.ndarray
    """Training samples that serve as references, shape (n_references,)."""
    reference_class: np.ndarray
    """Their classes, shape (n_references,)."""
    n_neighbors: np.ndarray
    """Neighbours used in each class, shape (n_classes,)."""
    scales: FloatArray
    """Median k-NN distance of each class, shape (n_classes,)."""
    calibration_class: np.ndarray
    """Classes of the calibration samples, shape (n_calibration,)."""
    calibration_weights: FloatArray
    """Training samples that each of them stands for, shape (n_calibration,)."""
    class_statistics: FloatArray
    """Their statistics for their own class, shape (n_calibration,)."""
    pooled_statistics: FloatArray
    """The smallest of their statistics over the classes, shape (n_calibration,)."""
    points: FloatArray | None = None
    """Coordinates of the references, shape (n_references, n_features); None for distances."""
    scale: FittedScale | None = None
    """Of the scaler that was fitted to the training rows, if there was one."""

    def p_values(self, X: FloatArray) -> Screening:
        """p-values of new points, shape (n_new, n_features)."""
        points = self.points
        if points is None:
            raise ValueError("this reference was made from distances: use p_values_from_distances.")
        measure = euclidean if self.scale is None else self.scale.distances
        return self.p_values_from_distances(lambda rows: measure(X[rows], points), len(X))

    def p_values_from_distances(self, rows: DistanceRows, n_new: int) -> Screening:
        """p-values of new samples given by their distances to ``reference_index``, in that order.

        Parameters
        ----------
        rows : function of a slice of the new samples; called block by block
        n_new : number of new samples
        """
        statistics = np.empty((n_new, len(self.scales)))
        for block in blocks(n_new, len(self.reference_index)):
            statistics[block] = self.statistics(rows(block))
        pooled = conformal_p_values(
            self.pooled_statistics, statistics.min(axis=1), self.calibration_weights
        )
        columns = [self._p_values_of(z, column) for z, column in enumerate(statistics.T)]
        return Screening(pooled, np.column_stack(columns))

    def training_statistics(
        self, distances: Distances, class_index: np.ndarray, groups: np.ndarray | None = None
    ) -> FloatArray:
        """The same for training samples, without themselves, their groups and their copies.

        Shape (n_samples, n_classes); infinite where a group leaves too few references. Of points,
        ``distances`` are ``training_distances``, which tell the copies as well.
        """
        everyone = np.arange(len(class_index))
        means = training_means(
            distances, self.reference_index, everyone, class_index, groups, self.n_neighbors
        )
        return means / self.scales

    def own_class_p_values(self, statistics: FloatArray, class_index: np.ndarray) -> FloatArray:
        """p-values of statistics for the samples' own classes, both of shape (n_samples,)."""
        p_values = np.empty(len(statistics))
        for z in range(len(self.scales)):
            p_values[class_index == z] = self._p_values_of(z, statistics[class_index == z])
        return p_values

    def _p_values_of(self, z: int, statistics: FloatArray) -> FloatArray:
        own = self.calibration_class == z
        return conformal_p_values(
            self.class_statistics[own], statistics, self.calibration_weights[own]
        )

    def statistics(self, distances: FloatArray) -> FloatArray:
        """Mean of the k smallest distances to each class over its scale, (n_new, n_classes)."""
        return nearest_means(distances, self.reference_class, self.n_neighbors) / self.scales[None]


def trust_points(
    X: FloatArray,
    class_index: np.ndarray,
    trust: FloatArray,
    *,
    groups: np.ndarray | None = None,
    **options: Any,
) -> TrustedReference:
    """Reference with Euclidean distances of the rows of X, shape (n_samples, n_features).

    Rows that were entered several times count once. Where a scaler was fitted to the rows, new rows
    are measured as if they had been scaled along. The parameters are those of ``trust_distances``.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.evidence.screening import screen, trust_points
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> reference = trust_points(X, np.zeros(200, dtype=int), np.ones(200))
    >>> p_values = reference.p_values(np.array([[0.0, 0.0], [9.0, 9.0]])).p_values
    >>> screen(p_values, false_alarm_rate=0.05)
    array([False,  True])
    """
    _check(class_index, trust, groups)  # wrong lengths are errors before anything is measured
    distances = training_distances(X, class_index, groups)
    return trust_distances(distances, class_index, trust, groups=groups, **options)


def trust_distances(
    distances: Distances,
    class_index: np.ndarray,
    trust: FloatArray,
    *,
    n_neighbors: int = 10,
    left_out: BoolArray | None = None,
    groups: np.ndarray | None = None,
    max_references: int = MAX_REFERENCES,
    random_state: int | np.random.Generator | None = None,
    class_names: list | None = None,
) -> TrustedReference:
    """Measure the training samples against the trusted ones among them.

    Parameters
    ----------
    distances : among the training samples. Copies that ``TrainingDistances`` have found are one
        sample that was entered several times: they count once in each class
    class_index : class of each sample, 0 to n_classes - 1, shape (n_samples,)
    trust : probability that a sample is nominal, shape (n_samples,); at least 0.5 makes it a
        reference
    n_neighbors : neighbours behind a statistic; reduced with a warning in small classes
    left_out : samples that do not calibrate, shape (n_samples,); by default distrusted samples
        beyond a gap, none if there is no gap
    groups : samples of one group are not neighbours of each other, shape (n_samples,)
    max_references : a class of more than twice as many samples is split at random: so many serve
        as references (the trusted ones among them), the others for calibration
    random_state : of these splits
    class_names : names of the classes in warnings
    """
    n_classes = _check(class_index, trust, groups)
    for name, value in (("n_neighbors", n_neighbors), ("max_references", max_references)):
        if value < 1:
            raise ValueError(f"{name}={value!r} must be at least 1.")
    names = list(range(n_classes)) if class_names is None else class_names
    rng = np.random.default_rng(random_state)
    counted = np.ones(len(class_index), dtype=bool)
    points = distances if isinstance(distances, TrainingDistances) else None
    if points is not None:
        counted = one_of_each(points.copies, class_index, trust)
    parts = [
        _split(np.flatnonzero(counted & (class_index == z)), max_references, rng)
        for z in range(n_classes)
    ]
    references = np.concatenate([pool[trust[pool] >= MIN_TRUST] for pool, _ in parts])
    calibration = np.concatenate([members for _, members in parts])
    used = _neighbors_of_classes(references, calibration, class_index, groups, n_neighbors, names)
    means = training_means(distances, references, calibration, class_index, groups, used)
    own_class = class_index[calibration]
    own = means[np.arange(len(calibration)), own_class]
    if not np.all(np.isfinite(own)):
        raise UnscaledDataError("distances between samples overflow: scale X (StandardScaler).")
    trusted = trust[calibration] >= MIN_TRUST
    members_of = [np.flatnonzero(own_class == z) for z in range(n_classes)]
    scales = np.array([median_or_mean(own[rows[trusted[rows]]]) or 1.0 for rows in members_of])
    kept = np.ones(len(own), dtype=bool)
    for rows in members_of:
        kept[rows] = ~beyond_gap(own[rows], trusted[rows])
    if left_out is not None:
        kept = ~left_out[calibration]
    stands_for = np.bincount(class_index[counted]) / np.bincount(own_class)
    return TrustedReference(
        reference_index=references,
        reference_class=class_index[references],
        n_neighbors=used,
        scales=scales,
        calibration_class=own_class[kept],
        calibration_weights=stands_for[own_class[kept]],
        class_statistics=(own / scales[own_class])[kept],
        pooled_statistics=(means / scales).min(axis=1)[kept],
        points=None if points is None else points.X[references],
        scale=None if points is None else points.scale,
    )


def kernel_distances(
    cross: FloatArray, own: FloatArray, reference_diagonal: FloatArray
) -> FloatArray:
    """Distances in the feature space of a kernel between new samples and references.

    Parameters
    ----------
    cross : kernel between new samples and references, shape (n_new, n_references)
    own : kernel of each new sample with itself, shape (n_new,)
    reference_diagonal : the same for the references, shape (n_references,)
    """
    return from_products(cross.copy(), own, reference_diagonal)


def screen(
    p_values: FloatArray, *, false_alarm_rate: float | None = None, fdr: float | None = None
) -> BoolArray:
    """Which samples are called anomalous; give one of the two rates.

    Parameters
    ----------
    p_values : shape (n_new,)
    false_alarm_rate : share of the nominal samples that may be called anomalous
    fdr : share of the alarms that may be false, over this batch (Benjamini-Hochberg)
    """
    if (false_alarm_rate is None) == (fdr is None):
        raise ValueError(
            f"false_alarm_rate={false_alarm_rate!r} and fdr={fdr!r}: give one of the two."
        )
    name, rate = (
        ("fdr", fdr) if false_alarm_rate is None else ("false_alarm_rate", false_alarm_rate)
    )
    if rate is None or not 0.0 < rate < 1.0:
        raise ValueError(f"{name}={rate!r} must lie between 0 and 1.")
    if fdr is not None and len(p_values):
        p_values = stats.false_discovery_control(p_values)
    # A p-value of 1/20 as a quotient of floats must not miss a rate of 0.05.
    alarms: BoolArray = p_values <= rate * (1.0 + 1e-12)
    return alarms


def warn_out_of_reach(
    n: int, rate: float, samples: str = "calibration samples", *, stacklevel: int = 2
) -> None:
    """Warn if so few calibration samples cannot give a p-value as small as ``rate``.

    Parameters
    ----------
    samples : what the message calls them
    stacklevel : as in ``warnings.warn``, counted from here
    """
    if (n + 1) * rate * (1.0 + 1e-12) < 1.0:
        needed = int(np.ceil(1.0 / rate * (1.0 - 1e-12))) - 1
        warn_of_class(
            f"{n} {samples} cannot give a p-value of {rate:g}, which takes {needed}: nothing is "
            "called anomalous there. Add samples or raise false_alarm_rate.",
            CalibrationWarning,
            stacklevel=stacklevel + 1,
        )


def _check(class_index: np.ndarray, trust: FloatArray, groups: np.ndarray | None) -> int:
    """Number of classes, after checks of what the caller gave."""
    n = len(class_index)
    if len(trust) != n or (groups is not None and len(groups) != n):
        raise ValueError(f"trust and groups must have one entry for each of the {n} samples.")
    if not np.all((trust >= 0.0) & (trust <= 1.0)):
        raise ValueError("trust must lie between 0 and 1.")
    if n == 0 or np.bincount(class_index).min() == 0:
        raise ValueError("class_index must hold every class from 0 to its largest at least once.")
    return int(class_index.max()) + 1


def _split(
    members: np.ndarray, max_references: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates for references and calibration samples: all members, or a random split."""
    if len(members) <= 2 * max_references:
        return members, members
    # Drawn without regard to trust: the others stay exchangeable with new samples.
    chosen = np.zeros(len(members), dtype=bool)
    chosen[rng.permutation(len(members))[:max_references]] = True
    return members[chosen], members[~chosen]


MIN_GAP_SHARE = 0.5
"""Smallest gap, as a share of the middle 80 % of the trusted samples on the same scale."""
MAX_GAP_CHANCE = 0.05
"""Chance, at most, that clean data with a Pareto tail show a gap somewhere."""


def beyond_gap(scores: FloatArray, trusted: BoolArray) -> BoolArray:
    """Distrusted samples that lie beyond a gap in the scores of their class.

    Above the median of the trusted samples take the logarithms of the distinct scores. If the
    scores have a Pareto tail, the spacings times the number of samples beyond them are independent
    and exponential (Rényi), so that for the j-th of them

        P(D_j / (D_1 + ... + D_{j-1}) > q) = (1 + q)^-(j-1).

    Lighter tails have smaller spacings further out. Tried are the spacings beyond which at least
    half of the samples are distrusted. The gap is the innermost that is significant at
    MAX_GAP_CHANCE (Bonferroni) and half as wide as the middle 80 % of the trusted samples. The
    second condition is needed because with many samples beyond, a slightly uneven density is
    significant, too.

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
    values, counts = np.unique(np.round(logs, TIE_DIGITS), return_counts=True)
    gaps = np.diff(values)
    beyond = np.cumsum(counts[::-1])[::-1][1:]
    among_distrusted = np.sort(np.round(logs[~trusted], TIE_DIGITS))
    distrusted = len(among_distrusted) - np.searchsorted(among_distrusted, values[1:])
    spacings = beyond * gaps
    earlier = np.cumsum(spacings) - spacings
    middle = np.quantile(np.log(np.maximum(scores[trusted], positive.min())), (0.1, 0.9))
    wide = gaps >= MIN_GAP_SHARE * (middle[1] - middle[0])
    tried = np.flatnonzero(2 * distrusted >= beyond)
    tried = tried[tried >= 1]
    p_values = (1.0 + spacings[tried] / earlier[tried]) ** -tried.astype(float)
    significant = tried[wide[tried] & (p_values * len(tried) <= MAX_GAP_CHANCE)]
    if not significant.size:
        return nothing
    return ~trusted & (np.round(logs, TIE_DIGITS) >= values[significant[0] + 1])


def _neighbors_of_classes(
    references: np.ndarray,
    calibration: np.ndarray,
    class_index: np.ndarray,
    groups: np.ndarray | None,
    n_neighbors: int,
    names: list,
) -> np.ndarray:
    """k for each class: what every calibration sample of the class finds outside its group."""
    groups = np.arange(len(class_index)) if groups is None else groups
    used = []
    for z, name in enumerate(names):
        trusted = references[class_index[references] == z]
        scored = calibration[class_index[calibration] == z]
        available = fewest_outside(trusted, scored, groups)
        if available < 1:
            raise DegenerateDataError(
                f"screening{for_class(name)}: {len(trusted)} samples are trusted (at least "
                f"{MIN_TRUST:g}), and some sample finds none outside its own group. Add samples, "
                "groups, or trust."
            )
        used.append(usable_neighbors(n_neighbors, available, name, "trusted rows", "for screening"))
    return np.array(used)


def training_means(
    distances: Distances,
    references: np.ndarray,
    calibration: np.ndarray,
    class_index: np.ndarray,
    groups: np.ndarray | None,
    n_neighbors: np.ndarray,
) -> FloatArray:
    """Mean distances to the nearest references of each class, (n_calibration, n_classes).

    Samples of one group and copies are no neighbours of each other. Infinite where these leave too
    few references in another class.
    """
    kinds = [np.arange(len(class_index))] if groups is None else [groups]
    if isinstance(distances, TrainingDistances):
        kinds.append(distances.copies)
    means = np.empty((len(calibration), len(n_neighbors)))
    for block in blocks(len(calibration), len(references)):
        rows = calibration[block]
        part = distances.between(rows, references)
        for kind in kinds:
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
