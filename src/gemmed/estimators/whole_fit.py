"""What every ``fit`` does around its own work: all attributes or none, callbacks, absent samples.

A fit works on a twin of the estimator and hands all attributes over at once. One that ends with an
exception (wrong data, Ctrl-C, a listener that raises) changes nothing. A prediction in another
thread meanwhile is that of the last model, or of the new one, never of parts of both.

scikit-learn has callbacks from 1.9 on (``set_callbacks(ProgressBar())``), still experimental. Where
they exist the events of ``_core.progress`` become their tasks: a stage is a task of the fit, a
step of it a task of the stage.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils import _safe_indexing, check_array

from .._core.exceptions import class_warnings_kept, issue
from .._core.progress import STAGES, Event, listening
from .kept_samples import KeptSamples, index_of
from .validation import check_groups

__all__ = ["CallbackSupportMixin", "fit_method", "leave_out_absent_samples", "query_method"]

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this scikit-learn has no callbacks."""

    with_callbacks = None

_Fit = TypeVar("_Fit", bound=Callable[..., Any])


def fit_method(fit: _Fit) -> _Fit:
    """Decorator of ``fit``; see the module."""

    @functools.wraps(fit)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin = _twin(self, dict(vars(self)))
        with class_warnings_kept() as kept:
            if "_skl_callbacks" in vars(twin) and with_callbacks is not None:
                _fit_with_callbacks(twin, fit, *args, **kwargs)
            else:
                fit(twin, *args, **kwargs)
        issue(kept, stacklevel=2)
        self.__dict__ = vars(twin)
        return self

    return cast("_Fit", whole)


def query_method(method: _Fit) -> _Fit:
    """Decorator of what reads several attributes: all are of one fit, even if another one ends."""

    @functools.wraps(method)
    def of_one_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(_twin(self, vars(self)), *args, **kwargs)

    return cast("_Fit", of_one_fit)


def _twin(estimator: Any, attributes: dict[str, Any]) -> Any:
    twin = object.__new__(type(estimator))
    twin.__dict__ = attributes
    return twin


if with_callbacks is not None:

    @with_callbacks  # type: ignore[untyped-decorator]
    def _fit_with_callbacks(
        estimator: Any, fit: Callable[..., Any], X: Any, y: Any, *args: Any, **kwargs: Any
    ) -> Any:
        root = estimator._init_callback_context(max_subtasks=len(STAGES))
        root.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        tasks = _Tasks(estimator, root)
        with listening(tasks):
            fit(estimator, X, y, *args, **kwargs)
        tasks.end_stage()
        # Nothing is to be reconstructed: the estimator is fitted.
        root.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes={})
        return estimator


class _Tasks:
    """A listener that keeps the tasks of scikit-learn's callbacks.

    Parameters
    ----------
    root : the ``CallbackContext`` of the fit
    """

    def __init__(self, estimator: Any, root: Any) -> None:
        self._estimator = estimator
        self._root = root
        self._stage: str | None = None
        self._context: Any = None
        self._seen: set[str] = set()
        self._room = 0.0

    def __call__(self, event: Event) -> bool:
        if event.stage != self._stage:
            if event.stage in self._seen or event.stage not in STAGES:
                return False
            self.end_stage()
            self._stage = event.stage
            self._seen.add(event.stage)
            self._room = float("inf") if event.total is None else event.total
            self._context = self._root.subcontext(event.stage, max_subtasks=event.total)
            self._context.call_on_fit_task_begin(estimator=self._estimator)
        if not event.done or not self._room:
            return False
        self._room -= 1
        step = self._context.subcontext(event.stage)
        step.call_on_fit_task_begin(estimator=self._estimator)
        return bool(step.call_on_fit_task_end(estimator=self._estimator))

    def end_stage(self) -> None:
        """End the current stage, if there is one."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)
            self._context = None


MULTIPLIERS = ("dual_coef_", "margin_duals_")
"""Attributes with one value per sample that are 0 for absent samples."""
NOT_KNOWN = (
    "_prior_log_odds", "anomaly_scores_", "cautious_nominal_proba_", "entropy_statistic_",
    "held_out_proba_", "knn_distances_", "nominal_proba_", "state_proba_", "true_label_proba_",
)  # fmt: skip
"""Attributes with one value per sample that are NaN for absent samples: nothing was judged."""


def leave_out_absent_samples(fit: _Fit) -> _Fit:
    """Decorator of a ``fit(X, y, sample_weight)``: samples of weight 0 take no part in it.

    Further arguments of one value per sample are shortened as well.

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
