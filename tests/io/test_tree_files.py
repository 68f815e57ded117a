"""Forests in model files: the same predictions, and an error for a changed one."""

import copy
import hashlib
import io
import json
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from gemmed import GEMMEDClassifier, trusted_types
from gemmed.io.model_files import (
    HEADER,
    PAYLOAD,
    TREE,
    ModelFileError,
    load_model,
    save_model,
)
from gemmed.io.stored_trees import StoredForest, with_stored_trees

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * RNG.normal(size=150), [-0.5, 0.5])]
GAPS = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
QUERY = RNG.normal(size=(80, 4))


def forest(kind=RandomForestClassifier, **options):
    return kind(**{"n_estimators": 12, "random_state": 0, **options})


MODELS = {
    "forest": forest(),
    "extra trees": forest(ExtraTreesClassifier),
    "options": forest(
        max_depth=3,
        max_features=0.5,
        class_weight={"a": 1, "b": 2, "c": 1},
        oob_score=True,
        n_estimators=30,
        criterion="entropy",
    ),
    "one node": forest(max_depth=1, min_samples_leaf=100),
    "generator": forest(random_state=np.random.RandomState(3)),
    "pipeline": make_pipeline(StandardScaler(), forest()),
    "vote": VotingClassifier([("f", forest()), ("g", GaussianNB())], voting="soft"),
    "gemmed": GEMMEDClassifier(base=forest(n_estimators=60), random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_forests_predict_to_the_bit_what_they_did(name, tmp_path):
    model = MODELS[name].fit(X, Y)
    before = model.predict_proba(QUERY)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert type(again) is type(model)
    assert again.predict(QUERY).tolist() == model.predict(QUERY).tolist()
    assert again.predict_proba(QUERY).tobytes() == before.tobytes()
    assert model.predict_proba(QUERY).tobytes() == before.tobytes()


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_every_attribute_of_forest_and_trees_is_the_same(kind, tmp_path):
    model = forest(kind).fit(GAPS, Y)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.predict_proba(GAPS).tobytes() == model.predict_proba(GAPS).tobytes()
    assert vars(again).keys() == vars(model).keys()
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    np.testing.assert_array_equal(again.apply(GAPS), model.apply(GAPS))
    assert (again.decision_path(QUERY)[0] != model.decision_path(QUERY)[0]).nnz == 0
    for one, other in zip(again.estimators_, model.estimators_, strict=True):
        for name, value in vars(other).items():
            assert type(vars(one)[name]) is type(value)
            assert name == "tree_" or str(vars(one)[name]) == str(value)
        found, expected = one.tree_.__getstate__(), other.tree_.__getstate__()
        assert found["max_depth"] == expected["max_depth"]
        np.testing.assert_array_equal(found["nodes"], expected["nodes"])
        np.testing.assert_array_equal(found["values"], expected["values"])


def test_a_forest_that_stands_in_two_places_is_stored_once():
    model = make_pipeline(StandardScaler(), forest()).fit(X, Y)
    model.same = [model[-1]]
    stored = with_stored_trees(model)
    assert stored.same[0] is stored.steps[-1][1]
    assert type(stored.same[0]) is StoredForest
    assert type(model.same[0]) is type(model[-1]) is RandomForestClassifier


@pytest.mark.parametrize("model", [forest(), HistGradientBoostingClassifier(max_iter=3)])
def test_files_that_name_the_earlier_modules_are_loaded(model, tmp_path):
    save_model(model.fit(X, Y), tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        header, payload = json.loads(archive.read(HEADER)), archive.read(PAYLOAD)
    place = "boosting_files" if isinstance(model, HistGradientBoostingClassifier) else "tree_files"
    with zipfile.ZipFile(io.BytesIO(payload)) as inner:
        members = {name: inner.read(name) for name in inner.namelist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as inner:
        for name, content in members.items():
            now, before = b'"gemmed.io.stored_trees"', f'"gemmed.estimators.{place}"'.encode()
            assert (now in content) == (name == "schema.json")
            inner.writestr(name, content.replace(now, before))
    header["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    with zipfile.ZipFile(tmp_path / "m", "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        archive.writestr(PAYLOAD, buffer.getvalue())
    again = load_model(tmp_path / "m")
    assert again.predict_proba(QUERY).tobytes() == model.predict_proba(QUERY).tobytes()


# -- changed files -----------------------------------------------------------------------------


def endless(state):
    state["nodes"]["left_child"][1] = 0


def itself(state):
    state["nodes"]["left_child"][0] = 0


def two_parents(state):
    state["nodes"]["right_child"][0] = state["nodes"]["left_child"][0]


def next_tree(state):
    state["nodes"]["right_child"][0] = state["counts"][0]


def far_child(state):
    state["nodes"]["right_child"][0] = 2**62


def negative_child(state):
    state["nodes"]["left_child"][0] = -7


def half_leaf(state):
    state["nodes"]["left_child"][0] = -1


def far_feature(state):
    state["nodes"]["feature"][0] = 4


def huge_feature(state):
    state["nodes"]["feature"][0] = 2**62


def negative_feature(state):
    state["nodes"]["feature"][0] = -1


def nan_threshold(state):
    state["nodes"]["threshold"][0] = np.nan


def infinite_value(state):
    state["values"][0, 0] = np.inf


def negative_value(state):
    state["values"][0, 0] = -1


def short_values(state):
    state["values"] = state["values"][:-1]


def more_classes(state):
    state["values"] = np.hstack([state["values"]] * 2)


def other_classes(state):
    state["attributes"]["classes_"] = np.arange(2)


def fewer_features(state):
    state["attributes"]["n_features_in_"] = 1


def text_features(state):
    state["attributes"]["n_features_in_"] = "4"


def two_outputs(state):
    state["attributes"]["n_outputs_"] = 2


def short_field(state):
    state["nodes"]["impurity"] = state["nodes"]["impurity"][:-1]


def field_of_texts(state):
    state["nodes"]["threshold"] = state["nodes"]["threshold"].astype(str)


def small_numbers(state):
    state["nodes"]["left_child"] = state["nodes"]["left_child"].astype(np.int32)


def no_field(state):
    del state["nodes"]["feature"]


def one_field_more(state):
    state["nodes"]["other"] = state["nodes"]["feature"]


def negative_count(state):
    state["counts"][:2] += [10**6, -(10**6)]


def overflowing_counts(state):
    state["counts"][:] = 2**62


def no_trees(state):
    state["counts"], state["seeds"] = state["counts"][:0], state["seeds"][:0]


def other_number_of_trees(state):
    state["params"]["n_estimators"] = 10**6


def unknown_parameter(state):
    state["params"]["code"] = 1


def wrong_parameter(state):
    state["params"]["criterion"] = 5


def hidden_method(state):
    state["attributes"]["predict_proba"] = 1


def own_trees(state):
    state["attributes"]["estimators_"] = []


def other_kind(state):
    state["kind"] = "GradientBoostingClassifier"


def kind_is_a_list(state):
    state["kind"] = []


def no_attributes(state):
    del state["attributes"]


def one_part_more(state):
    state["trees"] = 1


def nodes_are_a_list(state):
    state["nodes"] = [1, 2]


CHANGES = [
    endless, itself, two_parents, next_tree, far_child, negative_child, half_leaf, far_feature,
    huge_feature, negative_feature, nan_threshold, infinite_value, negative_value, short_values,
    more_classes, other_classes, fewer_features, text_features, two_outputs, short_field,
    field_of_texts, small_numbers, no_field, one_field_more, negative_count, overflowing_counts,
    no_trees, other_number_of_trees, unknown_parameter, wrong_parameter, hidden_method, own_trees,
    other_kind, kind_is_a_list, no_attributes, one_part_more, nodes_are_a_list,
]  # fmt: skip


@pytest.fixture(scope="module")
def stored():
    return StoredForest.of(forest().fit(X, Y))


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    path = tmp_path_factory.mktemp("header") / "m"
    save_model(forest().fit(X, Y), path)
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(HEADER))


def write(path, header, model):
    """A model file of anything that skops can write, with a check sum that fits."""
    payload = skops.io.dumps(model)
    with zipfile.ZipFile(path, "w") as archive:
        described = {**header, "sha256": hashlib.sha256(payload).hexdigest()}
        archive.writestr(HEADER, json.dumps(described))
        archive.writestr(PAYLOAD, payload)


def changed(stored, change):
    """A stored forest with a changed state, which no check has seen."""
    state = copy.deepcopy(vars(stored))
    change(state)
    new = object.__new__(StoredForest)
    vars(new).update(state)
    return new


def test_an_unchanged_forest_written_so_is_loaded(stored, header, tmp_path):
    write(tmp_path / "m", header, changed(stored, lambda state: None))
    assert load_model(tmp_path / "m").predict(X[:3]).shape == (3,)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_forest_is_refused_with_a_sentence(change, stored, header, tmp_path):
    write(tmp_path / "m", header, changed(stored, change))
    with pytest.raises(ModelFileError, match=r"cannot be loaded: .*forest") as caught:
        load_model(tmp_path / "m")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_are_refused_or_harmless(seed, stored, header, tmp_path):
    """A forest that loads predicts shares of classes for any rows, and ends."""
    rng = np.random.default_rng(seed)
    n_loaded = 0
    for _ in range(40):
        name = rng.choice(sorted(stored.nodes))
        place, number = rng.integers(len(stored.values)), rng.integers(-3, 40)

        def change(state, name=name, place=place, number=number):
            state["nodes"][name][place] = abs(number) % 4 if name[0] == "m" else number

        write(tmp_path / "m", header, changed(stored, change))
        try:
            model = load_model(tmp_path / "m")
        except ModelFileError:
            continue
        n_loaded += 1
        assert np.isfinite(model.predict_proba(QUERY)).all()
        assert model.decision_path(QUERY)[0].shape[0] == len(QUERY)
    assert 0 < n_loaded < 40


# -- trees elsewhere ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        GradientBoostingClassifier(n_estimators=2),
        BaggingClassifier(n_estimators=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_trees_still_need_the_word_of_the_caller(model, tmp_path):
    model.fit(X, Y)
    with pytest.raises(ModelFileError, match="Tree"):
        save_model(model, tmp_path / "m")


def test_a_tree_inside_a_forest_of_the_file_is_refused(header, tmp_path):
    """As skops writes it by itself."""
    write(tmp_path / "m", header, forest().fit(X, Y))
    with pytest.raises(ModelFileError, match="Tree"):
        load_model(tmp_path / "m")


def test_programs_that_use_skops_are_warned_of_the_trees():
    model = forest().fit(X, Y)
    assert trusted_types(model) == [TREE]
    again = skops.io.loads(skops.io.dumps(model), trusted=[TREE])
    assert again.predict(QUERY).tolist() == model.predict(QUERY).tolist()
