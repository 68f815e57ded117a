"""Boosted trees in model files: plain arrays, checked before a tree is built of them.

As in ``tree_files``: scikit-learn trusts the nodes of a tree. ``StoredBoosting`` is a fitted
``HistGradientBoostingClassifier`` of numbers without its trees, whose nodes stand in arrays. It
keeps what predictions need; bins, losses and random numbers of the fit are not stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.exceptions import PayloadError

LEAF = -1
"""Child of a leaf."""


def node_depths(left: np.ndarray, right: np.ndarray, starts: np.ndarray, what: str) -> np.ndarray:
    """Depth of every node in its tree; an error if the nodes are no trees.

    Parameters
    ----------
    left, right : children of each node, numbers within its tree, LEAF for none
    starts : first node of each tree, and the number of all nodes
    what : name of the model in messages
    """
    counts = np.diff(starts)
    first = np.repeat(starts[:-1], counts)
    demand(bool(((left == LEAF) == (right == LEAF)).all()), what, "nodes with one child")
    parents = np.flatnonzero(left != LEAF)
    children = np.stack([left[parents], right[parents]])
    inside = (children > parents - first[parents]) & (children < np.repeat(counts, counts)[parents])
    demand(bool(inside.all()), what, "children that are not behind their parent in the tree")
    children += first[parents]
    n_parents = np.bincount(children.ravel(), minlength=len(left))
    is_root = np.arange(len(left)) == first
    has_one = n_parents == ~is_root
    demand(bool(has_one.all()), what, "nodes with another number of parents than one")
    depths = np.zeros(len(left), dtype=np.int64)
    level = starts[:-1]
    while len(level := level[left[level] != LEAF]):
        below = np.concatenate([left[level] + first[level], right[level] + first[level]])
        depths[below] = np.tile(depths[level] + 1, 2)
        level = below
    return depths


def is_count(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and bool(value > 0)


def demand(is_true: bool, what: str, fault: str) -> None:
    """Refuse a model file: its ``what`` has this fault."""
    if not is_true:
        raise PayloadError(f"its {what} has {fault}")


KEPT = ("classes_", "do_early_stopping_", "n_features_in_", "train_score_", "validation_score_")
"""Attributes that are stored as they are; names of columns are stored if there are any."""
NAMES = "feature_names_in_"
MAX_TREES = 1_000_000


class StoredBoosting:
    """Fitted boosted trees in a model file; they become the classifier when the state is set.

    Its state is a dictionary with ``params``, ``attributes`` (those of KEPT) and ``baseline``
    (scores before the first tree). ``counts`` has the number of nodes of each tree, round by round.
    ``nodes`` has, for each field, the values of all nodes of all trees.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        try:
            model = _boosting_of(**state)
        except PayloadError:
            raise
        except Exception as error:  # a crafted state can have anything anywhere
            raise PayloadError(f"its boosted trees are not valid ({error})") from error
        vars(self).update(vars(model))
        self.__class__ = type(model)

    @classmethod
    def of(cls, model: Any) -> StoredBoosting:
        """The stored form of a fitted classifier; an error if it could not be loaded again."""
        trees = [tree.nodes for trees_of_round in model._predictors for tree in trees_of_round]
        nodes = np.concatenate(trees)
        names = [name for name in (*KEPT, NAMES) if name in vars(model)]
        state = {
            "params": model.get_params(deep=False),
            "attributes": {name: vars(model)[name] for name in names},
            "baseline": model._baseline_prediction,
            "counts": np.array([len(tree) for tree in trees], dtype=np.int64),
            "nodes": {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names or ()},
        }
        _boosting_of(**state)
        stored = cls()
        vars(stored).update(state)
        return stored


