"""Further members of the model: any classifier, held out, and fitted again to learned labels."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import coo_array, csgraph
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import has_fit_parameter

from .._core.types import FloatArray
from ..rows.foreign_frames import in_pandas

SUM_TOLERANCE = 0.01


def check_pred_probs(pred_probs: Any, classes: np.ndarray, n_samples: int) -> FloatArray | None:
    """Probabilities of shape (n_models, n_samples, n_classes), or None.

    Parameters
    ----------
    pred_probs : None; an array of shape (n_samples, n_classes) with columns in the order of
        ``classes``; a DataFrame with a column for every class; or several of them, as a list or as
        an array of shape (n_models, n_samples, n_classes)
    """
    if pred_probs is None:
        return None
    several = isinstance(pred_probs, (list, tuple)) and np.ndim(pred_probs[0]) == 2
    is_stack = isinstance(pred_probs, np.ndarray) and pred_probs.ndim == 3
    models = list(pred_probs) if several or is_stack else [pred_probs]
    if not models:
        raise ValueError("pred_probs is empty: give probabilities of one model or more, or None.")
    return np.array([_checked(one, classes, n_samples) for one in models])


def _checked(pred_probs: Any, classes: np.ndarray, n_samples: int) -> FloatArray:
    frame = in_pandas(pred_probs)
    if hasattr(frame, "columns"):
        frame = _by_class(frame, classes)
    try:
        values = np.asarray(frame, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("pred_probs holds values that are not numbers.") from None
    expected = (n_samples, len(classes))
    if values.shape != expected:
        shown = ", ".join(map(repr, classes.tolist()[:10])) + (", ..." * (len(classes) > 10))
        raise ValueError(
            f"pred_probs has shape {values.shape}, expected {expected}: a row per sample and a "
            f"column per class, in the order {shown}."
        )
    bad = ~np.isfinite(values).all(axis=1) | (np.nan_to_num(values) < 0).any(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"pred_probs has a negative or missing value in row {row}: give a probability for "
            "every sample and class."
        )
    sums = values.sum(axis=1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"pred_probs sums to {sums[row]:.4g} in row {row}, not to 1: give probabilities, not "
            "scores or logits (scipy.special.softmax turns logits into probabilities)."
        )
    probabilities: FloatArray = values / sums[:, None]
    return probabilities


def _by_class(frame: Any, classes: np.ndarray) -> Any:
    """Columns in the order of the classes, by their names if they are all there."""
    columns = {str(name): name for name in frame.columns}
    names = [str(label) for label in classes]
    if all(name in columns for name in names):
        return frame[[columns[name] for name in names]]
    missing = next(name for name in names if name not in columns)
    raise ValueError(
        f"pred_probs has no column {missing!r}: name its columns like the classes, "
        f"{', '.join(map(repr, names[:10]))}, or give an array with columns in this order."
    )


N_FOLDS, N_FOLDS_LARGE, MIN_ROWS_FOR_FEWER_FOLDS = 5, 3, 5000
"""Parts of the rows that are held out in turn; fewer from so many rows on."""
MIN_BOOSTING_ROWS = 20_000
"""Rows of two classes from which on boosting takes the place of the forest by default."""
TREES_PER_CLASS, MAX_TREES = 25, 100
"""Trees of the default forest that predicts new rows: fifty predict two classes as well as 100.
Held-out rows are judged by 100, of which a third or more have not seen each row."""
MAX_TREE_ROWS = 10_000
"""Rows drawn for a tree of the default forest, at most: its time then hardly grows with them."""
N_SMOOTHING_VOTES = 70.0
"""Probabilities are smoothed as if so many votes had been counted: none is ever 0 or 1."""
MIN_LABEL_PROBA = 0.05
"""Probability from which on a label is given to a row when the classifier is fitted again."""
NAMES = ("auto", "forest", "boosting")


class _DefaultForest(RandomForestClassifier):  # type: ignore[misc]
    """Judges held-out rows. What predicts new rows may have fewer trees, see TREES_PER_CLASS."""


def bases_of(base: Any, n_jobs: int | None, n_samples: int, n_classes: int) -> list[Any]:
    """The classifiers that ``base`` stands for, not fitted.

    Parameters
    ----------
    base : "auto", "forest", "boosting", None, a classifier, or a list of classifiers. "auto" is a
        forest, and boosting for many rows of two classes: it has as many trees as classes in each
        round, and is faster and as good there
    """
    if base is None:
        return []
    if isinstance(base, str):
        if base not in NAMES:
            raise ValueError(
                f"base={base!r} is not known: use one of {', '.join(map(repr, NAMES))}, None, or "
                "a classifier with predict_proba."
            )
        many_of_two = n_samples >= MIN_BOOSTING_ROWS and n_classes == 2
        if base == "boosting" or (base == "auto" and many_of_two):
            return [HistGradientBoostingClassifier(early_stopping=False)]
        drawn = MAX_TREE_ROWS / n_samples if n_samples > MAX_TREE_ROWS else None
        n_jobs = -1 if n_jobs is None else n_jobs
        return [_DefaultForest(MAX_TREES, max_samples=drawn, n_jobs=n_jobs)]
    bases = list(base) if isinstance(base, (list, tuple)) else [base]
    for one in bases:
        if not (hasattr(one, "predict_proba") and is_classifier(one)):
            raise ValueError(
                f"base={one!r} has no predict_proba, or is not a classifier: use one that has, "
                "such as RandomForestClassifier(), or CalibratedClassifierCV(LinearSVC())."
            )
    return bases


def members_of(
    base: Any, n_jobs: int | None, n_samples: int, n_classes: int, *, in_memory: bool
) -> list[Any]:
    """:func:`bases_of`, none where there are no rows in memory to fit them to."""
    bases = bases_of(base, n_jobs, n_samples, n_classes)
    if in_memory:
        return bases
    if base is not None and base != "auto":
        raise ValueError(
            f"base={base!r} is fitted to rows in memory: use fit(X, y) with coordinates, not "
            "fit_blocks or kernel='precomputed'."
        )
    return []


def held_out_scores(
    base: Any,
    X: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    groups: np.ndarray | None,
    seed: int,
    n_classes: int,
) -> FloatArray:
    """Class scores of every row from fits without it, shape (n_samples, n_classes).

    A forest with bootstrap samples costs one fit: each tree judges the rows that it has not seen.
    All others are fitted on five parts. Rows of a group, and rows that are equal, stay together.
    The order of the rows does not matter, nor that of the classes.
    """
    model = seeded(base, seed)
    weights = _in_steps(weights)
    order = order_of((class_index, *X.T))
    together = sets_held_out(copies_of(X), groups)
    X = X[order]
    arguments = (X, class_index[order], weights[order], together[order])
    found = np.empty((len(X), n_classes))
    if hasattr(model, "estimator_params") and getattr(model, "bootstrap", False):
        found[order] = _out_of_bag(model, *arguments, n_classes)
    else:
        found[order] = _out_of_fold(base, *arguments, n_classes, seed)
    return log_votes(found)


def order_of(keys: Sequence[np.ndarray]) -> np.ndarray:
    """The order of ``np.lexsort(keys)``: only rows that tie in the last two are sorted by all."""
    order = np.lexsort(keys[-2:])
    ties = np.all([key[order[1:]] == key[order[:-1]] for key in keys[-2:]], axis=0)
    places = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
    tied = np.sort(order[places])
    order[places] = tied[np.lexsort([key[tied] for key in keys])]
    return order


def copies_of(X: FloatArray) -> np.ndarray:
    """Number of the set of equal rows that each row belongs to, shape (n_rows,)."""
    order = order_of(tuple(X.T))
    differs = np.any(X[order[1:]] != X[order[:-1]], axis=1)
    copies = np.empty(len(X), dtype=np.intp)
    copies[order] = np.concatenate([[0], np.cumsum(differs)])
    return copies


def sets_held_out(copies: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Number of the set of rows that each row is held out with: its copies and its group."""
    if groups is None:
        return copies
    _, index = np.unique(groups, return_inverse=True)
    n_copies = int(copies.max()) + 1
    size = n_copies + 1 + int(index.max())
    links = coo_array((np.ones(len(copies)), (copies, n_copies + index)), shape=(size, size))
    _, parts = csgraph.connected_components(links, directed=False)
    _, found = np.unique(parts[copies], return_inverse=True)
    return np.asarray(found)


