"""GenerativeMEDClassifier and OracleMEDClassifier: what users see."""

import pickle

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed import GenerativeMEDClassifier, OracleMEDClassifier
from gemmed._core.exceptions import DegenerateDataError

IRIS = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def overlapping():
    return make_classification(
        300, 4, n_informative=3, n_redundant=0, class_sep=0.6, flip_y=0.1, random_state=0
    )


def corrupted(seed=0):
    """Iris with twelve rows broken, and which ones."""
    X, y = IRIS[0].copy(), IRIS[1]
    rng = np.random.default_rng(seed)
    anomalous = np.zeros(150, dtype=bool)
    anomalous[rng.choice(150, 12, replace=False)] = True
    X[anomalous] += rng.normal(0.0, 6.0, size=(12, 4))
    return X, y, anomalous


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        GenerativeMEDClassifier(),
        GenerativeMEDClassifier("diagonal", generative_weight=0.0, rule="log_likelihood"),
        OracleMEDClassifier(),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


class TestGenerative:
    @pytest.mark.parametrize("covariance", ["full", "diagonal"])
    @pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
    def test_every_fit_has_a_certificate(self, overlapping, covariance, weight):
        X, y = overlapping
        model = GenerativeMEDClassifier(covariance, generative_weight=weight).fit(X, y)
        assert model.converged_
        assert -1e-9 <= model.duality_gap_ <= 1e-6 * max(1.0, abs(model.dual_value_))
        assert np.all((model.margin_duals_ >= 0) & (model.margin_duals_ < model.C))
        assert model.margin_duals_.any()

    def test_without_violations_it_is_bayesian_discriminant_analysis(self):
        """With a vague prior and many samples it is scikit-learn's QDA."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 2000, axis=0)
        y = np.repeat([0, 1], 2000)
        model = GenerativeMEDClassifier(prior_strength=1e-3, rule="log_likelihood").fit(X, y)
        assert not model.margin_duals_.any() and model.dual_value_ == pytest.approx(0.0)
        qda = QuadraticDiscriminantAnalysis().fit(X, y)
        new = rng.normal(4.5, 2.0, size=(50, 2))
        np.testing.assert_allclose(
            model.decision_function(new), qda.decision_function(new), rtol=5e-3, atol=0.05
        )

    def test_margins_are_worth_something(self, overlapping):
        """Against the same classes without constraints (C -> 1 demands no margin)."""
        X, y = overlapping
        train, test = slice(200), slice(200, 300)
        plain = GenerativeMEDClassifier(C=1.0 + 1e-9).fit(X[train], y[train])
        model = GenerativeMEDClassifier().fit(X[train], y[train])
        assert model.score(X[train], y[train]) > plain.score(X[train], y[train])
        assert model.score(X[test], y[test]) >= plain.score(X[test], y[test])

    @pytest.mark.parametrize("rule", ["likelihood", "log_likelihood"])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_probabilities_and_predictions_agree(self, rule, n_classes):
        X, y = IRIS[0][: 50 * n_classes], IRIS[1][: 50 * n_classes]
        model = GenerativeMEDClassifier(rule=rule).fit(X, y)
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert np.array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
        values = model.decision_function(X)
        assert values.shape == ((100,) if n_classes == 2 else (150, 3))
        if n_classes == 2:
            np.testing.assert_allclose(special.expit(values), proba[:, 1])

    def test_two_rules_of_prediction(self):
        """The likelihood integrated, or its logarithm: Jensen's inequality for each class."""
        X, y = IRIS
        model = GenerativeMEDClassifier().fit(X, y)
        other = clone(model).set_params(rule="log_likelihood").fit(X, y)
        assert np.all(model.decision_function(X) > other.decision_function(X))

    def test_sample_weights_count_copies(self, overlapping):
        X, y = overlapping
        weights = np.random.default_rng(0).integers(0, 3, len(X))
        weighted = GenerativeMEDClassifier(tol=1e-10).fit(X, y, weights)
        copied = GenerativeMEDClassifier(tol=1e-10).fit(
            np.repeat(X, weights, axis=0), np.repeat(y, weights)
        )
        np.testing.assert_allclose(
            weighted.decision_function(X), copied.decision_function(X), atol=1e-5
        )
        assert not weighted.margin_duals_[weights == 0].any()

    def test_units_do_not_matter(self):
        X, y = IRIS
        factors = np.array([1e-3, 1.0, 1e4, 10.0])
        plain = GenerativeMEDClassifier(tol=1e-10).fit(X, y)
        moved = GenerativeMEDClassifier(tol=1e-10).fit(X * factors + 7.0, y)
        np.testing.assert_allclose(
            moved.predict_proba(X * factors + 7.0), plain.predict_proba(X), atol=1e-6
        )
        np.testing.assert_allclose(moved.means_, plain.means_ * factors + 7.0, rtol=1e-6)

    @pytest.mark.parametrize("covariance", ["full", "diagonal"])
    @pytest.mark.parametrize(
        "case", ["more features than samples", "constant column", "one sample", "repeated rows"]
    )
    def test_degenerate_data(self, case, covariance):
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1], [6, 6])
        X = rng.normal(size=(12, 40 if case.startswith("more") else 3)) + y[:, None]
        if case == "constant column":
            X[:, 1] = 0.1
        if case == "one sample":
            y = np.append(np.zeros(11, dtype=int), 1)
        if case == "repeated rows":
            X = np.where(y[:, None] == 1, 1.0, X)
        model = GenerativeMEDClassifier(covariance).fit(X, y)
        assert model.converged_ and np.isfinite(model.decision_function(X)).all()

    def test_all_samples_the_same_point(self):
        with pytest.raises(DegenerateDataError, match="identical"):
            GenerativeMEDClassifier().fit(np.ones((6, 2)), [0, 1] * 3)

    @pytest.mark.parametrize(
        "parameter",
        [
            {"covariance": "tied"},
            {"C": 1.0},
            {"bias_variance": -1.0},
            {"prior_strength": 0.0},
            {"generative_weight": -0.5},
            {"rule": "mean"},
            {"max_iter": 0},
            {"tol": 0.0},
        ],
    )
    def test_errors_name_the_parameter(self, parameter):
        name, value = next(iter(parameter.items()))
        with pytest.raises(ValueError, match=f"{name}={value!r}"):
            GenerativeMEDClassifier(**parameter).fit(*IRIS)

    def test_stopping_early_warns(self, overlapping):
        with pytest.warns(ConvergenceWarning, match="duality gap"):
            model = GenerativeMEDClassifier(max_iter=1).fit(*overlapping)
        assert not model.converged_


