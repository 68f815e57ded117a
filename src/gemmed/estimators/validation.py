"""Checks of parameters and arrays; the only file that touches scikit-learn's less public parts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_array,
    column_or_1d,
    validate_data,
)

from .._core.exceptions import DegenerateDataError, UnscaledDataError
from .._core.parameter_checks import check_choice as check_choice
from .._core.parameter_checks import check_number as check_number
from .._core.parameter_checks import check_number_or_auto as check_number_or_auto
from .._core.types import FloatArray


def check_training_data(
    estimator: Any, X: Any, y: Any, *, multi_class: bool = False, keep_constant: bool = False
) -> tuple[FloatArray, np.ndarray]:
    """Validated X (float64) and y of a classification problem.

    X is without constant columns, unless the caller wants them and leaves them out itself.
    """
    check_no_missing_labels(y)
    # Frames and slices have other layouts of the memory: sums would differ in the last bits.
    X, y = _validated(estimator, X, y=y, order="C", ensure_min_samples=2)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind != "binary" and not (multi_class and kind == "multiclass"):
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}, with "
            f"{len(np.unique(y))} classes: merge classes, or train one classifier for each with "
            "sklearn.multiclass.OneVsRestClassifier."
        )
    _refuse_one_class(y)
    return X if keep_constant else leave_out_constant_columns(estimator, X), y


def _refuse_one_class(y: np.ndarray) -> None:
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only, {classes.tolist()[0]!r}: a classifier needs samples of two "
            "classes."
        )


def leave_out_constant_columns(estimator: Any, X: FloatArray) -> FloatArray:
    """X without the columns that hold one value; ``check_query_data`` leaves them out as well.

    Kernel matrices stay whole, and so do rows for a kernel of the user, who may count columns.
    """
    estimator._varying_columns = None
    kernel = getattr(estimator, "kernel", None)
    varies = np.any(X[0] != X, axis=0)
    if kernel == "precomputed" or callable(kernel) or varies.all() or not varies.any():
        return X
    estimator._varying_columns = np.flatnonzero(varies)
    return np.ascontiguousarray(X[:, estimator._varying_columns])


def check_block_labels(estimator: Any, blocks: Any, y: Any, n_components: Any) -> np.ndarray:
    """Validated labels of rows in blocks; the rows themselves are checked in one pass."""
    if estimator.kernel == "precomputed":
        raise ValueError("kernel='precomputed' has no rows to read in blocks: use fit.")
    if n_components is None:
        raise ValueError(
            "n_components=None asks for the exact kernel, which needs all rows at once: use fit, "
            "or give n_components as a number or 'auto'."
        )
    y = column_or_1d(y)
    check_classification_targets(y)
    n_rows = sum(blocks.sizes)
    if len(y) != n_rows:
        raise ValueError(f"y has {len(y)} labels for {n_rows} rows: give one label for each row.")
    _refuse_one_class(y)
    widths = set()
    for number, (width, finite) in enumerate(blocks.map(_width_and_finite)):
        widths.add(width)
        if not finite:
            raise ValueError(
                f"block {number} of X contains NaN or infinity: fill in or drop these rows first."
            )
    if len(widths) != 1:
        raise ValueError(f"blocks of X have different numbers of columns: {sorted(widths)}.")
    estimator.n_features_in_ = widths.pop()
    estimator._varying_columns = None  # in blocks all columns count
    if hasattr(estimator, "feature_names_in_"):  # of an earlier fit; blocks have no names
        del estimator.feature_names_in_
    return y


def _width_and_finite(X: np.ndarray, _: None) -> tuple[int, bool]:
    return X.shape[1], bool(np.isfinite(X).all())


def check_query_data(estimator: Any, X: Any, *, all_columns: bool = False) -> FloatArray:
    """Validated X (float64) at prediction time, without columns that were constant in training."""
    X = _validated(estimator, X, reset=False)
    columns = getattr(estimator, "_varying_columns", None)
    return X if columns is None or all_columns else X[:, columns]


def check_unlabelled_data(estimator: Any, X: Any) -> FloatArray:
    """Validated X (float64) at fit time, with constant columns."""
    return _validated(estimator, X, ensure_min_samples=2)


def _validated(estimator: Any, X: Any, **options: Any) -> Any:
    """Float64 by scikit-learn's ``validate_data``; errors say where text and missing values are."""
    with data_errors(X):
        return validate_data(estimator, X, dtype=np.float64, **options)


