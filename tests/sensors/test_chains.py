"""Chains of sensor states: against enumeration, their limits, and rates that come back."""

from itertools import product

import numpy as np
import pytest
from scipy import special

from gemmed.sensors.chains import (
    Chain,
    Counts,
    Factors,
    Rates,
    first_rates,
    infer,
    learn_rates,
    likeliest,
    sequences_of,
)


def random_factors(rng, n, n_views, n_classes=2, size=2.0):
    votes = special.log_softmax(size * rng.normal(size=(n, n_views, n_classes)), axis=2)
    prior = special.log_softmax(rng.normal(size=(n, n_classes)), axis=1)
    return Factors(
        size * rng.normal(size=(n, n_views)), votes - votes.mean(axis=2)[..., None], prior
    )


def enumerated(factors, chains, common, gaps):
    """Sums over all states of one sequence and all labels, without any recursion."""
    n, n_views = factors.bad.shape
    n_chains = n_views + (common is not None)
    every = [*chains, *([common] if common is not None else [])]
    total, broken, shared = 0.0, np.zeros((n, n_views)), np.zeros(n)
    none_good, labels = np.zeros(n), np.zeros_like(factors.prior)
    pairs = np.zeros((n_chains, n - 1, 2, 2))
    for states in product((0, 1), repeat=n * n_chains):
        s = np.array(states).reshape(n, n_chains)
        probability = 1.0
        for number, chain in enumerate(every):
            probability *= chain.stationary[s[0, number]]
            for step in range(1, n):
                moves = chain.transitions(gaps[step])
                probability *= moves[s[step - 1, number], s[step, number]]
        b = s[:, :n_views].copy()
        if common is not None:
            b |= s[:, -1:]
        scores = factors.prior + np.sum(
            np.where(b[:, :, None] == 1, factors.bad[:, :, None], factors.votes), axis=1
        )
        if common is not None and factors.at_once is not None:
            # Votes are as likely as if all sensors were good, and say nothing of the label.
            agreement = special.logsumexp(factors.prior + factors.votes.sum(axis=1), axis=1)
            agreement -= special.logsumexp(factors.prior, axis=1)
            at_once = factors.prior + (factors.at_once + agreement)[:, None]
            scores = np.where(s[:, -1:] == 1, at_once, scores)
        by_label = np.exp(scores)
        weight = probability * np.prod(by_label.sum(axis=1))
        total += weight
        broken += weight * b
        none_good += weight * b.all(axis=1)
        labels += weight * by_label / by_label.sum(axis=1, keepdims=True)
        if common is not None:
            shared += weight * s[:, -1]
        for step in range(1, n):
            pairs[np.arange(n_chains), step - 1, s[step - 1], s[step]] += weight
    return total, broken / total, shared / total, none_good / total, labels / total, pairs / total


def compared(factors, rates, stamps):
    """Largest differences of the inference from enumeration: probabilities, pairs, evidence."""
    sequences = sequences_of(len(factors.bad), stamps)
    found = infer(factors, rates, sequences)
    total, *expected, pairs = enumerated(factors, rates.chains, rates.common, sequences.gaps[0])
    ours = (found.broken, found.common, found.none_good, found.labels)
    probabilities = max(np.abs(a - b).max() for a, b in zip(ours, expected, strict=True))
    counts = max(
        np.abs(own.pairs.sum(axis=0) - other.sum(axis=0)).max()
        for own, other in zip(found.counts, pairs, strict=True)
    )
    return probabilities, counts, abs(found.log_evidence - np.log(total))


