"""SensorDetector: broken sensors without labels; what it has in common with the classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..estimators.validation import (
    check_groups,
    check_n_jobs,
    check_number,
    check_order,
    check_sensor_data,
)
from ..estimators.whole_fit import fit_method
from .chains import Factors, Inferred, Sequences, has_shared_chain, infer, sequences_of
from .detection import detect_faults
from .results import SensorScreen, Span, spans_of
from .sensor_columns import Readings, SensorColumns, held_out_groups, learn_columns, resolve_views


class FaultFinder(BaseEstimator):
    """Estimators that judge every sensor of every sample.

    A ``fit`` sets ``_columns`` and ``sensor_names_``; ``_infer`` judges samples.
    """

    bursts: bool
    n_jobs: int | None
    sensor_names_: tuple[str, ...]
    _columns: SensorColumns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _infer(self, readings: Readings, sequences: Sequences) -> Inferred:
        raise NotImplementedError

    def _judged(self, X: Any, order: Any, groups: Any) -> tuple[Inferred, np.ndarray]:
        """Posterior of new samples, and which of their sensors are there."""
        check_is_fitted(self)
        X = check_sensor_data(self, X, reset=False)[0]
        sequences = self._sequences(len(X), order, groups)
        readings = self._columns.of(X)
        with blas_threads(self.n_jobs, len(X)):
            return self._infer(readings, sequences), readings.present

    def _sequences(self, n: int, order: Any, groups: Any) -> Sequences:
        stamps, recordings = check_order("order", order, n), check_groups(groups, n)
        return sequences_of(n, stamps, recordings) if self.bursts else sequences_of(n)

    def screen(
        self, X: Any, *, order: Any = None, groups: Any = None, threshold: float = 0.5
    ) -> SensorScreen:
        """Which sensors of which samples are broken.

        Parameters
        ----------
        order, groups : as in ``fit``; without them every sample stands alone
        threshold : P(broken) above which a sensor is called broken
        """
        check_number("threshold", threshold, at_least=0, at_most=1)
        found, present = self._judged(X, order, groups)
        proba = np.where(present, found.broken, 0.0)
        return SensorScreen(
            self.sensor_names_, proba > threshold, proba, ~present, found.none_good > threshold
        )

    def spans(
        self, X: Any, *, order: Any = None, groups: Any = None, threshold: float = 0.5
    ) -> list[Span]:
        """Faults as stretches of time, in units of ``order`` or positions."""
        screened = self.screen(X, order=order, groups=groups, threshold=threshold)
        return self._spans(screened.proba, ~screened.missing, order, groups, threshold)

    def _spans(
        self, broken: FloatArray, present: np.ndarray, order: Any, groups: Any, threshold: float
    ) -> list[Span]:
        n = len(broken)
        stamps = check_order("order", order, n)
        return spans_of(
            broken,
            present,
            sequences_of(n, stamps, check_groups(groups, n)),
            np.arange(n, dtype=np.float64) if stamps is None else stamps,
            self.sensor_names_,
            None if groups is None else np.asarray(groups),
            threshold,
        )


class SensorDetector(FaultFinder):
    """Finds broken sensors in samples without labels.

    It learns from readings alone, as a part of :class:`~gemmed.SensorGEMMEDClassifier` does: where
    they lie, whether the columns of a sensor fit each other, and whether sensors agree. For the
    last it needs three sensors. Sensors break in bursts.

    Parameters
    ----------
    views : None, int, list or dict, default=None
        Columns of each sensor, as in :class:`~gemmed.SensorGEMMEDClassifier`.
    bursts : bool, default=True
        Whether neighbours depend on each other.
    shared : bool or "auto", default="auto"
        Whether there are faults of all sensors at once, as in
        :class:`~gemmed.SensorGEMMEDClassifier`.
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None

    Attributes
    ----------
    sensor_names_ : tuple of str
    broken_proba_ : array of shape (n_samples, n_sensors)
    fault_rates_ : dict
        By sensor (``"all"``: what they share): ``share`` of the time, ``mean_burst`` in steps.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import SensorDetector
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> X[100:110, 1] += 9.0
    >>> model = SensorDetector(views=2).fit(X, order=np.arange(300))
    >>> print(model.spans(X, order=np.arange(300))[0])
    sensor 2, from 100 to 109
    """

    def __init__(
        self,
        views: Any = None,
        *,
        bursts: bool = True,
        shared: bool | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.views = views
        self.bursts = bursts
        self.shared = shared
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_method
    def fit(
        self, X: Any, y: Any = None, *, order: Any = None, groups: Any = None
    ) -> SensorDetector:
        """Learn what good and broken readings look like; y is ignored.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features); NaN: the sensor is missing
        order, groups : as in :meth:`SensorGEMMEDClassifier.fit`
        """
        check_n_jobs(self.n_jobs)
        X, _, names = check_sensor_data(self, X)
        n = len(X)
        if n < 2:
            raise ValueError(f"X has n_samples={n}: readings of two samples are needed.")
        views = resolve_views(self.views, X.shape[1], names)
        columns = learn_columns(X, views, views)
        readings = columns.of(X)
        sequences = self._sequences(n, order, groups)
        held = held_out_groups(n, check_order("order", order, n), check_groups(groups, n))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with blas_threads(self.n_jobs, n):
            found = detect_faults(
                readings.screened,
                readings.present,
                held,
                sequences,
                bursts=bool(self.bursts) and sequences.samples.shape[1] > 1,
                shared=has_shared_chain(self.shared, len(columns.views)),
                rng=np.random.default_rng(seed),
            )
        self._columns, self._rules, self._rates, self._n_alike = (
            columns,
            found.rules,
            found.rates,
            found.n_alike,
        )
        self.sensor_names_ = tuple(columns.views)
        self.broken_proba_ = np.where(readings.present, found.found.broken, 0.0)
        self.fault_rates_ = found.rates.described(self.sensor_names_)
        return self

    def _infer(self, readings: Readings, sequences: Sequences) -> Inferred:
        present = readings.present
        nats = self._rules.nats(readings.screened, present, sequences)
        n = len(present)
        mute = np.zeros((*present.shape, 1))
        factors = Factors(nats.single, mute, np.zeros((n, 1)), nats.at_once, self._n_alike)
        return infer(factors, self._rates, sequences, present)