def check_table_data(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """X as a DataFrame; arrays get the column names x0, x1, ...

    A frame keeps its columns, whatever they hold; which of them are needed is the caller's to say.
    """
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        if fitting:
            validate_data(estimator, X, dtype=None, ensure_all_finite=False, skip_check_array=True)
        if not len(X):
            raise ValueError("X has 0 rows: at least one is needed (found array with 0 sample(s))")
        X = X.reset_index(drop=True)
        if not all(isinstance(name, str) for name in X.columns):
            X.columns = [f"x{i}" for i in range(X.shape[1])]
        return X
    array = validate_data(estimator, X, dtype=None, ensure_all_finite="allow-nan", reset=fitting)
    if array.dtype.kind == "O":
        _refuse_containers(array)
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"x{i}" for i in range(array.shape[1])]
    return pd.DataFrame(array, columns=list(names))


def _refuse_containers(array: np.ndarray) -> None:
    """Cells of an array of objects are numbers, texts or nothing."""
    for cell in array.flat:
        if isinstance(cell, (dict, list, set, tuple)):
            raise TypeError(f"argument must be a string or a number, not {type(cell).__name__!r}")


def check_sensor_data(
    estimator: Any, X: Any, y: Any = None, *, reset: bool = True
) -> tuple[FloatArray, Any, np.ndarray | None]:
    """Validated X (float64; NaN where a sensor is missing), y, and column names or None."""
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    if y is None:
        reset = reset and not hasattr(estimator, "n_features_in_")
        X = validate_data(estimator, X, reset=reset, **options)
    else:
        X, y = validate_data(estimator, X, y, ensure_min_samples=2, **options)
        check_classification_targets(y)
        _refuse_one_class(y)
    return X, y, getattr(estimator, "feature_names_in_", None)


def check_order(name: str, order: Any, n_samples: int) -> FloatArray | None:
    """Time stamps or positions as numbers, shape (n_samples,), or None."""
    if order is None:
        return None
    stamps = np.asarray(order)
    if np.issubdtype(stamps.dtype, np.datetime64):
        stamps = (stamps - stamps.min()) / np.timedelta64(1, "s")
    try:
        stamps = stamps.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} holds {stamps.dtype}: give time stamps or positions as numbers or datetime64."
        ) from error
    check_one_per_sample(name, stamps, n_samples)
    if not np.isfinite(stamps).all():
        first = int(np.flatnonzero(~np.isfinite(stamps))[0])
        raise ValueError(f"{name}[{first}] is missing: every sample needs a time stamp.")
    first = int(np.argmax(np.abs(stamps)))
    if abs(stamps[first]) > MAX_ABSOLUTE_VALUE:
        raise ValueError(f"{name}[{first}]={stamps[first]:g} is too large: use another origin.")
    return stamps


def check_varying_features(X: FloatArray) -> None:
    """Refuse data in which all samples are the same point."""
    if np.all(X[0] == X):
        raise DegenerateDataError(
            f"X: all features are constant (all {len(X)} samples are identical), so nothing can "
            "be learned. Check how X was made."
        )


MAX_ABSOLUTE_VALUE = 1e150
"""Squares of larger values overflow."""


def check_squares(X: FloatArray) -> None:
    """Refuse values whose distances are not numbers any more."""
    if not np.all(np.abs(X) < MAX_ABSOLUTE_VALUE):
        raise UnscaledDataError(
            f"X holds values up to {np.abs(X).max():.3g}, whose distances overflow: scale X."
        )


def check_precomputed(X: FloatArray) -> None:
    """Refuse a kernel matrix for training that is not square."""
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"Precomputed kernel matrix must be square at fit: X has shape {X.shape}, expected "
            f"({X.shape[0]}, {X.shape[0]}) with the kernel between all pairs of samples."
        )


MAX_WEIGHT = 1e12
"""Beyond it the squares of sums of weights leave no digits for the prior."""


def check_weights(sample_weight: Any, X: FloatArray, y: np.ndarray) -> FloatArray:
    """Sample weights as an array; every class must keep some weight."""
    weights: FloatArray = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if weights.max() > MAX_WEIGHT:
        raise ValueError(
            f"sample_weight holds {weights.max():.3g}, at most {MAX_WEIGHT:g} is possible: a "
            "weight says how often a sample counts; divide all of them."
        )
    for label in np.unique(y).tolist():
        if weights[y == label].sum() <= 0:
            raise ValueError(
                f"sample_weight is zero for every sample of class {label!r}: with that class gone "
                "only one class is left."
            )
    return weights


def check_one_per_sample(
    name: str, values: np.ndarray, n_samples: int, what: str = "value"
) -> None:
    """Refuse an array of another shape than (n_samples,)."""
    if values.shape != (n_samples,):
        raise ValueError(
            f"{name} has shape {values.shape}: give one {what} per sample, shape ({n_samples},)."
        )


def check_per_sample(name: str, values: Any, n_samples: int) -> FloatArray:
    """A probability for each sample, shape (n_samples,)."""
    array: FloatArray = check_array(
        values, ensure_2d=False, dtype=np.float64, input_name=name, ensure_min_samples=0
    )
    check_one_per_sample(name, array, n_samples)
    if np.any((array < 0) | (array > 1)):
        worst = int(np.argmax(np.abs(array - 0.5)))
        own = f"{name}[{worst}]={float(array[worst])!r}"
        raise ValueError(f"{own}: probabilities lie between 0 and 1 (0 and 1 state a certainty).")
    return array


