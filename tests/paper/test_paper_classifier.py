"""The paper's GEMMEDClassifier: Definition 1 through scikit-learn's interface."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import gemmed.paper
from gemmed import Solver
from gemmed._core.exceptions import ConstraintWarning, EngineError, EntropyDisabledWarning
from gemmed.datasets import make_ring
from gemmed.paper import (
    GEMMEDClassifier,
    GenerativeMEDClassifier,
    Gibbs,
    MeanField,
    MEDClassifier,
    OracleMEDClassifier,
    PaperAlgorithm,
    RampSVC,
    RODClassifier,
    TrimmedSVC,
)
from gemmed.paper.dual import entropy_bound

AS_SVC = {
    "check_sample_weight_equivalence_on_dense_data": (
        "as for SVC: gamma='scale' uses the unweighted variance of X, and the k-NN distances "
        "count every sample once"
    )
}


@pytest.mark.filterwarnings("ignore::gemmed._core.exceptions.GemmedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([GEMMEDClassifier()], expected_failed_checks=lambda estimator: AS_SVC)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def ring():
    return make_ring(40, radius=20, corruption=0.25, n_test_per_class=200, random_state=0)


def fitted(X, y, **parameters):
    parameters = {
        "kernel": "linear",
        "random_state": 0,
        "n_neighbors": 5,
        "tol": 1e-10,
        **parameters,
    }
    return GEMMEDClassifier(**parameters).fit(X, y)


def test_the_namespace_has_everything_of_the_paper():
    for name in gemmed.paper.__all__:
        assert getattr(gemmed.paper, name).__doc__
    assert gemmed.RODClassifier is RODClassifier
    assert {RampSVC, TrimmedSVC, GenerativeMEDClassifier, OracleMEDClassifier} <= {
        getattr(gemmed, name) for name in gemmed.__all__
    }


def test_the_solution_meets_the_constraints_of_definition_1(ring):
    model = fitted(ring.X, ring.y, coverage=0.6, entropy_slack=0.1)
    np.testing.assert_array_equal(model.coverage_, [0.6, 0.6])
    for index, label in enumerate(model.classes_):
        own = ring.y == label
        d = model.knn_distances_[own]
        assert np.median(d) == pytest.approx(1.0)
        bound = 1.1 * np.sort(d)[:24].sum() / 40  # 0.6 * 40 = 24 samples
        assert model.entropy_bounds_[index] == pytest.approx(bound)
        assert model.nominal_proba_[own].mean() >= 0.6 - 1e-6
        assert (model.nominal_proba_ * model.knn_distances_)[own].mean() <= bound + 1e-6
    assert np.all(model.entropy_duals_ > 0)
    assert model.converged_
    assert np.all(np.diff(model.objective_path_) <= 0)


def test_the_classifier_is_the_sum_of_equation_36(ring):
    model = fitted(ring.X, ring.y, function_variance=0.5, bias_variance=2.0)
    np.testing.assert_allclose(
        model.dual_coef_, model.margin_duals_ * model.nominal_proba_ * ring.y
    )
    np.testing.assert_allclose(
        model.decision_function(ring.X_test),
        (0.5 * ring.X_test @ ring.X.T + 2.0) @ model.dual_coef_,
        atol=1e-8,
    )


def test_log_odds_are_prior_plus_margin_plus_constraints(ring):
    """Equation 21, from the public attributes alone (factorised form)."""
    model = fitted(ring.X, ring.y, engine=MeanField("factorised"), tol=1e-13)
    margins = ring.y * model.decision_function(ring.X)
    v = np.maximum(3.0 * (1 - margins), 1.0)
    index = (ring.y > 0).astype(int)
    field = model.coverage_duals_ - model.entropy_duals_ * model.knn_distances_[:, None]
    field = field[np.arange(80), index] / 40
    expected = np.log(0.95 / 0.05) - (v - 1 - np.log(v)) + field
    inner = (model.nominal_proba_ > 1e-6) & (model.nominal_proba_ < 1 - 1e-6)
    assert inner.sum() > 20
    actual = np.log(model.nominal_proba_ / model.anomaly_scores_)
    np.testing.assert_allclose(actual[inner], expected[inner], atol=1e-3)


def test_default_variances_do_not_depend_on_the_unit(ring):
    model, other = fitted(ring.X, ring.y), fitted(1e3 * ring.X, ring.y)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)
    square = np.mean(np.sum(ring.X**2, axis=1))
    assert model.function_variance_ == pytest.approx(1 / square)
    assert fitted(ring.X, ring.y, kernel="rbf").function_variance_ == pytest.approx(1.0)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_swapping_the_labels_swaps_the_sign(ring, kernel):
    model, other = (fitted(ring.X, s * ring.y, kernel=kernel) for s in (1, -1))
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)
    np.testing.assert_allclose(
        other.decision_function(ring.X_test), -model.decision_function(ring.X_test), atol=1e-5
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rotation_of_the_features_does_not_matter(ring, kernel):
    angle = 0.7
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    model, other = (
        fitted(X, ring.y, kernel=kernel, gamma=0.01) for X in (ring.X, ring.X @ rotation)
    )
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)


def test_weight_zero_is_absence(ring):
    weights = np.ones(80)
    weights[::10] = 0.0
    broken, kept = np.where(weights == 0, -ring.y, ring.y), weights > 0
    # Distances count every sample: the entropy constraint is switched off.
    options = {"entropy_slack": np.inf, "coverage": 0.1, "tol": 1e-10, "gamma": 0.01}
    options["engine"] = MeanField(n_restarts=0)  # random starts count every sample, too
    weighted = GEMMEDClassifier(random_state=0, **options)
    weighted.fit(ring.X, broken, sample_weight=weights)
    absent = GEMMEDClassifier(random_state=0, **options).fit(ring.X[kept], ring.y[kept])
    np.testing.assert_allclose(
        weighted.decision_function(ring.X_test), absent.decision_function(ring.X_test), atol=1e-3
    )


def test_precomputed_kernel_gives_the_same_classifier(ring):
    """Of a linear kernel on centred data the kernel distances are the Euclidean ones."""
    X = ring.X - ring.X.mean(axis=0)
    options = {"function_variance": 0.01, "bias_variance": 1.0}
    model = fitted(X, ring.y, **options)
    other = fitted(X @ X.T, ring.y, kernel="precomputed", **options)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)


def test_groups_are_not_neighbours(ring):
    options = {"neighbor_graph": "leave_one_out", "n_neighbors": 1}
    twice, labels = np.repeat(ring.X, 2, axis=0), np.repeat(ring.y, 2)
    model = GEMMEDClassifier("linear", random_state=0, **options)
    model.fit(twice, labels, groups=np.repeat(np.arange(80), 2))
    single = fitted(ring.X, ring.y, **options)
    np.testing.assert_allclose(model.knn_distances_[::2], single.knn_distances_)


def test_judgements_of_single_samples_are_respected_exactly(ring):
    prior = np.full(80, 0.95)
    prior[3], prior[10] = 0.0, 1.0
    model = GEMMEDClassifier("linear", random_state=0).fit(ring.X, ring.y, prior_nominal=prior)
    assert model.nominal_proba_[3] == 0.0
    assert model.nominal_proba_[10] == 1.0


def test_trusting_every_sample_gives_med_and_says_that_constraints_gave_way():
    data = make_ring(radius=15, corruption=0.4, random_state=0)
    unit = {"function_variance": 1.0, "bias_variance": 1.0}
    model = GEMMEDClassifier("linear", prior_nominal=1.0, random_state=0, **unit)
    with pytest.warns(ConstraintWarning, match="entropy_slack"):
        model.fit(data.X, data.y)
    med = MEDClassifier("linear", kernel_params=unit).fit(data.X, data.y)
    np.testing.assert_allclose(
        model.decision_function(data.X_test), med.decision_function(data.X_test), atol=1e-2
    )


def test_without_doubt_or_constraints_it_is_med(ring):
    unit = {"function_variance": 1.0, "bias_variance": 1.0}
    med = MEDClassifier("rbf", kernel_params=unit, solver=Solver(tol=1e-10)).fit(ring.X, ring.y)
    unit |= {"kernel": "rbf", "tol": 1e-10}
    errors = []
    for prior in (1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1.0):
        model = GEMMEDClassifier(prior_nominal=prior, entropy_slack=np.inf, coverage=0.1, **unit)
        model.fit(ring.X, ring.y)
        difference = model.decision_function(ring.X) - med.decision_function(ring.X)
        errors.append(np.abs(difference).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[-1] < 1e-6
    assert model.dual_value_ == pytest.approx(med.dual_value_, rel=1e-7)


def test_entropy_bound_counts_the_last_sample_in_part():
    d, ones = np.array([3.0, 1.0, 2.0, 8.0]), np.ones(4)
    assert entropy_bound(d, ones, 0.5, 0.0, "a") == pytest.approx((1 + 2) / 4)
    assert entropy_bound(d, ones, 0.6, 0.1, "a") == pytest.approx(1.1 * (1 + 2 + 0.4 * 3) / 4)
    assert entropy_bound(d, ones, 0.5, np.inf, "a") == np.inf
    repeated = np.repeat(d, [1, 3, 1, 2])
    assert entropy_bound(d, np.array([1.0, 3, 1, 2]), 0.55, 0.2, "a") == pytest.approx(
        entropy_bound(repeated, np.ones(7), 0.55, 0.2, "a")
    )
    with pytest.warns(EntropyDisabledWarning, match="'a'"):
        assert entropy_bound(np.array([0.0, 0.0, 5.0]), np.ones(3), 0.5, 0.1, "a") == np.inf


def test_a_class_of_copies_has_no_entropy_constraint(ring):
    copies = ring.X.copy()
    own = np.flatnonzero(ring.y == -1)
    copies[own[:30]] = copies[own[0]]
    with pytest.warns(EntropyDisabledWarning, match="share of 0.5"):
        model = fitted(copies, ring.y)
    assert np.isinf(model.entropy_bounds_[0]) and np.isfinite(model.entropy_bounds_[1])
    assert np.all(np.isfinite(model.nominal_proba_))


@pytest.mark.parametrize("seed", range(6))
def test_half_of_the_samples_on_the_ring_do_not_break_it(seed):
    data = make_ring(100, radius=55, corruption=0.5, layout="separated", random_state=seed)
    model = GEMMEDClassifier("linear", n_neighbors=5, random_state=seed).fit(data.X, data.y)
    assert model.score(data.X_test, data.y_test) > 0.95


@pytest.mark.parametrize("engine", ["mean_field", "gibbs", PaperAlgorithm(n_sweeps=3)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_random_state_makes_a_fit_reproducible(ring, engine):
    first, second, other = (
        fitted(ring.X, ring.y, engine=engine, random_state=seed, max_iter=5).nominal_proba_
        for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_engines_agree_through_the_estimator():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(14, 2)), np.repeat([0, 1], 7)
    parameters = {"n_neighbors": 2, "random_state": 0}
    exact = GEMMEDClassifier(engine="exact", **parameters).fit(X, y)
    assert exact.kkt_residual_ <= 1e-6
    mean_field = GEMMEDClassifier(**parameters).fit(X, y)
    assert mean_field.dual_value_ >= exact.dual_value_ - 1e-8
    sampled = GEMMEDClassifier(engine=Gibbs(n_chains=4), **parameters).fit(X, y)
    np.testing.assert_allclose(sampled.nominal_proba_, exact.nominal_proba_, atol=0.03)
    assert sampled.monte_carlo_error_ > 0


def test_stopping_early_warns_with_what_was_reached(ring):
    with pytest.warns(ConvergenceWarning, match=r"1 iterations .*max_iter was reached first; gap"):
        model = fitted(ring.X, ring.y, max_iter=1)
    assert not model.converged_


def test_algorithm_1_far_from_the_optimum_is_not_called_converged(ring):
    options = {"function_variance": 0.01, "bias_variance": 0.01, "random_state": 0}
    rough = GEMMEDClassifier("linear", engine="paper", max_iter=300, **options)
    with pytest.warns(ConvergenceWarning):
        rough.fit(ring.X, ring.y)
    exact = GEMMEDClassifier("linear", engine="exact", **options).fit(ring.X, ring.y)
    assert exact.converged_
    assert np.abs(rough.nominal_proba_ - exact.nominal_proba_).max() > 0.05
    assert not rough.converged_


def test_grid_search_and_pickle(ring):
    search = GridSearchCV(GEMMEDClassifier(random_state=0), {"gamma": [0.001, 0.1]}, cv=2)
    best = search.fit(ring.X, ring.y).best_estimator_
    restored = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(
        restored.decision_function(ring.X_test), best.decision_function(ring.X_test)
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 1.0}, "C=1.0"),
        ({"coverage": 0.0}, "coverage=0.0"),
        ({"entropy_slack": -1.0}, "entropy_slack=-1.0"),
        ({"prior_nominal": 1.5}, "prior_nominal=1.5"),
        ({"n_neighbors": 0}, "n_neighbors=0"),
        ({"neighbor_graph": "mst"}, "neighbor_graph='mst'"),
        ({"function_variance": "tuned"}, "function_variance='tuned'"),
        ({"engine": "newton"}, "engine='newton'"),
        ({"engine": None}, "engine=None"),
        ({"engine": MeanField}, "engine=<class"),
        ({"engine": MeanField(n_restarts=-1)}, r"n_restarts=-1"),
        ({"engine": "exact", "kernel": "rbf"}, "engine='exact' takes up to 18 samples"),
    ],
)
def test_bad_parameters_are_named(ring, parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(ring.X, ring.y, **parameters)


@pytest.mark.parametrize("engine", ["gibbs", "paper"])
def test_engines_of_whole_samples_refuse_weights(ring, engine):
    model = GEMMEDClassifier("linear", engine=engine, n_neighbors=5)
    with pytest.raises(EngineError, match="sample_weight"):
        model.fit(ring.X, ring.y, sample_weight=np.full(80, 2.0))


def test_three_classes_are_refused_with_a_remedy(ring):
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        GEMMEDClassifier().fit(ring.X, np.arange(80) % 3)
