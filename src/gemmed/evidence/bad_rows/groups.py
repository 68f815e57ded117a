"""Groups of rows that lie apart, each judged as one: by its labels and by how tight it is.

Rows of a group are near to each other, so that their distances do not show a fault. Two things do.
*Labels*: a part of a class has one label, as consistently as neighbours agree elsewhere. Faults
that lie together by chance have random labels. *Density*: a recorder that repeats itself makes rows
that are much nearer to each other than other rows of the table are.

Groups are branches of the single-linkage tree of mutual reachability (as in HDBSCAN) that stay
alone over a range of distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special, stats
from scipy.cluster import hierarchy
from scipy.sparse import coo_array, csgraph
from scipy.spatial import distance

from ..._core.types import BoolArray, FloatArray
from .row_statistics import INNER

FEWEST_MEMBERS, MOST_MEMBERS = 5, 0.45
"""Members of a group, and its share of the rows: a larger one is the table itself."""
FEWEST_ROWS = 40
NEIGHBOURS = 4
"""Neighbours behind the core distance of a row, and behind the agreement of labels."""
LONELY = 0.35
"""Logarithm of the range of distances over which a group stays alone."""
SPREAD_OF_MODES = 0.7
"""Standard deviation of the logarithm of the widths of modes: parts of classes differ so much."""
WIDEST_TIGHTNESS = 10.0
"""Tightness of faults is thought of as uniform up to so many deviations."""
LEAST_TIGHT = 0.05
"""Share of the rows in a group whose width says something: few rows alike are met everywhere."""
ELSEWHERE = 0.2
"""Share of the rows with the label of a tight group, or of stuck rows, that lie elsewhere."""
LARGEST_BAYES = 6.0
"""Nats at most: what a group is rests on few facts, however many rows it has."""
LEAST_ERROR = 0.02
"""Disagreement of neighbours at least: no table is so clean that one label decides."""
LEAST_NATS = -1.0
"""Nats of the members of a group that is not known to be bad: it may be."""
ONE_LABEL = 0.05
"""Probability that all bad measurements of a group have one label."""
CLEARING = 3.0
"""Nats of the labels that outweigh what single rows show."""
ACCUSING = 2.0
"""Nats from which a group counts as bad: less would accuse many rows on the word of one fact."""


class Scale(NamedTuple):
    """Centre and width of every column, shape (n_columns,); infinite width where it is constant."""

    middle: FloatArray
    width: FloatArray

    def of(self, X: FloatArray) -> FloatArray:
        scaled: FloatArray = (X - self.middle) / self.width
        return scaled


class Group(NamedTuple):
    """Rows that lie together."""

    members: np.ndarray
    """Their numbers among the rows that were searched."""
    points: FloatArray
    """The members, scaled."""
    reach: float
    """Distance to a member up to which a row belongs to the group."""
    log_bayes: float
    """Nats for "bad measurements" against "a part of a class"."""

    @property
    def is_bad(self) -> bool:
        return self.log_bayes > ACCUSING

    @property
    def is_cleared(self) -> bool:
        return self.log_bayes < -CLEARING

    def nats(self, single: FloatArray) -> FloatArray:
        """Nats of members, of which single rows have these."""
        if self.is_cleared:
            return np.minimum(single, LEAST_NATS)
        own = self.log_bayes if self.is_bad else max(min(self.log_bayes, 0.0), LEAST_NATS)
        together: FloatArray = np.maximum(single, own)
        return together

    def has(self, scaled: FloatArray) -> BoolArray:
        """Which rows belong to it."""
        found: BoolArray = distance.cdist(scaled, self.points).min(axis=1) <= self.reach
        return found


def scale_of(X: FloatArray) -> Scale:
    """Columns by their inner quantiles: single wild values do not matter."""
    low, middle, high = np.quantile(X, [INNER[0], 0.5, INNER[1]], axis=0)
    width = (high - low) / (2.0 * special.ndtri(INNER[1]))
    width = np.where(width > 0.0, width, X.std(axis=0))
    return Scale(middle, np.where(width > 0.0, width, np.inf))


def find_groups(X: FloatArray, class_index: np.ndarray) -> tuple[Scale, list[Group]]:
    """Groups that lie apart from all other rows.

    Parameters
    ----------
    X : shape (n_rows, n_columns); rows that are repeated count once
    class_index : given labels, shape (n_rows,)
    """
    scale = scale_of(X)
    _, first, counts = np.unique(X, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    first, counts = first[order], counts[order]
    if len(first) < FEWEST_ROWS:
        return scale, []
    points, label = scale.of(X[first]), class_index[first]
    distances = distance.squareform(distance.pdist(points))
    to_others = distances + np.diag(np.full(len(first), np.inf))
    nearest = np.argpartition(to_others, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
    core = np.take_along_axis(distances, nearest, axis=1).max(axis=1)
    reachable = np.maximum(distances, np.maximum(core[:, None], core))
    np.fill_diagonal(reachable, 0.0)
    tree = hierarchy.linkage(distance.squareform(reachable, checks=False), "single")
    labels = labels_of(label, nearest)
    branches = _lonely_branches(tree, len(first))
    # Where a table has many groups, groups are its nature, and one of them may be bad. Their number
    # clears none: labels do.
    prior = np.log(max(len(branches), 1))
    groups = []
    for members, height in branches:
        if counts[members].sum() > MOST_MEMBERS * len(X):
            continue
        inside = np.zeros(len(first), dtype=bool)
        inside[members] = True
        tightness = 0.0
        if lives_elsewhere(label, inside):
            tightness = _tightness(np.log(core + 1e-12), inside)
        found = labels.evidence(members, to_others[np.ix_(members, members)], tightness)
        nats = max(found - prior, min(found, LEAST_NATS))
        groups.append(Group(first[members], points[members], height, nats))
    return scale, groups


def _lonely_branches(tree: FloatArray, n: int) -> list[tuple[np.ndarray, float]]:
    """Members and height of the branches that stay alone longest; none within another."""
    parent = np.full(2 * n - 1, -1)
    children = tree[:, :2].astype(np.intp)
    parent[children] = np.arange(n, 2 * n - 1)[:, None]
    height = np.concatenate([np.zeros(n), tree[:, 2]])
    size = np.concatenate([np.ones(n), tree[:, 3]])
    branches = np.flatnonzero((size >= FEWEST_MEMBERS) & (size <= MOST_MEMBERS * n))
    alone = np.log(height[parent[branches]] + 1e-12) - np.log(height[branches] + 1e-12)
    found, taken = [], np.zeros(n, dtype=bool)
    for place in np.argsort(-alone, kind="stable"):
        if alone[place] < LONELY:
            break
        members = _leaves(children, int(branches[place]), n)
        if not np.any(taken[members]):
            taken[members] = True
            found.append((members, float(height[branches[place]])))
    return found


def _leaves(children: np.ndarray, branch: int, n: int) -> np.ndarray:
    stack, leaves = [branch], []
    while stack:
        node = stack.pop()
        if node < n:
            leaves.append(node)
        else:
            stack.extend(children[node - n].tolist())
    return np.sort(np.array(leaves))


class Labels(NamedTuple):
    """Labels of rows, and how they behave where nothing is odd."""

    given: np.ndarray
    shares: FloatArray
    """Of the classes, shape (n_classes,)."""
    disagreement: float
    """How often a row has another label than its nearest rows."""

    def is_part(self, members: np.ndarray, distances: FloatArray) -> bool:
        """Whether the labels of a group say that it is a part of the data."""
        return self.evidence(members, distances, -np.inf) < -CLEARING

    def evidence(self, members: np.ndarray, distances: FloatArray, tightness: float) -> float:
        """Log Bayes factor of a group: "bad" against "part of the data".

        In a part of the data neighbours agree as they do elsewhere. Labels of bad measurements are
        those of chance, with the shares of the table or with equal ones; a recorder that repeats
        itself may have one label.

        Parameters
        ----------
        members : numbers of the rows in the group
        distances : between them, shape (n_members, n_members), infinite on the diagonal
        tightness : log Bayes factor of the width of the group
        """
        k = min(NEIGHBOURS, len(members) - 1)
        own = self.given[members]
        nearest = np.argpartition(distances, k - 1, axis=1)[:, :k]
        share = float(np.mean(own[nearest] == own[:, None]))

        def log_likelihood(agreement: float) -> float:
            # Each member counts once, not once for each neighbour.
            agreement = min(agreement, 1.0 - 1e-6)
            likely = share * np.log(agreement) + (1.0 - share) * np.log1p(-agreement)
            return len(members) * float(likely)

        by_shares, by_equal = float(self.shares @ self.shares), 1.0 / len(self.shares)
        log_bad = [np.log(0.5 - 0.5 * ONE_LABEL) + log_likelihood(a) for a in (by_shares, by_equal)]
        log_bad.append(np.log(ONE_LABEL) + tightness + log_likelihood(1.0))
        # A part of a class may be as mixed as the table, or pure.
        errors = (max(self.disagreement, LEAST_ERROR), LEAST_ERROR)
        usual = special.logsumexp([log_likelihood(1.0 - error) for error in errors]) - np.log(2.0)
        return float(np.clip(special.logsumexp(log_bad) - usual, -LARGEST_BAYES, LARGEST_BAYES))


def labels_of(class_index: np.ndarray, nearest: np.ndarray) -> Labels:
    """Labels of rows whose nearest rows are known, shape (n_rows, n_neighbours)."""
    counts = np.bincount(class_index) + 1.0
    differs = class_index[nearest] != class_index[:, None]
    return Labels(class_index, counts / counts.sum(), float(differs.mean()))


def lives_elsewhere(label: np.ndarray, inside: BoolArray) -> bool:
    """Whether a group's most frequent label occurs elsewhere: a class may be one dense cluster."""
    own = label == np.bincount(label[inside]).argmax()
    return bool(np.mean(inside[own]) <= 1.0 - ELSEWHERE)


