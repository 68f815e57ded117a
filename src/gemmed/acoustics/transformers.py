"""The stages from segments to features as scikit-learn transformers.

One row is one segment: segments, their strongest windows, MFCCs, principal components. A pipeline
may begin at any of them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._core.parameter_checks import check_choice, check_number
from .._core.types import FloatArray
from .features import FeatureSettings, window_features
from .segments import SegmentBounds, cut_windows, strongest_starts

MIN_SQUARED_SCALE_SHARE = 1e-8
"""Share of the largest squared scale above which products of samples resolve a component."""


def _rows(transformer: Any, X: Any, *, reset: bool) -> FloatArray | list[FloatArray]:
    """A checked matrix, or a list of checked signals of unequal length."""
    if _is_ragged(X):
        return [check_array(np.atleast_2d(row), dtype=float)[0] for row in X]
    return validate_data(transformer, X, dtype=float, reset=reset)


def _is_ragged(X: Any) -> bool:
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        return X.size > 0 and all(np.ndim(row) == 1 for row in X)
    if not isinstance(X, list | tuple) or not X or not all(np.ndim(row) == 1 for row in X):
        return False
    return len({len(row) for row in X}) > 1


@dataclass(eq=False, repr=False)
class StrongestWindow(TransformerMixin, BaseEstimator):
    """The part of each segment with most energy.

    Parameters
    ----------
    sample_rate : float
        Samples a second.
    window : float
        Seconds to keep. Shorter segments are filled with zeros at the end.

    Notes
    -----
    ``X`` has shape (n_segments, n_samples), or is a list of signals of unequal length. Means are
    not removed: :func:`~gemmed.acoustics.cut_segments` removes that of the recording.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import StrongestWindow
    >>> segment = np.concatenate([np.zeros(1000), np.ones(500), np.zeros(500)])
    >>> window = StrongestWindow(1000, window=0.5).fit_transform([segment])
    >>> window.shape, float(window.sum())
    ((1, 500), 500.0)
    """

    sample_rate: float
    _: KW_ONLY
    window: float = 1.5

    def fit(self, X: Any, y: Any = None) -> StrongestWindow:
        """Check ``X`` and the parameters; nothing is learned."""
        _rows(self, X, reset=True)
        check_number("sample_rate", self.sample_rate, above=0)
        check_number("window", self.window, above=0)
        self.n_samples_out_ = max(1, round(self.window * self.sample_rate))
        return self

    def transform(self, X: Any) -> FloatArray:
        """Windows of shape (n_segments, round(window * sample_rate))."""
        check_is_fitted(self)
        length, windows = self.n_samples_out_, []
        for row in _rows(self, X, reset=False):
            whole = SegmentBounds(np.zeros(1, dtype=np.int64), np.array([len(row)]))
            windows += [*cut_windows(row, strongest_starts(row, whole, length), length)]
        return np.stack(windows)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """``t00000``, ``t00001``, ...: samples of the window."""
        check_is_fitted(self)
        return np.array([f"t{i:05d}" for i in range(self.n_samples_out_)], dtype=object)


@dataclass(eq=False, repr=False)
class MFCCTransformer(TransformerMixin, BaseEstimator):
    """MFCCs of windows: (n_segments, n_samples) becomes (n_segments, n_mfcc * n_windows).

    Parameters are those of :class:`~gemmed.acoustics.FeatureSettings`; windows of another length
    than ``window`` seconds are cut or filled with zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import MFCCTransformer
    >>> windows = np.random.default_rng(0).normal(size=(3, 4000))
    >>> MFCCTransformer(8000, window=0.5, n_windows=50).fit_transform(windows).shape
    (3, 650)
    """

    sample_rate: float
    _: KW_ONLY
    window: float = 1.5
    n_windows: int = 150
    frame: float = 0.05
    n_mfcc: int = 13
    n_mels: int = 40
    f_min: float = 0.0
    f_max: float | None = None
    htk: bool = False
    taper: str = "hann"
    top_db: float | None = 80.0

    def fit(self, X: Any, y: Any = None) -> MFCCTransformer:
        """Check ``X`` and the parameters; nothing is learned."""
        validate_data(self, X, dtype=float)
        settings = FeatureSettings(**self._settings())
        settings.samples(self.sample_rate)
        self.n_features_out_ = settings.n_features
        return self

    def transform(self, X: Any) -> FloatArray:
        """MFCCs; column ``c * n_windows + t`` is coefficient c of frame t."""
        check_is_fitted(self)
        windows = validate_data(self, X, dtype=float, reset=False)
        return window_features(windows, self.sample_rate, **self._settings())

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """``m0000``, ``m0001``, ..."""
        check_is_fitted(self)
        return np.array(mfcc_names(self.n_features_out_), dtype=object)

    def _settings(self) -> dict[str, Any]:
        own = ("sample_rate", "stage", "n_components")
        return {k: v for k, v in self.get_params().items() if k not in own}


@dataclass(eq=False, repr=False)
class SegmentPCA(TransformerMixin, BaseEstimator):
    """Principal components of MFCCs, for each sensor on its own.

    Parameters
    ----------
    n_components : int
        Components of each sensor.
    n_blocks : int
        Sensors: the columns of ``X`` are that many blocks of equal size.

    Attributes
    ----------
    variance_kept_ : ndarray of shape (n_blocks,)
        Share of the variance that the components hold.
    power_kept_ : ndarray of shape (n_blocks,)
        Share of the power (sum of squares, mean included) that the components and the mean hold.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import SegmentPCA
    >>> two_sensors = np.random.default_rng(0).normal(size=(40, 20))
    >>> pca = SegmentPCA(3, n_blocks=2).fit(two_sensors)
    >>> pca.transform(two_sensors).shape
    (40, 6)
    >>> pca.get_feature_names_out()[:4].tolist()
    ['s0_p00', 's0_p01', 's0_p02', 's1_p00']
    """

    n_components: int = 50
    _: KW_ONLY
    n_blocks: int = 1

    def fit(self, X: Any, y: Any = None) -> SegmentPCA:
        """Learn mean and components of each block."""
        X = validate_data(self, X, dtype=float, ensure_min_samples=2)
        if self.n_blocks < 1 or X.shape[1] % self.n_blocks:
            raise ValueError(f"n_blocks={self.n_blocks} must divide the {X.shape[1]} features of X")
        size = X.shape[1] // self.n_blocks
        said = f"X has {len(X)} samples and {size} features per block."
        most = min(len(X), size)
        check_number("n_components", self.n_components, at_least=1, at_most=most, hint=said)
        blocks = [_components(part, self.n_components) for part in np.split(X, self.n_blocks, 1)]
        self.means_, self.components_, self.variance_kept_, self.power_kept_ = (
            np.stack(values) for values in zip(*blocks, strict=True)
        )
        return self

    def transform(self, X: Any) -> FloatArray:
        """Scores of shape (n_samples, n_blocks * n_components)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        parts = np.split(X, len(self.means_), axis=1)
        scores = [
            (part - mean) @ components.T
            for part, mean, components in zip(parts, self.means_, self.components_, strict=True)
        ]
        return np.hstack(scores)

    def affine_map(self) -> tuple[FloatArray, FloatArray]:
        """Centre c and matrix A of the scores (x - c) A, for export to other formats."""
        check_is_fitted(self)
        blocks = [components.T for components in self.components_]
        return self.means_.ravel(), linalg.block_diag(*blocks)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """``p00``, ``p01``, ...; with several blocks ``s0_p00`` and so on."""
        check_is_fitted(self)
        n_blocks, n_components = self.components_.shape[:2]
        names = component_names(n_components)
        if n_blocks > 1:
            names = [f"s{block}_{name}" for block in range(n_blocks) for name in names]
        return np.array(names, dtype=object)


