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
MAX_MESSAGE_NATS, MIN_POSITIVE = 600.0, 1e-300
"""Limits within which exponentials are numbers."""
MIN_SPLIT_STEPS = 100
"""Steps from which on a sequence is cut into parts that are walked at once."""
N_GAP_DECIMALS = 3
"""Gaps are told apart to so many decimals, in usual steps, where rates are learned."""
MAX_VALUES_AT_ONCE = 200_000


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
    """log of how much more likely all readings are if what sensors share is broken than if all are
    good, shape (n_samples,). It is a matter of readings: votes are the same in both cases, because
    those of good sensors depend on each other. None: the sum of ``bad``, and votes count."""
    n_alike: FloatArray | None = None
    """Neighbours that say together as much as one of them says, shape (n_views,); None: 1. Good
    readings that change slowly are unusual for a while: their nats must not add up."""


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
    messages: FloatArray
    """Nats of each sample for "faulty", shape (n_samples, n_chains)."""


def has_shared_chain(shared: bool | str, n_views: int) -> bool:
    """What the parameter ``shared`` asks for."""
    if isinstance(shared, str):
        check_choice("shared", shared, ("auto",))
        return n_views <= MAX_SHARED
    return bool(shared)


def infer(
    factors: Factors,
    rates: Rates,
    sequences: Sequences,
    present: np.ndarray | None = None,
    start: FloatArray | None = None,
) -> Inferred:
    """Posterior under one chain a view and one for what they share.

    Parameters
    ----------
    present : which views are there, shape (n_samples, n_views); only ``none_good`` asks for it
    start : messages of a similar problem
    """
    n_views = factors.bad.shape[1]
    shape = (len(factors.bad), len(rates.every))
    field: FloatArray = np.zeros(shape) if start is None else start
    probability, residual = np.full(shape, np.nan), np.inf
    weights: FloatArray = np.ones(shape[1])
    if factors.n_alike is not None:
        weights = 1.0 / np.append(factors.n_alike, factors.n_alike.max())[: shape[1]]
    meet = factors.votes.shape[2] > 1 or rates.common is not None
    if not meet:  # what a sample says of a chain does not depend on the others
        field, residual = factors.bad - factors.votes[:, :, 0], 0.0
    for sweep in range(MAX_SWEEPS if meet else 0):
        cavity = _Walk(weights * field, rates.every, sequences).cavity
        messages = _messages(factors, cavity)
        now = special.expit(cavity + messages.field)
        residual = float(np.max(np.abs(now - probability), initial=0.0)) if sweep else np.inf
        kept = DAMPING_SHARE if sweep >= N_UNDAMPED_SWEEPS else 0.0
        field, probability = kept * field + (1.0 - kept) * messages.field, now
        if residual <= TOLERANCE:
            break
    walk = _Walk(weights * field, rates.every, sequences)
    messages = _messages(
        factors, walk.cavity, np.ones(factors.bad.shape, dtype=bool) if present is None else present
    )
    edges = float(
        np.logaddexp(
            special.log_expit(walk.cavity) + weights * field, special.log_expit(-walk.cavity)
        ).sum()
    )
    return Inferred(
        1.0 - (1.0 - messages.common)[:, None] * messages.good[:, :n_views],
        messages.common,
        messages.none_good,
        messages.labels,
        walk.log_evidence + float(messages.log_evidence.sum()) - edges,
        walk.counts(),
        residual,
        field,
    )


class _Messages(NamedTuple):
    """Messages of samples to every chain, given the cavity of the others, and their posteriors.

    Arrays of shape (n_samples, ...).
    """

    field: FloatArray
    """Log-odds of "faulty" for every chain."""
    good: FloatArray
    """P(good | nothing shared is broken), a column for each view."""
    labels: FloatArray
    common: FloatArray
    none_good: FloatArray
    """P(no present view is good)."""
    log_evidence: FloatArray


