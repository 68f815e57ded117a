"""Width and amplitude of the kernel from the training data (docs/model.md, section 7).

Every candidate is fitted by MED, in which nobody is let go, and judged by the leave-one-out margins
of the samples: a criterion that chooses its own samples prefers kernels under which it can dismiss
the awkward ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special

from ._typing import FloatArray
from .calibration import fit_slope, leave_one_out_margins
from .decision_step import DecisionFunction
from .exceptions import IndefiniteKernelWarning
from .function_space import FeatureSpace, FunctionSpace, GramSpace
from .kernels import Kernel, function_space

WIDTHS = (0.3, 1.0, 3.0)
"""Candidates for gamma, times 1 / (n_features * X.var())."""
VARIANCES = (0.1, 0.3, 1.0, 3.0)
"""Candidates for the mean prior variance of the decision function."""
SMALL_VARIANCES = (0.001, 0.003, 0.01, 0.03)
"""Further ones for kernels without a width: there the amplitude is all there is to shrink."""
USUAL_WIDTH = USUAL_VARIANCE = 0.6
PREFERENCE = 0.002
"""Nats by which a candidate at a distance of one (squared logarithm) must be better."""
MAX_ROWS = 1000
"""Rows that take part; half as many where there is a decision function for each class."""
GAP = 1e-3
MAX_STEPS = 50


class Candidate(NamedTuple):
    """One kernel and how well it predicts held-out labels."""

    kernel: Kernel
    loss: float
    """Mean negative log-likelihood of held-out labels."""
    score: float
    """The loss, and the preference for the usual; the smallest wins."""


def tune_kernel(
    kernel: Kernel,
    X: FloatArray,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    *,
    tune_gamma: bool,
    tune_variance: bool,
    tune_bias: bool,
) -> tuple[Kernel, list[Candidate]]:
    """The best kernel among the candidates, and all of them.

    Parameters
    ----------
    kernel : its parameters are kept where they are not to be tuned; its gamma is the centre of the
        candidates
    X : array of shape (n_samples, n_features), or the kernel matrix if it is precomputed
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : shape (n_samples,)
    tune_bias : the prior variance of the bias follows that of the function
    """
    has_width = kernel.name == "rbf" and tune_gamma
    variances = VARIANCES if kernel.name == "rbf" else SMALL_VARIANCES + VARIANCES
    candidates = []
    for width in WIDTHS if has_width else (1.0,):
        base = replace(kernel, gamma=width * kernel.gamma)
        for variance, made, space in _spaces(base, X, variances, tune_variance, tune_bias):
            loss = held_out_loss(space, signs, weights, c)
            distance = 0.0
            if has_width:
                distance += np.log(width / USUAL_WIDTH) ** 2 / 1.5
            if tune_variance and kernel.name == "rbf":
                distance += np.log(variance / USUAL_VARIANCE) ** 2 / 2.0
            candidates.append(Candidate(made, loss, loss + PREFERENCE * distance))
    return min(candidates, key=lambda candidate: candidate.score).kernel, candidates


def held_out_loss(space: FunctionSpace, signs: FloatArray, weights: FloatArray, c: float) -> float:
    """Mean negative log-likelihood of the labels under leave-one-out margins of MED.

    The likelihood is sigmoid(A m) with the best slope A: the scale of f does not count.
    """
    margins = med_margins(space, signs, weights, c).ravel()
    repeated = np.repeat(weights, signs.shape[1])
    slope = fit_slope(margins, repeated)
    return -float(repeated @ special.log_expit(slope * margins)) / float(repeated.sum())


def med_margins(
    space: FunctionSpace, signs: FloatArray, weights: FloatArray, c: float
) -> FloatArray:
    """Leave-one-out margins of MED with these sample weights, shape (n_samples, n_functions)."""
    rows, ones = np.arange(len(signs)), np.ones(len(signs))
    columns = []
    for labels in signs.T:
        decision = DecisionFunction(space, labels, c)
        for _ in range(MAX_STEPS):
            improved = decision.newton_step(weights)
            certificate = decision.certify(weights)
            if not improved or certificate.gap <= GAP * max(1.0, certificate.primal):
                break
        columns.append(
            leave_one_out_margins(space, decision.margins, certificate.lam, ones, weights, c, rows)
        )
    return np.column_stack(columns)


def _spaces(
    kernel: Kernel,
    X: FloatArray,
    variances: tuple[float, ...],
    tune_variance: bool,
    tune_bias: bool,
) -> Iterator[tuple[float, Kernel, FunctionSpace]]:
    """Function spaces of one width, with the variance and the kernel of each."""
    plain = replace(kernel, function_variance=1.0, bias_variance=0.0)
    explicit = plain.explicit_features(X)
    if explicit is not None:
        base, typical = explicit[:, :-1], float(np.mean(np.sum(explicit**2, axis=1)))
    else:
        base = plain.between(X, X)
        if plain.may_be_indefinite:
            with warnings.catch_warnings():  # said when the kernel is used
                warnings.simplefilter("ignore", IndefiniteKernelWarning)
                base = function_space(plain, X)[0].gram()
        typical = float(np.mean(np.diag(base)))
    typical = max(typical, 1e-300)
    for variance in variances if tune_variance else (kernel.function_variance * typical,):
        function_variance = variance / typical
        bias = variance if tune_bias else kernel.bias_variance
        made = replace(kernel, function_variance=function_variance, bias_variance=bias)
        if explicit is not None:
            column = np.full((len(X), 1), np.sqrt(bias))
            yield (
                variance,
                made,
                FeatureSpace(np.hstack([np.sqrt(function_variance) * base, column])),
            )
        else:
            yield variance, made, GramSpace(function_variance * base + bias)


def some_rows(signs: FloatArray, weights: FloatArray, seed: int) -> np.ndarray:
    """Rows that take part: all, or a random MAX_ROWS of those with weight, in order."""
    candidates = np.flatnonzero(weights > 0)
    limit = MAX_ROWS if signs.shape[1] == 1 else MAX_ROWS // 2
    if len(candidates) <= limit:
        return candidates
    rng = np.random.default_rng(seed)
    chosen = rng.choice(candidates, limit, replace=False)
    # Every class stays: its column would otherwise have no positive sample.
    for column in signs.T:
        for sign in (-1.0, 1.0):
            own = candidates[column[candidates] == sign]
            if own.size and not np.any(column[chosen] == sign):
                chosen = np.append(chosen, rng.choice(own, min(10, own.size), replace=False))
    return np.unique(chosen)
