"""Models in MLflow: by the list of trusted types, and as a file of gemmed."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier, MEDClassifier, load_model, save_model, trusted_types
from gemmed._core.exceptions import ModelFileError

skops_io = pytest.importorskip("skops.io")


def fitted(classifier=None):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + 3.0 * y[:, None]
    model = make_pipeline(StandardScaler(), classifier or GEMMEDClassifier(random_state=0))
    return model.fit(X, y), X


@pytest.mark.parametrize(
    "classifier", [None, MEDClassifier(), GEMMEDClassifier(base=LogisticRegression())], ids=str
)
def test_skops_builds_a_model_by_its_trusted_types(classifier):
    model, X = fitted(classifier)
    names = trusted_types(model)
    payload = skops_io.dumps(model)
    assert names == sorted(skops_io.get_untrusted_types(data=payload))
    again = skops_io.loads(payload, trusted=names)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert all(name.startswith(("gemmed.", "numpy.", "sklearn.")) for name in names)


class Foreign(StandardScaler):
    """A type that gemmed does not know."""


def test_foreign_types_are_not_on_the_list():
    _, X = fitted()
    model = make_pipeline(Foreign(), MEDClassifier()).fit(X, np.arange(60) % 2)
    with pytest.raises(ModelFileError, match=r"test_mlflow\.Foreign"):
        trusted_types(model)
    assert "test_mlflow.Foreign" in trusted_types(model, trusted=["test_mlflow.Foreign"])


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    found = pytest.importorskip(
        "mlflow", reason='mlflow is not installed: pip install "gemmed[mlflow]"'
    )
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    found.set_tracking_uri(f"file:{tmp_path / 'runs'}")
    yield found
    found.set_tracking_uri(None)


@pytest.mark.filterwarnings("ignore")  # those of mlflow
def test_logged_by_trusted_types(mlflow):
    import mlflow.sklearn

    model, X = fitted()
    with mlflow.start_run():
        logged = mlflow.sklearn.log_model(
            model,
            name="model",
            serialization_format="skops",
            skops_trusted_types=trusted_types(model),
            pip_requirements=["gemmed[cli]"],
        )
    again = mlflow.sklearn.load_model(logged.model_uri)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    served = mlflow.pyfunc.load_model(logged.model_uri)
    np.testing.assert_array_equal(served.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore")
def test_logged_as_a_file(mlflow, tmp_path):
    model, X = fitted()
    save_model(model, tmp_path / "model.gemmed")
    with mlflow.start_run() as run:
        mlflow.log_artifact(str(tmp_path / "model.gemmed"))
    path = mlflow.artifacts.download_artifacts(f"runs:/{run.info.run_id}/model.gemmed")
    np.testing.assert_array_equal(load_model(path).predict_proba(X), model.predict_proba(X))