def _out_of_bag(
    forest: Any,
    X: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    groups: np.ndarray,
    n_classes: int,
) -> FloatArray:
    """Mean vote of the trees whose bootstrap sample has no row of the same group."""
    if forest.class_weight is not None:
        named = "balanced" if isinstance(forest.class_weight, str) else forest.class_weight
        weights = weights * compute_sample_weight(named, class_index)
    X = np.asarray(X, dtype=np.float32)
    n_groups = int(groups.max()) + 1
    plan = np.random.default_rng(forest.random_state)
    draws = [plan.integers(2**31, size=2) for _ in range(forest.n_estimators)]
    parameters = {name: getattr(forest, name) for name in forest.estimator_params}
    plain = clone(forest.estimator).set_params(**parameters)
    size = forest.max_samples or n_groups
    n_drawn = min(int(size if size > 1 else size * n_groups) or 1, n_groups)

    def votes(draw: np.ndarray) -> tuple[np.ndarray, FloatArray]:
        rng = np.random.default_rng(draw[0])
        times = np.bincount(rng.integers(n_groups, size=n_drawn), minlength=n_groups)[groups]
        own = weights * times
        tree = copy(plain)  # a clone of each would cost as much as its fit to few rows
        tree.random_state = int(draw[1])
        used = own > 0.0
        left_out = np.flatnonzero(times == 0)
        proba = np.zeros((len(left_out), n_classes))
        if np.any(used) and len(left_out):
            tree.fit(X[used], class_index[used], sample_weight=own[used], check_input=False)
            proba[:, tree.classes_] = tree.predict_proba(X[left_out], check_input=False)
        return left_out, proba

    total, count = np.zeros((len(X), n_classes)), np.zeros(len(X))
    for left_out, proba in Parallel(n_jobs=forest.n_jobs, prefer="threads")(
        delayed(votes)(draw) for draw in draws
    ):
        total[left_out] += proba
        count[left_out] += proba.sum(axis=1)
    return np.where(count[:, None] > 0, total / np.maximum(count, 1.0)[:, None], 1.0 / n_classes)


