"""Classifier of several sensors: views, broken and missing sensors, bursts, the moment of use."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from gemmed import SensorGEMMEDClassifier, load_model, save_model
from gemmed.sensors.view_function import rows_to_learn

N_VIEWS, WIDTH = 3, 6
VIEWS = {name: slice(i * WIDTH, (i + 1) * WIDTH) for i, name in enumerate("abc")}


def walks(n_groups, seed, *, length=12, faults=True):
    """Recordings of three sensors; a fault is loud noise at one sensor for four samples or more."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), length)
    y = np.repeat(np.arange(n_groups) % 2, length)
    time = np.tile(np.arange(length) * 0.5, n_groups)
    # The sensors receive the same signal, hence they can be predicted from each other.
    common = rng.normal(size=(len(y), WIDTH))
    mixing = np.random.default_rng(99).normal(size=(N_VIEWS, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    direction = np.random.default_rng(98).normal(size=(N_VIEWS, WIDTH))
    X = np.concatenate(
        [
            common @ mixing[v]
            + 0.4 * rng.normal(size=(len(y), WIDTH))
            + 0.6 * np.outer(2 * y - 1, direction[v])
            for v in range(N_VIEWS)
        ],
        axis=1,
    )
    broken = np.zeros((len(y), N_VIEWS), dtype=bool)
    if faults:
        for group in range(n_groups):
            if rng.random() < 0.5:
                start, view = rng.integers(0, length - 4), rng.integers(N_VIEWS)
                rows = group * length + np.arange(start, min(start + rng.integers(4, 8), length))
                broken[rows, view] = True
                block = slice(view * WIDTH, (view + 1) * WIDTH)
                X[rows, block] = 4.0 * rng.normal(size=(len(rows), WIDTH))
    return X, y, groups, time, broken


@pytest.fixture(scope="module")
def training():
    return walks(40, 0)


@pytest.fixture(scope="module")
def model(training):
    X, y, groups, time, _ = training
    return SensorGEMMEDClassifier(VIEWS, random_state=0).fit(X, y, order=time, groups=groups)


def test_broken_sensors_of_training_samples_are_named(training, model):
    broken = training[4]
    found = model.broken_proba_ > 0.5
    assert found[broken].mean() > 0.9
    assert found[~broken].mean() < 0.03
    explained = model.explain()
    named = np.asarray(explained["sensors"])
    only_b = broken[:, 1] & ~broken[:, 0] & ~broken[:, 2]
    assert np.mean(named[only_b] == "b") > 0.85
    assert set(np.asarray(explained["verdict"])[only_b]) <= {"ok", "broken sensor", "both"}
    assert list(model.fault_rates_) == ["a", "b", "c", "all"]
    assert model.fault_rates_["a"]["mean_burst"] > 2.0


def test_new_samples_have_indicators_and_broken_sensors_are_left_out(training, model):
    X, y, groups, time, broken = walks(40, 1)
    screened = model.screen(X, order=time, groups=groups)
    assert screened.broken[broken].mean() > 0.9
    assert screened.broken[~broken].mean() < 0.03
    assert screened.named()[int(np.flatnonzero(broken[:, 2])[0])] == ("c",)
    proba = model.predict_proba(X, order=time, groups=groups)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    trusting = clone(model).set_params(at_use=False)
    trusting.fit(*training[:2], order=training[3], groups=training[2])
    # The truth is as good as certain to both; where a sensor is broken, less so to the trusting.
    rows = np.flatnonzero(broken.any(axis=1))
    informed, deceived = (
        np.log(p[rows, y[rows]]).mean() for p in (proba, trusting.predict_proba(X))
    )
    assert informed > deceived


def test_a_fault_is_a_span_of_time(model):
    X, _, groups, time, broken = walks(30, 2)
    spans = model.spans(X, order=time, groups=groups)
    for span in spans:
        assert span.sensor in VIEWS
        assert span.stop >= span.start
    long = [span for span in spans if span.n_samples >= 4]
    close = 0
    for span in long:
        own = (groups == span.group) & broken[:, "abc".index(span.sensor)]
        if own.any():
            ends = abs(time[own].min() - span.start), abs(time[own].max() - span.stop)
            close += max(ends) <= 0.5
    assert close >= 0.8 * len(long)
    assert "sensor" in str(long[0])
    assert len(model.spans()) > 0  # of the training samples


def test_missing_sensors_are_dropped_and_samples_without_any_get_the_prior(training, model):
    X, y, groups, time, _ = walks(40, 3, faults=False)
    holes = X.copy()
    holes[::2, VIEWS["a"]] = np.nan
    right = np.mean(model.predict(holes, order=time, groups=groups) == y)
    assert right > np.mean(model.predict(X, order=time, groups=groups) == y) - 0.08
    nothing = np.full((3, X.shape[1]), np.nan)
    shares = np.bincount(training[1]) + 1.0
    np.testing.assert_allclose(model.predict_proba(nothing), np.tile(shares / shares.sum(), (3, 1)))
    screened = model.screen(nothing)
    assert screened.no_good_sensor.all()
    assert not screened.broken.any()
    assert screened.missing.all()


def test_training_with_missing_sensors_is_no_worse_than_without_these_readings():
    X, y, groups, time, _ = walks(40, 4, faults=False)
    test = walks(40, 5, faults=False)
    rng = np.random.default_rng(0)
    for view in VIEWS.values():
        X[rng.random(len(X)) < 0.3, view] = np.nan
    model = SensorGEMMEDClassifier(VIEWS, random_state=0).fit(X, y, order=time, groups=groups)
    trusting = SensorGEMMEDClassifier(VIEWS, indicators=False, random_state=0)
    trusting.fit(X, y, order=time, groups=groups)
    scores = [
        np.mean(m.predict(test[0], order=test[3], groups=test[2]) == test[1])
        for m in (model, trusting)
    ]
    assert scores[0] >= scores[1] - 0.01


def test_a_stuck_sensor_is_found_in_training_and_in_new_samples():
    X, y, *_ = walks(40, 6, faults=False)
    stuck = np.arange(len(X)) % 5 == 0
    X[stuck, VIEWS["b"]] = X[0, VIEWS["b"]]
    model = SensorGEMMEDClassifier(VIEWS, random_state=0).fit(X, y)
    assert np.all(model.broken_proba_[stuck, 1] > 0.5)
    assert np.mean(model.broken_proba_[~stuck] > 0.5) < 0.05
    assert model.screen(X[stuck][:1]).named() == [("b",)]


def test_without_an_order_samples_stand_alone(training, model):
    X = training[0][:40]
    together, alone = model.predict_proba(X), [model.predict_proba(row[None])[0] for row in X]
    np.testing.assert_allclose(together, alone, atol=1e-10)


def test_unlabelled_samples_may_take_part():
    X, y, groups, time, _ = walks(24, 7)
    new = walks(24, 8)
    model = SensorGEMMEDClassifier(VIEWS, random_state=0).fit(
        X, y, order=time, groups=groups, X_new=new[0], order_new=new[3], groups_new=new[2]
    )
    assert model.broken_proba_.shape == (len(X), N_VIEWS)
    found = model.screen(new[0], order=new[3], groups=new[2]).broken
    assert found[new[4]].mean() > 0.8
    with pytest.raises(ValueError, match="order_new"):
        SensorGEMMEDClassifier(VIEWS).fit(X, y, groups=groups, X_new=new[0])


def test_three_classes_and_separate_screening_columns():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 8)) + 2.0 * np.eye(8)[y] + 2.0 * np.eye(8)[y + 4]
    quality = rng.normal(size=(240, 2))
    quality[:30, 0] += 8.0
    model = SensorGEMMEDClassifier(
        [slice(0, 4), slice(4, 8)], screen_views=[[8], [9]], random_state=0
    ).fit(np.column_stack([X, quality]), y)
    assert model.predict_proba(np.column_stack([X, quality])).shape == (240, 3)
    assert np.mean(model.broken_proba_[:30, 0]) > 0.9
    assert np.mean(model.broken_proba_[30:]) < 0.05
    assert model.score(np.column_stack([X, quality]), y) > 0.85