def _tightness(log_core: FloatArray, inside: BoolArray) -> float:
    """Log Bayes factor of the width of a group, zero where it is no tighter than others."""
    usual = log_core[~inside]
    spread = np.hypot(usual.std(), SPREAD_OF_MODES)
    tightness = (float(np.median(usual)) - float(np.median(log_core[inside]))) / spread
    if tightness <= 0.0 or inside.mean() < LEAST_TIGHT:
        return 0.0
    return max(-np.log(WIDEST_TIGHTNESS) - float(stats.norm.logpdf(tightness)), 0.0)


def cleared_by_labels(
    suspect: BoolArray,
    nearest: np.ndarray,
    label: np.ndarray,
    points: FloatArray,
) -> list[Group]:
    """Suspects among each other's nearest rows whose labels agree: parts of classes, not faults.

    Parameters
    ----------
    suspect : rows that single evidence calls bad, shape (n_rows,)
    nearest : numbers of the nearest rows, shape (n_rows, n_neighbours)
    points : scaled rows
    """
    rows, columns = np.repeat(np.arange(len(label)), nearest.shape[1]), nearest.ravel()
    linked = suspect[rows] & suspect[columns]
    shape = (len(label), len(label))
    graph = coo_array((np.ones(linked.sum()), (rows[linked], columns[linked])), shape=shape)
    _, part = csgraph.connected_components(graph, directed=False)
    labels = labels_of(label, nearest)
    groups = []
    for number in np.flatnonzero(np.bincount(part[suspect], minlength=1) >= FEWEST_MEMBERS):
        inside = suspect & (part == number)
        members = np.flatnonzero(inside)
        own = distance.squareform(distance.pdist(points[members]))
        np.fill_diagonal(own, np.inf)
        if labels.is_part(members, own):
            reach = float(own.min(axis=1).max())
            groups.append(Group(members, points[members], reach, -LARGEST_BAYES))
    return groups
