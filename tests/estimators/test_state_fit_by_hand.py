"""Steps of the fit of states against numbers worked out apart from the code."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from gemmed.estimators.base_member import (
    copies_of,
    fit_with_states,
    held_out_scores,
    log_votes,
    order_of,
    sets_held_out,
    votes_of_copies,
)
from gemmed.estimators.fit_settings import Labelled
from gemmed.estimators.gemmed import GEMMEDClassifier
from gemmed.estimators.state_fit import (
    apply_prior,
    checked,
    class_constraints,
    confusion_of,
    prior_log_odds,
    widened,
)
from gemmed.evidence.measurements import Measurements
from gemmed.model.states.posterior import Share


def labelled(class_index, prior=None, known=None, weights=None, n_classes=2):
    class_index = np.array(class_index)
    n = len(class_index)
    return Labelled(
        np.arange(n_classes),
        np.where(class_index == 1, 1.0, -1.0),
        class_index,
        np.ones(n) if weights is None else np.array(weights),
        np.full(n, 0.95) if prior is None else np.array(prior),
        None,
        None if known is None else np.array(known),
    )


def test_intervals_grow_by_what_the_nats_leave_open():
    posterior = SimpleNamespace(
        bad_share=Share(0.1, 0.08, 0.12), either_share=Share(0.2, 0.15, 0.25)
    )
    measurements = Measurements(np.zeros(1), np.zeros(1), (0.01, 0.2))
    bad, either = widened(posterior, measurements)
    assert bad == pytest.approx((0.01, 0.2))
    assert either == pytest.approx((0.15 - (0.08 - 0.01), 0.25 + (0.2 - 0.12)))
    narrow = Measurements(np.zeros(1), np.zeros(1), (0.09, 0.1))
    assert widened(posterior, narrow) == ((0.08, 0.12), (0.15, 0.25))


def test_confusion_counts_the_weights_of_given_labels():
    true_label = np.array([[0.8, 0.2], [0.4, 0.6], [0.1, 0.9]])
    found = confusion_of(true_label, labelled([0, 0, 1], weights=[1.0, 3.0, 2.0]))
    np.testing.assert_allclose(found, [[2.0 / 4.0, 2.0 / 4.0], [0.1, 0.9]])


def test_multipliers_of_the_constraints_give_the_nats_back():
    """Nats for "bad" are (mu d - kappa) / N, and bounds are what the kept samples attain."""
    nats, weights = np.array([-2.0, 0.5, 3.0]), np.array([1.0, 2.0, 1.0])
    true_label = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]])
    bad = np.array([0.1, 0.2, 0.9])
    found = SimpleNamespace(
        true_label=true_label,
        measurements=Measurements(nats, bad),
        state_proba=np.column_stack([1 - bad, 0 * bad, bad]),
    )
    problem = class_constraints(found, weights)
    for mu, kappa in zip(problem.entropy_duals, problem.coverage_duals, strict=True):
        np.testing.assert_allclose((mu * problem.statistic - kappa) / 4.0, nats)
    assert problem.statistic.min() == 0.0
    assert np.all(problem.coverage_duals > 0.0)
    kept = (weights * (1.0 - bad))[:, None] * true_label
    np.testing.assert_allclose(problem.coverage, kept.sum(axis=0) / 4.0)
    entropy = (kept * problem.statistic[:, None]).sum(axis=0) / 4.0
    np.testing.assert_allclose(problem.entropy_bounds, entropy)


def test_prior_log_odds():
    """The usual prior of 0.95 says nothing; others move log-odds; 0 and 1 are certain."""
    samples = labelled([0, 0, 1, 1, 1], [0.95, 0.99, 1.0, 0.0, 0.0], [-1, -1, -1, -1, 0])
    log_odds = np.log([1.0, 99.0 / 19.0])
    np.testing.assert_allclose(prior_log_odds(samples)[:2], log_odds, atol=1e-12)
    np.testing.assert_array_equal(prior_log_odds(samples)[2:], [np.inf, -np.inf, -np.inf])
    np.testing.assert_array_equal(checked(samples), [0, 0, 1, -1, -1])
    assert checked(labelled([0, 1])) is None
    nominal = np.array([0.5, 0.5, 0.2, 0.2, 0.2])
    wrong, bad = np.array([0.3, 0.3, 0.6, 0.6, 0.8]), np.array([0.2, 0.2, 0.2, 0.2, 0.0])
    posterior = SimpleNamespace(
        nominal=nominal,
        states=np.column_stack([nominal, wrong, bad]),
        true_label=np.array([[0.6, 0.4], [0.6, 0.4], [0.7, 0.3], [0.7, 0.3], [0.8, 0.2]]),
    )
    states, true_label = apply_prior(posterior, samples)
    total = 0.5 * 99.0 / 19.0 + 0.5
    expected = [
        [0.5, 0.3, 0.2],
        [1.0 - 0.5 / total, 0.3 / total, 0.2 / total],
        [1.0, 0.0, 0.0],
        [0.0, 0.75, 0.25],
        [0.0, 1.0, 0.0],
    ]
    np.testing.assert_allclose(states, expected, atol=1e-12)
    # Without "nominal", the first two rows have 0.1 of their own label and 0.4 of the other.
    other = 0.8 * 0.5 / total
    expected = [[0.6, 0.4], [1.0 - other, other], [0.0, 1.0], [7 / 8, 1 / 8], [1.0, 0.0]]
    np.testing.assert_allclose(true_label, expected, atol=1e-12)


def test_votes_are_smoothed_by_half_a_vote_of_seventy():
    found = log_votes(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))
    expected = np.log(np.array([[70.5, 0.5, 0.5], [35.5, 35.5, 0.5]]) / 71.5)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("n_values", [2, 1000])
@pytest.mark.parametrize("n_keys", [1, 2, 5])
def test_rows_are_sorted_by_all_keys(n_values, n_keys):
    keys = np.random.default_rng(0).integers(n_values, size=(n_keys, 300)).astype(float)
    np.testing.assert_array_equal(order_of(tuple(keys)), np.lexsort(keys))


def test_rows_of_a_group_and_equal_rows_are_held_out_together():
    X = np.array([[0.0], [1.0], [1.0], [2.0], [3.0]])
    np.testing.assert_array_equal(sets_held_out(copies_of(X), None), [0, 1, 1, 2, 3])
    np.testing.assert_array_equal(copies_of(X[::-1]), [3, 2, 1, 1, 0])
    together = sets_held_out(copies_of(X), np.array(["a", "b", "c", "c", "d"]))
    np.testing.assert_array_equal(together, [0, 1, 1, 1, 2])


def test_copies_vote_about_each_other_only_if_some_were_labelled_anew():
    copies = np.array([0, 0, 0, 1, 2, 2])
    scores = votes_of_copies(copies, np.array([0, 0, 1, 1, 1, 1]), np.ones(6), 2)
    votes = [[1, 1], [1, 1], [2, 0], [0, 0], [0, 1], [0, 1]]
    np.testing.assert_allclose(np.exp(scores) - 0.25, votes, atol=1e-12)
    assert not np.any(votes_of_copies(copies, np.array([0, 0, 0, 1, 1, 1]), np.ones(6), 2))


def test_votes_of_copies_count_by_weight_and_bad_measurements_have_none():
    copies, labels = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 0, 1])
    scores = votes_of_copies(copies, labels, np.array([2.0, 1.0, 3.0, 0.0, 0.0]), 2)
    votes = [[1, 3], [2, 3], [3, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(np.exp(scores) - 0.25, votes, atol=1e-12)


def test_held_out_scores_are_those_of_fits_to_the_other_parts():
    """A nearest neighbour that had seen a row would always be right about it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    base = KNeighborsClassifier(1)
    votes = np.exp(held_out_scores(base, X, y, np.ones(60), None, 0, 3)) * 71.5 - 0.5
    np.testing.assert_allclose(votes.sum(axis=1), 70.0)
    assert np.mean(np.argmax(votes, axis=1) == y) < 0.6
    copies = held_out_scores(base, np.tile(X, (2, 1)), np.tile(y, 2), np.ones(120), None, 0, 3)
    assert np.mean(np.argmax(copies, axis=1) == np.tile(y, 2)) < 0.6


