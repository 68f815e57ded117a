"""Is a new sample like the training samples that are trusted? (docs/research/screening.md)

The statistic of a sample for a class is its mean distance to the k nearest trusted training samples
of that class, over the class median. The pooled statistic is the smallest over the classes. A
training sample is measured in the same way, without itself, its group and its copies; a new one as
if it had been scaled along with them. The share of training samples that lie as far out as a new
sample is its conformal p-value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from .._core.exceptions import CalibrationWarning, UnscaledDataError, warn_of_class
from .._core.types import BoolArray, FloatArray
from ..model.kernels.landmarks import TRUSTED
from .conformal import conformal_p_values
from .copies import one_of_each
from .distances import Distances, euclidean, from_products
from .neighbours import MAX_REFERENCES, for_class
from .scaled_along import FittedScale, training_distances
from .trusted import (
    Contamination,
    anomalous_samples,
    blocks,
    class_scale,
    nearest_means,
    training_means,
    usable_neighbors,
)

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
    contamination: FloatArray
    """Share of each class that was left out of the calibration, shape (n_classes,)."""
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
        class_p_values = np.empty_like(statistics)
        for z in range(len(self.scales)):
            own = self.calibration_class == z
            class_p_values[:, z] = conformal_p_values(
                self.class_statistics[own], statistics[:, z], self.calibration_weights[own]
            )
        pooled = conformal_p_values(
            self.pooled_statistics, statistics.min(axis=1), self.calibration_weights
        )
        return Screening(pooled, class_p_values)

    def training_statistics(
        self,
        distances: Distances,
        class_index: np.ndarray,
        groups: np.ndarray | None = None,
        copies: np.ndarray | None = None,
    ) -> FloatArray:
        """The same for training samples, without themselves, their groups and their copies.

        Shape (n_samples, n_classes); infinite where a group leaves too few references. Of points,
        ``distances`` are ``training_distances``, which tell the copies as well.
        """
        everyone, kin = np.arange(len(class_index)), _kin(groups, copies)
        means = training_means(
            distances, self.reference_index, everyone, class_index, kin, self.n_neighbors
        )
        return means / self.scales

    def own_class_p_values(self, statistics: FloatArray, class_index: np.ndarray) -> FloatArray:
        """p-values of statistics for the samples' own classes, both of shape (n_samples,)."""
        p_values = np.empty(len(statistics))
        for z in range(len(self.scales)):
            own, members = self.calibration_class == z, class_index == z
            p_values[members] = conformal_p_values(
                self.class_statistics[own], statistics[members], self.calibration_weights[own]
            )
        return p_values

    def statistics(self, distances: FloatArray) -> FloatArray:
        """Mean of the k smallest distances to each class over its scale, (n_new, n_classes)."""
        return nearest_means(distances, self.reference_class, self.n_neighbors) / self.scales[None]


