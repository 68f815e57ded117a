"""Which sensors are broken when, and which labels are true: two-state chains that meet in samples.

A chain has the states healthy and faulty, one chain for each sensor and one for what they share:

    (48)  P(faulty later | state now) = share + persistence^gap (state - share)

It starts in its stationary state. Persistence 0 makes neighbours independent. Sample n says

    (49)  psi_n(b, t) = P(t) P(y_n | t) prod_v [ b_v B_nv + (1 - b_v) p_v(t | x_nv) / P(t) ]

b_v = 1 if sensor v is broken: then it says nothing of the label, and B_nv is how much more likely
its reading is than from a good one. A missing sensor has B = 1 and no say in the label either.

Inference is belief propagation. Forward-backward passes along the chains, and exact sums over the
label and the sensors within each sample, exchange messages until nothing changes. It is exact if
samples are independent, or if chains do not meet (no label, no common chain).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from .._core.parameter_checks import check_choice
from .._core.types import FloatArray

SHARE_PRIOR = (1.2, 8.0)
PERSISTENCE_PRIOR = (1.5, 1.5)
"""Beta priors: most sensors work most of the time; bursts may be short or long."""
MAX_ABSOLUTE_LOG_ODDS = 12.0
"""Log-odds of share and persistence stay within this."""
FIRST_SHARE, FIRST_COMMON_SHARE, FIRST_PERSISTENCE = 0.05, 0.02, 0.5
"""Where learning starts."""
GAIN, MAX_ROUNDS = 1e-4, 40
"""Rounds stop when the log-posterior of the rates hardly rises."""
TOLERANCE, MAX_SWEEPS = 1e-6, 60
"""Largest change of a probability at which messages are final."""
DAMPING_SHARE = 0.5
"""Share of the old message that is kept after ``N_UNDAMPED_SWEEPS`` sweeps, against oscillation."""
N_UNDAMPED_SWEEPS = 10


MAX_SHARED = 9


class Sequences(NamedTuple):
    """Samples in order, one row a sequence; short sequences are filled up with -1 at their ends."""

    samples: np.ndarray
    """Sample at each step, shape (n_sequences, longest)."""
    gaps: FloatArray
    """Time since the step before in units of the usual one; 0 at the first. Of the same shape."""


def usual_step(stamps: FloatArray, groups: np.ndarray | None = None) -> float:
    """Median difference of time stamps that follow each other in a recording."""
    labels = np.zeros(len(stamps)) if groups is None else groups
    rows = np.lexsort((stamps, labels))
    between = np.diff(stamps[rows])[np.diff(labels[rows]) == 0]
    between = between[between > 0]
    return float(np.median(between)) if len(between) else 1.0


def sequences_of(
    n_samples: int,
    order: FloatArray | None = None,
    groups: np.ndarray | None = None,
    step: float | None = None,
) -> Sequences:
    """Sequences from time stamps and groups.

    Parameters
    ----------
    order : time stamps or positions, shape (n_samples,); None: without groups every sample stands
        alone, with groups the samples of a group follow each other as they stand
    groups : the recording of each sample, shape (n_samples,); None: one recording
    step : usual difference of time stamps; None: the median
    """
    if order is None and groups is None:
        return Sequences(np.arange(n_samples)[:, None], np.zeros((n_samples, 1)))
    labels = np.zeros(n_samples, dtype=np.intp)
    if groups is not None:
        labels = np.unique(groups, return_inverse=True)[1].reshape(-1)
    stamps = np.arange(n_samples, dtype=np.float64) if order is None else order
    by_time = np.lexsort((stamps, labels))
    starts = np.flatnonzero(np.diff(labels[by_time], prepend=-1))
    lengths = np.diff(np.append(starts, n_samples))
    column = np.arange(n_samples) - np.repeat(starts, lengths)
    row = np.repeat(np.arange(len(starts)), lengths)
    index = np.full((len(starts), int(lengths.max())), -1, dtype=np.intp)
    index[row, column] = by_time
    between = np.ones(n_samples)
    if order is not None:
        between = np.diff(order[by_time], prepend=0.0)
        between /= usual_step(order, labels) if step is None else step
    later = column > 0
    gaps = np.zeros(index.shape)
    gaps[row[later], column[later]] = between[later]
    return Sequences(index, gaps)


class Chain(NamedTuple):
    """Rates of one chain."""

    share: float
    """Stationary probability of the faulty state."""
    persistence: float = 0.0
    """Correlation of the states of neighbours, in [0, 1)."""

    @property
    def stationary(self) -> FloatArray:
        return np.array([1.0 - self.share, self.share])

    @property
    def mean_burst(self) -> float:
        """Mean number of steps in the faulty state, once entered."""
        leave = (1.0 - self.persistence) * (1.0 - self.share)
        return 1.0 / leave if leave > 0 else np.inf

    def kept(self, gaps: FloatArray) -> FloatArray:
        """persistence^gap: how much of a state is left after so long."""
        if self.persistence <= 0.0:
            return np.zeros(np.shape(gaps))
        return np.asarray(self.persistence**gaps)

    def transitions(self, gaps: FloatArray) -> FloatArray:
        """Transition matrices, from rows to columns, shape (..., 2, 2)."""
        kept = self.kept(np.asarray(gaps, dtype=np.float64))[..., None, None]
        return kept * np.eye(2) + (1.0 - kept) * self.stationary

    @property
    def log_prior(self) -> float:
        """Log prior density of share and persistence, on the scale of their log-odds."""
        total = 0.0
        for value, (a, b) in zip(self, (SHARE_PRIOR, PERSISTENCE_PRIOR), strict=True):
            inside = min(max(value, 1e-12), 1.0 - 1e-12)
            total += a * np.log(inside) + b * np.log1p(-inside)
        return float(total)


class Rates(NamedTuple):
    """Chains of the sensors, and of what they share."""

    chains: tuple[Chain, ...]
    common: Chain | None = None

    @property
    def every(self) -> tuple[Chain, ...]:
        """The chains of the sensors, and the common one last if there is one."""
        return self.chains if self.common is None else (*self.chains, self.common)

    def described(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Share of the time and mean burst of each sensor, and of "all" of them."""
        chains = zip([*names, "all"], self.every, strict=False)
        return {name: {"share": own.share, "mean_burst": own.mean_burst} for name, own in chains}


