"""The shares of the classes are counted once, not once per sensor."""

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from gemmed import SensorGEMMEDClassifier
from gemmed.model.states.label_model import centred_scores
from gemmed.sensors.sensor_fit import intercepts_of, votes_of


def test_mean_probabilities_of_a_sensor_are_the_class_shares():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2, 500, 2)) + np.array([2.0, 0.0])  # leans to the first class
    log_prior, slopes = np.log([0.9, 0.1]), np.array([1.0, 0.5])
    present = np.ones((500, 2), dtype=bool)
    intercepts = intercepts_of(scores, slopes, log_prior, present)
    logits = centred_scores(scores) * slopes[:, None, None] + intercepts[:, None]
    assert np.allclose(special.softmax(logits, axis=2).mean(axis=1), [0.9, 0.1], atol=1e-4)


def test_a_sensor_without_information_does_not_vote():
    scores = np.tile([1.5, -1.5], (1, 20, 1))
    log_prior, slopes = np.log([0.8, 0.2]), np.ones(1)
    present = np.ones((20, 1), dtype=bool)
    intercepts = intercepts_of(scores, slopes, log_prior, present)
    votes = votes_of(scores, slopes, intercepts, log_prior, present)
    assert np.allclose(votes, 0.0, atol=1e-5)


@pytest.mark.parametrize(("n_sensors", "share"), [(2, 0.1), (2, 0.05)])
def test_rare_classes_are_found_as_by_logistic_regression(n_sensors, share):
    """Gaussian classes of the same covariance: logistic regression is the right model."""

    def data(n):
        y = (rng.random(n) < share).astype(int)
        shift = 2.4 / np.sqrt(3 * n_sensors)
        return rng.normal(size=(n, 3 * n_sensors)) + shift * y[:, None], y

    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = data(500), data(5000)
    model = SensorGEMMEDClassifier(views=n_sensors, random_state=0).fit(X, y)
    other = LogisticRegression(C=1e3, max_iter=1000).fit(X, y)
    ours, theirs = (balanced_accuracy_score(y_test, m.predict(X_test)) for m in (model, other))
    assert ours > theirs - 0.025  # the standard error of one draw is about 0.015


def test_good_sensors_whose_errors_cancel_are_not_broken():
    """Together they know the label almost surely, each of them does not."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    common = rng.normal(size=600)
    X = np.column_stack([y + common, y - common, y + 0.5 * common]) + 0.1 * rng.normal(
        size=(600, 3)
    )
    model = SensorGEMMEDClassifier(views=3, random_state=0).fit(X[:300], y[:300])
    assert np.mean(model.broken_proba_ > 0.5) < 0.01
    assert np.mean(model.screen(X[300:]).broken) < 0.01
    assert model.score(X[300:], y[300:]) > 0.9


@pytest.mark.parametrize("expected", ["linear", "rbf"])
def test_all_sensors_have_the_kernel_that_predicts_better(expected):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 6))
    if expected == "linear":
        y = (rng.random(240) < 0.3).astype(int)
        X += 0.8 * y[:, None]
    else:
        y = (np.sum(X**2, axis=1) > 5.3).astype(int)
    model = SensorGEMMEDClassifier(views=3, indicators=False, random_state=0).fit(X, y)
    assert {own.function.kernel.name for own in model._fit.functions} == {expected}
