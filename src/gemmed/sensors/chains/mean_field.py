"""Many sensors: chains are inferred in turn, each given the others (structured mean field).

q = prod_v q(chain v) q(common chain) prod_n q(t_n). Every chain keeps its own dependence over time
(forward-backward); every update raises the free energy, a lower bound of the log-evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from .factors import Factors, shared_fault
from .product_space import Inferred, infer_exactly
from .sequences import Sequences
from .two_state import Chain, Counts

TOLERANCE, MAX_SWEEPS = 1e-8, 200


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
    counts: list[Counts] = [Counts(np.zeros(2), np.zeros((0, 2, 2)), np.zeros(0))] * n_views
    if common is not None:
        counts = [*counts, counts[0]]
    at_once = shared_fault(factors)
    bound, residual, sweep = -np.inf, np.inf, 0
    for sweep in range(1, MAX_SWEEPS + 1):  # noqa: B007
        before = np.column_stack([broken, shared])
        good = (1.0 - broken) * (1.0 - shared)[:, None]
        labels = special.softmax(
            factors.prior + np.einsum("nv,nvk->nk", good, factors.votes), axis=1
        )
        said = factors.bad - np.einsum("nvk,nk->nv", factors.votes, labels)
        own = 0.0  # log-evidence of the chains under their fields, minus what the fields say
        for view, chain in enumerate(chains):
            field = (1.0 - shared) * said[:, view]
            broken[:, view], value, counts[view] = _one_chain(field, chain, sequences)
            own += value - float(field @ broken[:, view])
        if common is not None:
            own_terms = np.sum(broken * factors.bad + (1.0 - broken) * (factors.bad - said), axis=1)
            field = at_once - own_terms
            shared, value, counts[-1] = _one_chain(field, common, sequences)
            own += value - float(field @ shared)
        single = np.sum(broken * factors.bad + (1.0 - broken) * (factors.bad - said), axis=1)
        expected = float(np.sum((1.0 - shared) * single + shared * at_once))
        expected += float(np.sum(labels * factors.prior) + special.entr(labels).sum())
        bound = own + expected
        residual = float(np.max(np.abs(np.column_stack([broken, shared]) - before), initial=0.0))
        if residual <= TOLERANCE:
            break
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


def _one_chain(
    field: FloatArray, chain: Chain, sequences: Sequences
) -> tuple[FloatArray, float, Counts]:
    """Forward-backward of one chain whose faulty state has these nats."""
    n = len(field)
    alone = Factors(field[:, None], np.zeros((n, 1, 1)), np.zeros((n, 1)))
    found = infer_exactly(alone, [chain], None, sequences)
    return found.broken[:, 0], found.log_evidence, found.counts[0]