class TestOracle:
    def test_both_constraints_hold_for_nominal_samples(self):
        X, y, anomalous = corrupted()
        model = OracleMEDClassifier(rule="log_likelihood", tol=1e-9).fit(X, y, anomalous=anomalous)
        assert model.converged_ and model.duality_gap_ < 1e-6
        assert np.array_equal(model.nominal_, ~anomalous)
        assert model.level_duals_.any() and not model.level_duals_[anomalous].any()
        assert not model.margin_duals_[anomalous].any()
        assert model.level_duals_.sum() < model.level_rate
        # The level: reached by nominal samples with their own label, hence by their density too.
        assert (-model.anomaly_scores_[~anomalous]).min() > model.level_ - 1e-4
        assert model.is_nominal(X[~anomalous]).all()
        assert (~model.is_nominal(X[anomalous])).mean() > 0.8

    def test_the_integrated_likelihood_is_no_stricter(self):
        X, y, anomalous = corrupted()
        model = OracleMEDClassifier().fit(X, y, anomalous=anomalous)
        assert model.is_nominal(X[~anomalous]).all()
        expected = special.logsumexp(model._model.log_joint(X, "likelihood"), axis=1)
        np.testing.assert_allclose(model.score_samples(X), expected)

    def test_anomalies_do_not_take_part(self):
        X, y, anomalous = corrupted()
        model = OracleMEDClassifier().fit(X, y, anomalous=anomalous)
        elsewhere = X.copy()
        elsewhere[anomalous] = 1e3
        labels = np.where(anomalous, (y + 1) % 3, y)
        other = OracleMEDClassifier().fit(elsewhere, labels, anomalous=anomalous.astype(int))
        np.testing.assert_array_equal(
            other.decision_function(IRIS[0]), model.decision_function(IRIS[0])
        )

    def test_a_level_that_binds_nothing_leaves_generative_med(self):
        X, y, anomalous = corrupted()
        model = OracleMEDClassifier(level=-1e6).fit(X, y, anomalous=anomalous)
        plain = GenerativeMEDClassifier().fit(X[~anomalous], y[~anomalous])
        assert not model.level_duals_.any()
        assert model.level_ == pytest.approx(-1e6 - 1.0 / model.level_rate)
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X))

    def test_sample_weights_count_copies_once_anomalies_are_known(self):
        X, y, anomalous = corrupted()
        weights = np.random.default_rng(0).integers(1, 3, 150)
        weighted = OracleMEDClassifier(tol=1e-9).fit(X, y, weights, anomalous=anomalous)
        copied = OracleMEDClassifier(tol=1e-9).fit(
            np.repeat(X, weights, axis=0),
            np.repeat(y, weights),
            anomalous=np.repeat(anomalous, weights),
        )
        assert weighted.level_ == pytest.approx(copied.level_, abs=1e-6)
        np.testing.assert_allclose(
            weighted.decision_function(X), copied.decision_function(X), atol=1e-4
        )

    @pytest.mark.parametrize("oracle", [None, IsolationForest(contamination=0.1, random_state=0)])
    def test_detectors_as_oracles(self, oracle):
        X, y, anomalous = corrupted()
        model = OracleMEDClassifier(oracle, false_alarm_rate=0.1).fit(X, y)
        assert (~model.nominal_[anomalous]).mean() > 0.6
        assert model.nominal_[~anomalous].mean() > 0.85
        assert model.score(*IRIS) >= GenerativeMEDClassifier().fit(X, y).score(*IRIS)

    def test_units_change_levels_by_the_jacobian(self):
        X, y, anomalous = corrupted()
        plain = OracleMEDClassifier(tol=1e-9).fit(X, y, anomalous=anomalous)
        moved = OracleMEDClassifier(tol=1e-9).fit(100.0 * X, y, anomalous=anomalous)
        assert moved.level_ == pytest.approx(plain.level_ - 4 * np.log(100.0), abs=1e-5)
        assert np.array_equal(moved.is_nominal(100.0 * X), plain.is_nominal(X))

    def test_pickle(self):
        X, y, anomalous = corrupted()
        model = OracleMEDClassifier().fit(X, y, anomalous=anomalous)
        restored = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(restored.score_samples(X), model.score_samples(X))

    def test_errors(self):
        X, y, anomalous = corrupted()
        with pytest.raises(ValueError, match="class 1"):
            OracleMEDClassifier().fit(X, y, anomalous=y == 1)
        with pytest.raises(ValueError, match=r"anomalous has shape \(3,\)"):
            OracleMEDClassifier().fit(X, y, anomalous=[True, False, True])
        with pytest.raises(ValueError, match="anomalous holds -1"):
            OracleMEDClassifier().fit(X, y, anomalous=np.where(anomalous, -1, 1))
        with pytest.raises(ValueError, match=r"oracle=.* has no fit_predict"):
            OracleMEDClassifier(GenerativeMEDClassifier()).fit(X, y)
        for parameter in ({"false_alarm_rate": 1.0}, {"level": "high"}, {"level_rate": 0.0}):
            name, value = next(iter(parameter.items()))
            with pytest.raises(ValueError, match=f"{name}={value!r}"):
                OracleMEDClassifier(**parameter).fit(X, y)


def test_a_real_table():
    """Breast cancer: 30 features, most of them correlated."""
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    train, test = order[:400], order[400:]
    model = GenerativeMEDClassifier().fit(X[train], y[train])
    assert model.converged_ and model.score(X[test], y[test]) > 0.94