def check_some_trust(usable: np.ndarray, weights: FloatArray) -> None:
    """Refuse prior probabilities and weights that leave no sample to learn from."""
    if not np.any(usable & (weights > 0)):
        raise ValueError(
            "prior_nominal is 0 for every sample (of a weight above 0): nothing is left to learn "
            "from. Give the samples that may be correct a probability above 0."
        )


def check_input_features(estimator: Any, input_features: Any) -> None:
    """Refuse other names of columns than those of the fit."""
    _check_feature_names_in(estimator, input_features)


def check_labels_to_sort(y: Any, n_samples: int) -> np.ndarray:
    """Labels of a detector, one per sample, of types that have an order."""
    labels: np.ndarray = column_or_1d(y)
    if len(labels) != n_samples:
        raise ValueError(f"y has {len(labels)} labels for {n_samples} samples of X.")
    if labels.dtype == object:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        try:
            np.unique(labels)
        except TypeError as error:
            raise ValueError(
                f"y mixes labels of the types {', '.join(kinds)}, which have no common order: make "
                "them all strings, or all numbers."
            ) from error
    return labels


def check_groups(groups: Any, n_samples: int) -> np.ndarray | None:
    """Group labels, shape (n_samples,), or None."""
    if groups is None:
        return None
    array = np.asarray(groups)
    check_one_per_sample("groups", array, n_samples, "group")
    # Missing values differ from themselves, and None is what object arrays hold for them.
    names = array.tolist()
    missing = [index for index, name in enumerate(names) if name is None or name != name]
    if missing:
        raise ValueError(
            f"groups[{missing[0]}] is missing: every sample needs a group; give samples of unknown "
            "origin a group each."
        )
    number = {name: position for position, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names], dtype=np.intp)


def check_n_jobs(n_jobs: Any) -> None:
    """n_jobs is None or a whole number other than zero."""
    if n_jobs is not None:
        check_number("n_jobs", n_jobs, whole=True, hint="None is allowed too.")
        if n_jobs == 0:
            raise ValueError("n_jobs=0 has no meaning: use None, a positive number, or -1.")


def check_margin_rate(C: Any) -> None:
    """C must exceed 1: at C = 1 the margin prior has mean 0 and asks for no margin at all."""
    check_number("C", C, above=1, hint="At C <= 1 the margin prior asks for no margin.")


PIPELINE = "make_pipeline(gemmed.TablePreparation(), classifier)"


@contextmanager
def data_errors(X: Any) -> Iterator[None]:
    """Errors of a validation of X that is done inside: text and missing values are located."""
    try:
        yield
    except ValueError as error:
        if "could not convert string" in str(error):
            row, name, value = _first_cell(X, _is_text)
            where = "" if row is None else f": {value!r} in row {row} (from 0) of column {name!r}"
            raise ValueError(
                f"X holds text{where}. {PIPELINE} turns columns of text into numbers."
            ) from None
        if "Input X contains NaN" in str(error):
            row, name, _ = _first_cell(X, lambda value: value is None or value != value)
            where = "" if row is None else f", first in row {row} (from 0) of column {name!r}"
            raise ValueError(
                f"Input X contains NaN{where}: fill in or drop what is missing. "
                f"{PIPELINE} fills it in and marks where it was missing."
            ) from None
        raise


def check_no_missing_labels(y: Any) -> None:
    """Every sample has a label."""
    values = np.asarray(y)
    if values.ndim != 1 or values.dtype.kind not in "Of":
        return
    missing = np.array([v is None or (isinstance(v, float) and v != v) for v in values.tolist()])
    if missing.any():
        raise ValueError(
            f"Input y contains NaN or None: {int(missing.sum())} of {len(values)} samples have no "
            f"label, the first is number {int(np.argmax(missing))} (from 0). Drop them, or predict "
            "them after the fit."
        )


def _first_cell(X: Any, wanted: Callable[[Any], bool]) -> tuple[int | None, Any, Any]:
    """Row, column and value of the first cell that is wanted, column by column."""
    for name, column in _columns(X):
        for row, value in enumerate(column):
            if wanted(value):
                return row, name, value
    return None, None, None


def _is_text(value: Any) -> bool:
    try:
        float(value if isinstance(value, str) else 0)
    except ValueError:
        return True
    return False


def _columns(X: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Names of the columns and their values; nothing of what is no table."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return ((name, X.iloc[:, i].tolist()) for i, name in enumerate(X.columns))
    values = np.asarray(X, dtype=object)
    return ((i, column.tolist()) for i, column in enumerate(values.T if values.ndim == 2 else ()))
