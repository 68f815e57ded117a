"""Forests in model files: plain arrays, checked before a tree is built of them.

scikit-learn trusts the nodes of a tree: a child that is its own parent makes a prediction endless,
and a feature number out of range reads foreign memory. ``StoredForest`` is a fitted forest without
its trees, whose nodes stand in arrays. Only ``StoredForest`` builds trees from a file. It does so
after these checks:

- every node but the root is the child of one node, which stands before it, so there are no cycles;
- features are those of the forest, thresholds and values are numbers, sizes agree;
- what else scikit-learn relies on (depth, number of nodes) is computed and not read.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .._core.exceptions import PayloadError
from .boosting_files import (
    LEAF,
    StoredBoosting,
    demand,
    is_count,
    is_storable_boosting,
    node_depths,
)

NO_FEATURE = -2
"""Feature of a leaf."""
NOT_STORED = {"estimator", "estimator_", "estimators_", "estimator_params"}
"""Attributes of a forest that follow from its class or from the arrays."""
MAX_TREES = 100_000


def _kinds() -> dict[str, tuple[type, type]]:
    """Forests that can be stored, with the class of their trees."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    return {
        "RandomForestClassifier": (RandomForestClassifier, DecisionTreeClassifier),
        "ExtraTreesClassifier": (ExtraTreesClassifier, ExtraTreeClassifier),
    }


