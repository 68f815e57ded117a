"""GEMDetector: anomalies by geometric entropy minimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._core.types import FloatArray
from ..evidence.distances import NeighborGraph, Neighbourhood, blocks, for_class, one_point
from ..evidence.screening import conformal_p_values, conformal_threshold, warn_out_of_reach
from ..evidence.statistics import (
    AnomalyStatistic,
    AverageRank,
    LogDensity,
    NearestNeighbours,
    SpanningTree,
)
from .validation import (
    check_choice,
    check_groups,
    check_labels_to_sort,
    check_number,
    check_query_data,
    check_squares,
    check_unlabelled_data,
)
from .whole_fit import fit_method, query_method

METHODS: dict[str, tuple[Any, NeighborGraph]] = {
    "bipartite": (NearestNeighbours, "bipartite"),
    "leave_one_out": (NearestNeighbours, "leave_one_out"),
    "average": (AverageRank, "bipartite"),
    "spanning_tree": (SpanningTree, "bipartite"),
    "density": (LogDensity, "leave_one_out"),
}


class GEMDetector(OutlierMixin, BaseEstimator):
    """Anomaly detector whose nominal region approximates the minimal-entropy set.

    The statistic of a sample is large where the training samples are sparse. A sample is anomalous
    if it exceeds that of all but a share ``false_alarm_rate`` of the training samples. The p-values
    are conformal: for new nominal samples, P(p <= level) is about ``level`` or below.

    Parameters
    ----------
    method : str, default="bipartite"
        - "bipartite": mean distance to the k nearest samples of a random half, averaged over
          splits and halves (BP-kNNG, Sricharan and Hero 2011);
        - "leave_one_out": mean distance to the k nearest other samples (Hero 2006);
        - "average": rank of that mean distance among the samples of the other half, averaged over
          splits (Root, Saligrama, Qian 2015);
        - "spanning_tree": length by which the K-point minimal spanning tree of a random half grows,
          averaged over splits and halves (Hero and Michel 1999, greedy);
        - "density": minus the logarithm of a kernel density estimate.
    n_neighbors : int, default=10
        Neighbours; for "density" they set the bandwidth. Reduced with a warning for small sets.
    false_alarm_rate : float in (0, 1), default=0.05
        Share of nominal samples that ``predict`` may call anomalous.
    n_splits : int, default=10
        Random splits of "bipartite", "average" and "spanning_tree".
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    classes_ : array of shape (n_classes,), only when y was given
    training_scores_ : array of shape (n_samples,)
        Scores of the training samples, each against the others of its class; higher is more
        nominal.
    minimal_entropy_set_ : boolean array of shape (n_samples,)
        The training samples that make up the minimal-entropy set: a share 1 - false_alarm_rate of
        every class.
    offset_ : float, or array of shape (n_classes,) when y was given
        decision_function = score_samples - offset_; -inf where the training set is too small for
        the false-alarm rate, so that nothing is called anomalous.

    Notes
    -----
    score_samples, predict and p_values are for new samples: a training sample given to them finds
    itself among its neighbours. Use ``training_scores_`` and ``minimal_entropy_set_`` for the
    training samples. p-values are valid up to a small asymmetry. New samples are compared
    with all training samples, training samples with all but themselves (or the other half).

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import GEMDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = GEMDetector(random_state=0).fit(X)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    classes_: np.ndarray

    def __init__(
        self,
        method: str = "bipartite",
        *,
        n_neighbors: int = 10,
        false_alarm_rate: float = 0.05,
        n_splits: int = 10,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.n_neighbors = n_neighbors
        self.false_alarm_rate = false_alarm_rate
        self.n_splits = n_splits
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> GEMDetector:
        """Learn the statistic of the training samples, class by class when y is given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            Class labels. A new sample is then nominal if it is nominal for some class.
        groups : array-like of shape (n_samples,), optional
            Samples of one group are not neighbours of each other.
        """
        check_choice("method", self.method, tuple(METHODS))
        check_number("n_neighbors", self.n_neighbors, at_least=1, whole=True)
        check_number("n_splits", self.n_splits, at_least=1, whole=True)
        check_number("false_alarm_rate", self.false_alarm_rate, above=0, below=1)
        X = check_unlabelled_data(self, X)
        groups = check_groups(groups, len(X))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._statistics: list[AnomalyStatistic] = []
        self.training_scores_ = np.empty(len(X))
        self.minimal_entropy_set_ = np.empty(len(X), dtype=bool)
        offsets = []
        for label, members in self._classes_of(X, y):
            statistic = self._fit_statistic(
                X[members], None if groups is None else groups[members], label, seed
            )
            self._statistics.append(statistic)
            self.training_scores_[members] = -statistic.training
            self.minimal_entropy_set_[members] = self._smallest(statistic)
            offsets.append(-conformal_threshold(statistic.training, self.false_alarm_rate))
            n, samples = len(members), f"samples{for_class(label, 'of')}"
            warn_out_of_reach(n, self.false_alarm_rate, samples, stacklevel=3)
        self.offset_ = offsets[0] if y is None else np.array(offsets)
        return self

    @query_method
    def score_samples(self, X: Any, y: Any = None) -> FloatArray:
        """Minus the statistic: higher is more nominal.

        Class-wise detectors take the most favourable class, or that of y if it is given.
        """
        return self._favourable(-self._all_statistics(X), y)

    @query_method
    def decision_function(self, X: Any, y: Any = None) -> FloatArray:
        """score_samples - offset_: negative for anomalies."""
        return self._favourable(-self._all_statistics(X) - self.offset_, y)

    @query_method
    def predict(self, X: Any, y: Any = None) -> np.ndarray:
        """+1 for nominal samples, -1 for anomalies."""
        return np.where(self.decision_function(X, y) >= 0.0, 1, -1)

    @query_method
    def p_values(self, X: Any, y: Any = None) -> FloatArray:
        """Conformal p-value of the hypothesis that a sample is nominal."""
        statistics = self._all_statistics(X)
        columns = [
            conformal_p_values(model.training, statistics[:, index])
            for index, model in enumerate(self._statistics)
        ]
        return self._favourable(np.column_stack(columns), y)

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None) -> np.ndarray:
        """Fit, and predict for the training samples, each by its own class when y is given."""
        return self.fit(X, y, groups).predict(X, y)

    def _all_statistics(self, X: Any) -> FloatArray:
        """Statistic of every row for every class, shape (n_samples, n_classes)."""
        check_is_fitted(self)
        X = check_query_data(self, X)
        return np.column_stack(
            [
                np.concatenate([model.of(X[rows]) for rows in blocks(len(X), len(model.training))])
                for model in self._statistics
            ]
        )

    def _favourable(self, by_class: FloatArray, y: Any) -> FloatArray:
        if y is None:
            return by_class.max(axis=1)
        if not hasattr(self, "classes_"):
            raise ValueError("y was given, but this detector was fitted without classes.")
        y = check_labels_to_sort(y, len(by_class))
        known = set(self.classes_.tolist())
        unknown = [label for label in y.tolist() if label not in known]
        if unknown:
            raise ValueError(
                f"y holds {unknown[0]!r}, which is not among the classes seen in fit: "
                f"{self.classes_.tolist()}."
            )
        return by_class[np.arange(len(y)), np.searchsorted(self.classes_, y)]

    def _classes_of(self, X: FloatArray, y: Any) -> list[tuple[object, np.ndarray]]:
        if hasattr(self, "classes_"):
            del self.classes_
        if y is None:
            return [(None, np.arange(len(X)))]
        y = check_labels_to_sort(y, len(X))
        self.classes_, index = np.unique(y, return_inverse=True)
        return [
            (label, np.flatnonzero(index == i)) for i, label in enumerate(self.classes_.tolist())
        ]

    def _fit_statistic(
        self, X: FloatArray, groups: np.ndarray | None, label: object, seed: int
    ) -> AnomalyStatistic:
        if len(X) < 2:
            raise ValueError(
                f"{len(X)} sample{for_class(label, 'of')}: an anomaly statistic needs at least 2. "
                "Drop the class, or fit without y."
            )
        if np.all(X[0] == X):
            raise one_point(len(X), label)
        check_squares(X)
        kind, graph = METHODS[self.method]
        neighbourhood = Neighbourhood(self.n_neighbors, graph, groups, seed, self.n_splits)
        if kind is SpanningTree:
            return SpanningTree(X, neighbourhood, label, 1.0 - self.false_alarm_rate)
        return kind(X, neighbourhood, label)

    def _smallest(self, statistic: AnomalyStatistic) -> np.ndarray:
        """The share 1 - false_alarm_rate of the members with the smallest statistic."""
        if isinstance(statistic, SpanningTree):
            return statistic.kept
        n = len(statistic.training)
        n_kept = max(1, int(np.ceil((1.0 - self.false_alarm_rate) * n)))
        kept = np.zeros(n, dtype=bool)
        kept[np.argsort(statistic.training, kind="stable")[:n_kept]] = True
        return kept
