"""GEMMEDClassifier: what it must not depend on, what it must respect, what it finds."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed._core.exceptions import ConstraintWarning, EngineError
from gemmed.datasets import make_ring
from gemmed.engines import Gibbs, MeanField, PaperAlgorithm


@pytest.fixture(scope="module")
def ring():
    return make_ring(40, radius=20, corruption=0.25, n_test_per_class=200, random_state=0)


def fitted(X, y, **parameters):
    parameters = {"random_state": 0, "n_neighbors": 5, "tol": 1e-10} | parameters
    return GEMMEDClassifier(**parameters).fit(X, y)


KERNELS = ["linear", "rbf"]
UNIT = {"gamma": "scale", "function_variance": 1.0, "bias_variance": 1.0}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", ["bipartite", "leave_one_out"])
def test_order_of_samples_does_not_matter(ring, kernel, graph):
    model = fitted(ring.X, ring.y, kernel=kernel, neighbor_graph=graph)
    order = np.random.default_rng(1).permutation(len(ring.y))
    other = fitted(ring.X[order], ring.y[order], kernel=kernel, neighbor_graph=graph)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_[order], atol=1e-6)
    np.testing.assert_allclose(
        other.decision_function(ring.X_test), model.decision_function(ring.X_test), atol=1e-5
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("form", "within"), [("paper", 1e-7), ("states", 0.1)])
def test_swapping_the_labels_swaps_the_sign(ring, kernel, form, within):
    """Of states up to the error of averages over draws, in which classes have their order."""
    model = fitted(ring.X, ring.y, kernel=kernel, model=form)
    other = fitted(ring.X, -ring.y, kernel=kernel, model=form)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=within)
    np.testing.assert_allclose(
        other.decision_function(ring.X_test), -model.decision_function(ring.X_test), atol=within
    )


def test_encoding_of_the_labels_does_not_matter(ring):
    model = fitted(ring.X, ring.y)
    for encoded in (ring.y + 7, np.where(ring.y > 0, "yes", "no"), ring.y > 0):
        other = fitted(ring.X, encoded)
        np.testing.assert_array_equal(other.nominal_proba_, model.nominal_proba_)
        np.testing.assert_array_equal(
            other.predict(ring.X_test) == other.classes_[1], model.predict(ring.X_test) == 1
        )


@pytest.mark.parametrize("kernel", KERNELS)
def test_rotation_of_the_features_does_not_matter(ring, kernel):
    angle = 0.7
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    # Evidence from single features knows the axes; distances do not.
    options = {"kernel": kernel, "gamma": 0.01, "model": "paper", "entropy_slack": 0.1}
    model = fitted(ring.X, ring.y, **options)
    other = fitted(ring.X @ rotation, ring.y, **options)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)


def test_unit_of_the_features_does_not_matter(ring):
    model = fitted(ring.X, ring.y)
    for scale in (1e-3, 1e4):
        other = fitted(scale * ring.X, ring.y)
        np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)
        np.testing.assert_allclose(other.knn_distances_, model.knn_distances_, rtol=1e-6)


@pytest.mark.parametrize(("form", "atol"), [("held_out", 5e-3), ("collapsed", 1e-6)])
def test_precomputed_kernel_gives_the_same_classifier(ring, form, atol):
    """Of a linear kernel on centred data the kernel distances are the Euclidean ones.

    With a kernel matrix the held-out form takes variances from a factor that is 2 % old at most.
    """
    # A kernel matrix has no features, and is tuned without preference for small functions.
    options = {
        "engine": MeanField(form),
        "model": "paper",
        "entropy_slack": 0.1,
        "function_variance": 0.01,
    }
    X = ring.X - ring.X.mean(axis=0)
    model = fitted(X, ring.y, kernel="linear", **options)
    other = fitted(X @ X.T, ring.y, kernel="precomputed", **options)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=atol)
    test = ring.X_test - ring.X.mean(axis=0)
    np.testing.assert_allclose(
        other.decision_function(test @ X.T), model.decision_function(test), atol=10 * atol
    )


def test_attributes_mean_what_they_say(ring):
    model = fitted(
        ring.X,
        ring.y,
        kernel="linear",
        coverage=0.6,
        model="paper",
        entropy_slack=0.1,
        engine=MeanField("collapsed"),
        **UNIT,
    )
    np.testing.assert_allclose(model.anomaly_scores_, 1 - model.nominal_proba_)
    np.testing.assert_allclose(
        model.dual_coef_, model.margin_duals_ * model.nominal_proba_ * ring.y
    )
    np.testing.assert_allclose(
        model.decision_function(ring.X_test),
        (ring.X_test @ ring.X.T + 1.0) @ model.dual_coef_,
        atol=1e-8,
    )
    np.testing.assert_array_equal(model.coverage_, [0.6, 0.6])
    for index, label in enumerate(model.classes_):
        own = ring.y == label
        d = model.knn_distances_[own]
        assert np.median(d) == pytest.approx(1.0)
        bound = 1.1 * np.sort(d)[:24].sum() / 40  # 0.6 * 40 = 24 samples
        assert model.entropy_bounds_[index] == pytest.approx(bound)
        assert model.nominal_proba_[own].mean() >= 0.6 - 1e-6
        assert (model.nominal_proba_ * model.knn_distances_)[own].mean() <= bound + 1e-6
    assert model.duality_gap_ >= 0
    assert model.converged_
    assert len(model.objective_path_) == model.n_iter_
    assert np.all(np.diff(model.objective_path_) <= 0)


@pytest.mark.parametrize("slack", [0.3, "auto"])
def test_log_odds_are_prior_plus_margin_plus_constraints(ring, slack):
    """Equation 21, from the public attributes alone (factorised form)."""
    model = fitted(
        ring.X,
        ring.y,
        kernel="linear",
        engine=MeanField("factorised"),
        tol=1e-13,
        model="paper",
        entropy_slack=slack,
        prior_nominal=0.95,
        **UNIT,
    )
    margins = ring.y * model.decision_function(ring.X)
    v = np.maximum(3.0 * (1 - margins), 1.0)
    loss = v - 1 - np.log(v)
    index = (ring.y > 0).astype(int)
    statistic = model.knn_distances_ if slack == 0.3 else model.entropy_statistic_
    field = (model.coverage_duals_[index] - model.entropy_duals_[index] * statistic) / 40
    expected = np.log(0.95 / 0.05) - loss + field
    inner = (model.nominal_proba_ > 1e-6) & (model.nominal_proba_ < 1 - 1e-6)
    assert inner.sum() > 20
    actual = np.log(model.nominal_proba_ / model.anomaly_scores_)
    np.testing.assert_allclose(actual[inner], expected[inner], atol=1e-3)


def test_anomalies_are_found_and_the_classifier_survives():
    data = make_ring(100, radius=75, corruption=0.4, random_state=3)
    model = GEMMEDClassifier("linear", random_state=0).fit(data.X, data.y)
    assert (
        model.anomaly_scores_[data.anomalous].min() > model.anomaly_scores_[~data.anomalous].mean()
    )
    clean = GEMMEDClassifier("linear", random_state=0)
    clean.fit(data.X[~data.anomalous], data.y[~data.anomalous])
    difference = clean.score(data.X_test, data.y_test) - model.score(data.X_test, data.y_test)
    assert difference < 0.03


def test_half_of_a_class_may_be_gross_outliers():
    rng = np.random.default_rng(0)
    X, y = make_blobs(200, centers=[[-3, 0], [3, 0]], random_state=0)
    bad = np.zeros(200, dtype=bool)
    for label in (0, 1):
        bad[rng.choice(np.flatnonzero(y == label), 49, replace=False)] = True
    angle = rng.uniform(0, 2 * np.pi, 98)
    X[bad] = rng.uniform(60, 300, (98, 1)) * np.column_stack([np.cos(angle), np.sin(angle)])
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert model.anomaly_scores_[bad].min() > 0.5
    test, labels = make_blobs(400, centers=[[-3, 0], [3, 0]], random_state=1)
    assert model.score(test, labels) > 0.98


def test_judgements_of_a_person_are_respected_exactly(ring):
    prior = np.full(80, 0.95)
    prior[3], prior[10] = 0.0, 1.0
    model = GEMMEDClassifier(random_state=0).fit(ring.X, ring.y, prior_nominal=prior)
    assert model.nominal_proba_[3] == 0.0
    assert model.nominal_proba_[10] == 1.0
    assert model.dual_coef_[3] == 0.0


def test_trusting_every_sample_gives_med_and_says_that_constraints_gave_way():
    data = make_ring(radius=15, corruption=0.4, random_state=0)
    with pytest.warns(ConstraintWarning, match="entropy_slack"):
        model = GEMMEDClassifier(
            "linear", prior_nominal=1.0, random_state=0, model="paper", **UNIT
        ).fit(data.X, data.y)
    med = MEDClassifier("linear").fit(data.X, data.y)
    np.testing.assert_allclose(
        model.decision_function(data.X_test), med.decision_function(data.X_test), atol=1e-2
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_function_variance_scales_the_kernel(ring, kernel):
    model = fitted(
        ring.X / 10, ring.y, kernel=kernel, function_variance=0.1, gamma=0.5, bias_variance=1.0
    )
    gram = {
        "linear": ring.X @ ring.X.T / 100,
        "rbf": np.exp(-0.5 * ((ring.X[:, None] - ring.X) ** 2).sum(-1) / 100),
        "poly": (0.5 * ring.X @ ring.X.T / 100) ** 3,
    }[kernel]
    values = (0.1 * gram + 1.0) @ model.dual_coef_
    np.testing.assert_allclose(model.decision_function(ring.X / 10), values, atol=1e-8)
    by_matrix = MEDClassifier("precomputed", function_variance=0.1, tol=1e-10).fit(gram, ring.y)
    direct = MEDClassifier(kernel, function_variance=0.1, gamma=0.5, tol=1e-10)
    np.testing.assert_allclose(
        by_matrix.decision_function(gram),
        direct.fit(ring.X / 10, ring.y).decision_function(ring.X / 10),
        atol=1e-6,
    )


def test_groups_change_the_neighbours(ring):
    groups = np.arange(80) // 2
    blind = fitted(ring.X, ring.y, neighbor_graph="leave_one_out")
    model = GEMMEDClassifier(random_state=0, n_neighbors=5, neighbor_graph="leave_one_out")
    model.fit(ring.X, ring.y, groups=groups)
    assert not np.allclose(model.knn_distances_, blind.knn_distances_)


@pytest.mark.parametrize("engine", ["mean_field", "gibbs", PaperAlgorithm(n_sweeps=3)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_random_state_makes_a_fit_reproducible(ring, engine):
    models = [
        GEMMEDClassifier(
            "linear", model="paper", engine=engine, random_state=seed, max_iter=20
        ).fit(ring.X, ring.y)
        for seed in (4, 4, 5)
    ]
    np.testing.assert_array_equal(models[0].nominal_proba_, models[1].nominal_proba_)
    assert not np.array_equal(models[0].nominal_proba_, models[2].nominal_proba_)


def test_exact_engine_through_the_estimator():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(14, 2)), np.repeat([0, 1], 7)
    parameters = {"model": "paper", "n_neighbors": 2, "random_state": 0}
    exact = GEMMEDClassifier(engine="exact", **parameters).fit(X, y)
    assert exact.kkt_residual_ <= 1e-6
    assert exact.monte_carlo_error_ == 0.0
    mean_field = GEMMEDClassifier(**parameters).fit(X, y)
    assert mean_field.dual_value_ + mean_field.duality_gap_ >= exact.dual_value_ - 1e-8
    sampled = GEMMEDClassifier(engine=Gibbs(n_chains=4), **parameters).fit(X, y)
    np.testing.assert_allclose(sampled.nominal_proba_, exact.nominal_proba_, atol=0.03)
    assert sampled.monte_carlo_error_ > 0
    assert sampled.engine_diagnostics_["r_hat"] < 1.1


def test_stopping_early_warns_with_what_was_reached(ring):
    with pytest.warns(
        ConvergenceWarning,
        match=r"1 iterations .*max_iter was reached first; gap .* raise max_iter",
    ):
        model = GEMMEDClassifier(model="paper", max_iter=1, random_state=0).fit(ring.X, ring.y)
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match=r"1 iterations .*duality gap .* raise max_iter"):
        model = GEMMEDClassifier(max_iter=1, random_state=0).fit(ring.X, ring.y)
    assert not model.converged_


def test_fit_does_not_change_its_input(ring):
    X, y, prior = ring.X.copy(), ring.y.copy(), np.full(80, 0.9)
    GEMMEDClassifier(random_state=0).fit(X, y, prior_nominal=prior)
    np.testing.assert_array_equal(X, ring.X)
    np.testing.assert_array_equal(y, ring.y)
    np.testing.assert_array_equal(prior, 0.9)
    gram = np.ascontiguousarray(ring.X @ ring.X.T)
    before = gram.copy()
    GEMMEDClassifier("precomputed", random_state=0).fit(gram, y)
    np.testing.assert_array_equal(gram, before)


def test_a_solver_that_does_not_arrive_is_not_called_converged(ring):
    """Weights of 1e10 leave no digits for the margins."""
    weights = np.full(len(ring.y), 1e10)
    with pytest.warns(ConvergenceWarning, match="without converging"):
        model = GEMMEDClassifier(random_state=0).fit(ring.X, ring.y, sample_weight=weights)
    assert not model.converged_
    assert model.duality_gap_ > 1.0
    assert "tolerance" in model.status_ or "max_iter" in model.status_


def test_algorithm_1_far_from_the_optimum_is_not_called_converged(ring):
    options = {"model": "paper", "function_variance": 0.01, "bias_variance": 0.01}
    with pytest.warns(ConvergenceWarning):
        rough = GEMMEDClassifier(
            "linear", engine="paper", max_iter=300, random_state=0, **options
        ).fit(ring.X, ring.y)
    exact = GEMMEDClassifier("linear", engine="exact", random_state=0, **options).fit(
        ring.X, ring.y
    )
    assert exact.converged_
    assert np.abs(rough.nominal_proba_ - exact.nominal_proba_).max() > 0.05
    assert not rough.converged_


@pytest.mark.parametrize("engine", ["gibbs", "exact", "paper"])
def test_engines_are_refused_by_name_before_anything_is_measured(engine, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("distances were measured")

    monkeypatch.setattr("gemmed.estimators.joint_fit.class_distances", never)
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    with pytest.raises(EngineError, match=rf"engine='{engine}' knows two classes"):
        GEMMEDClassifier("linear", model="paper", engine=engine).fit(X, y)