def first_rates(n_views: int, *, bursts: bool, shared: bool) -> Rates:
    """Where learning starts.

    Parameters
    ----------
    bursts : whether neighbours depend on each other
    shared : whether there is a chain for what all sensors share; needs two sensors
    """
    persistence = FIRST_PERSISTENCE if bursts else 0.0
    common = Chain(FIRST_COMMON_SHARE, persistence) if shared and n_views > 1 else None
    return Rates((Chain(FIRST_SHARE, persistence),) * n_views, common)


def never_broken(n_views: int) -> Rates:
    """Chains that are switched off."""
    return Rates((Chain(0.0),) * n_views)


class Factors(NamedTuple):
    """Logarithms of the factors of all samples (49)."""

    bad: FloatArray
    """log B, shape (n_samples, n_views)."""
    votes: FloatArray
    """log p_v(t | x)/P(t), shape (n_samples, n_views, n_classes)."""
    prior: FloatArray
    """log P(t) + log P(y | t), the given label if there is one; shape (n_samples, n_classes)."""
    at_once: FloatArray | None = None
    """log of how much more likely all readings are if what sensors share is broken, shape
    (n_samples,); None: the sum of ``bad``. Readings of good sensors depend on each other."""


class Counts(NamedTuple):
    """What a chain is expected to have done."""

    first: FloatArray
    """Expected states at the beginnings of sequences, summed, shape (2,)."""
    pairs: FloatArray
    """Expected pairs of neighbouring states by gap, shape (n_gaps, 2, 2)."""
    gaps: FloatArray
    """Shape (n_gaps,)."""


class Inferred(NamedTuple):
    """Posterior of sensors and labels."""

    broken: FloatArray
    """P(sensor is broken, by itself or with all others), shape (n_samples, n_views)."""
    common: FloatArray
    """P(what sensors share is broken), shape (n_samples,)."""
    none_good: FloatArray
    """P(no present sensor is good), shape (n_samples,)."""
    labels: FloatArray
    """P(true label), shape (n_samples, n_classes)."""
    log_evidence: float
    """Log-likelihood (of Bethe); exact where the inference is."""
    counts: list[Counts]
    """Of the chains, the common one last if there is one."""
    residual: float
    """Largest change of a probability in the last sweep."""


def has_shared_chain(shared: bool | str, n_views: int) -> bool:
    """What the parameter ``shared`` asks for."""
    if isinstance(shared, str):
        check_choice("shared", shared, ("auto",))
        return n_views <= MAX_SHARED
    return bool(shared)


