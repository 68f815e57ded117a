"""Model files of earlier versions still load and say what they said (files written by 0.5.0)."""

from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.utils.fixes import parse_version

from gemmed import load_model
from gemmed.estimators.older_versions import present_name

FILES = Path(__file__).parent / "files"
EXPECTED = np.load(FILES / "expected-0.5.0.npz")
PIPELINE = pytest.param(
    "pipeline",
    marks=pytest.mark.skipif(
        parse_version(sklearn.__version__) < parse_version("1.9"),
        reason="its scaler was written by scikit-learn 1.9, and older versions warn of that",
    ),
)


@pytest.mark.parametrize("name", [PIPELINE, "features", "med", "detector"])
def test_predictions_are_those_of_the_version_that_wrote_the_file(name):
    model = load_model(FILES / f"{name}-0.5.0.gemmed")
    decision = model.decision_function(EXPECTED[f"{name}/new"])
    np.testing.assert_allclose(decision, EXPECTED[f"{name}/decision"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [PIPELINE, "features"])
def test_judgements_are_those_of_the_version_that_wrote_the_file(name):
    model = load_model(FILES / f"{name}-0.5.0.gemmed")
    new, classifier = EXPECTED[f"{name}/new"], model
    if name == "pipeline":
        new, classifier = model[:-1].transform(new), model[-1]
    np.testing.assert_array_equal(classifier.nominal_proba_, EXPECTED[f"{name}/nominal"])
    np.testing.assert_allclose(classifier.p_values(new), EXPECTED[f"{name}/p"], rtol=1e-12)
    margin = np.asarray(classifier.explain()["margin"])
    np.testing.assert_allclose(margin, EXPECTED[f"{name}/margin"], rtol=1e-9, atol=1e-9)


def test_a_loaded_model_of_an_earlier_version_can_be_fitted_again():
    model = load_model(FILES / "features-0.5.0.gemmed")
    assert model.get_params()["model"] == "states"
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(40, 4)), np.arange(40) % 2)
    assert model.nominal_proba_.shape == (40,)


def test_names_that_never_moved_stay():
    assert present_name("sklearn.svm._classes.SVC") == "sklearn.svm._classes.SVC"
    assert present_name("gemmed.engines.mean_field.MeanField") == (
        "gemmed.engines.mean_field.MeanField"
    )
    assert present_name("gemmed.medley.Thing") == "gemmed.medley.Thing"
