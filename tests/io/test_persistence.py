"""Model files: the same predictions after a round trip, and nothing built from a foreign file."""

import gzip
import hashlib
import io
import json
import os
import pickle
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn
import skops.io
from sklearn.base import BaseEstimator
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import gemmed
from gemmed import (
    GEMDetector,
    GEMMEDClassifier,
    GenerativeMEDClassifier,
    MEDClassifier,
    MEDDetector,
    OracleMEDClassifier,
    RampSVC,
    RODClassifier,
    TrimmedSVC,
    TwoStageClassifier,
)
from gemmed.datasets import make_ring
from gemmed.io.model_files import (
    FORMAT_VERSION,
    HEADER,
    PAYLOAD,
    ModelFileError,
    ModelVersionWarning,
    load_model,
    read_header,
    save_model,
)
from gemmed.paper import GEMMEDClassifier as PaperGEMMEDClassifier
from gemmed.paper import Gibbs

DATA = make_ring(30, radius=75, corruption=0.2, n_test_per_class=50, random_state=0)
LABELS = np.where(DATA.y > 0, "good", "bad")
CLASSIFIERS = {
    "linear": GEMMEDClassifier("linear", random_state=0),
    "rbf": GEMMEDClassifier(random_state=np.random.RandomState(0)),
    "of the paper": PaperGEMMEDClassifier("linear", engine=Gibbs(), tol=10.0, random_state=0),
    "med": MEDClassifier("poly"),
    "generative": GenerativeMEDClassifier(),
    "generative, diagonal": GenerativeMEDClassifier("diagonal"),
    "oracle": OracleMEDClassifier(),
    "oracle of scikit-learn": OracleMEDClassifier(IsolationForest(random_state=0)),
    "rod": RODClassifier("linear"),
    "ramp": RampSVC(),
    "trimmed": TrimmedSVC(),
    "two-stage": TwoStageClassifier(),
    "two-stage of scikit-learn": TwoStageClassifier(LocalOutlierFactor(), SVC()),
    "pipeline": make_pipeline(StandardScaler(), GEMMEDClassifier(random_state=0)),
}


@pytest.fixture(scope="module")
def fitted():
    return GEMMEDClassifier(random_state=0).fit(DATA.X, LABELS)


@pytest.fixture
def saved(fitted, tmp_path):
    path = tmp_path / "model.gemmed"
    save_model(fitted, path)
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(HEADER)), archive.read(PAYLOAD)


def write(path, header, payload, compression=zipfile.ZIP_STORED):
    """A file of the right form: the check sum is made to fit, as an attacker would."""
    header = {**header, "sha256": hashlib.sha256(payload).hexdigest()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(HEADER, json.dumps(header))
        archive.writestr(PAYLOAD, payload)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_predict_to_the_bit_what_they_did(name, tmp_path):
    model = CLASSIFIERS[name].fit(DATA.X, LABELS)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert type(again) is type(model)
    assert again.predict(DATA.X_test).tolist() == model.predict(DATA.X_test).tolist()
    assert (
        again.decision_function(DATA.X_test).tobytes()
        == model.decision_function(DATA.X_test).tobytes()
    )
    if hasattr(model, "predict_proba"):
        assert (
            again.predict_proba(DATA.X_test).tobytes() == model.predict_proba(DATA.X_test).tobytes()
        )


@pytest.mark.parametrize("method", ["bipartite", "average", "spanning_tree", "density"])
def test_detectors_score_to_the_bit_what_they_did(method, tmp_path):
    model = GEMDetector(method, n_neighbors=5, random_state=0).fit(DATA.X)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.score_samples(DATA.X_test).tobytes() == model.score_samples(DATA.X_test).tobytes()
    assert again.p_values(DATA.X_test).tobytes() == model.p_values(DATA.X_test).tobytes()


def test_the_parametric_detector_too(tmp_path):
    model = MEDDetector().fit(DATA.X)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.score_samples(DATA.X_test).tobytes() == model.score_samples(DATA.X_test).tobytes()


PUBLIC = [getattr(gemmed, name) for name in gemmed.__all__]
ESTIMATORS = [kind for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, BaseEstimator)]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_public_estimator_can_be_saved(kind, tmp_path):
    """A new estimator whose parts are not on the closed list is noticed here."""
    model = kind().fit(DATA.X, LABELS)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    asked = next(name for name in ("predict", "transform", "screen") if hasattr(model, name))
    found, expected = (getattr(one, asked)(DATA.X_test) for one in (again, model))
    assert str(found) == str(expected)