def test_a_base_is_fitted_to_every_likely_label_with_its_probability():
    """Labels of less than 0.05 of the largest weight are left out."""
    rng = np.random.default_rng(1)
    X, first = rng.normal(size=(40, 2)), rng.uniform(size=40)
    first[:4] = 0.02, 0.04, 0.96, 0.98
    X[:, 0] += 3.0 * (first > 0.5)
    weights = rng.uniform(0.5, 1.0, size=40)
    true_label = np.column_stack([first, 1.0 - first])
    found = fit_with_states(LogisticRegression(), X, None, true_label, weights, 0)
    joint = (weights[:, None] * true_label).ravel()
    used = joint > 0.05 * weights.max()
    assert 4 <= np.sum(~used) < 20
    twice, labels = np.repeat(X, 2, axis=0), np.tile([0, 1], 40)
    expected = LogisticRegression().fit(twice[used], labels[used], sample_weight=joint[used])
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-4)
    plain = fit_with_states(KNeighborsClassifier(1), X, None, true_label, weights, 0)
    good = weights > 0.5 * weights.max()
    np.testing.assert_array_equal(plain.predict(X[good]), np.argmax(true_label[good], axis=1))
    assert plain.n_samples_fit_ == good.sum()
    assert fit_with_states(GaussianNB(), X, None, true_label, weights, 0).class_count_.sum() == (
        pytest.approx(joint[used].sum())
    )


def test_a_wild_value_does_not_set_the_unit_of_the_scores():
    """Else a linear member, right about all other rows, would get hardly any weight."""
    rng = np.random.default_rng(3)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 8))
    X[:, :2] += 1.5 * y[:, None]
    slopes = []
    for value in (0.0, 1e4):
        X[5, 5] = value
        model = GEMMEDClassifier(kernel="linear", n_neighbors=5).fit(X, y)
        slopes.append(model.probability_slope_ * np.linalg.norm(model._function.weights))
    assert slopes[1] > 0.5 * slopes[0]
