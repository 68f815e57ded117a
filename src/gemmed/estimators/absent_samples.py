"""Samples of weight 0 take no part in a fit: the model is that of the other samples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils import _safe_indexing, check_array

from .kept_samples import KeptSamples, index_of
from .validation import check_groups

_Fit = TypeVar("_Fit", bound=Callable[..., Any])

MULTIPLIERS = ("dual_coef_", "margin_duals_")
"""Attributes with one value per sample that are 0 for absent samples."""
NOT_KNOWN = (
    "_told", "anomaly_scores_", "entropy_statistic_",
    "held_out_proba_", "knn_distances_", "nominal_proba_", "state_proba_",
    "true_label_proba_",
)  # fmt: skip
"""Attributes with one value per sample that are NaN for absent samples: nothing was judged."""


def leave_out_absent_samples(fit: _Fit) -> _Fit:
    """Decorator of a ``fit(X, y, sample_weight)`` with further arguments of one value per sample.

    Arguments that ``fit`` will refuse are left to it. A precomputed kernel matrix stays whole.
    """
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def fit_the_others(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        arguments = bound.arguments
        absent = _absent(self, arguments)
        if absent is None:
            return fit(self, *args, **kwargs)
        X, groups = arguments["X"], arguments.get("groups")
        present = np.flatnonzero(~absent)
        for name, values in list(arguments.items())[1:]:
            if values is not None:
                arguments[name] = _safe_indexing(values, present)
        fit(*bound.args, **bound.kwargs)
        for names, value in ((MULTIPLIERS, 0.0), (NOT_KNOWN, np.nan)):
            for name in set(names) & set(vars(self)):
                setattr(self, name, _spread(getattr(self, name), absent, value))
        kept = getattr(self, "_kept", None)
        if isinstance(kept, KeptSamples):
            labels = np.asarray(bound.signature.bind(self, *args, **kwargs).arguments["y"])
            self._kept = KeptSamples(
                check_array(X, dtype=np.float64),
                np.searchsorted(self.classes_, labels.reshape(-1)),
                _spread(kept.nominal, absent, np.nan),
                check_groups(groups, len(absent)),
                index=index_of(X),
                names=kept.names,
            )
        return self

    return cast("_Fit", fit_the_others)


def only_samples(
    model: Any, rows: np.ndarray | slice, X: np.ndarray, class_index: np.ndarray
) -> Any:
    """A fitted classifier as if it had been asked about some of its samples only.

    Parameters
    ----------
    rows : which of the training samples
    X, class_index : what the classifier saw of them, and their classes
    """
    part = copy(model)
    for name in {*MULTIPLIERS, *NOT_KNOWN} & set(vars(model)):
        setattr(part, name, getattr(model, name)[rows])
    part._kept = KeptSamples(X, class_index, part.nominal_proba_, None)
    part._trusted_reference = None
    return part


def _absent(estimator: Any, arguments: dict[str, Any]) -> np.ndarray | None:
    """Which samples have weight 0; None if none has, or if ``fit`` will refuse the arguments."""
    weights = arguments.get("sample_weight")
    if weights is None or getattr(estimator, "kernel", None) == "precomputed":
        return None
    per_sample = [values for values in list(arguments.values())[1:] if values is not None]
    try:
        absent = np.asarray(weights, dtype=np.float64) == 0.0
        labels = np.asarray(arguments["y"]).reshape(-1)
        if not absent.any() or any(len(values) != len(absent) for values in per_sample):
            return None
        check_array(arguments["X"], dtype=np.float64)
        # A class without weight is refused by name.
        if set(labels[~absent].tolist()) != set(labels.tolist()):
            return None
    except (TypeError, ValueError):
        return None
    return absent


def _spread(values: np.ndarray, absent: np.ndarray, value: float) -> np.ndarray:
    """Values of the present samples at their places, ``value`` elsewhere."""
    spread = np.full((len(absent), *values.shape[1:]), value)
    spread[~absent] = values
    return spread