class StoredForest:
    """A fitted forest in a model file; it becomes the forest when its state is set.

    Its state is a dictionary:

    - ``kind``: name of the class
    - ``params``, ``attributes``: parameters, and what else is in the forest
    - ``seeds``, ``counts``: random state and number of nodes of each tree
    - ``nodes``: for each field the values of all nodes of all trees
    - ``values``: class probabilities of all nodes
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        try:
            kind, attributes = _forest_of(**state)
        except PayloadError:
            raise
        except Exception as error:  # a crafted state can have anything anywhere
            raise PayloadError(f"its forest is not valid ({error})") from error
        vars(self).update(attributes)
        self.__class__ = kind

    @classmethod
    def of(cls, forest: Any) -> StoredForest:
        """The stored form of a fitted forest; an error for one that could not be loaded again."""
        trees = [tree.tree_ for tree in forest.estimators_]
        states = [tree.__getstate__() for tree in trees]
        nodes = np.concatenate([state["nodes"] for state in states])
        params = forest.get_params(deep=False)
        state = {
            "kind": type(forest).__name__,
            "params": params,
            "attributes": {
                name: value
                for name, value in vars(forest).items()
                if name not in NOT_STORED and name not in params
            },
            "seeds": np.array([tree.random_state for tree in forest.estimators_], dtype=np.int64),
            "counts": np.array([tree.node_count for tree in trees], dtype=np.int64),
            "nodes": {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names or ()},
            "values": np.concatenate([state["values"][:, 0, :] for state in states]),
        }
        _forest_of(**state)
        stored = cls()
        vars(stored).update(state)
        return stored


def with_stored_forests(model: Any) -> Any:
    """The model with forests and boosted trees in their stored forms; it is not changed itself."""
    return _replaced(model, {})


def _replaced(value: Any, known: dict[int, Any]) -> Any:
    """A value, or a shallow copy of it if there is a forest or boosting in it.

    ``known`` has what became of each object, so that shared objects stay shared. It also keeps the
    originals, whose identity no other object may take meanwhile.
    """
    if id(value) in known:
        return known[id(value)][1]
    is_object = hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value)
    if not (is_object or type(value) in (dict, list, tuple)):
        return value
    known[id(value)] = (value, value)  # for objects that contain themselves
    new = value
    if _is_storable(value):
        new = StoredForest.of(value)
    elif is_storable_boosting(value):
        new = StoredBoosting.of(value)
    elif isinstance(value, dict):
        items = {name: _replaced(item, known) for name, item in value.items()}
        if any(items[name] is not item for name, item in value.items()):
            new = items
    elif isinstance(value, list | tuple):
        parts = [_replaced(item, known) for item in value]
        if any(one is not other for one, other in zip(parts, value, strict=True)):
            new = type(value)(parts)
    else:
        attributes = {name: _replaced(item, known) for name, item in vars(value).items()}
        if any(attributes[name] is not item for name, item in vars(value).items()):
            new = copy.copy(value)
            vars(new).update(attributes)
    known[id(value)] = (value, new)
    return new


def _is_storable(value: Any) -> bool:
    """Whether a value is a fitted forest of one output, not of a class derived from one."""
    return any(type(value) is kind for kind, _ in _kinds().values()) and (
        bool(getattr(value, "estimators_", ())) and getattr(value, "n_outputs_", 0) == 1
    )


def _forest_of(
    kind: str,
    params: dict[str, Any],
    attributes: dict[str, Any],
    seeds: np.ndarray,
    counts: np.ndarray,
    nodes: dict[str, np.ndarray],
    values: np.ndarray,
) -> tuple[type, dict[str, Any]]:
    """Class and attributes of the forest that a state describes."""
    forest_kind, tree_kind = _kinds()[kind]
    forest = forest_kind(**params)
    forest._validate_params()
    hidden = [name for name in attributes if name in NOT_STORED or hasattr(forest_kind, name)]
    _demand(not hidden, f"attributes {hidden!r:.80}")
    _demand(forest.n_estimators == len(counts), f"{len(counts)} trees")
    n_features, n_classes = attributes["n_features_in_"], attributes["n_classes_"]
    classes = attributes["classes_"]
    _demand(is_count(n_features), f"n_features_in_={n_features!r:.40}")
    _demand(is_count(n_classes), f"n_classes_={n_classes!r:.40}")
    _demand(np.shape(classes) == (n_classes,), f"{np.size(classes)} classes")
    _demand(attributes["n_outputs_"] == 1, f"n_outputs_={attributes['n_outputs_']!r:.40}")
    _check_shapes(seeds, counts, nodes, values, int(n_classes))
    starts = np.concatenate([[0], np.cumsum(counts)])
    depths = node_depths(nodes["left_child"], nodes["right_child"], starts, "forest")
    _check_nodes(nodes, int(n_features))
    _demand(bool(np.isfinite(values).all() and (values >= 0).all()), "values that are no shares")
    vars(forest).update(attributes)
    forest.estimator_ = forest.estimator
    options = {name: getattr(forest, name) for name in forest.estimator_params}
    forest.estimators_ = []
    for number, seed in enumerate(seeds.tolist()):
        part = slice(starts[number], starts[number + 1])
        tree = tree_kind(**{**options, "random_state": seed})
        tree.n_features_in_, tree.n_outputs_ = n_features, 1
        tree.classes_, tree.n_classes_ = np.arange(float(n_classes)), np.intp(n_classes)
        tree.max_features_ = _max_features(tree.max_features, int(n_features))
        own = {name: column[part] for name, column in nodes.items()}
        depth = int(depths[part].max())
        tree.tree_ = _tree_of(own, values[part], int(n_features), depth)
        forest.estimators_.append(tree)
    return forest_kind, vars(forest)


def _check_shapes(
    seeds: np.ndarray,
    counts: np.ndarray,
    nodes: dict[str, np.ndarray],
    values: np.ndarray,
    n_classes: int,
) -> None:
    """Arrays of the right types that agree about the numbers of trees and nodes."""
    for name, array in {"seeds": seeds, "counts": counts}.items():
        _demand(type(array) is np.ndarray and array.dtype == np.int64, f"{name} of other type")
    _demand(seeds.ndim == 1 and seeds.shape == counts.shape, "seeds and counts of other shapes")
    _demand(0 < len(counts) <= MAX_TREES, f"{len(counts)} trees")
    _demand(bool((counts > 0).all() and (counts <= len(values)).all()), "empty trees")
    total = int(counts.sum())
    fields = _node_fields()
    _demand(set(nodes) == set(fields), f"nodes with the fields {sorted(nodes)!r:.200}")
    for name, array in nodes.items():
        is_right = type(array) is np.ndarray and array.dtype == fields[name]
        _demand(is_right and array.shape == (total,), f"{name} of other type or length")
    is_right = type(values) is np.ndarray and values.dtype == np.float64
    _demand(is_right and values.shape == (total, n_classes), "values of other type or shape")


def _check_nodes(nodes: dict[str, np.ndarray], n_features: int) -> None:
    """What a node says besides its children."""
    is_leaf = nodes["left_child"] == LEAF
    feature, threshold = nodes["feature"], nodes["threshold"]
    inside = np.where(is_leaf, feature == NO_FEATURE, (feature >= 0) & (feature < n_features))
    _demand(bool(inside.all()), f"features outside 0..{n_features - 1}")
    # A split between present and missing values has the threshold infinity.
    _demand(bool((threshold > -np.inf).all()), "thresholds that are no numbers")
    for name in ("impurity", "weighted_n_node_samples"):
        _demand(bool(np.isfinite(nodes[name]).all()), f"{name} that is not finite")
    _demand(bool((nodes["n_node_samples"] > 0).all()), "nodes without samples")
    _demand(bool((nodes["missing_go_to_left"] <= 1).all()), "missing_go_to_left beyond 1")


def _node_fields() -> dict[str, np.dtype]:
    from sklearn.tree._tree import NODE_DTYPE

    return {name: NODE_DTYPE[name] for name in NODE_DTYPE.names}


def _tree_of(
    columns: dict[str, np.ndarray], values: np.ndarray, n_features: int, depth: int
) -> Any:
    """A tree of scikit-learn from checked arrays."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    nodes = np.zeros(len(values), dtype=NODE_DTYPE)
    for name, column in columns.items():
        nodes[name] = column
    tree = Tree(n_features, np.array([values.shape[1]], dtype=np.intp), 1)
    tree.__setstate__(
        {
            "max_depth": depth,
            "node_count": len(nodes),
            "nodes": nodes,
            "values": np.ascontiguousarray(values[:, None, :]),
        }
    )
    return tree


def _max_features(wanted: Any, n_features: int) -> int:
    """Number of features that a tree looked at in a split."""
    if wanted is None:
        return n_features
    if isinstance(wanted, str):
        root = np.sqrt(n_features) if wanted == "sqrt" else np.log2(n_features)
        return max(1, int(root))
    if isinstance(wanted, int | np.integer):
        return int(wanted)
    return max(1, int(wanted * n_features))


def _demand(is_true: bool, what: str) -> None:
    demand(is_true, "forest", what)
