"""What every ``fit`` does around its own work: all attributes or none, absent and kept samples.

A fit works on a twin of the estimator and hands all attributes over at once. One that ends with an
exception (wrong data, Ctrl-C, a listener that raises) changes nothing. A prediction in another
thread meanwhile is that of the last model, or of the new one, never of parts of both.

scikit-learn has callbacks from 1.9 on (``set_callbacks(ProgressBar())``), still experimental. Where
they exist the events of ``_core.progress`` become their tasks: a stage is a task of the fit, a
step of it a task of the stage.
"""

import functools
import inspect
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils import _safe_indexing, check_array

from .._core.exceptions import NeighborsReducedWarning, class_warnings_kept, issue
from .._core.progress import STAGES, Event, listening
from .._core.types import FloatArray
from ..evidence.distances import (
    MAX_REFERENCES,
    Distances,
    EuclideanDistances,
    KernelDistances,
)
from ..evidence.scaled_along import training_distances
from ..evidence.screening import Screening, TrustedReference, trust_distances
from ..model.kernels.landmarks import MIN_TRUST
from ..rows.blocks import BlockRows
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

    ``root``: the ``CallbackContext`` of the fit.
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


ABSENT = {"dual_coef_": 0.0, "margin_duals_": 0.0} | dict.fromkeys(
    ("_prior_log_odds", "anomaly_scores_", "cautious_nominal_proba_", "entropy_statistic_")
    + ("held_out_proba_", "knn_distances_", "nominal_proba_", "state_proba_", "true_label_proba_"),
    np.nan,
)
"""Attributes with one value per sample, and that of absent samples: nothing of them was judged."""


