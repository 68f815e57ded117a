"""Trees in model files: plain arrays, checked before a tree is built of them.

scikit-learn trusts the nodes of a tree: a child that is its own parent makes a prediction endless,
and a feature number out of range reads foreign memory. ``StoredForest`` and ``StoredBoosting`` are
fitted models without their trees, whose nodes stand in arrays. Only they build trees from a file,
after these checks:

- every node but the root is the child of one node, which stands before it, so there are no cycles;
- features are those of the model, thresholds and values are numbers, sizes agree;
- what else scikit-learn relies on (depth, number of nodes) is computed and not read.
"""

import copy
from typing import Any, ClassVar

import numpy as np

from .._core.exceptions import PayloadError

LEAF = -1
"""Child of a leaf."""
NO_FEATURE = -2
"""Feature of a leaf."""
MAX_TREES = 1_000_000
NOT_STORED = {"estimator", "estimator_", "estimators_", "estimator_params"}
"""Attributes of a forest that follow from its class or from the arrays."""
STORED_ATTRIBUTES = {
    "classes_",
    "do_early_stopping_",
    "n_features_in_",
    "train_score_",
    "validation_score_",
}
"""Attributes of boosted trees that are stored as they are. What predictions do not need (bins,
losses and random numbers of the fit) is not stored."""
NAMES = "feature_names_in_"
"""Another one, if columns had names."""
METADATA_REQUESTS = "sklearn.utils._metadata_requests"
"""Module of what ``set_fit_request`` keeps. From scikit-learn 1.8 on it refers back to its
estimator, which skops would follow forever. The name of the class is kept instead."""


class _Stored:
    """A fitted model in a model file; it becomes the model when its state is set."""

    what: ClassVar[str]
    _state: Any
    """Function of a model: its state."""
    _built: Any
    """Function of the parts of a state: the model."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        model = self._checked(state)
        vars(self).update(vars(model))
        self.__class__ = type(model)

    @classmethod
    def of(cls, model: Any) -> Any:
        """The stored form of a fitted model; an error for one that could not be loaded again."""
        state = cls._state(model)
        cls._checked(state)
        stored = cls()
        vars(stored).update(state)
        return stored

    @classmethod
    def _checked(cls, state: dict[str, Any]) -> Any:
        """The model that a state describes."""
        try:
            return cls._built(**state)
        except PayloadError as error:
            raise PayloadError(f"its {cls.what} has {error}") from None
        except Exception as error:  # a crafted state can have anything anywhere
            raise PayloadError(f"its {cls.what} cannot be built ({error})") from error


def _kinds() -> dict[str, tuple[type, type]]:
    """Forests that can be stored, with the class of their trees."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    return {
        "RandomForestClassifier": (RandomForestClassifier, DecisionTreeClassifier),
        "ExtraTreesClassifier": (ExtraTreesClassifier, ExtraTreeClassifier),
    }


class StoredForest(_Stored):
    """A fitted forest. Its state is a dictionary:

    - ``kind``: name of the class
    - ``params``, ``attributes``: parameters, and what else is in the forest
    - ``seeds``, ``counts``: random state and number of nodes of each tree
    - ``nodes``: for each field the values of all nodes of all trees
    - ``values``: class probabilities of all nodes
    """

    what = "forest"

    @staticmethod
    def _state(forest: Any) -> dict[str, Any]:
        trees = [tree.tree_.__getstate__() for tree in forest.estimators_]
        params = forest.get_params(deep=False)
        return {
            "kind": type(forest).__name__,
            "params": params,
            "attributes": {
                name: value
                for name, value in vars(forest).items()
                if name not in NOT_STORED and name not in params
            },
            "seeds": np.array([tree.random_state for tree in forest.estimators_], dtype=np.int64),
            **_stored_nodes([tree["nodes"] for tree in trees]),
            "values": np.concatenate([tree["values"][:, 0, :] for tree in trees]),
        }

    @staticmethod
    def _built(
        kind: str,
        params: dict[str, Any],
        attributes: dict[str, Any],
        seeds: np.ndarray,
        counts: np.ndarray,
        nodes: dict[str, np.ndarray],
        values: np.ndarray,
    ) -> Any:
        from sklearn.tree._tree import NODE_DTYPE, Tree

        forest_kind, tree_kind = _kinds()[kind]
        forest = forest_kind(**params)
        forest._validate_params()
        hidden = [name for name in attributes if name in NOT_STORED or hasattr(forest_kind, name)]
        _demand(not hidden, f"attributes {hidden!r:.80}")
        _demand(forest.n_estimators == len(counts), f"{len(counts)} trees")
        n_features, n_classes = attributes["n_features_in_"], attributes["n_classes_"]
        _demand(_is_count(n_features), f"n_features_in_={n_features!r:.40}")
        _demand(_is_count(n_classes), f"n_classes_={n_classes!r:.40}")
        n_given = np.size(attributes["classes_"])
        _demand(np.shape(attributes["classes_"]) == (n_classes,), f"{n_given} classes")
        _demand(attributes["n_outputs_"] == 1, f"n_outputs_={attributes['n_outputs_']!r:.40}")
        table = _table_of(nodes, counts, NODE_DTYPE)
        _demand_array(seeds, np.int64, counts.shape, "seeds")
        _demand_array(values, np.float64, (len(table), n_classes), "values")
        _demand(np.isfinite(values).all() and (values >= 0).all(), "values that are no shares")
        starts = _starts(counts)
        depths = _node_depths(table["left_child"], table["right_child"], starts)
        _check_forest_nodes(table, int(n_features))
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
            tree.tree_ = Tree(int(n_features), np.array([n_classes], dtype=np.intp), 1)
            state = {"max_depth": int(depths[part].max()), "node_count": counts[number]}
            own = {"nodes": table[part], "values": np.ascontiguousarray(values[part, None, :])}
            tree.tree_.__setstate__(state | own)
            forest.estimators_.append(tree)
        return forest