def _messages(factors: Factors, cavity: FloatArray, present: np.ndarray | None = None) -> _Messages:
    """Exact sums within each sample, of some samples at a time: they fit into the cache.

    Parameters
    ----------
    cavity : log-odds of "faulty" without the sample, shape (n_samples, n_chains)
    present : which views are there; None: ``none_good`` is not asked for
    """
    n, size = len(cavity), max(1, MAX_VALUES_AT_ONCE // max(factors.votes[0].size, 1))
    parts = []
    for first in range(0, n, size):
        rows = slice(first, first + size)
        at_once = None if factors.at_once is None else factors.at_once[rows]
        own = Factors(factors.bad[rows], factors.votes[rows], factors.prior[rows], at_once)
        parts.append(
            _messages_of_block(own, cavity[rows], None if present is None else present[rows])
        )
    return _Messages(*map(np.concatenate, zip(*parts, strict=True)))


def _messages_of_block(
    factors: Factors, cavity: FloatArray, present: np.ndarray | None
) -> _Messages:
    bad, votes, prior, at_once, _ = factors
    n, n_views = bad.shape
    own = cavity[:, :n_views, None]
    # Both terms of (49) over the largest of them.
    scale = np.maximum(bad, votes.max(axis=2))
    if_broken, if_good = np.exp(bad - scale)[..., None], np.exp(votes - scale[..., None])
    broken = special.expit(own) * if_broken
    either = np.maximum(broken + special.expit(-own) * if_good, MIN_POSITIVE)
    by_label = prior + np.log(either).sum(axis=1) + scale.sum(axis=1)[:, None]
    healthy = special.logsumexp(by_label, axis=1)
    labels = np.exp(by_label - healthy[:, None])
    others = labels[:, None, :] / either
    evidence_broken = np.log(np.maximum(others.sum(axis=2), MIN_POSITIVE)) + bad - scale
    evidence_good = np.log(np.maximum(np.einsum("nvk,nvk->nv", others, if_good), MIN_POSITIVE))
    field, log_evidence, common = evidence_broken - evidence_good, healthy, np.zeros(n)
    good = special.expit(-field - cavity[:, :n_views])
    if cavity.shape[1] > n_views:
        shared = cavity[:, n_views]
        if at_once is None:
            faulty = special.logsumexp(prior, axis=1) + bad.sum(axis=1)
        else:
            faulty = special.logsumexp(prior + votes.sum(axis=1), axis=1) + at_once
        log_faulty = special.log_expit(shared) + faulty
        log_healthy = special.log_expit(-shared) + healthy
        log_evidence = np.logaddexp(log_faulty, log_healthy)
        field = np.logaddexp(log_healthy[:, None] + evidence_broken, log_faulty[:, None])
        field -= np.logaddexp(log_healthy[:, None] + evidence_good, log_faulty[:, None])
        field = np.column_stack([field, faulty - healthy])
        common = special.expit(shared + faulty - healthy)
        labels += common[:, None] * (special.softmax(prior, axis=1) - labels)
    none_good = np.zeros(n)
    if present is not None:
        terms = np.log(np.maximum(np.where(present[..., None], broken, either), MIN_POSITIVE))
        none = prior + terms.sum(axis=1) + scale.sum(axis=1)[:, None]
        share = np.minimum(np.exp(special.logsumexp(none, axis=1) - healthy), 1.0)
        none_good = common + (1.0 - common) * share
    return _Messages(field, good, labels, common, none_good, log_evidence)


class _Walk:
    """Forward-backward along chains whose faulty states have these nats, (n_samples, n_chains).

    A message is a pair of numbers, for healthy and faulty. Time is cut into about as many parts as
    a part has steps, and all parts are walked at once. To know the message with which a part
    begins, all parts are walked from either state first: this gives the matrix by which a part
    changes any message.
    """

    def __init__(self, field: FloatArray, chains: Sequence[Chain], sequences: Sequences) -> None:
        n_sequences, longest = sequences.samples.shape
        n_parts = 1 if longest < MIN_SPLIT_STEPS else int(np.sqrt(longest))
        n_steps = -(-longest // n_parts)

        def cut(values: np.ndarray, fill: int) -> np.ndarray:
            """As shape (n_steps, n_parts * n_sequences)."""
            padded = np.full((n_sequences, n_parts * n_steps), fill, dtype=values.dtype)
            padded[:, :longest] = values
            parts = padded.reshape(n_sequences, n_parts, n_steps)
            return parts.transpose(2, 1, 0).reshape(n_steps, -1)

        index, self._gaps = cut(sequences.samples, -1), cut(sequences.gaps, 0)
        self._inside = inside = index >= 0
        self._chains, self._n_sequences = chains, n_sequences
        share = np.array([chain.share for chain in chains])
        # Beyond the end of a sequence there is no message, and nothing changes.
        nats = np.where(
            inside[:, :, None], np.clip(field[index], -MAX_MESSAGE_NATS, MAX_MESSAGE_NATS), 0.0
        )
        kept = np.stack([chain.kept(self._gaps) for chain in chains], axis=2)
        kept[~inside] = 1.0
        steps = _Steps(kept, share, nats)
        first = np.repeat(np.stack([1.0 - share, share])[:, None], n_sequences, axis=1)
        starts, ends = first, np.full(first.shape, 0.5)
        if n_parts > 1:
            starts, ends = _messages_of_parts(steps.matrices(), starts, ends)
        predicted, self._before, likelihood = steps.forward(starts)
        later = steps.backward(ends)
        self.log_evidence = float(np.log(likelihood).sum() + np.maximum(nats, 0.0).sum())
        with np.errstate(divide="ignore"):
            log_odds = np.maximum(np.log(predicted[1] / predicted[0]), -MAX_MESSAGE_NATS)
        cavity = log_odds + np.log(later[1] / later[0])
        self.cavity = np.empty(field.shape)
        """Log-odds of "faulty" at each sample by all other samples."""
        self.cavity[index[inside]] = cavity[inside]
        self._predicted, self._smoothed = predicted[1], special.expit(cavity + nats)

    def counts(self) -> list[Counts]:
        """What each chain is expected to have done."""
        there, n = self._inside.copy(), self._n_sequences
        there[0, :n] = False
        gaps = self._gaps[there]
        different, place = np.unique(np.round(gaps, N_GAP_DECIMALS), return_inverse=True)
        found = []
        for i, chain in enumerate(self._chains):
            before, now = self._before[:, :, i][there], self._smoothed[:, :, i][there]
            expected = self._predicted[:, :, i][there]
            kept = chain.kept(gaps)
            both = before * (kept + (1.0 - kept) * chain.share) * now
            both /= np.maximum(expected, MIN_POSITIVE)
            neither = (1.0 - before) * (1.0 - (1.0 - kept) * chain.share) * (1.0 - now)
            neither /= np.maximum(1.0 - expected, MIN_POSITIVE)
            pairs = [neither, now - both, 1.0 - now - neither, both]
            summed = [np.bincount(place.reshape(-1), own, len(different)) for own in pairs]
            first = self._smoothed[0, :n, i].sum()
            found.append(
                Counts(
                    np.array([n - first, first]),
                    np.maximum(np.stack(summed, axis=1), 0.0).reshape(-1, 2, 2),
                    different,
                )
            )
        return found


class _Steps:
    """Messages along parts of chains, arrays of shape (2, n_parts, n_chains).

    Parameters
    ----------
    kept : how much of the state before is left at each step, shape (n_steps, n_parts, n_chains)
    share : stationary probability of "faulty", shape (n_chains,)
    nats : for "faulty", of the shape of ``kept``
    """

    def __init__(self, kept: FloatArray, share: FloatArray, nats: FloatArray) -> None:
        self._kept = kept
        self._moves = np.stack([(1.0 - kept) * (1.0 - share), (1.0 - kept) * share], axis=1)
        self._likelihood = np.exp(np.minimum(np.stack([-nats, nats], axis=1), 0.0))

    def _predicted(self, step: int, message: FloatArray) -> FloatArray:
        total = message[0] + message[1]
        return self._kept[step] * message + self._moves[step] * total

    def matrices(self) -> FloatArray:
        """What each part does to a message, up to a factor, shape (2, 2, n_parts, n_chains).

        The first axis is the state before the part, the second one that after it.
        """
        shape = self._kept.shape[1:]
        columns = [np.stack([np.full(shape, 1.0 - i), np.full(shape, float(i))]) for i in (0, 1)]
        for step in range(len(self._kept)):
            columns = [self._predicted(step, own) * self._likelihood[step] for own in columns]
            total = columns[0].sum(axis=0) + columns[1].sum(axis=0)
            columns = [own / total for own in columns]
        return np.stack(columns)

    def forward(self, message: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Predictions of both states, P(faulty) before each step, and likelihoods of the steps."""
        shape = self._kept.shape
        predicted, before, likelihood = np.empty((2, *shape)), np.empty(shape), np.empty(shape)
        for step in range(len(self._kept)):
            before[step] = message[1]
            found = predicted[:, step] = self._predicted(step, message)
            message = found * self._likelihood[step]
            likelihood[step] = message[0] + message[1]
            message /= likelihood[step]
        return predicted, before, likelihood

    def backward(self, message: FloatArray) -> FloatArray:
        """What later steps say of both states at each step, up to a factor."""
        later = np.empty((2, *self._kept.shape))
        for step in range(len(self._kept) - 1, -1, -1):
            later[:, step] = message
            seen = message * self._likelihood[step]
            message = self._kept[step] * seen + (self._moves[step] * seen).sum(axis=0)
            message /= message[0] + message[1]
        return later


def _messages_of_parts(
    matrices: FloatArray, start: FloatArray, end: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Messages before and after each part of all sequences, as :class:`_Steps` takes them.

    Parameters
    ----------
    start, end : before the first part and after the last one, shape (2, n_sequences, n_chains)
    """
    n_sequences = start.shape[1]
    parts = [matrices[:, :, i : i + n_sequences] for i in range(0, matrices.shape[2], n_sequences)]
    starts, ends = [start], [end]
    for part in parts[:-1]:
        message = np.einsum("ab...,a...->b...", part, starts[-1])
        starts.append(message / message.sum(axis=0))
    for part in parts[:0:-1]:
        message = np.einsum("ab...,b...->a...", part, ends[-1])
        ends.append(message / message.sum(axis=0))
    return np.concatenate(starts, axis=1), np.concatenate(ends[::-1], axis=1)


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
        found = infer(factors, rates, sequences, present, found.messages)
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