def _out_of_fold(
    base: Any,
    X: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    groups: np.ndarray,
    n_classes: int,
    seed: int,
) -> FloatArray:
    counts = np.bincount(class_index)
    most = N_FOLDS if len(X) < MIN_ROWS_FOR_FEWER_FOLDS else N_FOLDS_LARGE
    n_folds = min(most, int(counts[counts > 0].min()))
    if n_folds < 2:
        raise ValueError(
            f"base={base!r}: a class has one sample only; held-out predictions need two in every "
            "class. Add samples, drop the class, or use base=None."
        )
    parts = _parts_of(class_index, groups, n_folds, seed)
    found = np.full((len(X), n_classes), 1.0 / n_classes)
    for part in np.unique(parts):
        train, test = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        model = seeded(base, seed)
        _fit(model, X[train], class_index[train], weights[train])
        part = np.zeros((len(test), n_classes))
        part[:, model.classes_] = model.predict_proba(X[test])
        found[test] = part
    return found


def _parts_of(class_index: np.ndarray, groups: np.ndarray, n_parts: int, seed: int) -> np.ndarray:
    """Part of each row: groups stay whole, and classes are spread evenly by their first rows."""
    _, first, index = np.unique(groups, return_index=True, return_inverse=True)
    ties = np.random.default_rng(seed).random(len(first))
    order = np.lexsort((ties, class_index[first]))
    part_of_group = np.empty(len(first), dtype=np.intp)
    part_of_group[order] = np.arange(len(first)) % n_parts
    return part_of_group[index]