def leave_out_absent_samples(fit: _Fit) -> _Fit:
    """Decorator of a ``fit(X, y, sample_weight)``: samples of weight 0 take no part in it.

    Further arguments of one value per sample are shortened as well.

    Arguments that ``fit`` will refuse are left to it. A precomputed kernel matrix stays whole.
    """
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def fit_the_others(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        given = dict(bound.arguments)
        absent = _absent(self, given)
        if absent is None:
            return fit(self, *args, **kwargs)
        for name, values in list(given.items())[1:]:
            if values is not None:
                bound.arguments[name] = _safe_indexing(values, np.flatnonzero(~absent))
        fit(*bound.args, **bound.kwargs)
        for name in set(ABSENT) & set(vars(self)):
            setattr(self, name, _spread(getattr(self, name), absent, ABSENT[name]))
        if hasattr(self, "_kept"):
            self._kept = KeptSamples(
                check_array(given["X"], dtype=np.float64),
                np.searchsorted(self.classes_, np.asarray(given["y"]).reshape(-1)),
                _spread(self._kept.nominal, absent, np.nan),
                check_groups(given.get("groups"), len(absent)),
                index=index_of(given["X"]),
                names=self._kept.names,
            )
        return self

    return cast("_Fit", fit_the_others)


def only_samples(
    model: Any, rows: np.ndarray | slice, X: np.ndarray, class_index: np.ndarray
) -> Any:
    """A fitted classifier as if it had been asked about some of its samples only.

    ``rows``: which of the training samples. ``X``, ``class_index``: what the classifier saw of
    them, and their classes.
    """
    part = copy(model)
    for name in set(ABSENT) & set(vars(model)):
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


# -- samples that stay with a model ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """Training samples that stay with a model: all, or of a fit from blocks some of each class."""

    X: FloatArray
    """Their rows, or the kernel matrix between them."""
    class_index: np.ndarray
    nominal: FloatArray
    """NaN of samples of weight 0, which take no part."""
    groups: np.ndarray | None
    is_gram: bool = False
    is_part: bool = False
    """Whether there were more."""
    index: np.ndarray | None = None
    """Of the DataFrame that was fitted; None if rows were only counted."""
    names: np.ndarray | None = None
    """Of the columns, where they have names."""

    def require_all(self) -> None:
        """Refuse what needs every training sample."""
        if self.is_part:
            raise ValueError(
                "a model that was fitted from blocks keeps no training samples: explain needs "
                "fit(X, y)."
            )

    @property
    def distances(self) -> Distances:
        return KernelDistances(self.X) if self.is_gram else EuclideanDistances(self.X)

    @property
    def distances_for_screening(self) -> Distances:
        """Of rows in the scale that new ones are measured in."""
        own = self.class_index, self.groups
        return self.distances if self.is_gram else training_distances(self.X, *own)

    def _present(self) -> "tuple[np.ndarray, KeptSamples]":
        """The samples that take part: their rows, and they alone."""
        rows = np.flatnonzero(~np.isnan(self.nominal))
        if len(rows) == len(self.nominal):
            return rows, self
        groups = None if self.groups is None else self.groups[rows]
        some = self.X[rows], self.class_index[rows], self.nominal[rows], groups
        return rows, KeptSamples(*some)

    def training_statistics(self, reference: TrustedReference) -> FloatArray:
        """How far out each of them lies for each class, as if it were new; NaN if absent."""
        rows, kept = self._present()
        reference = replace(
            reference, reference_index=np.searchsorted(rows, reference.reference_index)
        )
        found = np.full((len(self.nominal), len(reference.scales)), np.nan)
        own = kept.class_index, kept.groups
        found[rows] = reference.training_statistics(kept.distances_for_screening, *own)
        return found

    def reference(self, n_neighbors: int, class_names: list) -> TrustedReference:
        """The trusted ones among them, and what screening calibrates by."""
        rows, kept = self._present()
        trust = some_of_each_class(kept.nominal, kept.class_index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NeighborsReducedWarning)  # said at fit
            found = trust_distances(
                kept.distances_for_screening,
                kept.class_index,
                trust,
                n_neighbors=n_neighbors,
                groups=kept.groups,
                random_state=0,
                class_names=class_names,
            )
        return replace(found, reference_index=rows[found.reference_index])

    def screened(self, X: FloatArray, reference: TrustedReference) -> Screening:
        """p-values of new samples against the reference made of these."""
        if self.is_gram:
            raise ValueError(
                "p_values and screen need k(x, x) of new samples, which a precomputed kernel "
                "matrix does not hold: use kernel_distances and trust_distances of "
                "gemmed.evidence.screening."
            )
        return reference.p_values(X)


def some_of_each_class(nominal: FloatArray, class_index: np.ndarray) -> FloatArray:
    """Nominal probabilities by which at least half of every class is trusted.

    A class may be doubted as a whole; what its rows look like is still known best from the rows
    that are doubted least.
    """
    trust = nominal.copy()
    for z in np.unique(class_index):
        members = np.flatnonzero(class_index == z)
        half = -(-len(members) // 2)
        if np.count_nonzero(nominal[members] >= MIN_TRUST) < half:
            best = members[np.argsort(-nominal[members], kind="stable")[:half]]
            trust[best] = np.maximum(trust[best], MIN_TRUST)
    return trust


def keep_some(
    rows: BlockRows, class_index: np.ndarray, nominal: FloatArray, groups: np.ndarray | None
) -> KeptSamples:
    """Draw the samples that screening needs while the rows can still be read."""
    rng = np.random.default_rng(0)
    drawn = []
    for z in range(int(class_index.max()) + 1):
        members = np.flatnonzero(class_index == z)
        drawn.append(rng.choice(members, min(len(members), 2 * MAX_REFERENCES), replace=False))
    kept = np.sort(np.concatenate(drawn))
    own_groups = None if groups is None else groups[kept]
    return KeptSamples(rows.take(kept), class_index[kept], nominal[kept], own_groups, is_part=True)


def index_of(X: Any) -> np.ndarray | None:
    """Row names of a DataFrame that a model can keep: numbers, text or times; None otherwise."""
    index = getattr(X, "index", None)
    if index is None or not hasattr(index, "to_numpy") or getattr(index, "nlevels", 1) > 1:
        return None
    values: np.ndarray = index.to_numpy()
    if values.dtype == object and all(isinstance(value, str) for value in values):
        return values.astype(str)
    return None if values.dtype == object else values