def _check_forest_nodes(nodes: np.ndarray, n_features: int) -> None:
    """What a node says besides its children."""
    is_leaf = nodes["left_child"] == LEAF
    feature, threshold = nodes["feature"], nodes["threshold"]
    inside = np.where(is_leaf, feature == NO_FEATURE, (feature >= 0) & (feature < n_features))
    _demand(inside.all(), f"features outside 0..{n_features - 1}")
    # A split between present and missing values has the threshold infinity.
    _demand((threshold > -np.inf).all(), "thresholds that are no numbers")
    for name in ("impurity", "weighted_n_node_samples"):
        _demand(np.isfinite(nodes[name]).all(), f"{name} that is not finite")
    _demand((nodes["n_node_samples"] > 0).all(), "nodes without samples")
    _demand((nodes["missing_go_to_left"] <= 1).all(), "missing_go_to_left beyond 1")


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


class StoredBoosting(_Stored):
    """A fitted ``HistGradientBoostingClassifier`` of numbers.

    Its state has ``params``, ``attributes`` (those of STORED_ATTRIBUTES) and ``baseline``
    (scores before the first tree). ``counts`` has the number of nodes of each tree, round by round.
    ``nodes`` has, for each field, the values of all nodes of all trees.
    """

    what = "boosted trees"

    @staticmethod
    def _state(model: Any) -> dict[str, Any]:
        names = [name for name in (*sorted(STORED_ATTRIBUTES), NAMES) if name in vars(model)]
        return {
            "params": model.get_params(deep=False),
            "attributes": {name: vars(model)[name] for name in names},
            "baseline": model._baseline_prediction,
            **_stored_nodes([tree.nodes for own_round in model._predictors for tree in own_round]),
        }

    @staticmethod
    def _built(
        params: dict[str, Any],
        attributes: dict[str, Any],
        baseline: np.ndarray,
        counts: np.ndarray,
        nodes: dict[str, np.ndarray],
    ) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
        from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
        from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

        model = HistGradientBoostingClassifier(**params)
        model._validate_params()
        _demand(
            STORED_ATTRIBUTES <= set(attributes) <= STORED_ATTRIBUTES | {NAMES},
            f"attributes {list(attributes)!r:.80}",
        )
        n_features, classes = attributes["n_features_in_"], attributes["classes_"]
        _demand(_is_count(n_features), f"n_features_in_={n_features!r:.40}")
        _demand(type(classes) is np.ndarray and classes.ndim == 1, "classes that are no array")
        _demand(len(classes) > 1, f"{len(classes)} classes")
        n_functions = 1 if len(classes) == 2 else len(classes)
        _demand_array(baseline, np.float64, (1, n_functions), "a baseline")
        _demand(np.isfinite(baseline).all(), "a baseline that is not finite")
        table = _table_of(nodes, counts, PREDICTOR_RECORD_DTYPE)
        _demand(len(counts) % n_functions == 0, f"{len(counts)} trees")
        _check_boosted_nodes(table, _starts(counts), int(n_features))
        vars(model).update(attributes)
        model.is_categorical_ = model._preprocessor = model._is_categorical_remapped = None
        model.n_trees_per_iteration_, model._n_features = n_functions, n_features
        model._baseline_prediction, model._loss = baseline, model._get_loss(None)
        model._bin_mapper = _BinMapper()
        model._bin_mapper.is_categorical_ = np.zeros(n_features, dtype=np.uint8)
        model._bin_mapper.bin_thresholds_ = []
        no_categories = np.zeros((0, 8), dtype=np.uint32)
        trees = [
            TreePredictor(own.copy(), no_categories, no_categories)
            for own in np.split(table, np.cumsum(counts)[:-1])
        ]
        rounds = range(0, len(trees), n_functions)
        model._predictors = [trees[i : i + n_functions] for i in rounds]
        return model


