"""Exact inference: forward-backward on the product of all chains.

A step of the product of m chains is m steps of two states, one after the other, so that 2^m states
cost m 2^m operations. The sum over the label is done beforehand, sample by sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from .factors import Factors, pattern_evidence, patterns, shared_fault
from .sequences import Sequences
from .two_state import Chain, Counts, counted


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
    """Log-likelihood; in the mean field a lower bound of it."""
    counts: list[Counts]
    """Of the chains, the common one last if there is one."""
    residual: float
    """0 if exact; else the largest change of a probability in the last sweep."""
    n_iter: int


def infer_exactly(
    factors: Factors,
    chains: Sequence[Chain],
    common: Chain | None,
    sequences: Sequences,
    present: np.ndarray | None = None,
) -> Inferred:
    """Posterior under one chain a view and one for what they share.

    Parameters
    ----------
    present : which views are there, shape (n_samples, n_views); only ``none_good`` asks for it
    """
    n, n_views = factors.bad.shape
    evidence, label_given = pattern_evidence(factors)
    all_chains = [*chains, *([common] if common is not None else [])]
    emissions = evidence
    if common is not None:  # the common chain is the fastest bit: healthy, or all are broken
        emissions = np.empty((n, 2 * evidence.shape[1]))
        emissions[:, 0::2] = evidence
        unsaid = special.logsumexp(factors.prior, axis=1)
        emissions[:, 1::2] = (unsaid + shared_fault(factors))[:, None]
    walk = _Walk(all_chains, emissions, sequences)
    states, log_evidence, counts = walk.smoothed()
    if common is None:
        by_pattern, shared = states, np.zeros(n)
    else:
        shared = states[:, 1::2].sum(axis=1)
        by_pattern = states[:, 0::2].copy()
        by_pattern[:, -1] += shared
    bits = patterns(n_views)
    is_there = np.ones((n, n_views), dtype=bool) if present is None else present
    hopeless = np.all(bits[None] | ~is_there[:, None, :], axis=2)
    return Inferred(
        np.clip(by_pattern @ bits, 0.0, 1.0),
        np.clip(shared, 0.0, 1.0),
        np.clip(np.sum(by_pattern * hopeless, axis=1), 0.0, 1.0),
        np.einsum("np,npk->nk", by_pattern, label_given),
        log_evidence,
        counts,
        0.0,
        1,
    )


class _Walk:
    """Forward and backward passes over all sequences at once."""

    def __init__(
        self, chains: Sequence[Chain], emissions: FloatArray, sequences: Sequences
    ) -> None:
        self._chains = chains
        self._sequences = sequences
        self._highest = emissions.max(axis=1)
        self._emissions = np.exp(emissions - self._highest[:, None])
        n_steps = sequences.samples.shape[1]
        self._kept = [
            np.stack([chain.kept(sequences.gaps[:, step]) for step in range(n_steps)])
            for chain in chains
        ]

    def _emission(self, step: int) -> FloatArray:
        """Shape (n_sequences, n_states); 1 beyond the end of a sequence."""
        index = self._sequences.samples[:, step]
        return np.where((index >= 0)[:, None], self._emissions[index], 1.0)

    def _moved(self, values: FloatArray, step: int, which: range, *, back: bool) -> FloatArray:
        """Values after the transitions of some chains into a step (or before them)."""
        m = len(self._chains)
        for number in which:
            chain, kept = self._chains[number], self._kept[number][step][:, None, None]
            shaped = values.reshape(len(values), 2**number, 2, 2 ** (m - number - 1))
            if back:
                mean = chain.share * shaped[:, :, 1] + (1.0 - chain.share) * shaped[:, :, 0]
                fresh = mean[:, :, None]
            else:
                total = shaped.sum(axis=2)
                fresh = np.stack([(1.0 - chain.share) * total, chain.share * total], axis=2)
            values = (kept[..., None] * shaped + (1.0 - kept[..., None]) * fresh).reshape(
                values.shape
            )
        return values

    def smoothed(self) -> tuple[FloatArray, float, list[Counts]]:
        """States of all samples, log-evidence and counts."""
        index, m = self._sequences.samples, len(self._chains)
        n_sequences, n_steps = index.shape
        everything = range(m)
        start: FloatArray = np.ones((n_sequences, 1))
        for chain in self._chains:
            start = (start[:, :, None] * chain.stationary).reshape(n_sequences, -1)
        filtered = np.empty((n_steps, n_sequences, 2**m))
        scales = np.ones((n_steps, n_sequences))
        now = start
        for step in range(n_steps):
            if step:
                now = self._moved(now, step, everything, back=False)
            now = now * self._emission(step)
            scales[step] = now.sum(axis=1)
            now = now / scales[step][:, None]
            filtered[step] = now
        states = np.empty((len(self._emissions), 2**m))
        first = np.empty((m, n_sequences, 2))
        pairs: list[list[FloatArray]] = [[] for _ in everything]
        gaps: list[FloatArray] = []
        later = np.ones((n_sequences, 2**m))
        for step in range(n_steps - 1, -1, -1):
            there = index[:, step] >= 0
            both = filtered[step] * later
            both /= both.sum(axis=1, keepdims=True)
            states[index[there, step]] = both[there]
            if not step:
                for number in everything:
                    first[number] = self._of_chain(both, number)
                break
            ahead = self._emission(step) * later / scales[step][:, None]
            if np.any(there):
                for number, pair in enumerate(self._pairs(filtered[step - 1], ahead, step)):
                    pairs[number].append(pair[there])
                gaps.append(self._sequences.gaps[there, step])
            later = self._moved(ahead, step, everything, back=True)
        log_evidence = float(np.log(scales).sum() + self._highest.sum())
        nothing = np.zeros((0, 2, 2))
        all_gaps = np.concatenate(gaps) if gaps else np.zeros(0)
        counts = [
            counted(first[number], np.concatenate(own) if own else nothing, all_gaps)
            for number, own in enumerate(pairs)
        ]
        return states, log_evidence, counts

    def _of_chain(self, values: FloatArray, number: int) -> FloatArray:
        shaped = values.reshape(len(values), 2**number, 2, -1)
        total: FloatArray = shaped.sum(axis=(1, 3))
        return total

    def _pairs(self, before: FloatArray, ahead: FloatArray, step: int) -> list[FloatArray]:
        """Posterior of each chain's states before and at a step, each (n_sequences, 2, 2).

        Transitions of the other chains: of lower ones applied before, of higher ones after.
        """
        m = len(self._chains)
        after = [ahead]
        for number in range(m - 1, 0, -1):
            after.append(self._moved(after[-1], step, range(number, number + 1), back=True))
        after.reverse()
        found = []
        for number, chain in enumerate(self._chains):
            left = before.reshape(len(before), 2**number, 2, -1)
            right = after[number].reshape(left.shape)
            joint = np.einsum("nair,najr->nij", left, right)
            joint *= chain.transitions(self._sequences.gaps[:, step])
            found.append(joint / np.maximum(joint.sum(axis=(1, 2), keepdims=True), 1e-300))
            before = self._moved(before, step, range(number, number + 1), back=False)
        return found
