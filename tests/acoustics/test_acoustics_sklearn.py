"""Transformers keep scikit-learn's rules and give the numbers of the functions."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed.acoustics import (
    AcousticFeatures,
    MFCCTransformer,
    SegmentPCA,
    StrongestWindow,
    cut_segments,
    segment_features,
)

SMALL = {"window": 0.02, "n_windows": 4, "frame": 0.01, "n_mfcc": 3, "n_mels": 5}


@parametrize_with_checks(
    [
        StrongestWindow(1000, window=0.004),
        MFCCTransformer(1000, **SMALL),
        SegmentPCA(n_components=1),
        AcousticFeatures(1000, n_components=1, **SMALL),
    ]
)
def test_sklearn_rules(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def recordings():
    """Four recordings of two classes, noise of different colour, 12 s at 2 kHz."""
    rng = np.random.default_rng(0)
    white = rng.standard_normal((4, 24_000))
    white[2:] = np.cumsum(white[2:], axis=1) / 20
    return white


def test_pipeline_gives_the_numbers_of_the_functions(recordings):
    signal = recordings[0]
    pipeline = make_pipeline(StrongestWindow(2000), MFCCTransformer(2000))
    rows = pipeline.fit_transform(cut_segments(signal, 2000))
    np.testing.assert_allclose(rows, segment_features(signal, 2000).mfcc, atol=1e-9)


@pytest.mark.parametrize("stage", ["segments", "windows", "mfcc"])
def test_any_stage_may_be_given(recordings, stage):
    segments = np.vstack([cut_segments(signal, 2000) for signal in recordings])
    windows = StrongestWindow(2000).fit_transform(segments)
    mfccs = MFCCTransformer(2000).fit_transform(windows)
    expected = PCA(10, svd_solver="full").fit_transform(mfccs)
    X = {"segments": segments, "windows": windows, "mfcc": mfccs}[stage]
    model = AcousticFeatures(2000, stage=stage, n_components=10)
    scores = model.fit_transform(X)
    # The sign of a component is free.
    np.testing.assert_allclose(np.abs(scores), np.abs(expected), atol=1e-6)
    np.testing.assert_allclose(model.transform(X), scores, atol=1e-9)


def test_a_classifier_learns_from_segments(recordings):
    segments = np.vstack([cut_segments(signal, 2000) for signal in recordings])
    y = np.repeat([0, 0, 1, 1], 24)
    model = make_pipeline(AcousticFeatures(2000, n_components=5), LogisticRegression())
    train = np.tile([True, False], len(y) // 2)
    assert model.fit(segments[train], y[train]).score(segments[~train], y[~train]) > 0.95
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(segments), model.predict(segments))
    assert clone(model).get_params().keys() == model.get_params().keys()


def test_segments_of_unequal_length():
    rng = np.random.default_rng(0)
    signals = [rng.standard_normal(n) for n in (10, 50, 200)]
    windows = StrongestWindow(100, window=0.5).fit_transform(signals)
    assert windows.shape == (3, 50)
    np.testing.assert_array_equal(windows[0], np.pad(signals[0], (0, 40)))
    np.testing.assert_array_equal(windows[1], signals[1])
    energies = [np.sum(signals[2][i : i + 50] ** 2) for i in range(151)]
    np.testing.assert_allclose(np.sum(windows[2] ** 2), max(energies))
    with pytest.raises(ValueError, match="NaN"):
        StrongestWindow(100).fit([[1.0, np.nan], [1.0]])


def test_pca_of_each_sensor_on_its_own():
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((60, 30)) * np.arange(1, 31) + 5 for _ in range(4)]
    model = SegmentPCA(7, n_blocks=4)
    scores = model.fit_transform(np.hstack(blocks))
    assert scores.shape == (60, 28)
    for i, block in enumerate(blocks):
        pca = PCA(7).fit(block)
        np.testing.assert_allclose(
            np.abs(scores[:, 7 * i : 7 * i + 7]), np.abs(pca.transform(block)), atol=1e-8
        )
        np.testing.assert_allclose(model.variance_kept_[i], pca.explained_variance_ratio_.sum())
        rebuilt = pca.inverse_transform(pca.transform(block))
        np.testing.assert_allclose(
            model.power_kept_[i], 1 - np.sum((block - rebuilt) ** 2) / np.sum(block**2)
        )
    names = model.get_feature_names_out()
    assert len(names) == 28 and names[0] == "s0_p00" and names[-1] == "s3_p06"


def test_a_dead_sensor_has_scores_of_zero():
    X = np.hstack([np.full((20, 5), -100.0), np.random.default_rng(0).standard_normal((20, 5))])
    scores = SegmentPCA(2, n_blocks=2).fit_transform(X)
    assert not scores[:, :2].any() and scores[:, 2:].any()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (SegmentPCA(50), "n_components=50"),
        (SegmentPCA(2, n_blocks=3), "n_blocks=3"),
        (AcousticFeatures(100, stage="sound"), "stage='sound'"),
        (StrongestWindow(0), "sample_rate=0"),
    ],
)
def test_wrong_parameters_are_named(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(np.random.default_rng(0).standard_normal((20, 10)))


@pytest.mark.parametrize("n_samples", [40, 300])
def test_components_are_those_of_scikit_learn(n_samples):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 120)) * np.geomspace(100.0, 1.0, 120) + 5.0
    expected = PCA(10, svd_solver="full").fit(X)
    found = SegmentPCA(10).fit(X)
    np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-6)
    share = expected.explained_variance_ratio_.sum()
    assert found.variance_kept_[0] == pytest.approx(share)


def test_components_beyond_the_rank_of_few_samples_are_still_orthonormal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 100))
    components = SegmentPCA(12).fit(X).components_[0]
    np.testing.assert_allclose(components @ components.T, np.eye(12), atol=1e-8)
