"""The preparation of columns as a transformer: what the command line does, in Python."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed import GEMMEDClassifier, MEDClassifier, TablePreparation, load_model, save_model
from gemmed._core.exceptions import TableError
from gemmed.estimators.table_columns import fit_pipeline, table_pipeline, training_data
from gemmed.rows.table import Table

pd = pytest.importorskip("pandas")


@parametrize_with_checks([TablePreparation(), TablePreparation(scaling="standard")])
def test_it_is_a_transformer_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def messy():
    rng = np.random.default_rng(0)
    n = 60
    ill = np.arange(n) % 2 == 0
    dose = rng.normal(size=n).round(2) + 3.0 * ill
    return pd.DataFrame(
        {
            "name": [f"P{i}" for i in range(n)],
            "dose": [f"{value:.2f} mg" for value in dose],
            "age": np.where(np.arange(n) == 4, np.nan, rng.normal(50, 9, n)),
            "ward": rng.choice(["north", "North ", "south"], n),
            "when": rng.choice(["2020-01-01", "2020-05-03"], n),
            "number": np.arange(n),
            "flag": pd.array(rng.random(n) > 0.5, dtype="boolean"),
            "kind": pd.Categorical(rng.choice(["a", "b"], n)),
            "ill": ill,
        },
        index=[f"row {i}" for i in range(n)],
    )


def test_columns_are_read_and_what_was_done_is_said(messy):
    X = messy.drop(columns="ill")
    preparation = TablePreparation().fit(X)
    assert preparation.numeric_ == ["dose", "age"]
    assert preparation.categories_ == ["ward", "flag", "kind"]
    assert set(preparation.left_out_) == {"name", "when", "number"}
    assert preparation.formats_["dose"]["unit"] == "mg"
    text = "\n".join(preparation.notes_)
    for words in (
        "'dose' is read as numbers: in 'mg'",
        "'North' for 'north'",
        "'when' is left out",
    ):
        assert words in text
    features = preparation.transform(X)
    names = preparation.get_feature_names_out()
    assert features.shape == (60, len(names)) and features.dtype == np.float64
    dose = messy["dose"].str.removesuffix(" mg").astype(float)
    low, high = np.percentile(dose, [25, 75])
    np.testing.assert_allclose(
        features[:, list(names).index("robust__dose")],
        (dose - dose.median()) / (high - low) * 1.3489795003921634,
    )
    assert {"categories__ward_north", "categories__ward_south"} <= set(names)


def test_choices_are_respected(messy):
    X = messy.drop(columns="ill")
    preparation = TablePreparation(
        categorical=["dose"],
        numeric=["when", "number"],
        drop=["age", "kind"],
        spelling="as-written",
    ).fit(X)
    assert preparation.numeric_ == ["when", "number"]
    assert preparation.categories_ == ["dose", "ward", "flag"]
    assert "categories__ward_North" in preparation.get_feature_names_out()
    names = TablePreparation(missing=["north"]).fit(X).get_feature_names_out()
    assert "categories__ward_(missing)" in names and "categories__ward_north" not in names


def test_it_does_what_the_command_line_does(messy):
    data = training_data(Table("messy", messy.reset_index(drop=True)), "ill")
    by_table = fit_pipeline(
        table_pipeline(GEMMEDClassifier(random_state=0), data.frame, data.plan, scaling="robust"),
        data,
    )
    by_hand = make_pipeline(TablePreparation(), GEMMEDClassifier(random_state=0))
    by_hand.fit(messy.drop(columns="ill"), data.labels)
    expected = by_table.decision_function(messy)
    assert by_hand.decision_function(messy.drop(columns="ill")).tobytes() == expected.tobytes()


def test_later_frames_are_matched_by_name(messy):
    X = messy.drop(columns="ill")
    preparation = TablePreparation().fit(X)
    expected = preparation.transform(X)
    shuffled = X[X.columns[::-1]].drop(columns=["name", "when"]).assign(further=1)
    assert preparation.transform(shuffled).tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match="now missing:\n- dose"):
        preparation.transform(X.drop(columns="dose"))
    with pytest.raises(ValueError, match="'5 lb' in row 1"):
        preparation.transform(X.assign(dose="5 lb"))


def test_it_can_be_copied_and_saved(messy, tmp_path):
    pytest.importorskip("skops")
    X, y = messy.drop(columns="ill"), messy["ill"]
    model = make_pipeline(TablePreparation(categorical=("kind",)), MEDClassifier()).fit(X, y)
    expected = model.decision_function(X).tobytes()
    assert pickle.loads(pickle.dumps(model)).decision_function(X).tobytes() == expected
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").decision_function(X).tobytes() == expected
    assert clone(model).fit(X, y).decision_function(X).tobytes() == expected


def test_it_works_in_cross_validation_and_with_pandas_output(messy):
    X, y = messy.drop(columns="ill"), messy["ill"]
    assert cross_val_score(make_pipeline(TablePreparation(), MEDClassifier()), X, y).mean() > 0.8
    found = TablePreparation().set_output(transform="pandas").fit_transform(X)
    assert list(found.index) == list(X.index) and "robust__dose" in found.columns


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"scaling": "odd"}, "scaling='odd'"),
        ({"spelling": "odd"}, "spelling='odd'"),
        ({"decimal": ";"}, "decimal=';'"),
        ({"drop": "age"}, "drop='age' must be a list"),
        ({"numeric": ["nothing"]}, r"no column 'nothing' \(numeric\)"),
        ({"numeric": ["name"]}, "'P0' in row 1, which is not a number"),
    ],
)
def test_wrong_choices_are_named(messy, choice, message):
    with pytest.raises(ValueError, match=message):
        TablePreparation(**choice).fit(messy)


def test_errors_name_parameters_and_not_options():
    frame = pd.DataFrame({"a--b": [1.0, 2.0, np.inf, 4.0], "c": [0.5, 0.1, 0.2, 0.3]})
    with pytest.raises(TableError, match=r"column 'a--b' .* missing \(missing=\['inf'\]\)"):
        TablePreparation().fit(frame)
    fitted = TablePreparation().fit(frame.replace(np.inf, 3.0))
    with pytest.raises(TableError, match=r"missing=\['--5'\]"):
        fitted.transform(frame.astype(object).replace(np.inf, "--5"))