def is_storable_boosting(value: Any) -> bool:
    """Whether a value is a fitted classifier without categories that has trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    if type(value) is not HistGradientBoostingClassifier or not getattr(value, "_predictors", ()):
        return False
    return value.is_categorical_ is None and not value.warm_start


def _boosting_of(
    params: dict[str, Any],
    attributes: dict[str, Any],
    baseline: np.ndarray,
    counts: np.ndarray,
    nodes: dict[str, np.ndarray],
) -> Any:
    """The classifier that a state describes."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

    model = HistGradientBoostingClassifier(**params)
    model._validate_params()
    _demand(set(KEPT) <= set(attributes) <= {*KEPT, NAMES}, f"attributes {list(attributes)!r:.80}")
    n_features, classes = attributes["n_features_in_"], attributes["classes_"]
    _demand(is_count(n_features), f"n_features_in_={n_features!r:.40}")
    _demand(type(classes) is np.ndarray and classes.ndim == 1, "classes that are no array")
    _demand(len(classes) > 1, f"{len(classes)} classes")
    n_functions = 1 if len(classes) == 2 else len(classes)
    for name, array in {"baseline": baseline, "counts": counts}.items():
        _demand(type(array) is np.ndarray, f"{name} that is no array")
    _demand(baseline.dtype == np.float64 and baseline.shape == (1, n_functions), "another baseline")
    _demand(bool(np.isfinite(baseline).all()), "a baseline that is not finite")
    _check_nodes(counts, nodes, int(n_features), n_functions)
    vars(model).update(attributes)
    model.is_categorical_ = model._preprocessor = model._is_categorical_remapped = None
    model.n_trees_per_iteration_, model._n_features = n_functions, n_features
    model._baseline_prediction, model._loss = baseline, model._get_loss(None)
    model._bin_mapper = _BinMapper()
    model._bin_mapper.is_categorical_ = np.zeros(n_features, dtype=np.uint8)
    model._bin_mapper.bin_thresholds_ = []
    model._predictors = _rounds_of(counts, nodes, n_functions)
    return model


def _check_nodes(
    counts: np.ndarray, nodes: dict[str, np.ndarray], n_features: int, n_functions: int
) -> None:
    """Arrays of the right types that are trees over these features."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE as FIELDS

    _demand(counts.dtype == np.int64 and counts.ndim == 1, "counts of other type")
    _demand(0 < len(counts) <= MAX_TREES and len(counts) % n_functions == 0, f"{len(counts)} trees")
    _demand(set(nodes) == set(FIELDS.names), f"nodes with the fields {sorted(nodes)!r:.200}")
    total = len(nodes["value"])
    _demand(bool((counts > 0).all() and (counts <= total).all()), "empty trees")
    _demand(int(counts.sum()) == total, f"{total} nodes")
    for name, array in nodes.items():
        is_right = type(array) is np.ndarray and array.dtype == FIELDS[name]
        _demand(is_right and array.shape == (total,), f"{name} of other type or length")
    for name in ("is_leaf", "missing_go_to_left"):
        _demand(bool((nodes[name] <= 1).all()), f"{name} beyond 1")
    _demand(not nodes["is_categorical"].any(), "splits by categories")
    is_leaf = nodes["is_leaf"] == 1
    left, right = (
        np.where(is_leaf, LEAF, nodes[name].astype(np.int64)) for name in ("left", "right")
    )
    node_depths(left, right, np.concatenate([[0], np.cumsum(counts)]), "boosted trees")
    feature = nodes["feature_idx"]
    inside = is_leaf | ((feature >= 0) & (feature < n_features))
    _demand(bool(inside.all()), f"features outside 0..{n_features - 1}")
    _demand(not np.isnan(nodes["num_threshold"]).any(), "thresholds that are no numbers")
    _demand(bool(np.isfinite(nodes["value"]).all()), "values that are not finite")


def _rounds_of(counts: np.ndarray, nodes: dict[str, np.ndarray], n_functions: int) -> list[Any]:
    """Trees of scikit-learn from checked arrays, a list for each round."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    table = np.zeros(int(counts.sum()), dtype=PREDICTOR_RECORD_DTYPE)
    for name, column in nodes.items():
        table[name] = column
    no_categories = np.zeros((0, 8), dtype=np.uint32)
    trees = [
        TreePredictor(own.copy(), no_categories, no_categories)
        for own in np.split(table, np.cumsum(counts)[:-1])
    ]
    return [trees[i : i + n_functions] for i in range(0, len(trees), n_functions)]


def _demand(is_true: bool, what: str) -> None:
    demand(is_true, "boosted trees", what)
