"""Groups of rows that are bad together, or not: found in two ways, judged by their labels.

Faults that many rows share change what single rows are compared with. Such rows stand *apart* from
all others, as a dense cluster or scattered, or they *repeat* the same numbers in several columns.
In a part of the data neighbours agree about labels as they do elsewhere; faults have labels of
chance. A cluster much denser than others is suspicious even with one label: a recorder repeats
itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special, stats
from scipy.cluster import hierarchy
from scipy.spatial import distance

from .._core.types import BoolArray, FloatArray
from ..model.settings import Priors
from .scaled_along import MIN_RECURRENCE_RATIO

BAD_SHARE_PRIOR = (0.5, 5.0)
"""Beta prior of the share of bad rows: most tables have few."""
MIN_GROUP_ROWS = 5
"""Members of a group: a row, and the neighbours that its density and the agreement of labels rest
on."""
MIN_LOG_DISTANCE_RANGE = 0.35
"""Logarithm of the range of distances over which a branch stays alone."""
PRIOR_OF_READINGS = 2.0
"""Log-odds that rows which repeat the same readings are bad, before their labels are seen."""
MIN_NEIGHBOUR_ERROR = 0.02
"""Disagreement of neighbours at least: no table is so clean that one label decides."""
N_WRONG_SHARES = 20
"""Quantiles that stand for the prior of the share of wrong labels in a part of the data."""
SAME_LABEL_PROBA = 0.05
"""Probability that all bad measurements of a group have one label."""
CLUSTER_WIDTH_PRIOR = (0.7, 10.0)
"""Standard deviation of the logarithm of the widths of clusters; how many of them tighter faults
may be, at most."""
MIN_SHARE_OUTSIDE = 0.2
"""Share of the rows of a label that lie elsewhere, or the label is what a dense cluster is."""
MAX_STUCK_VALUES = 2
"""Values at which one sensor is stuck; a continuous column has no more that rows share."""
MIN_MAJORITY_SHARE, MAX_FILLED_DEVIATIONS = 0.6, 0.1
"""Share that counts as most: of rows stuck in one column or another (Jaccard), of a row's readings,
of distinct values among the others in a continuous column. Deviations from the mean or median of
these within which a shared value was filled in."""


class Group(NamedTuple):
    """Rows that are judged as one."""

    members: np.ndarray
    """Their numbers."""
    log_odds: float
    """Of "bad measurements" against "a part of the data"."""


class Labels(NamedTuple):
    """How labels behave, by chance and where nothing is odd."""

    chance: tuple[float, float]
    """How often labels of chance agree: with the shares of the table, or with equal ones."""
    part: FloatArray
    """How often neighbours agree in a part of the data: as often as elsewhere, or less often by a
    share of wrong labels; equally likely values."""

    def nats(self, agreement: float, n: int, tightness: float = 0.0) -> float:
        """Log Bayes factor of a group of n rows that agree with others of it so often.

        Each member counts once, not once for each neighbour. ``tightness`` is the log Bayes factor
        of the width of the group, which counts if all have one label.
        """

        def likelihood(share: float) -> float:
            share = min(share, 1.0 - 1e-6)
            return float(n * (agreement * np.log(share) + (1.0 - agreement) * np.log1p(-share)))

        bad = [np.log(0.5 - 0.5 * SAME_LABEL_PROBA) + likelihood(share) for share in self.chance]
        bad.append(np.log(SAME_LABEL_PROBA) + tightness + likelihood(1.0))
        # A part may be pure as well: one label in all rows is no evidence, however many they are.
        pure = likelihood(max(1.0 - MIN_NEIGHBOUR_ERROR, agreement))
        mixed = [likelihood(share) for share in self.part]
        part = np.log(0.5) + np.logaddexp(pure, special.logsumexp(mixed) - np.log(len(mixed)))
        return float(special.logsumexp(bad) - part)


def labels_elsewhere(class_index: np.ndarray, nearest: np.ndarray, part: BoolArray) -> Labels:
    """How labels behave outside of a part of the rows.

    Parameters
    ----------
    class_index, part : shape (n_rows,)
    nearest : numbers of the nearest rows of each, shape (n_rows, n_neighbours)
    """
    counts = np.bincount(class_index) + 1.0
    shares = counts / counts.sum()
    agreement = float(np.mean(class_index[nearest[~part]] == class_index[~part, None]))
    by_chance = float(shares @ shares)
    agreement = min(agreement, 1.0 - MIN_NEIGHBOUR_ERROR)
    levels = (np.arange(N_WRONG_SHARES) + 0.5) / N_WRONG_SHARES
    kept = 1.0 - stats.beta(*Priors.rate_shape).ppf(levels)  # of what labels mean
    return Labels((by_chance, 1.0 / len(shares)), by_chance + (agreement - by_chance) * kept**2)


def groups_apart(distances: FloatArray, class_index: np.ndarray) -> list[Group]:
    """Groups that stand apart from all other rows; none has rows of another.

    A branch of the single-linkage tree of mutual reachability (as in HDBSCAN) that stays alone over
    a range of distances divides the rows in two. The smaller part is the group: a dense cluster, or
    what lies scattered around the others.

    Parameters
    ----------
    distances : between all rows, shape (n_rows, n_rows)
    class_index : given labels, shape (n_rows,)
    """
    # Rows that are repeated count once.
    first, place = np.unique(np.argmin(distances, axis=1), return_inverse=True)
    n = len(first)
    if n < 2 * MIN_GROUP_ROWS:
        return []
    between, label = _among(distances, first), class_index[first]
    np.fill_diagonal(between, np.inf)
    nearest = _nearest(between)
    core = np.take_along_axis(between, nearest, axis=1).max(axis=1)
    reachable = np.maximum(between, core)
    np.maximum(reachable, core[:, None], out=reachable)
    log_core = np.log(core + 1e-12)
    counts = np.bincount(place)
    pairs = distance.squareform(reachable, checks=False)
    found = _lonely_branches(hierarchy.linkage(pairs, "single"))
    # Where a table has many groups, groups are its nature, and one of them may be bad.
    usual = -np.log(len(found) + 1.0)
    n_expected = n * stats.beta(*BAD_SHARE_PRIOR).mean()

    def log_odds(inside: BoolArray, part: BoolArray, bad: BoolArray) -> float:
        """Of a part that is compared with all other rows that are not bad."""
        members = np.flatnonzero(part)
        near = members[_nearest(_among(between, members))]
        agreement = float(np.mean(label[near] == label[members][:, None]))
        own = label == np.bincount(label[members]).argmax()
        tightness = (
            _tightness(log_core, part) if np.mean(part[own]) <= 1.0 - MIN_SHARE_OUTSIDE else 0.0
        )
        labels = labels_elsewhere(label, nearest, part | bad)
        # Any table has dense clusters of few rows.
        small = min(np.log(len(members) / n_expected), 0.0) if part is inside else 0.0
        return labels.nats(agreement, len(members), tightness) + usual + small

    bad, taken = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    parts = [inside if 2 * counts[inside].sum() < len(distances) else ~inside for inside in found]
    first_odds = [log_odds(*both, bad) for both in zip(found, parts, strict=True)]
    groups = []
    for number in np.argsort(first_odds)[::-1]:
        part = parts[number]
        if np.any(taken & part) or 2 * counts[part].sum() > counts[~bad].sum():
            continue  # it is judged, or too little is left to compare it with
        odds = log_odds(found[number], part, bad)
        taken |= part
        bad |= part & (odds > 0.0)
        groups.append(Group(np.flatnonzero(part[place]), odds))
    return groups


def _among(distances: FloatArray, rows: np.ndarray) -> FloatArray:
    """Distances between some rows; two steps take half the time of one."""
    return distances[rows].take(rows, axis=1)


def _nearest(between: FloatArray) -> np.ndarray:
    """Numbers of the nearest rows of each."""
    k = min(MIN_GROUP_ROWS, len(between)) - 1
    found: np.ndarray = np.argpartition(between, k - 1, axis=1)[:, :k]
    return found


def _lonely_branches(tree: FloatArray) -> list[BoolArray]:
    """Rows of the branches that stay alone, each of shape (n_rows,)."""
    n = len(tree) + 1
    children = tree[:, :2].astype(np.intp)
    parent = np.full(2 * n - 1, 2 * n - 2)
    parent[children] = np.arange(n, 2 * n - 1)[:, None]
    height = np.log(np.concatenate([np.full(n, np.inf), tree[:, 2] + 1e-12]))
    size = np.concatenate([np.ones(n), tree[:, 3]])
    is_lonely = height[parent] - height >= MIN_LOG_DISTANCE_RANGE
    is_lonely &= (size >= MIN_GROUP_ROWS) & (size <= n - MIN_GROUP_ROWS)
    found = []
    for branch in np.flatnonzero(is_lonely):
        inside = np.zeros(2 * n - 1, dtype=bool)
        inside[branch] = True
        for node in range(int(branch), n - 1, -1):  # parents have higher numbers
            inside[children[node - n]] |= inside[node]
        found.append(inside[:n])
    return found


def _tightness(log_core: FloatArray, inside: BoolArray) -> float:
    """Log Bayes factor of the width of a group, zero where it is no tighter than others."""
    spread_of_clusters, widest = CLUSTER_WIDTH_PRIOR
    usual = log_core[~inside]
    spread = np.hypot(usual.std(), spread_of_clusters)
    tightness = (float(np.median(usual)) - float(np.median(log_core[inside]))) / spread
    if tightness <= 0.0:
        return 0.0
    return max(-np.log(widest) - float(stats.norm.logpdf(tightness)), 0.0)


class Readings(NamedTuple):
    """Columns of one fault and the numbers that they repeat, each of shape (n_columns,)."""

    columns: np.ndarray
    values: FloatArray

    def rows(self, X: np.ndarray) -> BoolArray:
        """Which rows read most of these values."""
        if not len(self.columns):
            return np.zeros(len(X), dtype=bool)
        shared: BoolArray = np.mean(X[:, self.columns] == self.values, axis=1) >= MIN_MAJORITY_SHARE
        return shared


def repeated_readings(X: FloatArray) -> Readings:
    """The largest set of columns that are stuck in the same rows; empty if there is none.

    In a column of continuous numbers a value that many rows share is odd in itself, and two columns
    do not repeat themselves in the same rows by chance.
    """
    found = [(column, value) for column, own in enumerate(X.T) for value in _shared_numbers(own)]
    columns = np.array([column for column, _ in found], dtype=np.intp)
    values = np.array([value for _, value in found], dtype=np.float64)
    masks = (X[:, columns] == values).astype(np.float32)
    both = masks.T @ masks
    sizes = np.diag(both)
    same = both >= MIN_MAJORITY_SHARE * (sizes[:, None] + sizes - both)
    best = same[np.argmax(same.sum(axis=1))] if len(found) else np.zeros(0, dtype=bool)
    if len(np.unique(columns[best])) < 2:
        best[:] = False
    return Readings(columns[best], values[best])


def _shared_numbers(column: FloatArray) -> FloatArray:
    """Values that far more rows share than values of this continuous column do on average.

    Not those that tables repeat by nature: what missing values are replaced by (the mean or median
    of the others), and limits at which the others end. Stray values count for neither.
    """
    distinct, counts = np.unique(column, return_counts=True)
    many = counts > MIN_RECURRENCE_RATIO * len(column) / len(distinct)
    n_others = int(counts[~many].sum())
    is_continuous = np.sum(~many) >= MIN_MAJORITY_SHARE * n_others and n_others > len(column) / 2
    if not np.any(many) or np.sum(many) > MAX_STUCK_VALUES or not is_continuous:
        return column[:0]
    shared, others = distinct[many], np.sort(column[~np.isin(column, distinct[many])])
    inner = others[n_others // 20 : n_others - n_others // 20]
    low, high, deviation = inner[0], inner[-1], float(inner.std())
    centres = np.array([others.mean(), np.median(others)])
    is_natural = np.any(
        np.abs(shared[:, None] - centres) <= MAX_FILLED_DEVIATIONS * deviation, axis=1
    )
    is_natural |= (shared >= high) & (shared <= high + deviation)
    is_natural |= (shared <= low) & (shared >= low - deviation)
    result: FloatArray = shared[~is_natural]
    return result


def odds_of_readings(distances: FloatArray, class_index: np.ndarray, stuck: BoolArray) -> float:
    """Log-odds that rows with repeated readings are bad.

    They need not be neighbours: if the readings are those of a state, such as a machine that is
    off, any two of the rows agree about the label.
    """
    counts, n = np.bincount(class_index[stuck]), int(stuck.sum())
    agreement = float(counts @ (counts - 1.0)) / max(n * (n - 1), 1)
    to_others = distances + np.diag(np.full(len(distances), np.inf))
    labels = labels_elsewhere(class_index, _nearest(to_others), stuck)
    return PRIOR_OF_READINGS + labels.nats(agreement, n, -np.inf)