def infer(
    factors: Factors, rates: Rates, sequences: Sequences, present: np.ndarray | None = None
) -> Inferred:
    """Posterior under one chain a view and one for what they share.

    Parameters
    ----------
    present : which views are there, shape (n_samples, n_views); only ``none_good`` asks for it
    """
    n_views = factors.bad.shape[1]
    field = np.zeros((len(factors.bad), len(rates.every)))
    probability, residual = np.full(field.shape, np.nan), np.inf
    for sweep in range(MAX_SWEEPS):
        walk = _Walk(field, rates.every, sequences)
        said = _Said(factors, walk.cavity, n_views)
        now = special.expit(walk.cavity + said.field)
        residual = float(np.max(np.abs(now - probability), initial=0.0)) if sweep else np.inf
        kept = DAMPING_SHARE if sweep >= N_UNDAMPED_SWEEPS else 0.0
        field, probability = kept * field + (1.0 - kept) * said.field, now
        if residual <= TOLERANCE:
            break
    walk = _Walk(field, rates.every, sequences)
    said = _Said(factors, walk.cavity, n_views)
    log_q, log_g = special.log_expit(walk.cavity), special.log_expit(-walk.cavity)
    edges = float(np.logaddexp(log_q + field, log_g).sum())
    return Inferred(
        1.0 - (1.0 - said.common)[:, None] * said.good,
        said.common,
        said.none_good(np.ones(factors.bad.shape, dtype=bool) if present is None else present),
        said.labels,
        walk.log_evidence + float(said.log_evidence.sum()) - edges,
        walk.counts(),
        residual,
    )


class _Said:
    """Exact sums within each sample: what it says of every chain, given the cavity of the others.

    ``cavity`` are log-odds of "faulty" without the sample, shape (n_samples, n_chains).
    """

    def __init__(self, factors: Factors, cavity: FloatArray, n_views: int) -> None:
        bad, votes, prior, at_once = factors
        own = cavity[:, :n_views, None]
        self._prior, self._broken = prior, special.log_expit(own) + bad[..., None]
        self._either = np.logaddexp(self._broken, special.log_expit(-own) + votes)
        by_label = prior + self._either.sum(axis=1)
        healthy = special.logsumexp(by_label, axis=1)
        self._healthy = healthy
        others = by_label[:, None, :] - self._either
        said_broken = special.logsumexp(others, axis=2) + bad
        said_good = special.logsumexp(others + votes, axis=2)
        self.good = special.expit(said_good - said_broken - cavity[:, :n_views])
        """P(good | nothing shared is broken)."""
        self.field = said_broken - said_good
        """Log-odds of "faulty" for every chain."""
        self.log_evidence = healthy
        self.common = np.zeros(len(bad))
        self.labels = special.softmax(by_label, axis=1)
        if cavity.shape[1] == n_views:
            return
        shared = cavity[:, n_views]
        faulty = special.logsumexp(prior, axis=1)
        faulty = faulty + (bad.sum(axis=1) if at_once is None else at_once)
        log_faulty, log_healthy = special.log_expit(shared) + faulty, special.log_expit(-shared)
        self.log_evidence = np.logaddexp(log_faulty, log_healthy + healthy)
        self.field = np.logaddexp(log_healthy[:, None] + said_broken, log_faulty[:, None])
        self.field -= np.logaddexp(log_healthy[:, None] + said_good, log_faulty[:, None])
        self.field = np.column_stack([self.field, faulty - healthy])
        self.common = special.expit(shared + faulty - healthy)
        blind = special.softmax(prior, axis=1)
        self.labels += self.common[:, None] * (blind - self.labels)

    def none_good(self, present: np.ndarray) -> FloatArray:
        """P(no present sensor is good), shape (n_samples,)."""
        terms = np.where(present[..., None], self._broken, self._either)
        none = special.logsumexp(self._prior + terms.sum(axis=1), axis=1) - self._healthy
        return np.asarray(self.common + (1.0 - self.common) * np.minimum(np.exp(none), 1.0))