@pytest.mark.parametrize("common", [None, Chain(0.1, 0.6)])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_sample_of_its_own_is_exact_with_any_number_of_sensors(common, at_once):
    rng = np.random.default_rng(6)
    factors = random_factors(rng, 1, 8, n_classes=3)
    if at_once:  # readings that depend on each other
        factors = factors._replace(at_once=rng.normal(size=1))
    chains = tuple(Chain(*rng.uniform(0.05, 0.6, 2)) for _ in range(8))
    found = infer(factors, Rates(chains, common), sequences_of(1))
    total, *expected, _ = enumerated(factors, chains, common, np.zeros(1))
    for ours, theirs in zip(
        (found.broken, found.common, found.none_good, found.labels), expected, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert found.log_evidence == pytest.approx(np.log(total), abs=1e-9)


def test_chains_that_do_not_meet_are_exact():
    rng = np.random.default_rng(7)
    factors = random_factors(rng, 4, 3)
    mute = factors._replace(votes=np.zeros_like(factors.votes))
    chains = tuple(Chain(*rng.uniform(0.05, 0.6, 2)) for _ in range(3))
    assert max(compared(mute, Rates(chains), np.array([0, 1, 4, 5.0]))) < 1e-9
    alone = random_factors(rng, 6, 1)
    assert max(compared(alone, Rates((Chain(0.1, 0.7),)), np.arange(6.0))) < 1e-9


@pytest.mark.parametrize(
    ("n_steps", "n_views", "common"),
    [(4, 2, Chain(0.1, 0.6)), (3, 3, Chain(0.2, 0.3)), (4, 3, None)],
)
def test_chains_that_meet_in_labels_are_close_to_enumeration(n_steps, n_views, common):
    differences = []
    for seed in range(4):
        rng = np.random.default_rng((seed, n_steps, n_views))
        factors = random_factors(rng, n_steps, n_views, n_classes=3)
        if n_steps == 3:
            factors = factors._replace(at_once=rng.normal(size=n_steps))
        chains = tuple(Chain(*rng.uniform(0.05, 0.6, 2)) for _ in range(n_views))
        stamps = np.cumsum(rng.integers(1, 4, n_steps)).astype(float)
        differences.append(compared(factors, Rates(chains, common), stamps))
    probabilities, counts, evidence = np.array(differences).T
    assert probabilities.max() < 0.05
    assert np.median(probabilities) < 0.01
    assert counts.max() < 0.1
    assert evidence.max() < 0.05


def test_sequences_of_different_lengths_do_not_touch_each_other():
    rng = np.random.default_rng(0)
    factors = random_factors(rng, 9, 2)
    groups = np.array([0, 1, 0, 1, 1, 0, 2, 1, 1])
    rates = Rates((Chain(0.1, 0.7), Chain(0.3, 0.5)), Chain(0.1, 0.4))
    together = infer(factors, rates, sequences_of(9, groups=groups))
    evidence = 0.0
    for group in range(3):
        own = np.flatnonzero(groups == group)
        part = Factors(*(values[own] for values in factors[:3]))
        alone = infer(part, rates, sequences_of(len(own), np.arange(len(own)) * 1.0))
        np.testing.assert_allclose(together.broken[own], alone.broken, atol=1e-5)
        np.testing.assert_allclose(together.labels[own], alone.labels, atol=1e-5)
        evidence += alone.log_evidence
    assert together.log_evidence == pytest.approx(evidence, abs=1e-5)


def test_without_persistence_and_common_chain_samples_stand_alone():
    """Rate zero is the model without chains, in order or not."""
    rng = np.random.default_rng(1)
    factors = random_factors(rng, 12, 3)
    chains = tuple(Chain(share) for share in (0.05, 0.1, 0.2))
    in_order = infer(factors, Rates(chains, Chain(0.0)), sequences_of(12, np.arange(12.0)))
    alone = infer(factors, Rates(chains), sequences_of(12))
    np.testing.assert_allclose(in_order.broken, alone.broken, atol=1e-12)
    np.testing.assert_allclose(in_order.labels, alone.labels, atol=1e-12)


def test_one_view_without_chains_is_two_groups():
    rng = np.random.default_rng(2)
    nats, n = rng.normal(size=20), 20
    alone = Factors(nats[:, None], np.zeros((n, 1, 2)), np.log(np.full((n, 2), 0.5)))
    found = infer(alone, Rates((Chain(0.1),)), sequences_of(n))
    np.testing.assert_allclose(
        found.broken[:, 0], special.expit(nats + special.logit(0.1)), atol=1e-12
    )


def simulated_chain(chain, n, rng):
    states = np.zeros(n, dtype=int)
    states[0] = rng.random() < chain.share
    moves = chain.transitions(1.0)
    for step in range(1, n):
        states[step] = rng.random() < moves[states[step - 1], 1]
    return states


@pytest.mark.slow
def test_rates_come_back_and_bursts_help():
    rng = np.random.default_rng(4)
    true = [Chain(0.1, 0.8), Chain(0.2, 0.9)]
    common = Chain(0.05, 0.8)
    n, n_sequences = 3000, 20
    own = np.column_stack([simulated_chain(chain, n, rng) for chain in true])
    shared = simulated_chain(common, n, rng)
    broken = own | shared[:, None]
    # A normal reading that is shifted by 2 when broken: log B is its likelihood ratio.
    nats = 2.0 * (rng.normal(size=broken.shape) + 2.0 * broken) - 2.0
    factors = Factors(nats, np.zeros((n, 2, 2)), np.log(np.full((n, 2), 0.5)))
    # Cut into sequences, whose steps are taken at once.
    sequences = sequences_of(n, np.arange(n) * 1.0, np.arange(n) * n_sequences // n)
    start = first_rates(2, bursts=True, shared=True)
    rates, found = learn_rates(factors, start, sequences, bursts=True)
    for chain, expected in zip(rates.every, (*true, common), strict=True):
        assert chain.share == pytest.approx(expected.share, rel=0.5)
        assert chain.persistence == pytest.approx(expected.persistence, abs=0.12)
    alone = learn_rates(
        factors, first_rates(2, bursts=False, shared=False), sequences_of(n), bursts=False
    )[1]
    uncut = infer(factors, rates, sequences_of(n, np.arange(n) * 1.0))
    errors = [np.mean((f.broken > 0.5) != broken) for f in (found, uncut, alone)]
    assert max(errors[:2]) < 0.6 * errors[2]


def test_the_m_step_raises_its_objective_whatever_the_gaps():
    rng = np.random.default_rng(5)
    gaps = rng.uniform(0.5, 3.0, 60)
    counts = Counts(
        rng.dirichlet(np.ones(2), 3).sum(axis=0),
        rng.dirichlet(np.ones(4), 60).reshape(60, 2, 2),
        gaps,
    )

    def value(chain):
        moves = np.log(chain.transitions(counts.gaps))
        return (
            counts.first @ np.log(chain.stationary) + np.sum(counts.pairs * moves) + chain.log_prior
        )

    start = Chain(0.3, 0.4)
    best = likeliest(counts, start)
    assert value(best) >= value(start)
    for share, persistence in product((0.2, 0.4, 0.5, 0.6), (0.05, 0.2, 0.5, 0.9)):
        assert value(best) >= value(Chain(share, persistence)) - 1e-6


def test_parts_of_a_long_recording_are_walked_as_the_whole(monkeypatch):
    rng = np.random.default_rng(0)
    factors = random_factors(rng, 700, 3)
    factors = factors._replace(bad=4.0 * factors.bad - 3.0)
    groups = np.repeat([0, 1, 2], [400, 250, 50])
    order = np.cumsum(rng.choice([1.0, 1.0, 2.5, 9.0], 700))
    sequences = sequences_of(700, order, groups)
    rates = Rates((Chain(0.05, 0.9), Chain(0.2, 0.0), Chain(0.01, 0.999)), Chain(0.02, 0.8))
    in_parts = infer(factors, rates, sequences)
    monkeypatch.setattr("gemmed.sensors.chains.MIN_SPLIT_STEPS", 10_000)
    whole = infer(factors, rates, sequences)
    for name in ("broken", "common", "labels"):
        np.testing.assert_allclose(getattr(in_parts, name), getattr(whole, name), atol=1e-12)
    assert in_parts.log_evidence == pytest.approx(whole.log_evidence, abs=1e-8)
    for own, other in zip(in_parts.counts, whole.counts, strict=True):
        np.testing.assert_allclose(own.pairs, other.pairs, atol=1e-9)
        np.testing.assert_allclose(own.first, other.first, atol=1e-12)
