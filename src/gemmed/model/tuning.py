"""Width and amplitude of the kernel from the training data (model-solution.md, section 7).

Every candidate is fitted by MED, which keeps all samples, and judged by the leave-one-out margins
of the samples. A criterion that chooses its own samples would prefer kernels under which it can
leave out the difficult ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.exceptions import IndefiniteKernelWarning
from .._core.progress import report
from .._core.types import FloatArray
from ..rows.blocks import TrainingRows
from .decision_step import fit_slope
from .kernels.function_space import FeatureSpace, FunctionSpace, GramSpace, function_space
from .kernels.kernel import Kernel
from .med import learn_med
from .settings import Selection

SMALL_VARIANCES = (0.03,)
"""A further one for kernels without a width: there the amplitude is all there is to shrink."""
BIAS_SHARES = (1.0, 0.01)
"""Candidates for the prior variance of their bias, as a share of the variance of the function."""
PREFERRED_WIDTH = PREFERRED_VARIANCE = 0.6
PREFERENCE_NATS = 0.002
"""Nats by which a candidate at a distance of one (squared logarithm) must be better."""
SHRINKAGE, BIAS_COST = 1.5, 10.0
"""Log-likelihood of the whole sample that a linear function must gain for e times its amplitude,
and for the larger of the two prior variances of its bias."""
MAX_LOSS_RISE_NATS = 0.01
"""Nats by which the loss may rise before larger amplitudes of the same width are left out."""
MAX_FUNCTIONS = 6
"""Decision functions that are judged where there are more classes: the loss is a mean over them,
and the time of the choice would grow with their number."""
MIN_SCREENED_ROWS = 300
"""Rows from which on half of them choose which candidates all of them compare."""
MAX_SECOND_LOOK_DEFICIT = 0.4
"""Nats above the best of half of the rows up to which a candidate is worth a second look.

