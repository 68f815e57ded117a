"""Models as ONNX graphs: onnxruntime computes what gemmed does."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from gemmed import (
    AnnotatorGEMMEDClassifier,
    GEMMEDClassifier,
    MEDClassifier,
    RampSVC,
    RODClassifier,
    Solver,
    TablePreparation,
    TrimmedSVC,
    TwoStageClassifier,
    export_onnx,
)
from gemmed._core.exceptions import ModelExportError
from gemmed.acoustics import SegmentPCA
from gemmed.io import onnx_export as writing
from gemmed.paper import GEMMEDClassifier as PaperGEMMEDClassifier

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pd = pytest.importorskip("pandas")


def clouds(n_classes=2, n=120, seed=0, labels=None):
    """Gaussian clouds of four features, far from the origin; labels 0, 1, ... or given ones."""
    rng = np.random.default_rng(seed)
    index = rng.permutation(n) % n_classes
    X = 50.0 + rng.normal(size=(n, 4)) + 2.0 * rng.normal(size=(n_classes, 4))[index]
    return X, index if labels is None else np.asarray(labels)[index]


def answers(path, **inputs):
    """Label, decision values and probabilities of onnxruntime."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == [
        "label",
        "decision",
        "probabilities",
    ]
    return session.run(None, inputs)


def assert_same(model, path, X, *, tol=1e-10, dtype=np.float64):
    label, decision, proba = answers(path, X=np.asarray(X, dtype=dtype))
    expected = model.decision_function(X)
    assert decision.shape == expected.shape and decision.dtype == dtype
    np.testing.assert_allclose(decision, expected, rtol=tol, atol=tol)
    np.testing.assert_allclose(proba, model.predict_proba(X), rtol=0, atol=tol)
    assert (label == model.predict(X)).all()


SCALED = StandardScaler()
MODELS = {
    "rbf": GEMMEDClassifier(base=None, random_state=0),
    "rational_quadratic": GEMMEDClassifier("rational_quadratic", base=None, random_state=0),
    "linear": GEMMEDClassifier("linear", base=None, random_state=0),
    "poly": GEMMEDClassifier("poly", kernel_params={"coef0": 1.0}, base=None, random_state=0),
    "poly of even degree": MEDClassifier("poly", kernel_params={"degree": 2, "coef0": -0.5}),
    "landmarks": GEMMEDClassifier(base=None, solver=Solver(n_components=20), random_state=0),
    "linear features": GEMMEDClassifier(
        "linear", base=None, solver=Solver(n_components=20), random_state=0
    ),
    "MED": MEDClassifier(kernel_params={"function_variance": 3.0, "bias_variance": 0.5}),
    "MED, linear": MEDClassifier("linear"),
}
TWO_CLASSES = {
    "ROD": RODClassifier(),
    "ramp": RampSVC("rbf", random_state=0),
    "trimmed": TrimmedSVC("linear", random_state=0),
    "two stages": TwoStageClassifier(),
    "GEM-MED of the paper": PaperGEMMEDClassifier(random_state=0),
}


