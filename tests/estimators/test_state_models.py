"""States of samples, rates, and a base classifier as a member of GEMMEDClassifier."""

import pickle
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flat_options import parameters_of
from gemmed import GEMMEDClassifier, Solver, load_model, save_model
from gemmed._core.exceptions import NoSignalWarning
from gemmed.estimators.base_member import _out_of_bag
from gemmed.model.decision_step import margin_loss


def damaged(seed=0, n=300, n_classes=2):
    """Rows, given labels, true labels, and which labels are wrong and which rows are bad."""
    X, truth = make_classification(
        n,
        8,
        n_informative=5,
        n_redundant=2,
        n_classes=n_classes,
        class_sep=2.0,
        flip_y=0.0,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(n)
    wrong, bad = np.zeros((2, n), dtype=bool)
    wrong[chosen[: n // 10]] = True
    bad[chosen[n // 10 : n // 10 + n // 16]] = True
    y = np.where(wrong, (truth + 1) % n_classes, truth)
    X[bad] += 4.0 * X.std(axis=0) * rng.normal(size=(bad.sum(), 8))
    return X, y, truth, wrong, bad


def fitted(data, base=None, **options):
    X, y, *_ = data
    return (
        GEMMEDClassifier(base=base, random_state=0).set_params(**parameters_of(**options)).fit(X, y)
    )


@pytest.fixture(scope="module")
def data():
    return damaged()


@pytest.fixture(scope="module")
def model(data):
    return fitted(data)


def test_states_and_labels_are_distributions(model, data):
    n = len(data[1])
    assert model.state_proba_.shape == (n, 3)
    np.testing.assert_allclose(model.state_proba_.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.true_label_proba_.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.nominal_proba_, model.state_proba_[:, 0])
    np.testing.assert_allclose(model.anomaly_scores_, 1.0 - model.nominal_proba_)
    assert len(np.unique(model.nominal_proba_)) == n  # no ties
    assert model.converged_


def test_confusion_counts_given_and_true_labels(model, data):
    y = np.searchsorted(model.classes_, data[1])
    for given in range(len(model.classes_)):
        expected = model.true_label_proba_[y == given].mean(axis=0)
        np.testing.assert_allclose(model.label_confusion_[given], expected)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_each_kind_of_fault_is_found_by_its_name(n_classes):
    X, y, truth, wrong, bad = damaged(1, 600, n_classes)
    model = fitted((X, y))
    assert np.mean(model.state_proba_[wrong, 1] > 0.5) > 0.65
    assert np.mean(model.state_proba_[bad, 2] > 0.5) > 0.5
    assert np.mean(model.nominal_proba_[~wrong & ~bad] < 0.5) < 0.05
    low, high = model.contamination_interval_
    assert low - 0.02 <= np.mean(wrong | bad) <= high + 0.02
    low, high = model.label_error_interval_
    assert low - 0.02 <= wrong.mean() <= high + 0.02
    table = model.explain()
    flagged = wrong & (table["verdict"] == "suspicious label").to_numpy()
    assert flagged.sum() > 0.65 * wrong.sum()
    suggested = table["suggested_label"].to_numpy()
    assert np.mean(suggested[flagged] == truth[flagged]) > 0.9
    assert set(table["verdict"]) <= {"ok", "suspicious label", "suspicious measurement"}
    mended = suggested != table["label"].to_numpy()
    np.testing.assert_array_equal(mended, table["verdict"] == "suspicious label")


def test_clean_data_are_hardly_flagged():
    X, y = load_wine(return_X_y=True)
    model = fitted((StandardScaler().fit_transform(X), y))
    assert np.mean(model.nominal_proba_ < 0.5) < 0.03
    assert model.contamination_interval_[0] < 0.02


def test_explained_terms_add_up(model):
    table = model.explain()
    total = table["prior"] + table["label_term"] + table["measurement_term"]
    log_odds = np.log(model.nominal_proba_) - np.log1p(-model.nominal_proba_)
    np.testing.assert_allclose(total, log_odds, atol=1e-6)
    np.testing.assert_array_equal(table["wrong_label_proba"], model.state_proba_[:, 1])


def test_certainties_are_respected_exactly(data):
    X, y, *_ = data
    prior = np.full(len(y), 0.95)
    prior[:5], prior[5:10] = 0.0, 1.0
    model = GEMMEDClassifier(random_state=0).fit(X, y, prior_nominal=prior)
    np.testing.assert_array_equal(model.nominal_proba_[:5], 0.0)
    np.testing.assert_array_equal(model.nominal_proba_[5:10], 1.0)
    np.testing.assert_allclose(model.state_proba_.sum(axis=1), 1.0)


def test_faults_that_were_found_still_count_in_the_rates():
    """Taken out of the likelihood, what was found made the others seem rare."""
    X, truth = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    wrong = np.random.default_rng(0).random(len(truth)) < 0.2
    y = np.where(wrong, 1 - truth, truth)
    first = GEMMEDClassifier(random_state=0).fit(X, y)
    checked = np.argsort(first.nominal_proba_)[:40]
    prior = np.full(len(y), 0.95)
    prior[checked] = np.where(wrong[checked], 0.0, 1.0)
    again = GEMMEDClassifier(random_state=0).fit(X, y, prior_nominal=prior)
    assert abs(again.label_error_share_ - wrong.mean()) < 0.05
    low, high = again.label_error_interval_
    assert low <= wrong.mean() <= high


def test_what_is_told_of_a_sample_moves_its_log_odds(data, model):
    X, y, *_ = data
    prior = np.full(len(y), 0.95)
    prior[0] = 0.5
    told = clone(model).fit(X, y, prior_nominal=prior)
    assert told.nominal_proba_[0] < model.nominal_proba_[0]
    np.testing.assert_allclose(told.nominal_proba_[1:], model.nominal_proba_[1:], atol=1e-12)


def test_a_weight_of_zero_has_no_influence(data):
    X, y, *_ = data
    weights = np.ones(len(y))
    weights[:40] = 0.0
    model = GEMMEDClassifier(random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.dual_coef_[:40], 0.0)


@pytest.mark.parametrize(
    "base",
    [
        RandomForestClassifier(30),
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        KNeighborsClassifier(),  # takes no weights
    ],
    ids=["forest", "logistic", "pipeline", "neighbours"],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_classifier_is_a_member(base, n_classes):
    X, y, truth, wrong, _ = damaged(2, 300, n_classes)
    before = pickle.dumps(base)
    model = fitted((X, y), clone(base))
    assert pickle.dumps(base) == before  # it is cloned, not fitted
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    assert np.mean(model.predict(X)[wrong] == truth[wrong]) > 0.75
    again = fitted((X, y), clone(base))
    np.testing.assert_array_equal(again.nominal_proba_, model.nominal_proba_)


@pytest.mark.parametrize(("n_classes", "n_trees"), [(2, 50), (3, 75), (5, 100)])
def test_a_default_forest_has_as_many_trees_as_the_classes_need(n_classes, n_trees, monkeypatch):
    """Those of a user's forest stay; 100 judge held-out rows in either case."""
    judging = []

    def votes(forest, *arguments):
        judging.append(forest.n_estimators)
        return _out_of_bag(forest, *arguments)

    monkeypatch.setattr("gemmed.estimators.base_member._out_of_bag", votes)
    X, y, *_ = damaged(2, 150, n_classes)
    for base, wanted in (("auto", n_trees), (RandomForestClassifier(), 100)):
        (forest,) = fitted((X, y), base).bases_
        assert type(forest) is RandomForestClassifier
        assert len(forest.estimators_) == wanted
    assert judging == [100, 100]


def test_groups_stay_together_in_held_out_predictions(data):
    X, y, *_ = data
    groups = np.arange(len(y)) // 5
    base = RandomForestClassifier(20)
    model = GEMMEDClassifier(base=base, random_state=0).fit(X, y, groups=groups)
    assert np.all(np.isfinite(model.state_proba_))


def test_blocks_give_the_states_of_features(data):
    X, y, *_ = data
    whole = fitted(data, n_components=60)
    parts = GEMMEDClassifier(solver=Solver(n_components=60), random_state=0).fit_blocks(X, y)
    np.testing.assert_allclose(parts.state_proba_, whole.state_proba_, atol=1e-3)


def test_a_precomputed_kernel_shows_bad_rows_that_lie_together(data):
    X, y, _, wrong, bad = data
    Z = StandardScaler().fit_transform(X)
    gram = np.exp(-0.1 * ((Z[:, None] - Z) ** 2).sum(-1))
    model = GEMMEDClassifier("precomputed", random_state=0).fit(gram, y)
    found = model.state_proba_[:, 2] > 0.5
    assert np.mean(found[bad]) > 0.3
    assert np.mean(found[~bad]) < 0.01
    assert np.mean(model.state_proba_[wrong, 1] > 0.5) > 0.5
    clean = GEMMEDClassifier("precomputed", random_state=0)
    clean.fit(gram[np.ix_(~bad, ~bad)], y[~bad])
    np.testing.assert_array_equal(clean.state_proba_[:, 2], 0.0)


def test_model_files_and_pickles_keep_everything(data, tmp_path):
    model = fitted(data, LogisticRegression())
    X = data[0]
    save_model(model, tmp_path / "m.gemmed")
    for copy in (load_model(tmp_path / "m.gemmed"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(copy.state_proba_, model.state_proba_)
        assert len(copy.explain()) == len(X)


def test_a_base_needs_rows_in_memory(data):
    X, y, *_ = data
    model = GEMMEDClassifier(solver=Solver(n_components=40), base=LogisticRegression())
    assert model.fit(X, y).state_proba_.shape == (len(y), 3)  # features, but X is there
    with pytest.raises(ValueError, match="rows in memory"):
        model.fit_blocks(X, y)
    with pytest.raises(ValueError, match="precomputed"):
        model.set_params(kernel="precomputed", solver=None).fit(X @ X.T, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_last_fit_is_taught_by_states_and_by_rates(n_classes):
    """f minimises |f|^2 / 2 and (51), as it is written in docs/research/model-states.md."""
    X, y = damaged(n_classes=n_classes)[:2]
    given = {"gamma": 0.2, "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0}}
    model = GEMMEDClassifier(base=None, solver=Solver(tol=1e-16), random_state=0, **given)
    model.fit(X, y)
    index = np.searchsorted(model.classes_, y)
    good, proba = 1.0 - model.state_proba_[:, 2], model.true_label_proba_
    rho = model.label_error_rates_
    shares = np.average(proba, axis=0, weights=good)
    gram = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(-1)) + 1.0
    functions = [1] if n_classes == 2 else range(n_classes)
    values = model.decision_function(X).reshape(len(X), -1)
    for j, f in zip(functions, values.T, strict=True):
        others = np.arange(n_classes) != j
        errs = np.average(rho[others] / (n_classes - 1), weights=shares[others])
        sign = np.where(index == j, 1.0, -1.0)
        wrong = np.where(index == j, 1.0 - proba[:, j], proba[:, j])
        own = 0.5 * (1.0 - wrong) + 0.5 * (1.0 + sign * (rho[j] - errs))
        pulled = own * margin_loss(sign * f, 3.0).lam
        pulled -= 0.5 * wrong * margin_loss(-sign * f, 3.0).lam
        np.testing.assert_allclose(gram @ (good * sign * pulled), f, atol=1e-3)


def test_columns_that_say_nothing_are_reported_and_no_label_is_flagged():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
    with pytest.warns(NoSignalWarning, match="check that rows and labels are in the same order"):
        model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert not model.is_informative_
    low, high = model.held_out_accuracy_interval_
    assert low < model.held_out_accuracy_ < high
    assert not np.any(np.argmax(model.state_proba_, axis=1) == 1)
    assert model.label_error_interval_[0] == 0.0 and model.label_error_interval_[1] > 0.5


def test_held_out_accuracy_is_that_of_the_held_out_probabilities(data):
    X, y, *_ = data
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    predicted = model.classes_[np.argmax(model.held_out_proba_, axis=1)]
    assert model.held_out_accuracy_ == pytest.approx(np.mean(predicted == y))
    assert model.is_informative_


def test_a_fit_says_what_it_spent_where():
    X, y, *_ = damaged()
    start = time.perf_counter()
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    elapsed = time.perf_counter() - start
    assert set(model.fit_seconds_) == {"measurements", "kernel", "base", "labels"}
    assert min(model.fit_seconds_.values()) > 0.0
    assert 0.5 * elapsed < sum(model.fit_seconds_.values()) <= elapsed