def trust_points(
    X: FloatArray,
    class_index: np.ndarray,
    trust: FloatArray,
    *,
    n_neighbors: int = 10,
    contamination: Contamination = "auto",
    groups: np.ndarray | None = None,
    max_references: int = MAX_REFERENCES,
    random_state: int | np.random.Generator | None = None,
    class_names: list | None = None,
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
    # Wrong lengths are told before anything is measured.
    _check(class_index, trust, n_neighbors, max_references, groups)
    distances = training_distances(X, class_index, groups)
    reference = trust_distances(
        distances,
        class_index,
        trust,
        n_neighbors=n_neighbors,
        contamination=contamination,
        groups=groups,
        copies=distances.copies,
        max_references=max_references,
        random_state=random_state,
        class_names=class_names,
    )
    return replace(reference, points=X[reference.reference_index], scale=distances.scale)


def trust_distances(
    distances: Distances,
    class_index: np.ndarray,
    trust: FloatArray,
    *,
    n_neighbors: int = 10,
    contamination: Contamination = "auto",
    groups: np.ndarray | None = None,
    copies: np.ndarray | None = None,
    max_references: int = MAX_REFERENCES,
    random_state: int | np.random.Generator | None = None,
    class_names: list | None = None,
) -> TrustedReference:
    """Measure the training samples against the trusted ones among them.

    Parameters
    ----------
    distances : among the training samples
    class_index : class of each sample, 0 to n_classes - 1, shape (n_samples,)
    trust : probability that a sample is nominal, shape (n_samples,); at least 0.5 makes it a
        reference
    n_neighbors : neighbours behind a statistic; reduced with a warning in small classes
    contamination : "auto", or the share of each class that is left out of the calibration, least
        trusted first. "auto" leaves out distrusted samples beyond a gap, none if there is no gap.
    groups : samples of one group are not neighbours of each other, shape (n_samples,)
    copies : samples of one number are one sample that was entered several times, and count once in
        each class; shape (n_samples,)
    max_references : a class of more than twice as many samples is split at random: so many serve
        as references (the trusted ones among them), the others for calibration
    random_state : of these splits
    class_names : names of the classes in warnings
    """
    n_classes = _check(class_index, trust, n_neighbors, max_references, groups)
    names = list(range(n_classes)) if class_names is None else class_names
    rng = np.random.default_rng(random_state)
    counted = np.ones(len(class_index), dtype=bool)
    if copies is not None:
        counted = one_of_each(copies, class_index, trust)
    parts = [
        _split(np.flatnonzero(counted & (class_index == z)), max_references, rng)
        for z in range(n_classes)
    ]
    references = np.concatenate([pool[trust[pool] >= TRUSTED] for pool, _ in parts])
    calibration = np.concatenate([members for _, members in parts])
    used = usable_neighbors(references, calibration, class_index, groups, n_neighbors, names)
    kin = _kin(groups, copies)
    means = training_means(distances, references, calibration, class_index, kin, used)
    own_class = class_index[calibration]
    own = means[np.arange(len(calibration)), own_class]
    if not np.all(np.isfinite(own)):
        raise UnscaledDataError("distances between samples overflow: scale X (StandardScaler).")
    trusted = trust[calibration] >= TRUSTED
    scales = np.array([class_scale(own[trusted & (own_class == z)]) for z in range(n_classes)])
    kept = ~anomalous_samples(own, own_class, trust[calibration], contamination, n_classes)
    n_calibrating = np.bincount(own_class, minlength=n_classes)
    stands_for = np.bincount(class_index[counted], minlength=n_classes) / n_calibrating
    return TrustedReference(
        reference_index=references,
        reference_class=class_index[references],
        n_neighbors=used,
        scales=scales,
        calibration_class=own_class[kept],
        calibration_weights=stands_for[own_class[kept]],
        class_statistics=(own / scales[own_class])[kept],
        pooled_statistics=(means / scales).min(axis=1)[kept],
        contamination=1.0 - np.bincount(own_class[kept], minlength=n_classes) / n_calibrating,
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
        ("false_alarm_rate", false_alarm_rate) if false_alarm_rate is not None else ("fdr", fdr)
    )
    if rate is None or not 0.0 < rate < 1.0:
        raise ValueError(f"{name}={rate!r} must lie between 0 and 1.")
    if fdr is not None and len(p_values):
        p_values = stats.false_discovery_control(p_values)
    # A p-value of 1/20 as a quotient of floats must not miss a rate of 0.05.
    alarms: BoolArray = p_values <= rate * (1.0 + 1e-12)
    return alarms


def warn_out_of_reach(
    reference: TrustedReference,
    rate: float,
    *,
    by_class: bool = False,
    class_names: list | None = None,
    stacklevel: int = 2,
) -> None:
    """Warn if so few calibration samples cannot give a p-value as small as ``rate``.

    Parameters
    ----------
    by_class : check the class-wise p-values; by default the pooled ones
    stacklevel : as in ``warnings.warn``, counted from here
    """
    n_classes = len(reference.scales)
    counts = np.bincount(reference.calibration_class, minlength=n_classes)
    named: list[tuple[object, int]] = [(None, int(counts.sum()))]
    if by_class:
        names = range(n_classes) if class_names is None else class_names
        named = list(zip(names, counts.tolist(), strict=True))
    for name, n in named:
        if (n + 1) * rate * (1.0 + 1e-12) < 1.0:
            needed = int(np.ceil(1.0 / rate * (1.0 - 1e-12))) - 1
            warn_of_class(
                f"{n} calibration samples{for_class(name)} cannot give a p-value of {rate:g}, "
                f"which takes {needed}: nothing is called anomalous there. Add samples or raise "
                "the rate.",
                CalibrationWarning,
                stacklevel=stacklevel + 1,
            )


def _check(
    class_index: np.ndarray,
    trust: FloatArray,
    n_neighbors: int,
    max_references: int,
    groups: np.ndarray | None,
) -> int:
    """Number of classes, after checks of what the caller gave."""
    n = len(class_index)
    if len(trust) != n or (groups is not None and len(groups) != n):
        raise ValueError(f"trust and groups must have one entry for each of the {n} samples.")
    if not np.all((trust >= 0.0) & (trust <= 1.0)):
        raise ValueError("trust must lie between 0 and 1.")
    for name, value in (("n_neighbors", n_neighbors), ("max_references", max_references)):
        if value < 1:
            raise ValueError(f"{name}={value!r} must be at least 1.")
    if n == 0 or np.bincount(class_index).min() == 0:
        raise ValueError("class_index must hold every class from 0 to its largest at least once.")
    return int(class_index.max()) + 1


def _kin(groups: np.ndarray | None, copies: np.ndarray | None) -> list[np.ndarray]:
    return [kind for kind in (groups, copies) if kind is not None]


def _split(
    members: np.ndarray, max_references: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates for references and calibration samples: all members, or a random split."""
    if len(members) <= 2 * max_references:
        return members, members
    # Drawn whatever the trust: the others stay exchangeable with new samples.
    chosen = np.zeros(len(members), dtype=bool)
    chosen[rng.permutation(len(members))[:max_references]] = True
    return members[chosen], members[~chosen]
