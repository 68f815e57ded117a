"""What holds for every estimator and all data: drawn by hypothesis."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from sklearn.base import clone

from attack.estimators import CLASSIFIERS, ESTIMATORS, TAKES, WEIGHTED, cases, check
from gemmed import GEMDetector, GEMMEDClassifier, MEDClassifier, RampSVC, TrimmedSVC

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + np.repeat([[0.0], [2.0]], 20, axis=0)
Y = np.repeat([0, 1], 20)


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(cases())
def test_a_fit_is_refused_and_leaves_nothing_or_is_sound_and_the_same_again(case):
    check(case)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_failed_refit_leaves_the_last_model(name):
    """Labels of new data on the function of the old ones would be a third model."""
    model = clone(ESTIMATORS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
        before, values = dict(vars(model)), model.predict(X)
        wide = np.column_stack([X, X])
        failures = [
            (np.full((40, 3), np.nan), np.array(["a", "b"] * 20)),
            (np.ones((40, 5)), np.array(["a", "b"] * 20)),
            (wide[:1], np.array(["a"])),
        ]
        for bad, labels in failures:
            with pytest.raises(ValueError, match=r"."):
                model.fit(bad, labels)
            assert vars(model).keys() == before.keys()
            assert all(vars(model)[key] is before[key] for key in before)
    assert np.array_equal(model.predict(X), values)


@pytest.mark.parametrize("name", ["rod", "ramp", "trimmed", "two-stage", "med", "states", "paper"])
def test_a_fit_that_fails_late_leaves_the_last_model(name, monkeypatch):
    """After labels and functions have been stored."""
    model = clone(CLASSIFIERS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = model.fit(X, Y).decision_function(X)

        def interrupted(*_, **__):
            raise KeyboardInterrupt

        places = {
            "rod": "gemmed.paper.baselines.rod.fit_slope",
            "ramp": "gemmed.paper.baselines.ramp.fit_slope",
            "trimmed": "gemmed.paper.baselines.ramp.fit_slope",
            "two-stage": "gemmed.estimators.med.MEDClassifier.fit",
            "med": "gemmed.estimators.kernel_classifier.fit_slope",
            "states": "gemmed.estimators.state_fit.function_of_solution",
            "paper": "gemmed.estimators.kernel_classifier.fit_slope",
        }
        monkeypatch.setattr(places[name], interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(np.column_stack([X, X]), np.repeat(["x", "y"], 20))
    assert np.array_equal(model.decision_function(X), values)
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("name", sorted(WEIGHTED))
@pytest.mark.parametrize("weight", [1e4, pytest.param(1e8, marks=pytest.mark.slow), 1e12])
def test_converged_means_converged_with_large_weights(name, weight):
    model = clone(CLASSIFIERS[name])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y, sample_weight=np.full(40, weight))
    assert np.all(np.isfinite(model.decision_function(X)))
    if not np.all(model.converged_):
        assert any("converg" in str(warning.message) for warning in caught)
    else:
        assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("kind", [GEMMEDClassifier, MEDClassifier, RampSVC, TrimmedSVC])
def test_weights_that_leave_no_digits_are_refused(kind):
    with pytest.raises(ValueError, match=r"sample_weight holds 1e\+200, at most 1e\+12"):
        kind().fit(X, Y, sample_weight=np.full(40, 1e200))


@pytest.mark.parametrize("name", sorted(TAKES))
def test_priors_that_trust_nobody_are_refused(name):
    with pytest.raises(ValueError, match="prior_nominal is 0 for every sample"):
        clone(CLASSIFIERS[name]).fit(X, Y, prior_nominal=np.zeros(40))
    weights = np.repeat([[1.0, 0.0]], 20, axis=0).ravel()
    with pytest.raises(ValueError, match="prior_nominal is 0 for every sample"):
        clone(CLASSIFIERS[name]).fit(X, Y, sample_weight=weights, prior_nominal=1.0 - weights)


@pytest.mark.parametrize("labels", [[1, "a"], [None, "a"], [1.5, "b"]])
def test_labels_without_an_order_are_named(labels):
    y = np.array(labels * 20, dtype=object)
    with pytest.raises(ValueError, match="y mixes labels of the types"):
        GEMDetector().fit(X, y)
    detector = GEMDetector(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"y mixes labels|not among the classes"):
        detector.score_samples(X, y)


def test_many_small_classes_give_one_warning_of_a_kind():
    many = np.repeat(np.arange(20), 4)
    points = np.random.default_rng(0).normal(size=(80, 2)) + 9.0 * many[:, None]
    for model in (GEMMEDClassifier(gamma=0.1, random_state=0), GEMDetector(random_state=0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(points, many)
        kinds = [warning.category for warning in caught]
        assert len(kinds) == len(set(kinds))
        assert "(and 19 more warnings like this)" in str(caught[0].message)
        assert caught[0].filename == __file__