def _check_boosted_nodes(nodes: np.ndarray, starts: np.ndarray, n_features: int) -> None:
    for name in ("is_leaf", "missing_go_to_left"):
        _demand((nodes[name] <= 1).all(), f"{name} beyond 1")
    _demand(not nodes["is_categorical"].any(), "splits by categories")
    is_leaf = nodes["is_leaf"] == 1
    left, right = (
        np.where(is_leaf, LEAF, nodes[name].astype(np.int64)) for name in ("left", "right")
    )
    _node_depths(left, right, starts)
    feature = nodes["feature_idx"]
    inside = is_leaf | ((feature >= 0) & (feature < n_features))
    _demand(inside.all(), f"features outside 0..{n_features - 1}")
    _demand(not np.isnan(nodes["num_threshold"]).any(), "thresholds that are no numbers")
    _demand(np.isfinite(nodes["value"]).all(), "values that are not finite")


# -- of both ---------------------------------------------------------------------------------------


def _stored_nodes(trees: list[np.ndarray]) -> dict[str, Any]:
    """Numbers of nodes, and the fields of all nodes."""
    nodes = np.concatenate(trees)
    return {
        "counts": np.array([len(tree) for tree in trees], dtype=np.int64),
        "nodes": {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names or ()},
    }


def _table_of(nodes: dict[str, np.ndarray], counts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The nodes of all trees as scikit-learn has them, from arrays of the right types and sizes."""
    _demand_array(counts, np.int64, (np.size(counts),), "counts")
    _demand(0 < len(counts) <= MAX_TREES, f"{len(counts)} trees")
    _demand(set(nodes) == set(dtype.names or ()), f"nodes with the fields {sorted(nodes)!r:.200}")
    total = len(next(iter(nodes.values())))
    for name, array in nodes.items():
        _demand_array(array, dtype[name], (total,), name)
    _demand((counts > 0).all() and (counts <= total).all(), "empty trees")
    _demand(counts.sum() == total, f"{total} nodes for trees of {int(counts.sum())}")
    table = np.zeros(total, dtype=dtype)
    for name, array in nodes.items():
        table[name] = array
    return table


def _starts(counts: np.ndarray) -> np.ndarray:
    """First node of each tree, and the number of all nodes."""
    return np.concatenate([[0], np.cumsum(counts)])


def _node_depths(left: np.ndarray, right: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Depth of every node in its tree; an error if the nodes are no trees.

    ``left``, ``right``: children of each node, numbers within its tree, LEAF for none.
    """
    counts = np.diff(starts)
    first = np.repeat(starts[:-1], counts)
    _demand(((left == LEAF) == (right == LEAF)).all(), "nodes with one child")
    parents = np.flatnonzero(left != LEAF)
    children = np.stack([left[parents], right[parents]])
    inside = (children > parents - first[parents]) & (children < np.repeat(counts, counts)[parents])
    _demand(inside.all(), "children that are not behind their parent in the tree")
    children += first[parents]
    n_parents = np.bincount(children.ravel(), minlength=len(left))
    is_root = np.arange(len(left)) == first
    _demand((n_parents == ~is_root).all(), "nodes with another number of parents than one")
    depths = np.zeros(len(left), dtype=np.int64)
    level = starts[:-1]
    while len(level := level[left[level] != LEAF]):
        below = np.concatenate([left[level] + first[level], right[level] + first[level]])
        depths[below] = np.tile(depths[level] + 1, 2)
        level = below
    return depths


def _is_count(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and bool(value > 0)


def _demand_array(value: Any, dtype: Any, shape: tuple[int, ...], what: str) -> None:
    is_right = type(value) is np.ndarray and value.dtype == dtype and value.shape == shape
    _demand(is_right, f"{what} of other type or shape")


def _demand(is_true: Any, fault: str) -> None:
    if not is_true:
        raise PayloadError(fault)


# -- in a model ------------------------------------------------------------------------------------


def with_stored_trees(model: Any) -> Any:
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
    if (stored := _stored_kind(value)) is not None:
        new = stored.of(value)
    elif isinstance(value, list | tuple):
        parts = [_replaced(item, known) for item in value]
        if any(one is not other for one, other in zip(parts, value, strict=True)):
            new = type(value)(parts)
    else:
        before = value if isinstance(value, dict) else vars(value)
        after = {name: _replaced(item, known) for name, item in before.items()}
        if type(value).__module__ == METADATA_REQUESTS and not isinstance(before["owner"], str):
            after["owner"] = type(before["owner"]).__name__
        if any(after[name] is not item for name, item in before.items()):
            new = after if isinstance(value, dict) else copy.copy(value)
            if not isinstance(value, dict):
                vars(new).update(after)
    known[id(value)] = (value, new)
    return new


def _stored_kind(value: Any) -> type[_Stored] | None:
    """How a value is stored: fitted forests of one output, boosted trees without categories."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    if any(type(value) is kind for kind, _ in _kinds().values()):
        is_one = getattr(value, "estimators_", ()) and getattr(value, "n_outputs_", 0) == 1
        return StoredForest if is_one else None
    if type(value) is not HistGradientBoostingClassifier or not getattr(value, "_predictors", ()):
        return None
    return StoredBoosting if value.is_categorical_ is None and not value.warm_start else None