def test_all_fitted_attributes_survive(fitted, saved):
    again = load_model(saved)
    assert again.get_params() == fitted.get_params()
    assert set(vars(again)) == set(vars(fitted))
    np.testing.assert_array_equal(again.anomaly_scores_, fitted.anomaly_scores_)
    np.testing.assert_array_equal(again.classes_, fitted.classes_)


def test_a_pipeline_with_routed_groups_can_be_saved(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.tile([0, 1], 30)
    X[:, 0] += 3.0 * y
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = GEMMEDClassifier(base=None, random_state=0).set_fit_request(groups=True)
        model = make_pipeline(StandardScaler(), classifier).fit(X, y, groups=np.arange(60) // 2)
        gemmed.save_model(model, tmp_path / "model.gemmed")
        again = gemmed.load_model(tmp_path / "model.gemmed")
        assert (again.predict_proba(X) == model.predict_proba(X)).all()
        again.fit(X, y, groups=np.arange(60) // 2)  # groups are still routed
    for one in (model, again):
        assert one[-1].get_metadata_routing().fit.requests["groups"] is True


def test_the_header_describes_the_model(fitted, tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(DATA.X, columns=["left", "right"])
    save_model(GEMMEDClassifier(random_state=0).fit(table, LABELS), tmp_path / "m")
    header = read_header(tmp_path / "m")
    assert header.class_name == "gemmed.estimators.gemmed.GEMMEDClassifier"
    assert header.classes == ["bad", "good"]
    assert header.feature_names == ["left", "right"]
    assert header.n_features == 2
    assert header.gemmed_version == gemmed.__version__
    assert header.created_with["numpy"] == np.__version__
    assert header.sha256 == hashlib.sha256(members(tmp_path / "m")[1]).hexdigest()


# -- files that are not ours -------------------------------------------------------------------


def pickled(path):
    path.write_bytes(pickle.dumps(MEDClassifier()))


def plain_skops(path):
    skops.io.dump(MEDClassifier().fit(DATA.X, LABELS), path)


def text(path):
    path.write_text("x,y\n1,2\n")


def empty(path):
    path.write_bytes(b"")


def other_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<xml/>")


def header_is_a_list(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, "[1, 2]")
        archive.writestr(PAYLOAD, b"")


def header_nests_without_end(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, "[" * 200_000)
        archive.writestr(PAYLOAD, b"")


def huge_header(path):
    """A compressed header of 500 MB in half a megabyte."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(HEADER, "w") as stream:
            for _ in range(500):
                stream.write(b" " * 1_000_000)
        archive.writestr(PAYLOAD, b"")


@pytest.mark.parametrize(
    "make",
    [
        pickled,
        plain_skops,
        text,
        empty,
        other_archive,
        header_is_a_list,
        header_nests_without_end,
        huge_header,
    ],
)
def test_foreign_files_are_refused_in_one_line(make, tmp_path):
    make(tmp_path / "m")
    with pytest.raises(ModelFileError, match="not a model file of gemmed") as refusal:
        load_model(tmp_path / "m")
    assert len(str(refusal.value).splitlines()) == 1


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="not a file"):
        load_model(tmp_path)
    with pytest.raises(ModelFileError, match="not a file"):
        load_model(os.devnull)


# -- files that were ours ----------------------------------------------------------------------


def test_a_truncated_file_is_refused_at_every_length(saved):
    content = saved.read_bytes()
    for length in [5, 100, len(content) // 2, len(content) - 100, len(content) - 1]:
        saved.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load_model(saved)


def test_a_changed_byte_anywhere_is_refused_or_changes_nothing(fitted, saved):
    """Some bytes of a zip archive (times, attributes) mean nothing; all others must be noticed."""
    content = saved.read_bytes()
    expected = fitted.decision_function(DATA.X_test).tobytes()
    refused = 0
    places = range(7, len(content), len(content) // 120)
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 0x41
        saved.write_bytes(bytes(changed))
        try:
            again = load_model(saved)
        except ModelFileError:
            refused += 1
        else:
            assert again.decision_function(DATA.X_test).tobytes() == expected
    assert refused > 0.9 * len(places)


def test_a_swapped_payload_is_refused(saved):
    header, _ = members(saved)
    other = skops.io.dumps(MEDClassifier().fit(DATA.X, LABELS))
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        archive.writestr(PAYLOAD, other)
    with pytest.raises(ModelFileError, match="check sum"):
        load_model(saved)
    write(saved, header, other)  # now with the right sum: the class still differs
    with pytest.raises(ModelFileError, match="MEDClassifier"):
        load_model(saved)


class RunsACommand:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def schema_with(payload, change):
    """The payload with its schema edited by ``change``."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            new.writestr(name, content)
    return result.getvalue()


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ({"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}, "system"),
        ({"__class__": "system", "__module__": "os", "__loader__": "TypeNode"}, "system"),
        (
            {
                "__class__": "Popen",
                "__module__": "subprocess",
                "__loader__": "ConstructorFromReduceNode",
                "content": {
                    "__class__": "tuple",
                    "__module__": "builtins",
                    "__loader__": "TupleNode",
                    "content": [],
                },
            },
            "subprocess.Popen",
        ),
        (  # a name inside gemmed is not enough: it has to be a class of a model
            {
                "__class__": "replacing",
                "__module__": "gemmed._core.whole_files",
                "__loader__": "FunctionNode",
            },
            "gemmed._core.whole_files.replacing",
        ),
        (
            {
                "__class__": "Path",
                "__module__": "gemmed.io.model_files",
                "__loader__": "TypeNode",
            },
            "gemmed.io.model_files.Path",
        ),
        (
            {
                "__class__": "OneLineParser",
                "__module__": "gemmed.cli.main",
                "__loader__": "TypeNode",
            },
            "gemmed.cli.main.OneLineParser",
        ),
        (
            {"__class__": "X", "__module__": "gemmed.no_such_module", "__loader__": "TypeNode"},
            "gemmed.no_such_module.X",
        ),
    ],
)
def test_a_foreign_type_is_named_and_never_built(saved, node, name):
    header, payload = members(saved)

    def inject(schema):
        schema["content"]["content"]["kernel"] = node

    write(saved, header, schema_with(payload, inject))
    with pytest.raises(ModelFileError, match=name):
        load_model(saved)


def test_a_pickle_in_the_place_of_the_payload_runs_nothing(saved, tmp_path):
    header, _ = members(saved)
    victim = tmp_path / "victim"
    write(saved, header, pickle.dumps(RunsACommand(victim)))
    with pytest.raises(ModelFileError):
        load_model(saved)
    assert not victim.exists()


def test_an_object_array_in_the_payload_runs_nothing(saved, tmp_path):
    """numpy would unpickle an array of objects if it were allowed to."""
    header, payload = members(saved)
    victim = tmp_path / "victim"
    array = io.BytesIO()
    np.save(array, np.array([RunsACommand(victim)], dtype=object), allow_pickle=True)
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            new.writestr(name, array.getvalue() if name.endswith(".npy") else old.read(name))
    write(saved, header, result.getvalue())
    with pytest.raises(ModelFileError):
        load_model(saved)
    assert not victim.exists()


def test_compressed_members_are_refused_outside_and_inside(saved):
    header, payload = members(saved)
    write(saved, header, payload, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(saved)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", " " * 50_000_000)
    write(saved, header, bomb.getvalue())
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(saved)


@pytest.mark.parametrize(
    ("field", "value"),
    [("format", "other"), ("format_version", "1"), ("format_version", 0), ("sha256", None)],
)
def test_a_header_with_a_wrong_field_is_refused(saved, field, value):
    header, payload = members(saved)
    header[field] = value
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        archive.writestr(PAYLOAD, payload)
    with pytest.raises(ModelFileError, match="header is not valid"):
        load_model(saved)


@pytest.mark.parametrize(("step", "remedy"), [(1, "or a newer one"), (-1, "or fit the model")])
def test_another_format_is_refused_with_the_version_that_reads_it(saved, step, remedy):
    header, payload = members(saved)
    version = FORMAT_VERSION + step
    write(saved, {**header, "format_version": version, "gemmed_version": "9.1"}, payload)
    with pytest.raises(ModelFileError, match=rf"format version {version}.*gemmed 9\.1.*{remedy}"):
        load_model(saved)


def test_another_major_version_warns(fitted, saved):
    header, payload = members(saved)
    write(saved, {**header, "gemmed_version": "999.0.0"}, payload)
    with pytest.warns(ModelVersionWarning, match=r"999\.0\.0"):
        again = load_model(saved)
    assert again.predict(DATA.X_test).tolist() == fitted.predict(DATA.X_test).tolist()


# -- saving ------------------------------------------------------------------------------------


def halved(X):
    return X / 2


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    path = tmp_path / "m"
    model = make_pipeline(FunctionTransformer(halved), MEDClassifier()).fit(DATA.X, LABELS)
    with pytest.raises(ModelFileError, match="halved"):
        save_model(model, path)
    with pytest.raises(ModelFileError, match="not fitted"):
        save_model(MEDClassifier(), path)
    with pytest.raises(ModelFileError, match="not an estimator"):
        save_model({"a": 1}, path)
    assert list(tmp_path.iterdir()) == []


def test_types_the_caller_trusts_can_be_saved_and_loaded(tmp_path):
    """Trees of scikit-learn are not trusted by skops: a crafted one can crash the process."""
    model = TwoStageClassifier(IsolationForest(n_estimators=20, random_state=0)).fit(DATA.X, LABELS)
    tree = "sklearn.tree._tree.Tree"
    with pytest.raises(ModelFileError, match="Tree"):
        save_model(model, tmp_path / "m")
    with pytest.raises(TypeError, match="list"):
        save_model(model, tmp_path / "m", trusted=tree)
    save_model(model, tmp_path / "m", trusted=[tree])
    with pytest.raises(ModelFileError, match="Tree"):
        load_model(tmp_path / "m")
    again = load_model(tmp_path / "m", trusted=[tree])
    assert again.predict(DATA.X_test).tolist() == model.predict(DATA.X_test).tolist()


def test_a_failed_save_keeps_the_old_file(fitted, saved, monkeypatch):
    before = saved.read_bytes()

    payload = members(saved)[1]

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    # skops writes its own archive in memory with the same function.
    monkeypatch.setattr(skops.io, "dumps", lambda model: payload)
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full_disk)
    with pytest.raises(OSError, match="No space"):
        save_model(fitted, saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_files_have_the_mode_the_umask_gives(saved):
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o666 & ~mask


def test_a_file_of_the_first_0_6_is_loaded(tmp_path):
    """Written when the package had other modules: a table, a forest and boosted trees."""
    files = Path(__file__).with_name("files")
    expected = json.loads((files / "table-0.6.json").read_text())
    path = tmp_path / "table-0.6.gemmed"
    path.write_bytes(gzip.decompress((files / "table-0.6.gemmed.gz").read_bytes()))
    model = load_model(path)
    rows = pytest.importorskip("pandas").DataFrame(expected["rows"])
    np.testing.assert_allclose(model.decision_function(rows), expected["decision"], atol=1e-9)
    assert model[-1].explain()["verdict"].tolist() == expected["verdicts"]


def test_a_detector_of_the_first_0_6_is_loaded(tmp_path):
    files = Path(__file__).parent / "files"
    expected = json.loads((files / "detector-0.6.json").read_text())
    path = tmp_path / "detector-0.6.gemmed"
    path.write_bytes(gzip.decompress((files / "detector-0.6.gemmed.gz").read_bytes()))
    scores = load_model(path).score_samples(np.array(expected["rows"]))
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-12)
