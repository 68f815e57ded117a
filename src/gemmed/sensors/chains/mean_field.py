"""Many sensors: chains are inferred in turn, each given the others (structured mean field).

q = prod_v q(chain v) q(common chain) prod_n q(t_n). Every chain keeps its own dependence over time
(forward-backward); every update raises the free energy, a lower bound of the log-evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from .factors import Factors, shared_fault
from .product_space import Inferred
from .sequences import Sequences
from .two_state import Chain, Counts, counted

TOLERANCE, MAX_SWEEPS = 1e-6, 200


def infer_by_turns(
    factors: Factors,
    chains: Sequence[Chain],
    common: Chain | None,
    sequences: Sequences,
    present: np.ndarray | None = None,
) -> Inferred:
    """Posterior as by :func:`~.product_space.infer_exactly`, approximated chain by chain."""
    n, n_views = factors.bad.shape
    broken = np.tile([chain.share for chain in chains], (n, 1))
    shared = np.full(n, 0.0 if common is None else common.share)
    at_once = shared_fault(factors)
    bound, residual, sweep = -np.inf, np.inf, 0
    for sweep in range(1, MAX_SWEEPS + 1):  # noqa: B007
        before = np.column_stack([broken, shared])
        good = (1.0 - broken) * (1.0 - shared)[:, None]
        labels = special.softmax(
            factors.prior + np.einsum("nv,nvk->nk", good, factors.votes), axis=1
        )
        said = factors.bad - np.einsum("nvk,nk->nv", factors.votes, labels)
        field = (1.0 - shared)[:, None] * said
        found = _smoothed(field, chains, sequences)
        broken = found.broken
        # Log-evidence of the chains under their fields, minus what the fields say.
        own = float(found.log_evidence.sum() - np.sum(field * broken))
        if common is not None:
            own_terms = np.sum(broken * factors.bad + (1.0 - broken) * (factors.bad - said), axis=1)
            field = (at_once - own_terms)[:, None]
            all_at_once = _smoothed(field, [common], sequences)
            shared = all_at_once.broken[:, 0]
            own += float(all_at_once.log_evidence[0] - field[:, 0] @ shared)
        single = np.sum(broken * factors.bad + (1.0 - broken) * (factors.bad - said), axis=1)
        expected = float(np.sum((1.0 - shared) * single + shared * at_once))
        expected += float(np.sum(labels * factors.prior) + special.entr(labels).sum())
        bound = own + expected
        residual = float(np.max(np.abs(np.column_stack([broken, shared]) - before), initial=0.0))
        if residual <= TOLERANCE:
            break
    counts = found.counts(chains, sequences)
    if common is not None:
        counts += all_at_once.counts([common], sequences)
    good = (1.0 - broken) * (1.0 - shared)[:, None]
    labels = special.softmax(factors.prior + np.einsum("nv,nvk->nk", good, factors.votes), axis=1)
    is_there = np.ones((n, n_views), dtype=bool) if present is None else present
    alone = np.prod(np.where(is_there, broken, 1.0), axis=1)
    return Inferred(
        1.0 - good,
        shared,
        shared + (1.0 - shared) * alone,
        labels,
        bound,
        counts,
        residual,
        sweep,
    )


class _Smoothed(NamedTuple):
    """Posterior of chains, each given its field only."""

    broken: FloatArray
    """P(faulty), shape (n_samples, n_chains)."""
    log_evidence: FloatArray
    """Shape (n_chains,)."""
    steps: tuple[FloatArray, FloatArray, FloatArray]
    """P(faulty) before, given the past alone, given everything; (n_steps, n_sequences, n_chains)"""

    def counts(self, chains: Sequence[Chain], sequences: Sequences) -> list[Counts]:
        """What each chain is expected to have done."""
        predicted, filtered, smoothed = self.steps
        there = sequences.inside.T[1:]
        gaps = sequences.gaps.T[1:][there]
        found = []
        for i, chain in enumerate(chains):
            before, now = filtered[:-1, :, i][there], smoothed[1:, :, i][there]
            expected = predicted[1:, :, i][there]
            left = np.stack([1.0 - before, before], axis=1)
            right = np.stack([_ratio(1.0 - now, 1.0 - expected), _ratio(now, expected)], axis=1)
            pairs = left[:, :, None] * chain.transitions(gaps) * right[:, None, :]
            first = np.stack([1.0 - smoothed[0, :, i], smoothed[0, :, i]], axis=1)
            found.append(counted(first, pairs, gaps))
        return found


def _ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(a / np.maximum(b, 1e-300))


def _smoothed(field: FloatArray, chains: Sequence[Chain], sequences: Sequences) -> _Smoothed:
    """Forward-backward of chains whose faulty states have these nats, (n_samples, n_chains)."""
    index = sequences.samples.T
    # Beyond the end of a sequence nothing is said.
    nats = np.where((index >= 0)[:, :, None], field[index], 0.0)
    share = np.array([chain.share for chain in chains])
    kept = np.stack([chain.kept(sequences.gaps.T) for chain in chains], axis=2)
    predicted, filtered = np.empty(nats.shape), np.empty(nats.shape)
    now: FloatArray = np.broadcast_to(share, nats.shape[1:])
    for step in range(len(nats)):
        if step:
            now = share + kept[step] * (now - share)
        predicted[step] = now
        now = filtered[step] = special.expit(special.logit(now) + nats[step])
    smoothed = filtered.copy()
    leave, stay = (1.0 - kept) * (1.0 - share), share + kept * (1.0 - share)
    for step in range(len(nats) - 1, 0, -1):
        later, expected = smoothed[step], predicted[step]
        back = stay[step] * _ratio(later, expected)
        back += leave[step] * _ratio(1.0 - later, 1.0 - expected)
        smoothed[step - 1] = np.clip(filtered[step - 1] * back, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        scales = np.logaddexp(np.log(predicted) + nats, np.log1p(-predicted))
    broken = np.empty(field.shape)
    broken[index[index >= 0]] = smoothed[index >= 0]
    return _Smoothed(broken, scales.sum(axis=(0, 1)), (predicted, filtered, smoothed))
