"""SensorDetector: which sensors are broken when, without labels."""

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
from .chains import Factors, Sequences, has_shared_chain, infer, sequences_of
from .faults.detection import detect_faults
from .missing_channels import channel_fills, fill_channels, without_silent
from .recordings import held_out_groups
from .screens import SensorScreen
from .spans import Span, spans_of
from .view_columns import blocks_of, resolve_views


class SensorDetector(BaseEstimator):
    """Broken sensors of samples without labels, one indicator a sensor, in bursts.

    What :class:`~gemmed.SensorGEMMEDClassifier` learns from readings alone: where they lie, whether
    the columns of a sensor fit each other, and whether sensors agree (three are needed).

    Parameters
    ----------
    views : None, int, list or dict, default=None
        Columns of each sensor, as in :class:`~gemmed.SensorGEMMEDClassifier`.
    bursts : bool, default=True
        Whether neighbours depend on each other.
    shared : bool or "auto", default="auto"
        Whether there are faults of all sensors at once. "auto" if inference is exact, as in
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
        if len(X) < 2:
            raise ValueError(f"X has n_samples={len(X)}: readings of two samples are needed.")
        views = resolve_views(self.views, X.shape[1], names)
        views = without_silent(X, views, views)[0]
        fills = channel_fills(X, (views,))
        blocks, _, present = blocks_of(fill_channels(X, fills), views, views)
        stamps, recordings = check_order("order", order, len(X)), check_groups(groups, len(X))
        sequences = self._sequences(len(X), stamps, recordings)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with blas_threads(self.n_jobs, len(X)):
            found = detect_faults(
                blocks,
                present,
                held_out_groups(len(X), stamps, recordings),
                sequences,
                bursts=bool(self.bursts) and sequences.samples.shape[1] > 1,
                shared=has_shared_chain(self.shared, len(views)),
                rng=np.random.default_rng(seed),
            )
        self._views, self._rules, self._rates = views, found.rules, found.rates
        self._fills = fills
        self.sensor_names_ = tuple(views)
        self.broken_proba_ = np.where(present, found.found.broken, 0.0)
        self.fault_rates_ = found.rates.described(self.sensor_names_)
        return self

    def _sequences(self, n: int, stamps: FloatArray | None, groups: np.ndarray | None) -> Sequences:
        return sequences_of(n, stamps, groups) if self.bursts else sequences_of(n)

    def screen(
        self, X: Any, *, order: Any = None, groups: Any = None, threshold: float = 0.5
    ) -> SensorScreen:
        """Which sensors of which samples are broken, as in :class:`SensorGEMMEDClassifier`."""
        check_is_fitted(self)
        check_number("threshold", threshold, at_least=0, at_most=1)
        X = fill_channels(check_sensor_data(self, X, reset=False)[0], self._fills)
        blocks, _, present = blocks_of(X, self._views, self._views)
        n = len(X)
        sequences = self._sequences(n, check_order("order", order, n), check_groups(groups, n))
        nats = self._rules.nats(blocks, present, np.full(n, -1), sequences)
        silent = np.zeros((*present.shape, 1))
        factors = Factors(nats.single, silent, np.zeros((n, 1)), nats.at_once)
        found = infer(factors, self._rates, sequences, present)
        proba = np.where(present, found.broken, 0.0)
        return SensorScreen(
            self.sensor_names_, proba > threshold, proba, ~present, found.none_good > threshold
        )

    def spans(
        self, X: Any, *, order: Any = None, groups: Any = None, threshold: float = 0.5
    ) -> list[Span]:
        """Faults as stretches of time, in units of ``order`` or positions."""
        screened = self.screen(X, order=order, groups=groups, threshold=threshold)
        n = len(screened.proba)
        stamps = check_order("order", order, n)
        sequences = sequences_of(n, stamps, check_groups(groups, n))
        return spans_of(
            screened.proba,
            ~screened.missing,
            sequences,
            np.arange(n, dtype=np.float64) if stamps is None else stamps,
            self.sensor_names_,
            None if groups is None else np.asarray(groups),
            threshold,
        )