def test_views_by_column_names():
    pd = pytest.importorskip("pandas")
    X, y, *_ = walks(20, 9)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    named = {"left": [f"x{i}" for i in range(9)], "right": [f"x{i}" for i in range(9, 18)]}
    model = SensorGEMMEDClassifier(named, random_state=0).fit(frame, y)
    assert model.sensor_names_ == ("left", "right")
    same = SensorGEMMEDClassifier(2, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(frame), same.predict_proba(X))


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (5, "must divide the 18 columns"),
        ({"a": ["x1"]}, "X has no names"),
        ({"a": [99]}, "18 columns only"),
        ({"a": [1, 1]}, "names a column twice"),
        ({"a": slice(5, 5)}, "holds no column"),
        ("abc", "must be a number of blocks"),
        ({}, "is empty"),
    ],
)
def test_views_that_make_no_sense_are_refused(views, message):
    X, y, *_ = walks(4, 0)
    with pytest.raises(ValueError, match=message):
        SensorGEMMEDClassifier(views).fit(X, y)


def test_other_bad_input_is_refused(training):
    X, y, _, time, _ = training
    late = time.copy()
    late[3] = np.nan
    with pytest.raises(ValueError, match="same sensors"):
        SensorGEMMEDClassifier(VIEWS, screen_views={"a": [0]}).fit(X, y)
    with pytest.raises(ValueError, match="order has shape"):
        SensorGEMMEDClassifier(VIEWS).fit(X, y, order=time[:5])
    with pytest.raises(ValueError, match=r"order\[3\] is missing"):
        SensorGEMMEDClassifier(VIEWS).fit(X, y, order=late)
    with pytest.raises(ValueError, match="one class only"):
        SensorGEMMEDClassifier(VIEWS).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="gamma"):
        SensorGEMMEDClassifier(VIEWS, gamma=-1.0).fit(X, y)
    with pytest.raises(NotFittedError):
        SensorGEMMEDClassifier(VIEWS).predict(X)


