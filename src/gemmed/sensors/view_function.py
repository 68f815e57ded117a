"""The decision function of one sensor: steps of ``estimators.state_fit`` on its own columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from ..estimators.fit_settings import Settings, prior_of, rows_of
from ..estimators.kernel_classifier import StoredFunction, function_of_solution
from ..estimators.state_fit import decide
from ..model.decision_step import MedSolution, class_scores
from ..model.kernels.function_space import Prior, components_for
from ..model.kernels.kernel import Kernel
from ..model.med import LearnedMed, groups_to_hold_out, learn_med
from ..model.states.label_model import flip_proba_and_cost, label_costs
from ..model.tuning import KernelChoice, margin_cost
from .neighbours import Scaling

MIN_DEVIATION = 1e-12
MAX_SCALED_DEVIATIONS = 6.0
"""Deviations at which scaled readings are cut: beyond it a kernel knows no difference."""


class ViewSettings(NamedTuple):
    """What all sensors have in common."""

    fit: Settings
    kernel: Kernel
    """Name and what is not tuned."""
    scale: bool
    """Whether columns are scaled."""
    scale_gamma: bool
    """Whether gamma follows the number and variance of a sensor's columns."""
    tries_linear: bool
    """Whether all sensors have linear kernels if held-out rows are predicted better by them."""
    max_rows: int
    """Rows that a function learns from, at most."""


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

    The function learns from at most ``settings.max_rows`` of them, as many of each class as there
    are. All others are held out.

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
        settings: ViewSettings,
    ) -> None:
        self._scaling = scaling_of(X, weights * good) if settings.scale else None
        self._scaled = X if self._scaling is None else self._scaling.of(X)
        rows = rows_to_learn(class_index, weights * good, settings.max_rows, settings.fit.seed)
        self._rows, self._class_index = rows, class_index[rows]
        self._X, self._signs = self._scaled[rows], signs[rows]
        self._weights = balanced_weights(self._class_index, weights[rows], signs.shape[1])
        groups = None if groups is None else groups[rows]
        self._groups = groups_to_hold_out(groups, self._class_index)
        kernel, good = settings.kernel, good[rows]
        if settings.fit.to_tune.gamma or settings.scale_gamma:
            known = self._X[good >= 0.5] if np.any(good >= 0.5) else self._X
            kernel = replace(kernel, gamma=scale_gamma(known))
        several = signs.shape[1] > 1 and kernel.has_width
        number = components_for("auto", len(rows), several=several)
        number = None if kernel.name == "linear" else number
        self._settings = settings.fit._replace(n_components=number)
        self._stored = rows_of(self._X, kernel, number, settings.fit.n_jobs)
        c, to_tune, seed = settings.fit.c, settings.fit.to_tune, settings.fit.seed
        self.kernel, _ = KernelChoice(
            self._stored, self._signs, self._weights, good, c, to_tune, seed, self._groups
        ).choose(kernel)
        self._start: Any = None
        self.cost = np.nan
        """Of the last held-out margins."""

    def held_out(self, good: FloatArray) -> FloatArray:
        """Class scores of every row without it, or without its group; (n_rows, n_classes)."""
        weights = self._weights * good[self._rows]
        prior = self._prior(good)
        learned = self._learned(prior, weights)
        return self._scores(learned, self._function(prior, learned))

    def refit(
        self, good: FloatArray, true_label: FloatArray, flip_proba: FloatArray, rates: FloatArray
    ) -> tuple[FloatArray, ViewFunction, list[MedSolution]]:
        """Held-out class scores, and the function, with uncertain sensors and labels.

        Parameters
        ----------
        true_label, flip_proba : shape (n_rows, n_classes) and (n_rows, n_functions)
        rates : of wrong labels by true class
        """
        weights, flip_proba = self._weights * good[self._rows], flip_proba[self._rows]
        prior = self._prior(good)
        learned = self._learned(prior, weights, flip_proba)
        shares = weights @ true_label[self._rows] / max(float(weights.sum()), 1e-300)
        flip_proba, cost = flip_proba_and_cost(flip_proba, label_costs(rates, shares, self._signs))
        made = decide(
            self._stored,
            self.kernel,
            prior,
            self._signs,
            weights,
            self._settings,
            learned.start,
            flip_proba,
            cost,
        )
        scores = self._scores(learned, made.function)
        return scores, ViewFunction(self._scaling, made.function), made.solutions

    def _prior(self, good: FloatArray) -> Prior:
        """Made anew each time: those of all sensors at once would need much memory."""
        return prior_of(
            self._stored, self.kernel, self._class_index, good[self._rows], self._settings
        )

    def _learned(
        self, prior: Prior, weights: FloatArray, flip_proba: FloatArray | None = None
    ) -> LearnedMed:
        learned = learn_med(
            prior.space,
            self._signs,
            weights,
            self._settings.c,
            self._start,
            groups=self._groups if prior.feature_map is None else None,
            flip_proba=flip_proba,
            check=True,
        )
        # Landmarks of the next space are others: parameters would mean another function there.
        self._start = learned.coefficients
        self.cost = margin_cost(learned.held_out, weights)
        return learned

    def _function(self, prior: Prior, learned: LearnedMed) -> StoredFunction:
        if prior.space.is_batched:
            parameters = [own.decision.parameters for own in learned.start]
        else:
            parameters = [prior.space.from_coefficients(own) for own in learned.coefficients.T]
        return function_of_solution(self.kernel, self._X, prior, learned.coefficients, parameters)

    def _scores(self, learned: LearnedMed, function: StoredFunction) -> FloatArray:
        n, n_functions = len(self._scaled), self._signs.shape[1]
        others = np.ones(n, dtype=bool)
        others[self._rows] = False
        values = np.empty((n, n_functions))
        values[self._rows] = learned.held_out * self._signs
        if others.any():
            values[others] = function.values(self._scaled[others]).reshape(-1, n_functions)
        return class_scores(values)


def rows_to_learn(
    class_index: np.ndarray, weights: FloatArray, limit: int, seed: int
) -> np.ndarray:
    """All rows, or so many drawn at random, in equal numbers of each class as far as there are."""
    if len(class_index) <= limit:
        return np.arange(len(class_index))
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(weights > 0))
    # The number of each row among those of its class; low ones come first.
    rank = np.empty(len(order), dtype=np.intp)
    for z in np.unique(class_index):
        own = class_index[order] == z
        rank[own] = np.arange(own.sum())
    return np.sort(order[np.argsort(rank, kind="stable")[:limit]])


def balanced_weights(class_index: np.ndarray, weights: FloatArray, n_functions: int) -> FloatArray:
    """Sample weights with which all classes have the same total, shape (n_rows,).

    Without them, the functions of weak sensors answer the most frequent class everywhere. The class
    shares come back with the intercepts. No weight is raised: a row of weight 2 counts as two
    copies, and a copy would be there when the other is held out.
    """
    totals = np.bincount(class_index, weights, max(n_functions, 2)) + 1.0
    return weights * totals.min() / totals[class_index]


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
