"""Groups that lie apart from their class (docs/research/model.md, section 11).

Many faulty rows change what single rows are compared with. But the k-NN distances inside the class,
the paper's geometric entropy, then fall into two groups. Rows of the far group are cleared in two
cases. A row with inlier neighbours, of whichever class, has a wrong label at most. A group as dense
as the other rows is a part of the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special, stats

from .._core.types import BoolArray, FloatArray
from .bad_rows.groups import FEWEST_MEMBERS as FEWEST_TOGETHER
from .bad_rows.groups import labels_of
from .bad_rows.judged import INLIER_QUANTILE
from .bad_rows.row_statistics import NEAREST
from .distances import Distances
from .references import ReferencePlan, mean_of_smallest

STARTS = (0.4, 0.6, 0.8, 0.95)
"""Quantiles above which samples start in the high group; the likeliest end is taken."""
MAX_STEPS, MAX_STEPS_LARGE = 100, 25
"""The second for large samples: groups that stand apart take few steps."""
MAX_VALUES = 250
SETTLED, SETTLED_LARGE = 1e-3, 5e-3
"""Change of the memberships in a step at which they are final; the second for large samples."""
FLOOR = 1e-4
"""Smallest variance of a group, as a share of the whole variance: ties must not win."""


class TwoGroups(NamedTuple):
    """A fitted mixture of a low and a high Gaussian."""

    share: float
    """Of the high group."""
    gain: float
    """Twice the log-likelihood per sample above that of one Gaussian."""
    separation: float
    """Difference of the means over the geometric mean of the standard deviations."""
    evidence: FloatArray
    """log density ratio high : low of each value, shape (n,); 0 below the low mean."""

    @property
    def high(self) -> np.ndarray:
        """Which samples more likely belong to the high group."""
        return self.evidence + special.logit(self.share) > 0


def split_in_two(values: FloatArray) -> TwoGroups | None:
    """Fit the mixture by expectation maximisation; None if the values do not vary."""
    variance = float(values.var())
    if not variance > 0.0:
        return None
    values = values - float(np.median(values))
    # A large sample is as well described by its quantiles.
    part, max_steps, settled = values, MAX_STEPS, SETTLED
    if len(values) > MAX_VALUES:
        max_steps, settled = MAX_STEPS_LARGE, SETTLED_LARGE
        places = (np.arange(MAX_VALUES) + 0.5) * len(values) / MAX_VALUES
        part = np.sort(values)[places.astype(np.intp)]
    likelihood, share, low, high, sd_low, sd_high = _maximise(
        part, FLOOR * variance, max_steps, settled
    )
    if low > high:
        share, low, high, sd_low, sd_high = 1.0 - share, high, low, sd_high, sd_low
    ratio = _log_density(values, high, sd_high) - _log_density(values, low, sd_low)
    ratio = np.where(values > low, ratio, np.minimum(ratio, 0.0))
    # A wide high group would also claim the values beyond the low one, and a narrow one give
    # back the farthest: evidence grows with the value.
    order = np.argsort(values, kind="stable")
    ratio[order] = np.maximum.accumulate(ratio[order])
    alone = float(np.sum(_log_density(part, float(part.mean()), float(part.std()))))
    return TwoGroups(
        share,
        2.0 * (likelihood - alone) / len(part),
        (high - low) / np.sqrt(sd_low * sd_high),
        ratio,
    )


def _maximise(
    values: FloatArray, floor: float, max_steps: int, settled: float
) -> tuple[float, float, float, float, float, float]:
    """Log-likelihood, share, means and standard deviations of the likeliest end.

    All starts take their steps together. The log odds of the high group are a polynomial of the
    second degree in the value. A step is two products with the powers of the values: one for the
    memberships, one for the moments of the groups.
    """
    powers = np.stack([np.ones_like(values), values, values * values])
    whole = powers.sum(axis=1)
    member = np.where(values > np.quantile(values, STARTS)[:, None], 0.95, 0.05)
    # Of the low and the high group of every start: sums of the powers, coefficients of them.
    sums, terms = np.empty((2, 2, len(STARTS), 3))
    for _ in range(max_steps):
        np.matmul(member, powers.T, out=sums[1])
        np.subtract(whole, sums[1], out=sums[0])
        sizes = np.maximum(sums[..., 0], 1e-12)
        means = sums[..., 1] / sizes
        variances = np.maximum(sums[..., 2] / sizes - means * means, 0.0) + floor
        terms[..., 2] = -0.5 / variances
        terms[..., 1] = means / variances
        terms[..., 0] = np.log(sizes / np.sqrt(variances)) - 0.5 * means * terms[..., 1]
        updated = special.expit((terms[1] - terms[0]) @ powers)
        moving = np.abs(updated - member).max(axis=1) >= settled
        if not np.any(moving):
            break
        member[moving] = updated[moving]
    likelihoods = np.logaddexp(terms[0] @ powers, terms[1] @ powers).sum(axis=1)
    best = int(np.argmax(likelihoods))
    likelihood = float(likelihoods[best]) - len(values) * float(
        np.log(len(values) * np.sqrt(2.0 * np.pi))
    )
    share = float(sizes[1, best] / len(values))
    deviations = np.sqrt(variances[:, best])
    return likelihood, share, *means[:, best].tolist(), *deviations.tolist()


def _log_density(values: FloatArray, mean: float, deviation: float) -> FloatArray:
    return -0.5 * ((values - mean) / deviation) ** 2 - np.log(deviation * np.sqrt(2.0 * np.pi))


LEAST_SEPARATION, LEAST_GAIN, LEAST_TOTAL_GAIN = 3.0, 0.25, 25.0
"""What two groups must show to be believed: distance of the means in deviations, and twice the
log-likelihood above that of one group, for a sample and for the class. Skewed but whole classes
stay below (decision 7)."""
LARGEST_SHARE = 0.7
"""The far group may exceed one half by the error of the split, not more."""
APART, STRONGEST = 2.0, 12.0
"""Nats from which on a row lies apart and clears no other row; nats at most."""
TYPICAL = 0.98
"""Quantile of the distances among rows not apart up to which a single row is one of them."""
LEVEL = 0.05
"""Of the test that rows apart have near neighbours as often as others."""
FEWEST_MEMBERS = 20
"""Samples a class needs before groups are looked for."""
SMALLEST = 1e-2
"""Distances below this share of their median (duplicates) count as this share."""
MOST_ROWS = 2000
"""Rows that can clear others, where there are more."""


def far_groups(
    distances: Distances,
    knn: FloatArray,
    class_index: np.ndarray,
    seed: int,
    considered: BoolArray | None = None,
) -> FloatArray:
    """Nats against rows of far groups without inlier neighbours, zero for all others.

    Parameters
    ----------
    knn : mean distance of each sample to its nearest references of its class, shape (n_samples,)
    seed : of the rows that clear others, where there are many
    considered : all rows unless given, shape (n_samples,); others are known to be bad
    """
    nats = np.zeros(len(knn))
    considered = np.ones(len(knn), dtype=bool) if considered is None else considered
    for z in np.unique(class_index):
        members = np.flatnonzero((class_index == z) & considered)
        nats[members] = _of_class(knn[members])
    apart = nats > APART
    if np.any(apart) and not np.all(apart):
        nats[cleared_by_neighbours(distances, apart, class_index, seed)] = 0.0
    return nats


def _of_class(knn: FloatArray) -> FloatArray:
    """The log density ratio of far to near, if the distances of a class fall into two groups."""
    none = np.zeros(len(knn))
    if len(knn) < FEWEST_MEMBERS:
        return none
    middle = float(np.median(knn))
    if not middle > 0.0:
        return none
    groups = split_in_two(np.log(np.maximum(knn, SMALLEST * middle)))
    if (
        groups is None
        or groups.separation < LEAST_SEPARATION
        or groups.gain < max(LEAST_GAIN, LEAST_TOTAL_GAIN / len(knn))
        or not 0.01 < groups.share <= LARGEST_SHARE
    ):
        return none
    return np.clip(groups.evidence, 0.0, STRONGEST)


def cleared_by_neighbours(
    distances: Distances, apart: BoolArray, class_index: np.ndarray, seed: int
) -> BoolArray:
    """Rows that their neighbours clear, shape (n_samples,).

    All of them, if the rows apart have near neighbours as often as the others. An exact binomial
    test decides, so that a few rows near each other are not accused. All of them, too, if their
    labels agree with those of their neighbours apart. Else those near to rows not apart.
    """
    n = len(apart)
    some = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_ROWS])
    among = distances.between(some, some)
    np.fill_diagonal(among, np.inf)
    near, inside = mean_of_smallest(among, NEAREST), apart[some]
    if not np.any(inside) or np.count_nonzero(~inside) <= NEAREST:
        return ~apart
    n_near = int(np.sum(near[inside] <= np.quantile(near[~inside], INLIER_QUANTILE)))
    if stats.binom.cdf(n_near, np.count_nonzero(inside), INLIER_QUANTILE) > LEVEL:
        return np.ones(n, dtype=bool)
    labels = labels_of(class_index[some], np.argpartition(among, NEAREST - 1)[:, :NEAREST])
    members = np.flatnonzero(inside)
    if len(members) >= FEWEST_TOGETHER and labels.is_part(members, among[np.ix_(inside, inside)]):
        return np.ones(n, dtype=bool)
    references = some[~inside]
    # A row is not a reference of its own.
    met, itself = np.zeros((n, 1), dtype=np.int32), np.arange(n)
    to_others = distances.to_nearest(ReferencePlan(met, [references], [NEAREST], itself))
    found: BoolArray = to_others <= np.quantile(to_others[references], TYPICAL)
    return found
