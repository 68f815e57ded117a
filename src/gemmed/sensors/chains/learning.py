"""Rates of all chains from the data: expectation-maximisation around the inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._core.parameter_checks import check_choice
from .factors import Factors
from .mean_field import infer_by_turns
from .product_space import Inferred, infer_exactly
from .sequences import Sequences
from .two_state import Chain, likeliest, log_prior

MOST_STATES = 2.0e7
"""Numbers of the exact inference (samples times states) up to which it is used."""
MOST_EXACT_VIEWS = 9
USUAL = Chain(0.05, 0.5)
USUAL_COMMON = Chain(0.02, 0.5)
GAIN, MAX_ROUNDS = 1e-4, 40
"""Rounds stop when log-posterior or share and persistence hardly change."""


class Rates(NamedTuple):
    """Chains of the sensors, and of what they share."""

    chains: tuple[Chain, ...]
    common: Chain | None = None

    @property
    def log_prior(self) -> float:
        every = (*self.chains, *(() if self.common is None else (self.common,)))
        return sum(log_prior(chain) for chain in every)

    def described(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Share of the time and mean burst of each sensor, and of "all" of them."""
        chains = dict(zip(names, self.chains, strict=True))
        if self.common is not None:
            chains["all"] = self.common
        return {
            name: {"share": chain.share, "mean_burst": chain.mean_burst}
            for name, chain in chains.items()
        }


def is_exact(n: int, n_views: int) -> bool:
    """Whether the product of the chains is small enough to be summed."""
    return n_views <= MOST_EXACT_VIEWS and n * 2.0 ** (n_views + 1) <= MOST_STATES


def has_shared_chain(shared: bool | str, n: int, n_views: int) -> bool:
    """What the parameter ``shared`` asks for."""
    if isinstance(shared, str):
        check_choice("shared", shared, ("auto",))
        return is_exact(n, n_views)
    return bool(shared)


def usual_rates(n_views: int, *, bursts: bool, shared: bool) -> Rates:
    """Where learning starts.

    Parameters
    ----------
    bursts : whether neighbours depend on each other
    shared : whether there is a chain for what all sensors share; needs two sensors
    """
    persistence = USUAL.persistence if bursts else 0.0
    own = Chain(USUAL.share, persistence)
    common = Chain(USUAL_COMMON.share, persistence) if shared and n_views > 1 else None
    return Rates((own,) * n_views, common)


def infer(
    factors: Factors, rates: Rates, sequences: Sequences, present: np.ndarray | None = None
) -> Inferred:
    """Posterior of sensors and labels, exact where the product of the chains is small enough."""
    n, n_views = factors.bad.shape
    exact = is_exact(n, n_views)
    method = infer_exactly if exact else infer_by_turns
    return method(factors, rates.chains, rates.common, sequences, present)


def learn_rates(
    factors: Factors,
    rates: Rates,
    sequences: Sequences,
    *,
    bursts: bool,
    present: np.ndarray | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> tuple[Rates, Inferred]:
    """Likeliest rates, and the posterior under them."""
    last = -np.inf
    found = infer(factors, rates, sequences, present)
    for _ in range(max_rounds):
        value = found.log_evidence + rates.log_prior
        if value - last <= GAIN * max(1.0, len(factors.bad) / 1000.0):
            break
        last = value
        counts = found.counts
        chains = tuple(
            likeliest(own, chain, bursts=bursts)
            for own, chain in zip(counts, rates.chains, strict=False)
        )
        common = rates.common
        if common is not None:
            common = likeliest(counts[-1], common, bursts=bursts)
        rates = Rates(chains, common)
        found = infer(factors, rates, sequences, present)
    return rates, found