def test_time_stamps_may_be_dates(training):
    X, y, groups, time, _ = training
    dates = np.datetime64("2026-01-01") + (1000 * time).astype("timedelta64[ms]")
    models = [
        SensorGEMMEDClassifier(VIEWS, random_state=0).fit(X, y, order=order, groups=groups)
        for order in (time, dates)
    ]
    np.testing.assert_allclose(models[0].broken_proba_, models[1].broken_proba_, atol=1e-6)


def test_a_model_can_be_saved(model, training, tmp_path):
    pytest.importorskip("skops")
    X, _, groups, time, _ = training
    save_model(model, tmp_path / "sensors.gemmed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_model(tmp_path / "sensors.gemmed")
    np.testing.assert_array_equal(
        again.predict_proba(X, order=time, groups=groups),
        model.predict_proba(X, order=time, groups=groups),
    )
    assert again.spans() == model.spans()


def test_trusting_everybody_with_one_view_is_med_with_uncertain_labels(training):
    """One view, no indicators: the function is the one of the model without sensors."""
    from gemmed.model.decision_step import solve_med_functions
    from gemmed.model.kernels.function_space import exact_prior
    from gemmed.model.kernels.kernel import Kernel
    from gemmed.model.states.label_model import flip_proba_and_cost, flip_probabilities, label_costs

    X, y, groups, *_ = training
    model = SensorGEMMEDClassifier(
        indicators=False,
        scale=False,
        gamma=0.1,
        function_variance=1.0,
        bias_variance=1.0,
        tol=1e-12,
    ).fit(X, y, groups=groups)
    signs = (2.0 * y - 1.0)[:, None]
    likely = model.true_label_proba_
    costs = label_costs(model._fit.posterior.rates, likely.mean(axis=0), signs)
    flip_proba, cost = flip_proba_and_cost(flip_probabilities(likely, signs), costs)
    space = exact_prior(Kernel("rbf", 0.1), X).space
    solved = solve_med_functions(
        space,
        signs,
        3.0,
        np.ones(len(y)),
        max_iter=200,
        tol=1e-12,
        flip_proba=flip_proba,
        cost=cost,
    )
    expected = solved[0].decision.f
    odds = np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    intercept = np.diff(model._fit.intercepts[0])[0]
    np.testing.assert_allclose(odds, model.sensor_slopes_[0] * expected + intercept, atol=1e-4)


def test_many_ordinary_sensors_are_not_called_broken():
    """32 sensors that say little each: without exact inference there is no fault of all of them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 32)) + 2.4 / np.sqrt(32) * y[:, None]
    model = SensorGEMMEDClassifier(views=32, gamma="scale", random_state=0).fit(X, y)
    assert np.mean(model.broken_proba_ > 0.5) < 0.01
    assert "all" not in model.fault_rates_
    with pytest.raises(ValueError, match="shared='never'"):
        SensorGEMMEDClassifier(shared="never").fit(X[:40, :4], y[:40])


def test_true_labels_that_are_known_are_kept(training):
    X, y, groups, time, _ = training
    given, known = y.copy(), np.full(len(y), None, dtype=object)
    given[:8], known[:16] = 1 - y[:8], y[:16]
    model = SensorGEMMEDClassifier(VIEWS, random_state=0)
    model.fit(X, given, order=time, groups=groups, known_labels=known)
    np.testing.assert_array_equal(model.true_label_proba_[:16], np.eye(2)[y[:16]])
    assert np.all(model.nominal_proba_[:8] == 0.0)
    with pytest.raises(ValueError, match="known_labels"):
        model.fit(X, given, known_labels=known[:3])


def test_functions_learn_from_some_of_many_rows_and_judge_all(monkeypatch):
    """Rows beyond the limit are judged like the others."""
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.3).astype(int)
    X = rng.normal(size=(3000, 4)) + 1.2 * y[:, None]
    wrong = rng.random(3000) < 0.1
    given = np.where(wrong, 1 - y, y)
    rows = rows_to_learn(given, np.ones(3000), 1000, 0)
    assert len(rows) == 1000 and np.mean(given[rows]) == 0.5
    monkeypatch.setattr("gemmed.sensors.classifier.MAX_READINGS", 2000)
    model = SensorGEMMEDClassifier(2, random_state=0).fit(X, given)
    assert all(len(own.function.used) <= 1000 for own in model._fit.functions)
    doubt = 1.0 - model.true_label_proba_[np.arange(3000), given]
    seen = np.isin(np.arange(3000), rows)
    areas = [roc_auc_score(wrong[part], doubt[part]) for part in (seen, ~seen)]
    assert min(areas) > 0.9 and abs(areas[0] - areas[1]) < 0.05
