"""The decision function of one sensor: its kernel, held-out scores, and the refit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from ..estimators.kernel_classifier import StoredFunction, function_of_solution
from ..model.decision_step import MedSolution, class_scores, solve_med_functions
from ..model.kernels.function_space import Prior, components_for, exact_prior
from ..model.kernels.kernel import Kernel
from ..model.kernels.landmark_space import landmark_prior
from ..model.med import groups_to_hold_out, learn_med
from ..model.tuning import KernelChoice, ToTune, margin_cost
from ..rows.blocks import ArrayRows, BlockRows, LocalBlocks
from .neighbours import Scaling

MIN_DEVIATION = 1e-12
MAX_SCALED_DEVIATIONS = 6.0
"""Deviations at which scaled readings are cut: beyond it a kernel knows no difference."""


class Settings(NamedTuple):
    """What all sensors have in common."""

    kernel: Kernel
    """Name and what is not tuned."""
    to_tune: ToTune
    c: float
    max_iter: int
    tol: float
    seed: int
    scale: bool
    """Whether columns are scaled."""
    scale_gamma: bool
    """Whether gamma follows the number and variance of a sensor's columns."""
    tries_linear: bool = False
    """Whether all sensors have linear kernels if held-out rows are predicted better by them."""


@dataclass(frozen=True, eq=False)
class ViewFunction:
    """The fitted function of a sensor."""

    scaling: Scaling | None
    function: StoredFunction

    def values(self, X: FloatArray, n_functions: int) -> FloatArray:
        """At rows in which the sensor is there, shape (n_rows, n_functions)."""
        rows = X if self.scaling is None else self.scaling.of(X)
        return self.function.values(rows).reshape(len(X), n_functions)


class ViewLearner:
    """One sensor during a fit, in the rows in which it is there.

    Parameters
    ----------
    X, signs, class_index, groups, weights : of these rows
    good : P(good), shape (n_rows,)
    """

    def __init__(
        self,
        X: FloatArray,
        signs: FloatArray,
        class_index: np.ndarray,
        groups: np.ndarray | None,
        weights: FloatArray,
        good: FloatArray,
        settings: Settings,
    ) -> None:
        self._signs, self._class_index, self._settings = signs, class_index, settings
        self._weights = weights
        self._scaling = scaling_of(X, weights * good) if settings.scale else None
        self._X = X if self._scaling is None else self._scaling.of(X)
        self._groups = groups_to_hold_out(groups, class_index)
        kernel = settings.kernel
        if settings.to_tune.gamma or settings.scale_gamma:
            known = self._X[good >= 0.5] if np.any(good >= 0.5) else self._X
            kernel = replace(kernel, gamma=scale_gamma(known))
        self.kernel, _ = KernelChoice(
            ArrayRows(self._X),
            signs,
            weights,
            good,
            settings.c,
            settings.to_tune,
            settings.seed,
            self._groups,
        ).choose(kernel)
        self._prior = self._make_prior(good)
        self._start: Any = None
        self.cost = np.nan
        """Of the last held-out margins."""

    def held_out(self, good: FloatArray, flip_proba: FloatArray | None = None) -> FloatArray:
        """Class scores of every row without it, or without its group; (n_rows, n_classes)."""
        groups = self._groups if self._prior.feature_map is None else None
        weights = self._weights * good
        learned = learn_med(
            self._prior.space,
            self._signs,
            weights,
            self._settings.c,
            self._start,
            groups=groups,
            flip_proba=flip_proba,
        )
        self._start = learned.start
        self.cost = margin_cost(learned.held_out, weights)
        return class_scores(learned.held_out * self._signs)

    def refit(
        self, good: FloatArray, flip_proba: FloatArray
    ) -> tuple[ViewFunction, list[MedSolution]]:
        """MED with uncertain sensors and labels."""
        settings, prior, weights = self._settings, self._prior, self._weights * good
        solved = solve_med_functions(
            prior.space,
            self._signs,
            settings.c,
            weights,
            max_iter=settings.max_iter,
            tol=settings.tol,
            start=self._start,
            flip_proba=flip_proba,
        )
        lam = np.column_stack([own.certificate.lam for own in solved])
        coefficients = weights[:, None] * lam * self._signs
        parameters = [own.decision.parameters for own in solved]
        function = function_of_solution(self.kernel, self._X, prior, coefficients, parameters)
        return ViewFunction(self._scaling, function), solved

    def _make_prior(self, good: FloatArray) -> Prior:
        n_components = components_for("auto", len(self._X))
        if n_components is None or self.kernel.name == "linear":
            return exact_prior(self.kernel, self._X)
        rows = BlockRows(LocalBlocks(self._X))
        return landmark_prior(
            self.kernel, rows, self._class_index, good, n_components, self._settings.seed
        )


def scaling_of(X: FloatArray, weights: FloatArray) -> Scaling:
    """Weighted means and deviations; columns that do not vary keep their unit."""
    shares = weights / max(float(weights.sum()), 1e-300)
    centre = shares @ X
    deviation = np.sqrt(shares @ (X - centre) ** 2)
    largest = np.maximum(np.abs(centre), 1.0)
    width = np.where(deviation > MIN_DEVIATION * largest, deviation, 1.0)
    return Scaling(centre, width, MAX_SCALED_DEVIATIONS)


def scale_gamma(X: FloatArray) -> float:
    """scikit-learn's "scale"."""
    variance = float(X.var())
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