class _Walk:
    """Forward-backward along chains whose faulty states have these nats, (n_samples, n_chains)."""

    def __init__(self, field: FloatArray, chains: Sequence[Chain], sequences: Sequences) -> None:
        index = sequences.samples.T
        inside = index >= 0
        self._chains, self._inside, self._gaps = chains, inside, sequences.gaps.T
        # Beyond the end of a sequence nothing is said.
        nats = np.where(inside[:, :, None], field[index], 0.0)
        share = np.array([chain.share for chain in chains])
        kept = np.stack([chain.kept(self._gaps) for chain in chains], axis=2)
        predicted, filtered = np.empty(nats.shape), np.empty(nats.shape)
        now: FloatArray = np.broadcast_to(share, nats.shape[1:])
        for step in range(len(nats)):
            if step:
                now = share + kept[step] * (now - share)
            predicted[step] = now
            now = filtered[step] = special.expit(special.logit(now) + nats[step])
        # Log-odds of what later steps say.
        later = np.zeros(nats.shape)
        with np.errstate(divide="ignore"):
            moves = np.log([1.0 - (1.0 - kept) * share, (1.0 - kept) * share])
            stays = np.log([(1.0 - kept) * (1.0 - share), share + kept * (1.0 - share)])
            log_odds = np.maximum(special.logit(predicted), -700.0)
            scales = np.logaddexp(np.log(predicted) + nats, np.log1p(-predicted))
        for step in range(len(nats) - 1, 0, -1):
            ahead = later[step] + nats[step]
            later[step - 1] = np.logaddexp(stays[0][step], stays[1][step] + ahead)
            later[step - 1] -= np.logaddexp(moves[0][step], moves[1][step] + ahead)
        self.log_evidence = float(scales.sum())
        self.cavity = np.empty(field.shape)
        """Log-odds of "faulty" at each sample by all other samples."""
        self.cavity[index[inside]] = (log_odds + later)[inside]
        self._steps = predicted, filtered, special.expit(log_odds + later + nats)

    def counts(self) -> list[Counts]:
        """What each chain is expected to have done."""
        predicted, filtered, smoothed = self._steps
        there = self._inside[1:]
        gaps = self._gaps[1:][there]
        different, place = np.unique(np.round(gaps, 6), return_inverse=True)
        found = []
        for i, chain in enumerate(self._chains):
            before, now = filtered[:-1, :, i][there], smoothed[1:, :, i][there]
            expected = predicted[1:, :, i][there]
            left = np.stack([1.0 - before, before], axis=1)
            right = np.stack([1.0 - now, now], axis=1)
            right /= np.maximum(np.stack([1.0 - expected, expected], axis=1), 1e-300)
            pairs = left[:, :, None] * chain.transitions(gaps) * right[:, None, :]
            summed = np.zeros((len(different), 2, 2))
            np.add.at(summed, place.reshape(-1), pairs)
            first = smoothed[0, :, i].sum()
            found.append(Counts(np.array([smoothed.shape[1] - first, first]), summed, different))
        return found


def learn_rates(
    factors: Factors,
    rates: Rates,
    sequences: Sequences,
    *,
    bursts: bool,
    present: np.ndarray | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> tuple[Rates, Inferred]:
    """Likeliest rates, and the posterior under them: expectation-maximisation."""
    last = -np.inf
    found = infer(factors, rates, sequences, present)
    for _ in range(max_rounds):
        value = found.log_evidence + sum(chain.log_prior for chain in rates.every)
        if value - last <= GAIN * max(1.0, len(factors.bad) / 1000.0):
            break
        last = value
        every = [
            likeliest(own, chain, bursts=bursts)
            for own, chain in zip(found.counts, rates.every, strict=True)
        ]
        common = every.pop() if rates.common is not None else None
        rates = Rates(tuple(every), common)
        found = infer(factors, rates, sequences, present)
    return rates, found


def likeliest(counts: Counts, start: Chain, *, bursts: bool = True) -> Chain:
    """Rates that maximise expected log-likelihood plus prior: the M-step.

    Parameters
    ----------
    start : rates to start from
    bursts : whether neighbours depend on each other; else persistence is 0
    """
    bursts = bursts and bool(len(counts.gaps))

    def chain_at(x: FloatArray) -> Chain:
        return Chain(*(float(special.expit(value)) for value in x))

    def cost(x: FloatArray) -> float:
        chain = chain_at(x)
        value = float(counts.first @ np.log(chain.stationary))
        if len(counts.gaps):
            moves = np.maximum(chain.transitions(counts.gaps), 1e-300)
            value += float(np.sum(counts.pairs * np.log(moves)))
        return -value - chain.log_prior

    middle = [start.share, max(start.persistence, 1e-3)][: 2 if bursts else 1]
    x = np.clip(special.logit(middle), -MAX_ABSOLUTE_LOG_ODDS + 1.0, MAX_ABSOLUTE_LOG_ODDS - 1.0)
    found = optimize.minimize(
        cost,
        x,
        method="L-BFGS-B",
        bounds=[(-MAX_ABSOLUTE_LOG_ODDS, MAX_ABSOLUTE_LOG_ODDS)] * len(x),
    )
    return chain_at(found.x if found.fun <= cost(x) else x)
