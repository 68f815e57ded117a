"""SensorGEMMEDClassifier: a classifier for samples of several sensors that fail at times."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..estimators.fit_settings import (
    TUNED,
    Labelled,
    Records,
    label_samples,
    make_kernel,
    settings_of,
)
from ..estimators.validation import (
    check_choice,
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_order,
    check_sensor_data,
    check_weights,
)
from ..estimators.whole_fit import fit_method
from ..model.kernels.kernel import RADIAL
from ..model.settings import Priors, Selection, Solver
from ..rows.foreign_frames import frame_of
from .chains import Inferred, Sequences, has_shared_chain, sequences_of
from .detector import FaultFinder
from .results import SensorScreen, Span
from .sensor_columns import (
    Readings,
    held_out_groups,
    learn_columns,
    resolve_screening,
    resolve_views,
    with_new,
)
from .sensor_fit import Options, Rows, SensorFit, fit_sensors, infer_new
from .view_function import ViewSettings

KERNELS = (TUNED, *RADIAL, "linear", "poly")
MAX_READINGS = 640_000
"""Rows from which the functions of all sensors together learn, at most."""


class SensorGEMMEDClassifier(ClassifierMixin, FaultFinder):
    """GEM-MED for samples of several sensors: a broken sensor drops out, and the sample stays.

    The decision is a sum of one function per sensor. Every sensor of every sample has an indicator
    "broken". Indicators of neighbours in time depend on each other: there is one chain per sensor,
    and one for what all sensors share. Their rates are learned. New samples are treated in the same
    way: their sensors and labels are inferred together.

    Parameters
    ----------
    views : None, int, list or dict, default=None
        Columns of each sensor: a mapping of names to slices, positions or column names, a list of
        them, or a number of equal blocks. None is one sensor. Missing channels (NaN) are filled
        from the others of the sensor; with less than half of them the sensor is missing.
    screen_views : None, list or dict, default=None
        Columns in which faults of each sensor are looked for, if not those of ``views``.
    indicators : bool, default=True
        Whether sensors can be broken. False trusts every reading.
    bursts : bool, default=True
        Whether neighbours by ``order`` and ``groups`` depend on each other.
    shared : bool or "auto", default="auto"
        Faults of all sensors at once; "auto" for up to nine sensors.
    at_use : bool, default=True
        Whether new samples have indicators, too.
    scale : bool, default=True
        Columns in deviations from their mean over good readings.
    kernel : {"tuned", "rbf", "rational_quadratic", "linear", "poly"}, default="tuned"
        "tuned" is "rbf" or "linear" for all sensors, whichever predicts held-out samples better.
    gamma : "tuned", "scale" or float, default="tuned"
    degree, coef0 : int, float, default=3, 0.0
    function_variance, bias_variance : "tuned" or float, default="tuned"
        As in :class:`~gemmed.GEMMEDClassifier`, for every sensor. "tuned" predicts held-out groups
        best where there are ten a class, else held-out samples.
    C : float, default=3.0
        Rate of the margin prior, above 1.
    max_iter, tol : int, float, default=200, 1e-6
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None; BLAS threads

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    sensor_names_ : tuple of str
    broken_proba_ : array of shape (n_samples, n_sensors)
        P(broken) of every sensor of the training samples.
    no_good_sensor_proba_ : array of shape (n_samples,)
    true_label_proba_ : array of shape (n_samples, n_classes)
    nominal_proba_ : array of shape (n_samples,)
        P(the label is right and a sensor is good); ``anomaly_scores_`` is the rest.
    label_error_share_, label_error_interval_ : share of wrong labels, with a 90 % interval
    fault_rates_ : dict
        By sensor (``"all"``: what they share): ``share`` of the time, ``mean_burst`` in steps.
    sensor_slopes_ : array of shape (n_sensors,)
        Log-odds for a unit of each sensor's function.
    duality_gap_, n_iter_, converged_ : float, int, bool
        Of the functions.
    inference_residual_ : float
        Largest change of a probability in the last sweep of messages.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import SensorGEMMEDClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 100)
    >>> X = rng.normal(size=(200, 6)) + 1.5 * y[:, None]
    >>> X[:20, :3] = 7.0  # the first sensor is stuck
    >>> model = SensorGEMMEDClassifier(views=2, random_state=0).fit(X, y)
    >>> model.screen(X[:1]).named()
    [('1',)]
    """

    def __init__(
        self,
        views: Any = None,
        *,
        screen_views: Any = None,
        indicators: bool = True,
        bursts: bool = True,
        shared: bool | str = "auto",
        at_use: bool = True,
        scale: bool = True,
        kernel: str = TUNED,
        gamma: Any = TUNED,
        degree: int = 3,
        coef0: float = 0.0,
        function_variance: Any = TUNED,
        bias_variance: Any = TUNED,
        C: float = 3.0,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.views = views
        self.screen_views = screen_views
        self.indicators = indicators
        self.bursts = bursts
        self.shared = shared
        self.at_use = at_use
        self.scale = scale
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.function_variance = function_variance
        self.bias_variance = bias_variance
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_method
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        order: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        known_labels: Any = None,
        X_new: Any = None,
        order_new: Any = None,
        groups_new: Any = None,
    ) -> SensorGEMMEDClassifier:
        """Fit functions, sensors and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features); NaN: the sensor is missing
        y : array-like of shape (n_samples,), two classes or more
        order : array-like of shape (n_samples,), optional
            Time stamps or positions; without ``groups`` of one recording. With groups and without
            order, the samples of a group follow each other as they stand.
        groups : array-like of shape (n_samples,), optional
            The recording (or subject) of each sample: its samples are held out together.
        sample_weight : array-like of shape (n_samples,), optional
        known_labels : array-like of shape (n_samples,), optional
            The true label where somebody has checked it, None or NaN elsewhere.
        X_new, order_new, groups_new : unlabelled samples, optional
            Their readings take part in learning what broken sensors look like and how often they
            fail (transductive); their labels are not guessed.
        """
        if y is None:
            raise ValueError(f"{self!r} requires y to be passed, but the target y is None.")
        X, y, names = check_sensor_data(self, X, y)
        self._check_parameters()
        weights = check_weights(sample_weight, X, y)
        samples = label_samples(y, weights, None, groups, known_labels)
        settings, n = self._settings(X, samples), len(X)
        known = X, samples.groups, check_order("order", order, n)
        everything, recordings, stamps = known
        if X_new is not None:
            more = check_sensor_data(self, X_new)[0]
            new = (
                more,
                check_groups(groups_new, len(more)),
                check_order("order_new", order_new, len(more)),
            )
            everything, recordings, stamps = with_new(known, new)
        views = resolve_views(self.views, X.shape[1], names)
        screening = resolve_screening(self.screen_views, views, X.shape[1], names)
        columns = learn_columns(everything, views, screening)
        n_rows = len(everything)
        sequences = sequences_of(n_rows)
        if self.bursts:
            sequences = sequences_of(n_rows, stamps, recordings)
        rows = Rows(
            columns.of(everything),
            sequences,
            held_out_groups(n_rows, stamps, recordings),
            samples,
        )
        options = Options(
            bool(self.indicators),
            bool(self.bursts) and sequences.samples.shape[1] > 1,
            has_shared_chain(self.shared, len(columns.views)),
        )
        settings = settings._replace(max_rows=max(MAX_READINGS // len(columns.views), 1000))
        rng = np.random.default_rng(settings.fit.seed)
        with blas_threads(self.n_jobs, n):
            found = fit_sensors(rows, settings, options, rng)
        self.classes_, self._columns = samples.classes, columns
        self.sensor_names_ = tuple(columns.views)
        self._y, self._order, self._groups = y, known[2], groups
        self._store(found, n)
        return self

    def _check_parameters(self) -> None:
        check_margin_rate(self.C)
        check_n_jobs(self.n_jobs)
        check_choice("kernel", self.kernel, KERNELS)
        if isinstance(self.gamma, str):
            check_choice("gamma", self.gamma, (TUNED, "scale"))

    def _settings(self, X: FloatArray, samples: Labelled) -> ViewSettings:
        records = Records(Priors(), Selection(), Solver(self.max_iter, self.tol))
        return ViewSettings(
            settings_of(self, records, samples, None, tunable=True),
            make_kernel(self, np.nan_to_num(X), tunable=True),
            bool(self.scale),
            self.gamma == "scale",
            self.kernel == TUNED and self.gamma == TUNED,
            len(X),
        )

    def _store(self, found: SensorFit, n: int) -> None:
        self.broken_proba_ = found.inferred.broken[:n]
        self.no_good_sensor_proba_ = found.inferred.none_good[:n]
        self.true_label_proba_ = found.posterior.true_label
        self.nominal_proba_ = found.posterior.nominal * (1.0 - self.no_good_sensor_proba_)
        self.anomaly_scores_ = 1.0 - self.nominal_proba_
        self.label_error_share_ = found.posterior.wrong_share.mean
        self.label_error_interval_ = found.posterior.wrong_share[1:]
        self.fault_rates_ = found.rates.described(self.sensor_names_)
        self.sensor_slopes_ = found.slopes
        self.duality_gap_, self.n_iter_ = found.duality_gap, found.n_iter
        self.converged_ = found.converged
        self.inference_residual_ = found.inferred.residual
        self._fit = found
        if not self.converged_:
            warnings.warn(
                f"the functions of the sensors have not converged after {self.n_iter_} iterations "
                f"(duality gap {self.duality_gap_:.3g}): raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _infer(self, readings: Readings, sequences: Sequences) -> Inferred:
        return infer_new(
            self._fit,
            readings,
            sequences,
            n_classes=len(self.classes_),
            indicators=bool(self.at_use),
        )

    def predict_proba(self, X: Any, *, order: Any = None, groups: Any = None) -> FloatArray:
        """Class probabilities of a batch, shape (n_samples, n_classes).

        Broken and missing sensors are left out; a sample without a good sensor has the shares of
        the classes.

        Parameters
        ----------
        order, groups : as in ``fit``; without them every sample stands alone
        """
        return self._judged(X, order, groups)[0].labels

    def predict(self, X: Any, *, order: Any = None, groups: Any = None) -> np.ndarray:
        """Predicted classes of a batch, shape (n_samples,)."""
        proba = self.predict_proba(X, order=order, groups=groups)
        return self.classes_[np.argmax(proba, axis=1)]

    def spans(
        self, X: Any = None, *, order: Any = None, groups: Any = None, threshold: float = 0.5
    ) -> list[Span]:
        """Faults as stretches of time; of the training samples if X is None.

        Times are those of ``order``, or positions.
        """
        if X is not None:
            return super().spans(X, order=order, groups=groups, threshold=threshold)
        check_is_fitted(self)
        check_number("threshold", threshold, at_least=0, at_most=1)
        present = np.ones(self.broken_proba_.shape, dtype=bool)
        return self._spans(self.broken_proba_, present, self._order, self._groups, threshold)

    def explain(self, output: str | None = None) -> Any:
        """What is wrong with each training sample.

        Parameters
        ----------
        output : {None, "pandas", "polars", "dict"}, as in ``GEMMEDClassifier.explain``

        Returns
        -------
        DataFrame or dict of arrays, one row per training sample
            ``label``; ``nominal_proba``; ``verdict``: "ok", "suspicious label", "broken sensor",
            "both" or "no good sensor"; ``sensors``: names of the broken ones; ``suggested_label``;
            ``broken_NAME``: P(broken) of each sensor.
        """
        check_is_fitted(self)
        broken, label = self.broken_proba_ > 0.5, self._fit.posterior.wrong > 0.5
        hopeless = self.no_good_sensor_proba_ > 0.5
        verdict = np.full(len(label), "ok", dtype=object)
        verdict[label] = "suspicious label"
        verdict[broken.any(axis=1)] = "broken sensor"
        verdict[label & broken.any(axis=1)] = "both"
        verdict[hopeless] = "no good sensor"
        missing = np.zeros(broken.shape, dtype=bool)
        screened = SensorScreen(self.sensor_names_, broken, self.broken_proba_, missing, hopeless)
        likeliest = self.classes_[np.argmax(self.true_label_proba_, axis=1)]
        by_sensor = zip(self.sensor_names_, self.broken_proba_.T, strict=True)
        columns: dict[str, Any] = {
            "label": self._y,
            "nominal_proba": self.nominal_proba_,
            "verdict": verdict,
            "sensors": np.array([", ".join(own) for own in screened.named()], dtype=object),
            "suggested_label": np.where(hopeless, self._y, likeliest),
            **{f"broken_{name}": proba for name, proba in by_sensor},
        }
        return frame_of(columns, output)
