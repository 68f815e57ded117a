"""Text, missing values and unusable bases: errors that say where, and what to do."""

import re

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from gemmed import GEMDetector, GEMMEDClassifier, TablePreparation

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
Y = np.arange(40) % 2
X = RNG.normal(size=(40, 3)) + Y[:, None]


def with_cell(value):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).astype(object)
    frame.loc[7, "b"] = value
    return frame


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (with_cell("x"), "X holds text: 'x' in row 7 (from 0) of column 'b'"),
        (with_cell("x").to_numpy(), "X holds text: 'x' in row 7 (from 0) of column 1"),
        (with_cell(np.nan), "Input X contains NaN, first in row 7 (from 0) of column 'b'"),
    ],
)
def test_text_and_missing_values_are_located(data, words):
    whole = pd.DataFrame(X, columns=data.columns) if hasattr(data, "columns") else X
    for fit in (
        lambda: GEMMEDClassifier(base=None).fit(data, Y),
        lambda: GEMDetector().fit(data),
        lambda: GEMMEDClassifier(base=None).fit(whole, Y).predict(data),
    ):
        with pytest.raises(ValueError, match=re.escape(words) + ".*TablePreparation"):
            fit()


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_samples_without_a_label_are_counted(missing):
    labels = Y.astype(object)
    labels[[3, 9]] = missing
    with pytest.raises(ValueError, match="2 of 40 samples have no label, the first is number 3"):
        GEMMEDClassifier(base=None).fit(X, labels)


@pytest.mark.parametrize("base", [LinearSVC(), 3])
def test_a_base_needs_probabilities(base):
    with pytest.raises(ValueError, match=r"base=.*no predict_proba"):
        GEMMEDClassifier(base=base).fit(X, Y)


def test_notes_of_a_preparation_name_parameters():
    frame = pd.DataFrame(
        {
            "w": [f"{value:.2f}".replace(".", ",") for value in X[:, 0]],
            "day": pd.date_range("2024-01-01", periods=40).astype(str),
            "city": ["Rome", "rome"] * 20,
        }
    )
    notes = " ".join(TablePreparation().fit(frame).notes_)
    assert "--" not in notes
    assert "categorical=['w'] takes it for text" in notes
    assert "spelling='as-written' keeps them apart" in notes
