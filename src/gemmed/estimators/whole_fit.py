"""What every ``fit`` does around its own work: all attributes or none, few warnings, callbacks.

A fit works on a twin of the estimator and hands all attributes over at once. One that ends with an
exception (wrong data, Ctrl-C, a listener that raises) changes nothing. A prediction in another
thread meanwhile is that of the last model, or of the new one, never of parts of both.

scikit-learn has callbacks from 1.9 on (``set_callbacks(ProgressBar())``), still experimental. Where
they exist the events of ``_core.progress`` become their tasks: a stage is a task of the fit, a
step of it a task of the stage.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .._core.class_warnings import class_warnings_kept, issue
from .._core.progress import STAGES, Event, listening

__all__ = ["CallbackSupportMixin", "fit_method", "query_method"]

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
