"""What a fitted classifier says of training and new samples: terms, verdicts, p-values."""

import pickle
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_blobs

from gemmed import GEMMEDClassifier
from gemmed._core.exceptions import CalibrationWarning

CENTERS = np.zeros((3, 5))
CENTERS[0, :2], CENTERS[1, :2], CENTERS[2, :2] = [0, 6], [-6, -3], [6, -3]
VERDICTS = {"ok", "suspicious label", "suspicious measurement"}


def blobs(seed, n=240, n_classes=3):
    return make_blobs(n, centers=CENTERS[:n_classes], random_state=seed)


def corrupted(seed, n=300, n_classes=3):
    """Blobs with 5 % flipped labels and 5 % gross noise far from everything."""
    rng = np.random.default_rng(seed)
    X, truth = blobs(seed, n, n_classes)
    chosen = rng.permutation(n)[: n // 10]
    flipped, noise = np.zeros((2, n), dtype=bool)
    flipped[chosen[::2]], noise[chosen[1::2]] = True, True
    y = np.where(flipped, (truth + 1) % n_classes, truth)
    directions = rng.normal(size=(noise.sum(), 5))
    X[noise] = 40.0 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return X, y, truth, flipped, noise


@pytest.fixture(scope="module")
def known():
    return corrupted(0)


@pytest.fixture(scope="module")
def model(known):
    X, y, *_ = known
    return GEMMEDClassifier(random_state=0).fit(X, y)


def as_arrays(table):
    return {name: np.asarray(table[name]) for name in table}


def test_verdicts_on_known_faults(known, model):
    _, y, truth, flipped, noise = known
    table = as_arrays(model.explain())
    assert set(table["verdict"]) <= VERDICTS
    np.testing.assert_array_equal(table["verdict"] == "ok", ~model.flagged())
    assert np.mean(table["verdict"][flipped] != "ok") >= 0.85
    assert np.mean(table["verdict"][flipped] == "suspicious label") >= 0.75
    assert np.mean(table["verdict"][noise] == "suspicious measurement") >= 0.9
    assert np.mean(table["verdict"][~flipped & ~noise] == "ok") >= 0.98
    np.testing.assert_array_equal(table["label"], y)
    named = flipped & (table["verdict"] == "suspicious label")
    assert np.mean(table["suggested_label"][named] == truth[named]) >= 0.95
    trusted = table["verdict"] == "ok"
    np.testing.assert_array_equal(table["suggested_label"][trusted], y[trusted])


@pytest.mark.parametrize("n_seeds", [2, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_verdicts_over_seeds(n_classes, n_seeds):
    right = {"flipped": [], "noise": []}
    for seed in range(1, 1 + n_seeds):
        X, y, _, flipped, noise = corrupted(seed, 240, n_classes)
        fitted = GEMMEDClassifier(random_state=0).fit(X, y)
        verdict = np.asarray(fitted.explain()["verdict"])
        right["flipped"].append(np.mean(verdict[flipped] == "suspicious label"))
        right["noise"].append(np.mean(verdict[noise] == "suspicious measurement"))
    assert np.mean(right["flipped"]) >= 0.8
    assert np.mean(right["noise"]) >= 0.9


def test_conflicting_rows_are_the_nearest_trusted_ones_of_other_classes(known, model):
    X, y, *_ = known
    table = as_arrays(model.explain())
    trusted = model.nominal_proba_ >= 0.5
    for row in range(len(y)):
        found = table["conflicting"][row]
        if table["verdict"][row] == "ok":
            assert found == []
            continue
        others = np.flatnonzero(trusted & (y != y[row]))
        to_others = np.linalg.norm(X[others] - X[row], axis=1)
        assert found == others[np.argsort(to_others)[:3]].tolist()


def test_p_values_of_training_samples_rank_their_distances(known, model):
    X, y, _, flipped, noise = known
    table = as_arrays(model.explain())
    p = table["p_value"]
    assert np.all((p > 0) & (p <= 1))
    assert p[flipped | noise].max() < 0.05
    clean = ~flipped & ~noise
    assert abs(np.mean(p[clean] <= 0.5) - 0.5) < 0.1
    # Mean distance to the ten nearest trusted others of the own class.
    trusted = model.nominal_proba_ >= 0.5
    for z in range(3):
        own = np.flatnonzero(y == z)
        reference = np.flatnonzero((y == z) & trusted)
        distances = np.linalg.norm(X[own][:, None] - X[reference], axis=-1)
        distances[own[:, None] == reference] = np.inf
        means = np.sort(distances, axis=1)[:, :10].mean(axis=1)
        assert stats.spearmanr(means, p[own]).statistic < -0.99


def test_tables_without_pandas(known, model, monkeypatch):
    with_pandas = as_arrays(model.explain())
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = model.explain()
    assert isinstance(table, dict)
    assert list(table) == list(with_pandas)
    for name in table:
        if name != "conflicting":
            np.testing.assert_array_equal(table[name], with_pandas[name])


def test_levels_hold_on_new_clean_samples():
    """Conformal: P(p <= a) <= a up to the error of counting, over models and samples."""
    alarms, total = np.zeros(3), 0
    levels = np.array([0.05, 0.1, 0.3])
    for seed in range(4):
        X, y = blobs(seed)
        fitted = GEMMEDClassifier(base=None, random_state=0).fit(X, y)
        new, _ = blobs(100 + seed, 600)
        p = fitted.p_values(new)
        alarms += (p[:, None] <= levels).sum(axis=0)
        np.testing.assert_array_equal(fitted.screen(new, 0.1), p <= 0.1)
        total += len(new)
    # The error of 240 calibration samples a model counts more than that of 600 new ones.
    error = np.sqrt(levels * (1 - levels) * (1 / total + 1 / (4 * 240)))
    assert np.all(alarms / total <= levels + 3 * error)
    assert np.all(alarms / total >= 0.3 * levels)


def test_p_values_by_class():
    X, y = blobs(5)
    fitted = GEMMEDClassifier(random_state=0).fit(X, y)
    new, labels = blobs(105, 300)
    p = fitted.p_values(new, by_class=True)
    assert p.shape == (300, 3)
    rows = np.arange(300)
    assert abs(np.mean(p[rows, labels] <= 0.2) - 0.2) < 0.08
    assert p[rows, (labels + 1) % 3].max() < 0.02
    np.testing.assert_array_equal(fitted.p_values([[90.0, 0, 0, 0, 0]], by_class=True) < 0.02, True)


def test_screening_finds_what_is_like_nothing(model):
    rng = np.random.default_rng(0)
    new, _ = blobs(200, 200)
    strange = 30.0 + rng.normal(size=(20, 5))
    both = np.vstack([new, strange])
    assert model.screen(strange).all()
    assert model.screen(both, fdr=0.1)[200:].mean() >= 0.9
    false = [
        model.screen(np.vstack([blobs(300 + seed, 200)[0], strange]), fdr=0.2) for seed in range(10)
    ]
    proportions = [alarms[:200].sum() / max(1, alarms.sum()) for alarms in false]
    assert np.mean(proportions) < 0.2 + 0.1


def test_rates_of_screening_are_checked(model):
    new, _ = blobs(1, 10)
    for arguments in ({"false_alarm_rate": 0.0}, {"false_alarm_rate": None}, {"fdr": 1.5}):
        with pytest.raises(ValueError, match=r"false_alarm_rate|fdr"):
            model.screen(new, **arguments)
    with pytest.raises(ValueError, match="false_alarm_rate"):
        model.predict_or_abstain(new, -0.1)
    with pytest.raises(ValueError, match="features"):
        model.p_values(new[:, :2])


def test_asking_changes_no_prediction(model):
    fitted = pickle.loads(pickle.dumps(model))
    new, _ = blobs(9, 50)
    before = fitted.decision_function(new), fitted.predict_proba(new), fitted.nominal_proba_.copy()
    fitted.explain()
    fitted.p_values(new)
    fitted.screen(new, fdr=0.1)
    fitted.predict_or_abstain(new)
    after = fitted.decision_function(new), fitted.predict_proba(new), fitted.nominal_proba_
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_abstaining(known, model):
    new, _labels = blobs(7, 60)
    new = np.vstack([new, np.full((3, 5), 50.0)])
    answers = model.predict_or_abstain(new)
    suspicious = model.screen(new)
    assert suspicious[-3:].all()
    assert all(answer is None for answer in answers[suspicious])
    np.testing.assert_array_equal(answers[~suspicious].astype(int), model.predict(new)[~suspicious])
    numbers = model.predict_or_abstain(new, abstain=-1)
    assert numbers.dtype.kind == "i"
    assert np.all(numbers[suspicious] == -1)
    X, y, *_ = known
    names = np.array(["a", "b", "c"])
    named = GEMMEDClassifier(random_state=0).fit(X, names[y])
    answers = named.predict_or_abstain(new, abstain="unknown")
    assert set(answers[-3:]) == {"unknown"}
    assert set(answers[:60]) <= {"a", "b", "c", "unknown"}


def test_precomputed_kernels_explain_but_do_not_screen():
    X, y = blobs(2, 90)
    y[:5] = (y[:5] + 1) % 3
    gram = X @ X.T
    fitted = GEMMEDClassifier("precomputed", random_state=0).fit(gram, y)
    table = as_arrays(fitted.explain())
    assert np.mean(table["verdict"][:5] == "suspicious label") >= 0.8
    with pytest.raises(ValueError, match=r"precomputed.*trust_distances"):
        fitted.p_values(gram[:3])
    with pytest.raises(ValueError, match="precomputed"):
        fitted.screen(gram[:3])


def test_a_class_that_is_doubted_as_a_whole_can_be_explained():
    """Labels of one class only on rows of the other: nobody of that class is trusted."""
    X, _ = make_blobs(200, centers=np.zeros((1, 4)), random_state=0)
    y = (np.arange(200) < 12).astype(int)
    prior = np.where(y == 1, 1e-6, 0.95)
    fitted = GEMMEDClassifier(random_state=0, n_neighbors=3).fit(X, y, prior_nominal=prior)
    assert fitted.nominal_proba_[y == 1].max() < 0.5
    table = as_arrays(fitted.explain())
    assert np.all(table["verdict"][:12] != "ok")
    assert fitted.p_values(X).shape == (200,)


def test_unfitted_models_say_so():
    from sklearn.exceptions import NotFittedError

    X, _ = blobs(0, 10)
    for call in ("p_values", "screen", "predict_or_abstain"):
        with pytest.raises(NotFittedError):
            getattr(GEMMEDClassifier(), call)(X)
    with pytest.raises(NotFittedError):
        GEMMEDClassifier().explain()


@pytest.mark.parametrize("asked_before", [False, True])
def test_pickle_and_clone(known, asked_before):
    X, y, *_ = known
    fitted = GEMMEDClassifier(base=None, random_state=0).fit(X, y)
    new, _ = blobs(8, 30)
    if asked_before:
        fitted.p_values(new)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.p_values(new), fitted.p_values(new))
    one, other = as_arrays(restored.explain()), as_arrays(fitted.explain())
    np.testing.assert_array_equal(one["verdict"], other["verdict"])
    assert not hasattr(clone(fitted), "nominal_proba_")


def test_fitting_again_forgets_the_old_reference():
    X, y = blobs(0)
    fitted = GEMMEDClassifier(base=None, random_state=0).fit(X, y)
    fitted.p_values(X[:5])
    fitted.fit(X + 100.0, y)
    assert fitted.p_values(X[:5]).max() < 0.02


def test_feedback_on_single_samples(known):
    """A person looks at doubtful rows; the answers hold exactly, and the next fit is quick."""
    X, y, _, flipped, noise = known
    fitted = GEMMEDClassifier(random_state=0, warm_start=True).fit(X, y)
    cold, before = fitted.n_iter_, fitted.nominal_proba_
    kernel = fitted.gamma_, fitted.function_variance_
    prior = np.full(len(y), 0.95)
    doubtful = np.flatnonzero(flipped)[:3]
    fine = np.flatnonzero(~flipped & ~noise)[:3]
    prior[doubtful], prior[fine] = 1.0, 0.0
    fitted.fit(X, y, prior_nominal=prior)
    np.testing.assert_array_equal(fitted.nominal_proba_[doubtful], 1.0)
    np.testing.assert_array_equal(fitted.nominal_proba_[fine], 0.0)
    assert fitted.n_iter_ <= cold + 5
    assert (fitted.gamma_, fitted.function_variance_) == kernel
    rest = prior == 0.95
    agree = (fitted.nominal_proba_ < 0.5) == (before < 0.5)
    assert agree[rest].mean() > 0.97
    again = GEMMEDClassifier(
        kernel_params={"function_variance": kernel[1], "bias_variance": fitted.bias_variance_},
        random_state=0,
        gamma=kernel[0],
    ).fit(X, y, prior_nominal=prior)
    assert np.abs(again.nominal_proba_ - fitted.nominal_proba_).mean() < 0.01
    table = as_arrays(fitted.explain())
    np.testing.assert_array_equal(table["prior"][doubtful], np.inf)
    np.testing.assert_array_equal(table["label_term"][doubtful], 0.0)
    assert np.all(table["verdict"][doubtful] == "ok")


def test_warm_start_on_the_same_data_changes_little_and_is_quicker(known):
    X, y, *_ = known
    fitted = GEMMEDClassifier(random_state=0, warm_start=True).fit(X, y)
    cold, before = fitted.n_iter_, fitted.nominal_proba_
    fitted.fit(X, y)
    assert fitted.n_iter_ <= cold
    assert np.abs(fitted.nominal_proba_ - before).mean() < 5e-3


def test_warm_start_with_other_data_starts_afresh(known):
    X, y, *_ = known
    warm = GEMMEDClassifier(random_state=0, warm_start=True).fit(X, y).fit(X[:200], y[:200])
    fresh = GEMMEDClassifier(random_state=0).fit(X[:200], y[:200])
    np.testing.assert_array_equal(warm.nominal_proba_, fresh.nominal_proba_)
    two = y[:200] > 0  # as many samples, another number of decision functions
    warm.fit(X[:200], two)
    assert warm.decision_function(X[:5]).shape == (5,)


def test_a_rate_that_few_samples_cannot_reach_is_said(model):
    new, _ = blobs(7, 10)
    with pytest.warns(CalibrationWarning, match="cannot give a p-value of 1e-05"):
        assert not model.screen(new, 1e-5).any()
