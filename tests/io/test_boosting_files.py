"""Boosted trees in model files: the same predictions, and an error for changed ones."""

import copy

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from gemmed import GEMMEDClassifier, trusted_types
from gemmed.io.model_files import ModelFileError, load_model, save_model
from gemmed.io.stored_trees import StoredBoosting, with_stored_trees

pytest.importorskip("skops")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * RNG.normal(size=150), [-0.5, 0.5])]
GAPS = np.where(RNG.random(X.shape) < 0.3, np.nan, X)


def boosting(**options):
    return HistGradientBoostingClassifier(**{"max_iter": 8, "random_state": 0, **options})


MODELS = {
    "three classes": (boosting(), X, Y),
    "two classes": (boosting(), X, Y == "a"),
    "gaps": (boosting(max_depth=3, class_weight="balanced"), GAPS, Y),
    "early": (boosting(early_stopping=True, scoring="loss"), X, Y),
    "stumps": (boosting(max_leaf_nodes=2), X, Y),
    "member": (GEMMEDClassifier(base=boosting(), random_state=0), X, Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_the_same_to_the_bit(name, tmp_path):
    model, rows, labels = MODELS[name]
    model.fit(rows, labels)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert type(again) is type(model)
    assert again.predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()
    assert again.predict(rows).tolist() == model.predict(rows).tolist()


def test_a_loaded_classifier_can_be_fitted_again(tmp_path):
    model = boosting().fit(X, Y)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.n_iter_ == model.n_iter_
    assert again.fit(X, Y).predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


@pytest.mark.parametrize("options", [{"categorical_features": [0]}, {"warm_start": True}])
def test_what_has_no_stored_form_needs_trust(options, tmp_path):
    rows = np.column_stack([RNG.integers(0, 5, 150), X])
    model = boosting(**options).fit(rows, Y)
    assert with_stored_trees(model) is model
    with pytest.raises(ModelFileError, match=r"trusted=\[\.\.\.\]"):
        save_model(model, tmp_path / "m")


@pytest.fixture(scope="module")
def stored():
    return StoredBoosting.of(boosting().fit(X, Y))


def load(state):
    new = object.__new__(StoredBoosting)
    new.__setstate__(state)
    return new


def inner(state):
    return int(np.flatnonzero(state["nodes"]["is_leaf"] == 0)[0])


CHANGES = {
    "cycle": lambda s: s["nodes"]["left"].__setitem__(inner(s), 0),
    "two parents": lambda s: s["nodes"]["right"].__setitem__(inner(s), s["nodes"]["left"][0]),
    "far child": lambda s: s["nodes"]["right"].__setitem__(inner(s), 2**32 - 1),
    "next tree": lambda s: s["nodes"]["right"].__setitem__(inner(s), s["counts"][0]),
    "far feature": lambda s: s["nodes"]["feature_idx"].__setitem__(inner(s), 4),
    "negative feature": lambda s: s["nodes"]["feature_idx"].__setitem__(inner(s), -1),
    "threshold": lambda s: s["nodes"]["num_threshold"].__setitem__(inner(s), np.nan),
    "value": lambda s: s["nodes"]["value"].__setitem__(-1, np.inf),
    "category": lambda s: s["nodes"]["is_categorical"].__setitem__(inner(s), 1),
    "leaf of 2": lambda s: s["nodes"]["is_leaf"].__setitem__(0, 2),
    "all leaves": lambda s: s["nodes"]["is_leaf"].fill(1),
    "no leaves": lambda s: s["nodes"]["is_leaf"].fill(0),
    "short field": lambda s: s["nodes"].update(value=s["nodes"]["value"][:-1]),
    "other type": lambda s: s["nodes"].update(left=s["nodes"]["left"].astype(np.int64)),
    "no field": lambda s: s["nodes"].pop("left"),
    "one field more": lambda s: s["nodes"].update(more=s["nodes"]["left"]),
    "counts": lambda s: s.update(counts=s["counts"][:-1]),
    "huge counts": lambda s: s["counts"].fill(2**62),
    "negative counts": lambda s: s["counts"].__iadd__(np.where(np.arange(24) % 2, 99, -99)),
    "counts of floats": lambda s: s.update(counts=s["counts"].astype(float)),
    "baseline": lambda s: s.update(baseline=np.zeros((1, 2))),
    "endless baseline": lambda s: s["baseline"].fill(np.nan),
    "classes": lambda s: s["attributes"].update(classes_=np.arange(2)),
    "fewer features": lambda s: s["attributes"].update(n_features_in_=1),
    "features as text": lambda s: s["attributes"].update(n_features_in_="4"),
    "method": lambda s: s["attributes"].update(predict=1),
    "no attribute": lambda s: s["attributes"].pop("classes_"),
    "unknown parameter": lambda s: s["params"].update(code=1),
    "wrong parameter": lambda s: s["params"].update(loss=5),
    "one part more": lambda s: s.update(trees=1),
    "nodes are a list": lambda s: s.update(nodes=[1, 2]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_trees_are_refused_with_a_sentence(name, stored):
    from gemmed._core.exceptions import PayloadError

    state = copy.deepcopy(vars(stored))
    CHANGES[name](state)
    with pytest.raises(PayloadError, match="boosted trees") as caught:
        load(state)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_are_refused_or_harmless(seed, stored):
    """Trees that load predict shares of classes for any rows, and end."""
    from gemmed._core.exceptions import PayloadError

    rng = np.random.default_rng(seed)
    n_loaded = 0
    for _ in range(200):
        state = copy.deepcopy(vars(stored))
        column = state["nodes"][str(rng.choice(sorted(state["nodes"])))]
        column[rng.integers(len(column))] = rng.integers(0, 40)
        try:
            model = load(state)
        except PayloadError:
            continue
        n_loaded += 1
        assert np.isfinite(model.predict_proba(GAPS)).all()
    assert 0 < n_loaded < 200


def test_programs_that_use_skops_are_told_of_the_trees():
    import skops.io

    model = GEMMEDClassifier(base="boosting", random_state=0).fit(X, Y == "a")
    types = trusted_types(model)
    assert "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor" in types
    again = skops.io.loads(skops.io.dumps(model), trusted=types)
    assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