def _components(X: FloatArray, count: int) -> tuple[FloatArray, FloatArray, float, float]:
    """Mean and components of one sensor, the variance and the power that they keep."""
    if not np.any(np.ptp(X, axis=0)):
        # A dead sensor: no direction is better than another, and all scores are zero.
        return X[0].copy(), np.eye(count, X.shape[1]), 1.0, 1.0
    mean = X.mean(axis=0)
    centred = X - mean
    components = _leading_components(centred, count)
    total = float(np.sum(centred**2))
    lost = max(0.0, total - float(np.sum((centred @ components.T) ** 2)))
    return mean, components, 1.0 - lost / total, 1.0 - lost / float(np.sum(X**2))


def _leading_components(centred: FloatArray, count: int) -> FloatArray:
    """Unit vectors of largest variance, shape (count, n_features); signs as in scikit-learn."""
    n_samples, n_features = centred.shape
    if n_samples < n_features:
        # The few leading vectors of the products of samples take a fifth of the time.
        last = [n_samples - count, n_samples - 1]
        squares, vectors = linalg.eigh(centred @ centred.T, subset_by_index=last)
        if squares[0] > MIN_SQUARED_SCALE_SHARE * squares[-1]:
            components = ((vectors / np.sqrt(squares)).T @ centred)[::-1]
            largest = np.argmax(np.abs(components), axis=1)
            signs = np.sign(components[np.arange(count), largest])
            return signs[:, None] * components
    solver = "covariance_eigh" if n_samples >= n_features else "full"
    return PCA(count, svd_solver=solver).fit(centred).components_