@pytest.mark.filterwarnings("ignore::gemmed.GemmedWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_runtime_and_model_agree(tmp_path, name, n_classes):
    X, y = clouds(n_classes)
    model = make_pipeline(SCALED, MODELS[name]).fit(X, y)
    done = export_onnx(model, tmp_path / "m.onnx")
    assert done.n_bytes == (tmp_path / "m.onnx").stat().st_size
    assert_same(model, tmp_path / "m.onnx", clouds(n_classes, seed=1)[0])


@pytest.mark.parametrize("name", TWO_CLASSES)
def test_baselines_agree(tmp_path, name):
    X, y = clouds()
    model = make_pipeline(SCALED, TWO_CLASSES[name]).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    new = clouds(seed=1)[0]
    label, decision, proba = answers(tmp_path / "m.onnx", X=new)
    np.testing.assert_allclose(decision, model.decision_function(new), atol=1e-10)
    assert (label == model.predict(new)).all()
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(proba, model.predict_proba(new), atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_annotators_agree(tmp_path, n_classes):
    X, y = clouds(n_classes)
    given = np.column_stack([y, y, np.roll(y, 1)])
    model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, given)
    export_onnx(model, tmp_path / "m.onnx")
    # Probabilities of trees have single precision in ONNX.
    assert_same(model, tmp_path / "m.onnx", clouds(n_classes, seed=1)[0], tol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_precomputed_kernel_takes_its_rows(tmp_path, n_classes):
    X, y = clouds(n_classes)
    X = (X - 50.0) / 3.0
    model = MEDClassifier("precomputed", kernel_params={"function_variance": 2.0}).fit(X @ X.T, y)
    export_onnx(model, tmp_path / "m.onnx")
    assert_same(model, tmp_path / "m.onnx", X[:7] @ X.T)


@pytest.mark.parametrize("n_rows", [0, 1, 50])
def test_any_number_of_rows(tmp_path, n_rows):
    X, y = clouds(3)
    model = MEDClassifier().fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    label, decision, proba = answers(tmp_path / "m.onnx", X=X[:n_rows])
    assert label.shape == (n_rows,) and decision.shape == proba.shape == (n_rows, 3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision(tmp_path, n_classes):
    X, y = clouds(n_classes)
    model = make_pipeline(SCALED, GEMMEDClassifier(base=None, random_state=0)).fit(X, y)
    double = export_onnx(model, tmp_path / "double.onnx")
    single = export_onnx(model, tmp_path / "single.onnx", dtype="float32")
    new = clouds(n_classes, seed=1)[0]
    assert single.n_bytes < 0.6 * double.n_bytes + 1500
    assert_same(model, tmp_path / "single.onnx", new, tol=1e-3, dtype=np.float32)


@pytest.mark.parametrize(
    "labels", [["ja", "nein", "vielleicht, später"], [-1, 7, 3], [0.5, 1.5, 2.5], [False, True]]
)
def test_labels_keep_their_type(tmp_path, labels):
    X, y = clouds(len(labels), labels=labels)
    model = MEDClassifier()
    if isinstance(labels[0], float):
        # scikit-learn takes such numbers for a regression; the classifier may still hold them.
        model = model.fit(X, np.argmax(y[:, None] == np.unique(y), axis=1))
        model.classes_ = np.unique(y)
    else:
        model = model.fit(X, y)
    done = export_onnx(model, tmp_path / "m.onnx")
    label = answers(tmp_path / "m.onnx", X=X)[0]
    assert label.tolist() == model.predict(X).tolist()
    assert done.classes == model.classes_.tolist()


def test_object_labels_are_texts(tmp_path):
    X, y = clouds(labels=np.array(["a", "b"], dtype=object))
    model = MEDClassifier().fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    assert answers(tmp_path / "m.onnx", X=X)[0].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    "steps",
    [
        [RobustScaler()],
        [StandardScaler(with_mean=False), PCA(3)],
        [StandardScaler(with_std=False), PCA(2, whiten=True)],
        [SimpleImputer(strategy="median"), RobustScaler(with_centering=False)],
        [make_pipeline(StandardScaler(), "passthrough"), None],
        [SegmentPCA(2)],
        [SegmentPCA(1, n_blocks=2), StandardScaler()],
    ],
    ids=str,
)
def test_steps_of_pipelines(tmp_path, steps):
    X, y = clouds()
    model = make_pipeline(*steps, MEDClassifier()).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    assert_same(model, tmp_path / "m.onnx", clouds(seed=1)[0], tol=1e-9)


def test_imputed_values(tmp_path):
    X, y = clouds()
    model = make_pipeline(SimpleImputer(), StandardScaler(), MEDClassifier()).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx")
    new = clouds(seed=1)[0]
    new[::3, 1] = np.nan
    assert_same(model, tmp_path / "m.onnx", new)


def machines(n=160, seed=0):
    """Numbers with holes, a column without spread, codes, and words in several spellings."""
    rng = np.random.default_rng(seed)
    X, y = clouds(n=n, seed=seed)
    frame = pd.DataFrame(X[:, :3], columns=["current", "load", "heat"])
    frame.loc[rng.random(n) < 0.1, "load"] = np.nan
    frame["alarms"] = np.where(rng.random(n) < 0.1, 1.0, 0.0)
    frame["ward"] = rng.choice(["north", "North", "south", "west bank"], n)
    frame["code"] = rng.choice([3, 5, 9], n)
    many = np.array([f"part {i}" for i in range(45)])
    frame["part"] = rng.choice(many, n, p=np.arange(45, 0, -1) / np.arange(46).sum())
    frame.loc[::17, "ward"] = None
    return frame, np.where(y == 1, "broken", "fine")


def table_inputs(done, frame):
    """What a caller feeds: numbers as they are, cells of texts as they are written."""
    given = {}
    for one in done.inputs:
        part = frame[one.columns]
        if one.is_text:
            given[one.name] = (
                part.astype(object).where(part.notna(), "").astype(str).to_numpy(object)
            )
        else:
            given[one.name] = part.to_numpy(np.float64)
    return given


def test_tables_with_numbers_and_categories(tmp_path):
    frame, y = machines()
    preparation = TablePreparation(categorical=["code"])
    model = make_pipeline(preparation, GEMMEDClassifier(random_state=0)).fit(frame, y)
    assert preparation.columns_ is not None and model[0].categories_ == ["ward", "code", "part"]
    done = export_onnx(model, tmp_path / "m.onnx")
    assert [one.name for one in done.inputs] == ["X", "categories"]
    new = machines(seed=1)[0]
    new.loc[3, "ward"] = "SOUTH"
    new.loc[4, "ward"] = "east"  # never seen
    new.loc[5, "part"] = "part 99"
    new["current"] *= np.where(np.arange(len(new)) == 6, 1e9, 1.0)  # beyond the limit
    given = table_inputs(done, new)
    code = done.inputs[1].columns.index("code")
    given["categories"][:9, code] = [f"{text}.0" for text in given["categories"][:9, code]]
    label, decision, proba = answers(tmp_path / "m.onnx", **given)
    np.testing.assert_allclose(decision, model.decision_function(new), atol=1e-6)
    np.testing.assert_allclose(proba, model.predict_proba(new), atol=1e-6)
    assert (label == model.predict(new)).all()


def test_tables_of_categories_only_and_of_numbers_only(tmp_path):
    frame, y = machines()
    for columns, names in ((["ward", "part"], ["categories"]), (["load", "heat"], ["X"])):
        model = make_pipeline(TablePreparation(), MEDClassifier()).fit(frame[columns], y)
        done = export_onnx(model, tmp_path / "m.onnx")
        assert [one.name for one in done.inputs] == names
        decision = answers(tmp_path / "m.onnx", **table_inputs(done, frame))[1]
        np.testing.assert_allclose(decision, model.decision_function(frame), atol=1e-6)


def test_spellings_that_were_kept_apart_stay_apart(tmp_path):
    frame, y = machines()
    preparation = TablePreparation(spelling="as-written", drop=["part"])
    model = make_pipeline(preparation, MEDClassifier()).fit(frame, y)
    done = export_onnx(model, tmp_path / "m.onnx")
    new = machines(seed=1)[0]
    new.loc[:5, "ward"] = "NORTH"
    decision = answers(tmp_path / "m.onnx", **table_inputs(done, new))[1]
    np.testing.assert_allclose(decision, model.decision_function(new), atol=1e-6)


def test_the_file_says_what_it_takes(tmp_path):
    X, y = clouds(labels=["off", "on"])
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = make_pipeline(SCALED, MEDClassifier()).fit(frame, y)
    done = export_onnx(model, tmp_path / "m.onnx")
    assert done.inputs[0].columns == ["a", "b", "c", "d"]
    proto = onnx.load(tmp_path / "m.onnx")
    facts = {prop.key: prop.value for prop in proto.metadata_props}
    assert json.loads(facts["columns of X"]) == ["a", "b", "c", "d"]
    assert json.loads(facts["classes"]) == ["off", "on"]
    assert proto.producer_name == "gemmed"


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "base", [RandomForestClassifier(30), "boosting"], ids=["forest", "boosting"]
)
def test_trees_are_part_of_the_graph(tmp_path, n_classes, base):
    """Votes of every tree, thresholds in single precision included."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] > 0) + (X[:, 1] > 0) * (n_classes > 2) * 2  # steps, which trees learn best
    model = GEMMEDClassifier("linear", base=base, random_state=0).fit(X, y)
    assert model._member_weights[1] > 0.0
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    label, decision, proba = session.run(None, {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(decision, model.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-5)


def own_kernel(X, Y):
    return X @ Y.T


@pytest.mark.filterwarnings("ignore::gemmed.GemmedWarning")
@pytest.mark.parametrize(
    ("model", "named", "remedy"),
    [
        (
            GEMMEDClassifier(base=KNeighborsClassifier()),
            "KNeighbors",
            "base=None",
        ),
        (MEDClassifier(own_kernel), "own_kernel", "'rbf'"),
        (LogisticRegression(), "LogisticRegression", "load_model"),
        (make_pipeline(MinMaxScaler(), MEDClassifier()), "MinMaxScaler", r"model\[i:\]"),
        (
            make_pipeline(SimpleImputer(missing_values=-1.0), MEDClassifier()),
            "SimpleImputer",
            "NaN",
        ),
    ],
)
def test_what_has_no_form_is_refused_by_name(tmp_path, model, named, remedy):
    X, y = clouds()
    model.fit(X, y)
    with pytest.raises(ModelExportError, match=remedy) as refusal:
        export_onnx(model, tmp_path / "m.onnx")
    assert named in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments(tmp_path, monkeypatch):
    X, y = clouds()
    with pytest.raises(NotFittedError):
        export_onnx(MEDClassifier(), tmp_path / "m.onnx")
    model = MEDClassifier().fit(X, y)
    with pytest.raises(ValueError, match="dtype='float16'"):
        export_onnx(model, tmp_path / "m.onnx", dtype="float16")
    monkeypatch.setattr(writing, "MAX_FILE_BYTES", 1000)
    with pytest.raises(ModelExportError, match="n_components"):
        export_onnx(model, tmp_path / "m.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"gemmed\[onnx\]"):
        export_onnx(model, tmp_path / "m.onnx")


def test_written_whole_or_not_at_all(tmp_path, monkeypatch):
    X, y = clouds()
    model = MEDClassifier().fit(X, y)
    path = tmp_path / "m.onnx"
    export_onnx(model, path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        export_onnx(MEDClassifier("linear").fit(X, y), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