def fit_with_states(
    base: Any,
    X: FloatArray,
    class_index: np.ndarray,
    true_label: FloatArray,
    weights: FloatArray,
    seed: int,
) -> Any:
    """The classifier fitted to every likely label of a row, with its probability as weight.

    One that takes no weights is fitted to the most likely labels of rows that are more likely good.
    """
    if isinstance(base, _DefaultForest):
        n_trees = min(TREES_PER_CLASS * true_label.shape[1], MAX_TREES)
        base = RandomForestClassifier(n_trees, max_samples=base.max_samples, n_jobs=base.n_jobs)
    model = seeded(base, seed)
    if not takes_weights(model):
        good = weights > 0.5 * weights.max()
        return model.fit(X[good], np.argmax(true_label[good], axis=1))
    order = order_of(tuple(X.T))  # the order of the rows does not matter, nor that of the classes
    X, joint = X[order], _in_steps((weights[:, None] * true_label)[order])
    rows, labels = np.nonzero(joint > MIN_LABEL_PROBA * weights.max())
    by_weight = np.lexsort((joint[rows, labels], rows))
    rows, labels = rows[by_weight], labels[by_weight]
    _fit(model, X[rows], labels, joint[rows, labels])
    if "n_jobs" in model.get_params(deep=False):
        # Threads add up the votes of a forest in any order: the last digits would differ.
        model.set_params(n_jobs=None)
    return model


def _in_steps(weights: FloatArray) -> FloatArray:
    """Rounded, so that sums of their squares are exact in any order: equal splits of a tree tie."""
    _, exponent = np.frexp(weights.sum())
    step = 2.0 ** (int(exponent) - 24)
    rounded: FloatArray = np.round(weights / step) * step
    return rounded


def base_scores(model: Any, X: FloatArray, n_classes: int) -> FloatArray:
    """Class scores of new rows, shape (n_rows, n_classes)."""
    found = np.zeros((len(X), n_classes))
    found[:, model.classes_] = model.predict_proba(X)
    return log_votes(found)


def seeded(base: Any, seed: int) -> Any:
    """A copy, with a seed wherever it takes one and has none."""
    model = clone(base)
    unset = {
        name: seed
        for name, value in model.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return model.set_params(**unset)


def takes_weights(model: Any) -> bool:
    """Whether ``fit`` honours sample_weight; of a pipeline, that of its last step."""
    return has_fit_parameter(getattr(model, "_final_estimator", model), "sample_weight")


def _fit(model: Any, X: FloatArray, labels: np.ndarray, weights: FloatArray) -> Any:
    if not takes_weights(model):
        return model.fit(X, labels)
    if isinstance(model, HistGradientBoostingClassifier):
        # Weights make it take four times as long: rows are drawn by them instead.
        usual = np.median(weights[weights > 0.0])
        chance = np.random.default_rng(model.random_state).random(len(weights))
        rows = np.repeat(np.arange(len(weights)), np.floor(weights / usual + chance).astype(int))
        return model.fit(X[rows], labels[rows])
    name = "sample_weight"
    if hasattr(model, "steps"):
        name = f"{model.steps[-1][0]}__sample_weight"
    return model.fit(X, labels, **{name: weights})


def votes_of_copies(
    copies: np.ndarray, class_index: np.ndarray, weights: FloatArray, n_classes: int
) -> FloatArray:
    """Class scores of every row by the labels of its copies, shape (n_samples, n_classes).

    If all copies have one label, they may be records that stand twice: they say nothing. If some
    differ, copies were labelled anew, and each votes about the others with its weight. Bad
    measurements have none: what a broken sensor repeats says nothing about any label.
    """
    counts = np.zeros((int(copies.max()) + 1, n_classes))
    np.add.at(counts, (copies, class_index), weights)
    if not np.any(np.count_nonzero(counts, axis=1) > 1):
        return np.zeros((len(copies), n_classes))
    own = weights[:, None] * np.eye(n_classes)[class_index]
    votes = np.maximum(counts[copies] - own, 0.0)
    scores: FloatArray = np.log(votes + 0.5 / n_classes)
    return scores


def log_votes(probabilities: FloatArray) -> FloatArray:
    """Logarithms of smoothed probabilities."""
    n_classes = probabilities.shape[-1]
    smoothed = (N_SMOOTHING_VOTES * probabilities + 0.5) / (N_SMOOTHING_VOTES + 0.5 * n_classes)
    scores: FloatArray = np.log(smoothed)
    return scores
