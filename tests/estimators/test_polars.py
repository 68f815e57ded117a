"""polars in and out, and set_output of the transformers."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

from gemmed import (
    AnnotatorGEMMEDClassifier,
    GEMDetector,
    GEMMEDClassifier,
    MEDClassifier,
    SensorDetector,
    SensorGEMMEDClassifier,
    TablePreparation,
)
from gemmed._core.exceptions import TableError
from gemmed.acoustics import AcousticFeatures, MFCCTransformer, SegmentPCA, StrongestWindow
from gemmed.estimators.table_preparation import FarLimit
from gemmed.report import audit_report

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
VIEWS = {"sepal": NAMES[:2], "petal": NAMES[2:]}


@pytest.fixture(scope="module")
def iris():
    """The same flowers as polars and as pandas, labels as text."""
    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    return pl.DataFrame(X, schema=NAMES), pd.DataFrame(X, columns=NAMES), pl.Series("y", labels)


@pytest.fixture(scope="module")
def fitted(iris):
    X, _, y = iris
    groups = pl.Series(np.arange(len(y)) // 2)
    model = GEMMEDClassifier(random_state=0)
    return model.fit(X, y, groups=groups, prior_nominal=pl.Series(np.full(len(y), 0.9)))


def test_fit_and_predict_keep_names_without_warnings(iris, fitted):
    X, same, y = iris
    assert fitted.feature_names_in_.tolist() == NAMES
    expected = GEMMEDClassifier(random_state=0).fit(
        same, y.to_list(), groups=np.arange(len(y)) // 2, prior_nominal=np.full(len(y), 0.9)
    )
    # Not to the bit: columns of polars lie in memory in another order.
    np.testing.assert_allclose(fitted.predict_proba(X), expected.predict_proba(same), atol=1e-8)
    np.testing.assert_allclose(fitted.p_values(X), expected.p_values(same), atol=1e-8)
    assert fitted.predict(X[:3]).tolist() == ["setosa"] * 3
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X.select(NAMES[::-1]))


@pytest.mark.filterwarnings("ignore::gemmed.GemmedWarning")
@pytest.mark.parametrize(
    "model", [MEDClassifier(), GEMDetector(random_state=0), SensorDetector(VIEWS, random_state=0)]
)
def test_other_estimators(iris, model):
    X, same, y = iris
    ys = () if isinstance(model, SensorDetector) else (y,)
    found = model.fit(X, *ys).predict(X) if ys else model.fit(X).screen(X).broken
    plain = tuple(np.asarray(one) for one in ys)
    expected = model.fit(same, *plain).predict(same) if ys else model.fit(same).screen(same).broken
    np.testing.assert_array_equal(found, expected)


def test_annotators(iris):
    X, _, y = iris
    answers = pl.DataFrame({"ann": y, "ben": y})
    model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, answers)
    assert model.annotators_ == ["ann", "ben"]


def test_explain_as_polars(fitted):
    table = fitted.explain(output="polars")
    pandas = fitted.explain()
    assert isinstance(table, pl.DataFrame) and isinstance(pandas, pd.DataFrame)
    assert table.columns == list(pandas.columns)
    assert table["verdict"].to_list() == pandas["verdict"].tolist()
    assert table["conflicting"].to_list() == [list(rows) for rows in pandas["conflicting"]]
    np.testing.assert_array_equal(table["nominal_proba"], pandas["nominal_proba"])
    assert table["label"].dtype == pl.String and table["odd_columns"].dtype == pl.List(pl.String)
    arrays = fitted.explain(output="dict")
    assert isinstance(arrays, dict) and list(arrays) == list(pandas.columns)


def test_explain_keeps_an_index_as_a_column(iris):
    _, same, y = iris
    named = same.set_index(np.array([f"flower {i}" for i in range(len(same))]))
    model = GEMMEDClassifier(random_state=0).fit(named, y.to_list())
    table = model.explain(output="polars")
    assert table.columns[0] == "index" and table["index"][7] == "flower 7"


def test_explain_of_sensors(iris):
    X, _, y = iris
    model = SensorGEMMEDClassifier(VIEWS, random_state=0).fit(X, y)
    assert model.explain(output="polars").columns == list(model.explain().columns)


def test_explain_refuses(fitted, monkeypatch):
    with pytest.raises(ValueError, match="output='arrow'"):
        fitted.explain(output="arrow")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"gemmed\[polars\]"):
        fitted.explain(output="polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"gemmed\[cli\]"):
        fitted.explain(output="pandas")
    assert isinstance(fitted.explain(), dict)


def machines(n=60):
    """Types that polars has: gaps, categories, truth values, units."""
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "load": [None if i % 10 == 0 else float(v) for i, v in enumerate(rng.normal(size=n))],
            "count": [None if i % 7 == 0 else int(v) for i, v in enumerate(rng.integers(0, 9, n))],
            "volts": [f"{v:.1f} mV" for v in rng.normal(5, 1, n)],
            "ward": pl.Series(["north", "south", None] * (n // 3)),
            "kind": pl.Series(["a", "b"] * (n // 2), dtype=pl.Categorical),
            "state": pl.Series(["a", "b"] * (n // 2), dtype=pl.Enum(["a", "b"])),
            "open": pl.Series([True, False] * (n // 2)),
        }
    )


def test_table_preparation_reads_polars_as_pandas():
    frame = machines()
    ours, theirs = TablePreparation().fit(frame), TablePreparation().fit(frame.to_pandas())
    assert ours.numeric_ == theirs.numeric_ == ["load", "count", "volts"]
    assert ours.categories_ == theirs.categories_ == ["ward", "kind", "state", "open"]
    np.testing.assert_array_equal(ours.transform(frame), theirs.transform(frame.to_pandas()))
    # By name: another order, and a column more.
    other = frame.select(frame.columns[::-1]).with_columns(more=pl.lit(1))
    np.testing.assert_array_equal(ours.transform(other), ours.transform(frame))
    with pytest.raises(TableError, match="collect"):
        ours.transform(frame.lazy())


def test_whole_way(iris):
    X, _, y = iris
    model = make_pipeline(TablePreparation(), GEMMEDClassifier(random_state=0)).fit(X, y)
    assert model.score(X, y) > 0.9
    report = audit_report(model, X, y)
    assert "petal width" in report.html()


SIGNALS = np.random.default_rng(0).normal(size=(6, 2000))
TRANSFORMERS = [
    (TablePreparation(), machines().to_pandas()),
    (FarLimit(), SIGNALS[:, :5]),
    (StrongestWindow(4000, window=0.1), SIGNALS),
    (MFCCTransformer(4000, window=0.1, n_windows=5), SIGNALS),
    (SegmentPCA(2, n_blocks=2), SIGNALS),
    (AcousticFeatures(4000, window=0.1, n_windows=5, n_components=3), SIGNALS),
    (AcousticFeatures(4000, window=0.1, n_windows=5, n_components=None), SIGNALS),
    (AcousticFeatures(4000, stage="mfcc", n_components=None), SIGNALS[:, :5]),
]


@pytest.mark.parametrize(("transformer", "X"), TRANSFORMERS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output(transformer, X, kind):
    plain = transformer.set_output(transform="default").fit_transform(X)
    assert isinstance(plain, np.ndarray)
    frame = transformer.set_output(transform=kind).fit_transform(X)
    assert isinstance(frame, {"pandas": pd.DataFrame, "polars": pl.DataFrame}[kind])
    assert list(frame.columns) == transformer.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    np.testing.assert_array_equal(transformer.transform(X).to_numpy(), plain)
    transformer.set_output(transform="default")