This is times the root of their number: the losses of more rows say more."""
SCREENING_SEED = 0x67656D
MAX_TRUSTED_VARIANCE_SHARE = 0.1
"""Share of the variance that trusted samples have where others lie extremely far out."""


class Candidate(NamedTuple):
    """One kernel and how well it predicts held-out labels."""

    kernel: Kernel
    loss: float
    """Mean negative log-likelihood of held-out labels."""
    score: float
    """The loss, and the preference for the usual; the smallest wins."""


class ToTune(NamedTuple):
    """What of a kernel is to be chosen from the data."""

    gamma: bool
    variance: bool
    bias: bool
    selection: Selection = Selection()
    """The candidates, and by how many rows they are compared."""

    @property
    def is_given(self) -> bool:
        """Whether nothing is to be chosen."""
        return not (self.gamma or self.variance or self.bias)


@dataclass(frozen=True)
class KernelChoice:
    """The samples by which a kernel is chosen, and what of it.

    Parameters
    ----------
    rows : where they are stored
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights, trusted : sample weights, and how far each sample is trusted; shape (n_samples,)
    c : rate of the margin prior
    to_tune : what of the kernel is to be chosen, the rest stays
    seed : of the samples that take part where there are many
    groups : samples of a group are held out together, shape (n_samples,)
    """

    rows: TrainingRows
    signs: FloatArray
    weights: FloatArray
    trusted: FloatArray
    c: float
    to_tune: ToTune
    seed: int
    groups: np.ndarray | None = None

    def choose(self, kernel: Kernel) -> tuple[Kernel, list[Candidate]]:
        """The candidate that predicts a thousand samples best, and all of them."""
        to_tune, signs = self.to_tune, self.signs
        if to_tune.is_given:
            return kernel, []
        limit = to_tune.selection.max_rows // (1 if signs.shape[1] == 1 else 2)
        some = subsample_rows(signs, self.weights, self.seed, limit=limit)
        X, trusted = self.rows.take(some), self.trusted[some]
        judged = signs[some]
        if signs.shape[1] > MAX_FUNCTIONS:
            rng = np.random.default_rng(self.seed)
            chosen = rng.choice(signs.shape[1], MAX_FUNCTIONS, replace=False)
            judged = judged[:, np.sort(chosen)]
        if to_tune.gamma and kernel.has_width:
            kernel = replace(kernel, gamma=_width(X, X[trusted >= 0.5], kernel.gamma))
        return tune_kernel(
            kernel,
            X,
            judged,
            self.weights[some] * trusted,
            self.c,
            tune_gamma=to_tune.gamma,
            tune_variance=to_tune.variance,
            tune_bias=to_tune.bias,
            selection=to_tune.selection,
            groups=None if self.groups is None else self.groups[some],
        )


def _width(X: FloatArray, trusted: FloatArray, gamma: float) -> float:
    """Centre of the candidates for gamma: that of "scale", unless far samples set the scale."""
    variance = float(trusted.var()) if len(trusted) else 0.0
    if 0.0 < variance < MAX_TRUSTED_VARIANCE_SHARE * float(X.var()):
        return 1.0 / (X.shape[1] * variance)
    return gamma


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
    selection: Selection = Selection(),  # noqa: B008 (immutable)
    groups: np.ndarray | None = None,
) -> tuple[Kernel, list[Candidate]]:
    """The best kernel among the candidates, and all of them.

    Parameters
    ----------
    kernel : its parameters are kept where they are not to be tuned; its gamma is the centre of the
        candidates
    X : array of shape (n_samples, n_features), or the kernel matrix if it is precomputed
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : shape (n_samples,)
    tune_bias : the prior variance of the bias is that of the function, or a share of it
    selection : the candidates
    groups : samples of a group are held out together, shape (n_samples,)
    """
    has_width = kernel.has_width and tune_gamma
    shapes = [_Shape(width, 1.0) for width in (selection.widths if has_width else (1.0,))]
    if not kernel.has_width and tune_bias:
        shapes = [_Shape(1.0, share) for share in BIAS_SHARES]
    search = _Search(
        kernel,
        tuple(shapes),
        (() if kernel.has_width else SMALL_VARIANCES) + selection.variances,
        c,
        tune_variance=tune_variance,
        tune_bias=tune_bias,
    )
    report("kernel", total=search.n_candidates)
    wanted = None
    if len(X) >= MIN_SCREENED_ROWS and search.n_candidates > 1:
        half = subsample_rows(signs, weights, SCREENING_SEED, limit=len(X) // 2)
        part = X[np.ix_(half, half)] if kernel.name == "precomputed" else X[half]
        own = None if groups is None else groups[half]
        screened = list(search.judge(part, signs[half], weights[half], groups=own))
        enough = MAX_SECOND_LOOK_DEFICIT / np.sqrt(len(half))
        enough += min(judged.loss for judged in screened)
        wanted = {judged.place for judged in screened if judged.loss <= enough}
    candidates: list[Candidate] = []
    for (i, _), made, variance, loss in search.judge(X, signs, weights, wanted, groups):
        distance = 0.0
        if has_width:
            distance += np.log(shapes[i].width / PREFERRED_WIDTH) ** 2 / 1.5
        if tune_variance and kernel.has_width:
            distance += np.log(variance / PREFERRED_VARIANCE) ** 2 / 2.0
        # The loss is a mean over functions as well; the preference is one for each sample.
        cost = PREFERENCE_NATS * distance / signs.shape[1]
        if kernel.name == "linear":
            cost += SHRINKAGE * np.log(variance) / float(weights.sum())
            cost += BIAS_COST * (shapes[i].bias_share == max(BIAS_SHARES)) / float(weights.sum())
        candidates.append(Candidate(made, loss, loss + cost))
        report("kernel", len(candidates), len(wanted or ()) or search.n_candidates, loss=loss)
    return min(candidates, key=lambda candidate: candidate.score).kernel, candidates


class _Shape(NamedTuple):
    """The shape of a kernel, without its amplitude."""

    width: float
    """Times gamma."""
    bias_share: float
    """Prior variance of the bias over that of the function."""


class _Judged(NamedTuple):
    """One kernel and its loss in one sample."""

    place: tuple[int, int]
    """Which shape, which amplitude."""
    kernel: Kernel
    variance: float
    loss: float


@dataclass(frozen=True)
class _Search:
    """The candidates, and the way through them."""

    kernel: Kernel
    shapes: tuple[_Shape, ...]
    variances: tuple[float, ...]
    c: float
    tune_variance: bool
    tune_bias: bool

    @property
    def n_candidates(self) -> int:
        return len(self.shapes) * (len(self.variances) if self.tune_variance else 1)

    def judge(
        self,
        X: FloatArray,
        signs: FloatArray,
        weights: FloatArray,
        wanted: set[tuple[int, int]] | None = None,
        groups: np.ndarray | None = None,
    ) -> Iterator[_Judged]:
        """Candidates with their loss in a sample, small amplitudes first; each starts from the
        solution of the one before. ``wanted`` are the places to look at, all by default.
        """
        first: FloatArray | None = None
        for i, shape in enumerate(self.shapes):
            if wanted is not None and all(place[0] != i for place in wanted):
                continue
            base = replace(self.kernel, gamma=shape.width * self.kernel.gamma)
            bias_share = shape.bias_share if self.tune_bias else None
            smallest, last, start = np.inf, None, first
            spaces = _spaces(base, X, weights, self.variances, self.tune_variance, bias_share)
            for j, (variance, made, space) in enumerate(spaces):
                if wanted is not None and (i, j) not in wanted:
                    continue
                if last is not None and start is not None:
                    start = start * (last / variance)  # the same function
                fit = learn_med(space, signs, weights, self.c, start, groups=groups)
                last, start = variance, fit.coefficients
                first = start if first is None else first
                loss = margin_cost(fit.held_out, weights)
                yield _Judged((i, j), made, variance, loss)
                smallest = min(smallest, loss)
                if loss > smallest + MAX_LOSS_RISE_NATS:
                    break


def margin_cost(margins: FloatArray, weights: FloatArray) -> float:
    """Mean negative log-likelihood of the labels under held-out margins.

    The likelihood is sigmoid(A m) with the best slope A: the scale of f does not count.

    Parameters
    ----------
    margins : shape (n_samples, n_functions)
    weights : shape (n_samples,)
    """
    repeated = np.repeat(weights, margins.shape[1])
    margins = margins.ravel()
    slope = fit_slope(margins, repeated)
    return -float(repeated @ special.log_expit(slope * margins)) / float(repeated.sum())


def _spaces(
    kernel: Kernel,
    X: FloatArray,
    weights: FloatArray,
    variances: tuple[float, ...],
    tune_variance: bool,
    bias_share: float | None,
) -> Iterator[tuple[float, Kernel, FunctionSpace]]:
    """Function spaces of one shape, with the variance and the kernel of each.

    For kernels without a width the variance is that of f around the centre of the samples. The bias
    gets the variance that makes up for the centre, so that the origin of X does not matter.
    """
    plain = replace(kernel, function_variance=1.0, bias_variance=0.0)
    explicit = plain.explicit_features(X)
    to_centre = 0.0
    if explicit is not None:
        base = explicit[:, :-1]
        centre = np.average(base, axis=0, weights=weights)
        to_centre = float(centre @ centre)
        typical = float(np.average(np.sum(base**2, axis=1), weights=weights))
    else:
        base = plain.between(X, X)
        if plain.may_be_indefinite:
            with warnings.catch_warnings():  # said when the kernel is used
                warnings.simplefilter("ignore", IndefiniteKernelWarning)
                base = function_space(plain, X)[0].gram()
        typical = float(np.average(np.diag(base), weights=weights))
        if not kernel.has_width:
            shares = weights / weights.sum()
            to_centre = max(float(shares @ base @ shares), 0.0)
    typical = max(typical - to_centre, 1e-12 * typical, 1e-300)
    for variance in variances if tune_variance else (kernel.function_variance * typical,):
        function_variance = variance / typical
        bias = kernel.bias_variance
        if bias_share is not None:
            bias = bias_share * variance + function_variance * to_centre
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


def subsample_rows(
    signs: FloatArray, weights: FloatArray, seed: int, *, limit: int | None = None
) -> np.ndarray:
    """Rows that take part: all, or a random ``limit`` of those with weight, in order."""
    candidates = np.flatnonzero(weights > 0)
    if limit is None:
        limit = Selection().max_rows // (1 if signs.shape[1] == 1 else 2)
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