def mfcc_names(count: int) -> list[str]:
    """Column names of MFCCs."""
    return [f"m{i:04d}" for i in range(count)]


def component_names(count: int) -> list[str]:
    """Column names of principal components."""
    return [f"p{i:02d}" for i in range(count)]


@dataclass(eq=False, repr=False)
class AcousticFeatures(MFCCTransformer):
    """All stages in one: segments to principal components of their MFCCs.

    Parameters
    ----------
    sample_rate : float
        Samples a second.
    stage : {"segments", "windows", "mfcc"}
        What the rows of ``X`` are; the stages before are left out.
    window, n_windows, frame, n_mfcc, n_mels, f_min, f_max, htk, taper, top_db
        See :class:`~gemmed.acoustics.FeatureSettings`.
    n_components : int or None
        Principal components; None ends with the MFCCs.

    Attributes
    ----------
    pca_ : SegmentPCA or None
        With ``variance_kept_`` and ``power_kept_``.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import AcousticFeatures
    >>> segments = np.random.default_rng(0).normal(size=(12, 8000))  # one second each
    >>> features = AcousticFeatures(8000, window=0.5, n_windows=50, n_components=5)
    >>> features.fit_transform(segments).shape
    (12, 5)
    """

    _: KW_ONLY
    stage: str = "segments"
    n_components: int | None = 50

    def fit(self, X: Any, y: Any = None) -> AcousticFeatures:
        """Learn the principal components."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Learn the principal components and return the scores."""
        check_choice("stage", self.stage, ("segments", "windows", "mfcc"))
        values: Any = _rows(self, X, reset=True)
        self.steps_ = self._steps()
        for step in self.steps_:
            values = step.fit_transform(values)
        self.pca_ = self.steps_[-1] if self.n_components is not None else None
        return np.asarray(values)

    def transform(self, X: Any) -> FloatArray:
        """Scores of shape (n_segments, n_components), or MFCCs."""
        check_is_fitted(self)
        values: Any = _rows(self, X, reset=False)
        for step in self.steps_:
            values = step.transform(values)
        return np.asarray(values)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Those of the components, ``p00``, ``p01``, ..., or of the MFCCs."""
        check_is_fitted(self)
        if not self.steps_:
            return np.array(mfcc_names(self.n_features_in_), dtype=object)
        return self.steps_[-1].get_feature_names_out()

    def _steps(self) -> list[Any]:
        steps: list[Any] = []
        if self.stage == "segments":
            steps.append(StrongestWindow(self.sample_rate, window=self.window))
        if self.stage in ("segments", "windows"):
            steps.append(MFCCTransformer(self.sample_rate, **self._settings()))
        if self.n_components is not None:
            steps.append(SegmentPCA(self.n_components))
        return steps
