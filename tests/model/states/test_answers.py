"""Several answers a sample: draws against enumeration, weights, known labels, shared errors."""

import itertools

import numpy as np
import pytest
from scipy import integrate, special

from gemmed.model.states import answers as module
from gemmed.model.states.answers import (
    Answers,
    accuracies_of,
    counts_of,
    infer_labels,
    majority,
)

PRIOR = np.array([[3.0, 1.0], [1.5, 2.5]])


def given(matrix, *, weights=None, known=None, n_classes=2):
    """Answers of a matrix, -1 where there is none."""
    matrix = np.asarray(matrix)
    sample, annotator = np.nonzero(matrix >= 0)
    n = len(matrix)
    return Answers(
        sample,
        annotator,
        matrix[sample, annotator],
        matrix.shape[1],
        n_classes,
        np.ones(n) if weights is None else np.asarray(weights, dtype=float),
        np.full(n, -1) if known is None else np.asarray(known),
    )


def enumerated(answers, log_prior):
    """P(true label) by a sum over all labels of all samples, with the rates integrated out."""
    labels = np.zeros((answers.n_samples, 2))
    logs, every = [], []
    for true in itertools.product(range(2), repeat=answers.n_samples):
        true = np.array(true)
        if np.any((answers.known >= 0) & (answers.known != true)):
            continue
        counts = counts_of(answers, np.eye(2)[true])
        log_evidence = special.gammaln(counts + PRIOR) - special.gammaln(PRIOR)
        totals = special.gammaln(counts.sum(axis=2) + PRIOR.sum(axis=1))
        logs.append(log_prior[np.arange(len(true)), true].sum() + log_evidence.sum() - totals.sum())
        every.append(true)
    for weight, true in zip(special.softmax(logs), every, strict=True):
        labels += weight * np.eye(2)[true]
    return labels


@pytest.mark.parametrize("known", [None, [-1, 1, -1, -1, 0]])
def test_draws_are_those_of_the_exact_posterior(monkeypatch, known):
    matrix = [[0, 0, 1], [1, 0, -1], [1, 1, 1], [0, -1, 1], [1, 0, 1]]
    answers = given(matrix, known=known)
    log_prior = np.log([[0.6, 0.4], [0.5, 0.5], [0.3, 0.7], [0.5, 0.5], [0.8, 0.2]])
    monkeypatch.setattr(module, "common_prior", lambda counts: PRIOR)
    monkeypatch.setattr(module, "N_SWEEPS", 6000)
    found = infer_labels(answers, log_prior)
    drawn, as_if_unknown, _ = module._draws(answers, found, np.random.default_rng(0))
    exact = enumerated(answers, log_prior)
    np.testing.assert_allclose(np.eye(2)[np.array(drawn)].mean(axis=0), exact, atol=0.03)
    np.testing.assert_allclose(found.labels, exact, atol=0.1)  # variational
    if known is not None:
        np.testing.assert_array_equal(found.labels[[1, 4]], [[0.0, 1.0], [1.0, 0.0]])
        # Known labels: what the other samples and answers say of them.
        for row in (1, 4):
            open_again = answers._replace(known=np.where(np.arange(5) == row, -1, answers.known))
            other = enumerated(open_again, log_prior)[row]
            np.testing.assert_allclose(as_if_unknown[row], other, atol=0.15)


def test_a_sample_of_weight_two_is_two_samples_and_one_of_weight_zero_is_none(monkeypatch):
    monkeypatch.setattr(module, "MAX_SETTLED_CHANGE", 1e-10)
    monkeypatch.setattr(module, "MAX_ROUNDS", 2000)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 40)
    is_right = rng.random((40, 4)) < 0.75
    matrix = np.where(is_right, truth[:, None], rng.integers(0, 3, (40, 4)))
    matrix[rng.random((40, 4)) < 0.2] = -1
    weights = np.where(np.arange(40) < 10, 2.0, 1.0)
    weights[-5:] = 0.0
    times = weights.astype(int)
    once = infer_labels(given(matrix, weights=weights, n_classes=3))
    twice = infer_labels(given(np.repeat(matrix, times, axis=0), n_classes=3))
    np.testing.assert_allclose(once.rates, twice.rates, atol=1e-7)
    np.testing.assert_allclose(np.repeat(once.labels, times, axis=0), twice.labels, atol=1e-7)
    # With labels that are certain the draws differ by chance alone.
    monkeypatch.setattr(module, "N_SWEEPS", 5000)
    answers = given(matrix, weights=weights, known=truth, n_classes=3)
    repeated = given(np.repeat(matrix, times, axis=0), known=np.repeat(truth, times), n_classes=3)
    first, second = (
        accuracies_of(own, infer_labels(own), np.random.default_rng(1))
        for own in (answers, repeated)
    )
    assert first.correlation == pytest.approx(second.correlation, abs=0.01)
    np.testing.assert_allclose(first.mean, second.mean, atol=0.006)
    np.testing.assert_allclose(first.lower, second.lower, atol=0.01)
    np.testing.assert_allclose(first.upper, second.upper, atol=0.01)


