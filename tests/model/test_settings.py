"""Records of settings: checked, whole values for scikit-learn and for model files, and they act."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from gemmed import (
    GEMMEDClassifier,
    MEDClassifier,
    Priors,
    Selection,
    Solver,
    load_model,
    save_model,
)
from gemmed.model.settings import record_of

RECORDS = {
    "priors": Priors(bad_rate=0.1, rate_shape=(1.0, 1.0)),
    "selection": Selection(widths=(1.0,), variances=(0.3, 1.0), neighbor_graph="leave_one_out"),
    "solver": Solver(tol=1e-8, n_components=40),
}


def sample(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.4 * rng.normal(size=n) > 0).astype(int)


@pytest.fixture(scope="module")
def model():
    return GEMMEDClassifier(base=None, random_state=0, **RECORDS).fit(*sample())


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (Priors, {"bad_rate": 0.0}, r"bad_rate=0.0 must be a number and above 0 and at most 0.5"),
        (Priors, {"rate_shape": 0.3}, "rate_shape=0.3 must be a tuple of 2 numbers above 0"),
        (Priors, {"rate_shape": (1.0, -4.0)}, r"rate_shape\[1\]=-4.0 must be a number"),
        (Priors, {"power": 1.5}, "power=1.5"),
        (Priors, {"sample_error": -0.1}, "sample_error=-0.1"),
        (Priors, {"slope_spread": "wide"}, "slope_spread='wide'"),
        (Priors, {"bad_spread": float("nan")}, "bad_spread=nan"),
        (Selection, {"widths": ()}, r"widths=\(\) must be a tuple of some numbers"),
        (Selection, {"widths": [1.0]}, r"widths=\[1.0\] must be a tuple"),
        (Selection, {"variances": (1.0, 0.1)}, "ascending order"),
        (Selection, {"max_rows": 10.5}, "max_rows=10.5"),
        (Selection, {"neighbor_graph": "tree"}, "neighbor_graph='tree' is unknown"),
        (Solver, {"max_iter": 0}, "max_iter=0"),
        (Solver, {"tol": -1.0}, "tol=-1.0"),
        (Solver, {"n_components": "many"}, "n_components='many' is unknown: use one of 'auto'"),
    ],
)
def test_a_wrong_value_is_refused_by_name(make, values, message):
    with pytest.raises(ValueError, match=message):
        make(**values)


def test_records_do_not_change():
    with pytest.raises(FrozenInstanceError):
        RECORDS["solver"].tol = 1.0


def test_a_record_that_was_not_checked_is_checked_by_fit():
    solver = Solver.__new__(Solver)
    vars(solver).update(max_iter=-3, tol=1e-6, n_components="auto")
    with pytest.raises(ValueError, match="max_iter=-3"):
        MEDClassifier(solver=solver).fit(*sample())
    with pytest.raises(
        ValueError, match=r"solver=Selection\(.*must be None or a record: solver=Sol"
    ):
        record_of("solver", Selection(), Solver)


def test_none_is_the_default_record():
    given = {"priors": Priors(), "selection": Selection(), "solver": Solver()}
    one, two = (
        GEMMEDClassifier(base=None, random_state=0, **options).fit(*sample())
        for options in ({}, given)
    )
    np.testing.assert_array_equal(one.state_proba_, two.state_proba_)


def test_clone_parameters_and_repr(model):
    again = clone(model)
    assert {name: again.get_params()[name] for name in RECORDS} == RECORDS
    assert "solver=Solver(max_iter=200, tol=1e-08, n_components=40)" in repr(again)
    assert "priors" not in repr(GEMMEDClassifier())
    assert len(GEMMEDClassifier().get_params()) == 12
    again.set_params(solver=None)
    assert again.solver is None


def test_grid_search_takes_whole_records():
    grid = {"solver": [None, Solver(n_components=30)], "priors": [Priors(bad_rate=0.2)]}
    search = GridSearchCV(GEMMEDClassifier(base=None, random_state=0), grid, cv=2).fit(*sample())
    assert search.best_params_["priors"].bad_rate == 0.2
    assert len(search.cv_results_["params"]) == 2


def test_files_and_pickles_keep_records(model, tmp_path):
    save_model(model, tmp_path / "m.gemmed")
    for again in (load_model(tmp_path / "m.gemmed"), pickle.loads(pickle.dumps(model))):
        assert {name: getattr(again, name) for name in RECORDS} == RECORDS
        assert type(again.selection.widths) is tuple
        again.fit(*sample())
        np.testing.assert_array_equal(again.state_proba_, model.state_proba_)


def test_priors_act():
    X, y = sample(200)
    y[:20] = 1 - y[:20]
    few, many = (
        GEMMEDClassifier(base=None, random_state=0, priors=Priors(rate_shape=shape)).fit(X, y)
        for shape in ((0.3, 40.0), (4.0, 4.0))
    )
    assert few.label_error_share_ < many.label_error_share_ - 0.02
    rare, often = (
        GEMMEDClassifier(base=None, random_state=0, priors=Priors(bad_rate=rate)).fit(X, y)
        for rate in (0.001, 0.3)
    )
    assert rare.bad_measurement_share_ < often.bad_measurement_share_


def test_selection_acts():
    X, y = sample(200)
    options = {"base": None, "random_state": 0}
    narrow = GEMMEDClassifier(selection=Selection(widths=(30.0,), variances=(2.0,)), **options)
    narrow.fit(X, y)
    assert narrow.gamma_ == pytest.approx(30.0 / (3 * X.var()))
    assert narrow.function_variance_ == pytest.approx(2.0)
    assert len(narrow.tuning_) == 1
    usual, small = (
        GEMMEDClassifier(selection=selection, **options).fit(X, y)
        for selection in (None, Selection(max_rows=50))
    )
    assert [c.loss for c in usual.tuning_] != [c.loss for c in small.tuning_]
    all_others = GEMMEDClassifier(selection=Selection(neighbor_graph="leave_one_out"), **options)
    assert not np.allclose(all_others.fit(X, y).knn_distances_, usual.knn_distances_)


def test_the_solver_acts():
    X, y = sample(300)
    rough, precise = (MEDClassifier(solver=Solver(tol=tol)).fit(X, y) for tol in (1e-2, 1e-10))
    assert precise.duality_gap_ < rough.duality_gap_
    landmarks = MEDClassifier(solver=Solver(n_components=10), random_state=0).fit(X, y)
    assert len(landmarks._function.used) <= 10
    options = {"degree": 2, "coef0": 1.0, "function_variance": 0.5}
    poly = MEDClassifier("poly", gamma=1.0, kernel_params=options).fit(X, y)
    gram = 0.5 * (X @ X.T + 1.0) ** 2 + 1.0
    np.testing.assert_allclose(poly.decision_function(X), gram @ poly.dual_coef_, atol=1e-8)