def test_rates_are_counts_with_the_prior_where_all_labels_are_known():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 60)
    matrix = np.where(rng.random((60, 3)) < 0.7, truth[:, None], 1 - truth[:, None])
    answers = given(matrix, known=truth)
    found = infer_labels(answers)
    counts = np.array(
        [[[np.sum((truth == t) & (m == y)) for y in (0, 1)] for t in (0, 1)] for m in matrix.T]
    )
    pseudo = counts + module.common_prior(counts)
    np.testing.assert_allclose(found.rates, pseudo / pseudo.sum(axis=2, keepdims=True))
    judged = accuracies_of(answers, found, np.random.default_rng(0))
    right = (matrix == truth[:, None]).sum(axis=0)
    # Beta posteriors near the common mean; labels are certain and no shared error is left.
    mean = (right + 4 * right.mean() / 60) / 64
    np.testing.assert_allclose(judged.mean, mean, atol=0.015)
    np.testing.assert_array_equal(judged.labels, np.eye(2)[truth])


def confusing(seed, *, n=500, share=0.3):
    """Some samples look like the other class to everybody, and less clearly so."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    is_shared = rng.random(n) < share
    seen = np.where(is_shared, 1 - truth, truth)
    right = rng.random((n, 6)) < np.where(is_shared, 0.7, 0.85)[:, None]
    return np.where(right, seen[:, None], 1 - seen[:, None]), truth, rng


def test_known_labels_give_the_posterior_of_shared_errors():
    matrix, truth, rng = confusing(0)
    known = np.where(rng.random(len(truth)) < 0.2, truth, -1)
    answers = given(matrix, known=known)
    labels = module._draws(answers, infer_labels(answers), rng)[1]
    other = module._other_labels(answers, labels)
    correlations = np.full(100, 0.05)
    low, mean, high = module._chi_quantiles(answers, labels, other, correlations)
    bound = 0.5 * (1.0 - module._pair_agreement(answers))
    rows = np.flatnonzero(known >= 0)

    def likelihood(chi):
        p, r = labels[rows], np.minimum(chi * other[rows].sum(axis=1), 0.5)
        moved = (1.0 - r[:, None]) * p + r[:, None] * (
            other[rows] / other[rows].sum(axis=1)[:, None]
        )
        return np.exp(np.log(moved[np.arange(len(rows)), known[rows]]).sum() + 60.0)

    total = integrate.quad(likelihood, 0.0, bound)[0]
    exact = integrate.quad(lambda chi: chi * likelihood(chi), 0.0, bound)[0] / total
    assert mean == pytest.approx(exact, rel=0.01)
    for end, share in ((low, 0.05), (high, 0.95)):
        assert integrate.quad(likelihood, 0.0, end)[0] / total == pytest.approx(share, abs=0.02)
    nobody = answers._replace(known=np.full(len(truth), -1))
    found = module._chi_quantiles(nobody, labels, other, correlations)
    np.testing.assert_allclose(found, [0.05 * bound, 0.5 * bound, 0.95 * bound], atol=0.01 * bound)


def with_known_labels(matrix, truth, n_known, rng):
    """Accuracies found with so many known labels, and the true ones."""
    known = np.full(len(truth), -1)
    rows = rng.permutation(len(truth))[:n_known]
    known[rows] = truth[rows]
    answers = given(matrix, known=known)
    judged = accuracies_of(answers, infer_labels(answers), np.random.default_rng(0))
    return judged, (matrix == truth[:, None]).mean(axis=0)


def test_known_labels_narrow_the_intervals_of_annotators_who_err_independently():
    widths = np.zeros(3)
    for seed in range(4):
        matrix, truth, rng = confusing(10 + seed, n=300, share=0.0)
        for position, n_known in enumerate((0, 90, 270)):
            judged, accuracy = with_known_labels(matrix, truth, n_known, rng)
            widths[position] += np.mean(judged.upper - judged.lower)
            assert np.all((judged.lower <= accuracy) & (accuracy <= judged.upper))
    assert widths[1] < 0.95 * widths[0] and widths[2] < 0.9 * widths[1]


def test_known_labels_reveal_errors_that_all_share():
    hits, errors = [], []
    for seed in range(4):
        matrix, truth, rng = confusing(10 + seed, n=300, share=0.3)
        for n_known in (0, 100):
            judged, accuracy = with_known_labels(matrix, truth, n_known, rng)
            hits.append((judged.lower <= accuracy) & (accuracy <= judged.upper))
            errors.append(np.mean(np.abs(judged.mean - accuracy)))
    hits, errors = np.reshape(hits, (4, 2, 6)), np.reshape(errors, (4, 2)).mean(axis=0)
    assert np.mean(hits[:, 1]) > 0.85 > np.mean(hits[:, 0])
    assert errors[1] < 0.5 * errors[0]


def test_samples_without_answers_do_not_change_the_others():
    matrix, _, _ = confusing(0, n=200)
    answers = given(matrix)
    more = answers._replace(weights=np.ones(900), known=np.full(900, -1))
    labels = np.full((900, 2), 0.5)
    labels[:200] = majority(answers)
    np.testing.assert_allclose(
        module._other_labels(more, labels)[:200], module._other_labels(answers, labels[:200])
    )


def test_one_annotator_leaves_nothing_to_say_of_shared_errors():
    answers = given([[0], [1], [1], [0]])
    judged = accuracies_of(answers, infer_labels(answers), np.random.default_rng(0))
    assert np.isnan(judged.correlation) and judged.shared_errors == 0.0
    np.testing.assert_array_equal(majority(answers), np.eye(2)[[0, 1, 1, 0]])
