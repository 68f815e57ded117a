"""MFCCs are librosa's; segments and strongest windows are what brute force finds."""

import numpy as np
import pytest

from gemmed.acoustics import (
    FeatureSettings,
    cut_segments,
    mfcc,
    segment_bounds,
    segment_features,
    strongest_starts,
    window_features,
)
from gemmed.acoustics.mfcc import hz_to_mel, mel_filters, mel_to_hz

librosa = pytest.importorskip("librosa")


def noise(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n)


@pytest.mark.parametrize("rate", [2000, 8000, 11025, 16000, 22050, 44100])
@pytest.mark.parametrize("options", [{}, {"n_mels": 26, "htk": True}, {"f_min": 50, "f_max": 900}])
def test_mfccs_are_those_of_librosa(rate, options):
    signal, frame, hop = noise(int(1.5 * rate)), round(0.05 * rate), rate // 100
    if options.get("f_max") and rate > 16000:
        options = {**options, "f_max": 4000}  # librosa warns of filters without a frequency
    ours = mfcc(signal, rate, frame=frame, hop=hop, **options)
    theirs = {"f_min": "fmin", "f_max": "fmax"}
    expected = librosa.feature.mfcc(
        y=signal,
        sr=rate,
        n_mfcc=13,
        n_fft=frame,
        hop_length=hop,
        **{"n_mels": 40, **{theirs.get(k, k): v for k, v in options.items()}},
    )
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"window": "hamming"}, {"window": "hamming"}),
        ({"window": "boxcar"}, {"window": "boxcar"}),
        ({"n_fft": 1024}, {"n_fft": 1024, "win_length": 400}),
        ({"n_fft": 513}, {"n_fft": 513, "win_length": 400}),
        ({"n_mels": 128, "n_fft": 2048}, {"n_mels": 128, "n_fft": 2048, "win_length": 400}),
        ({"n_mfcc": 40}, {"n_mfcc": 40}),
    ],
)
def test_other_settings_are_those_of_librosa(ours, theirs):
    signal = noise(8000) * np.exp(-np.arange(8000) / 500)  # 140 dB: the cut-off matters
    expected = librosa.feature.mfcc(
        y=signal, sr=8000, **{"n_mfcc": 13, "n_mels": 40, "n_fft": 400, "hop_length": 80, **theirs}
    )
    np.testing.assert_allclose(mfcc(signal, 8000, frame=400, hop=80, **ours), expected, atol=1e-6)


def test_a_batch_is_its_signals_one_by_one():
    """Also the cut-off at top_db: a loud signal does not silence the others."""
    signals = noise(6000).reshape(2, 3, 1000) * np.array([1e-3, 1, 1e3])[:, None]
    together = mfcc(signals, 1000, frame=50, hop=10, n_mels=20)
    for i in np.ndindex(2, 3):
        np.testing.assert_array_equal(
            together[i], mfcc(signals[i], 1000, frame=50, hop=10, n_mels=20)
        )


def test_no_cutoff_shows_the_level():
    """Ten times louder is 20 dB more: in the zeroth coefficient, times the root of n_mels."""
    signal = noise(4000)
    soft, loud = (mfcc(s, 8000, frame=400, hop=80, top_db=None) for s in (signal, 10 * signal))
    np.testing.assert_allclose(loud[0] - soft[0], 20 * np.sqrt(40))
    np.testing.assert_allclose(loud[1:], soft[1:], atol=1e-9)


@pytest.mark.parametrize("htk", [False, True])
def test_mel_scale(htk):
    hz = np.linspace(0, 20000, 101)
    np.testing.assert_allclose(hz_to_mel(hz, htk=htk), librosa.hz_to_mel(hz, htk=htk))
    np.testing.assert_allclose(mel_to_hz(hz_to_mel(hz, htk=htk), htk=htk), hz, atol=1e-9)
    filters = librosa.filters.mel(sr=8000, n_fft=400, n_mels=30, htk=htk)
    np.testing.assert_allclose(mel_filters(8000, 400, 30, htk=htk), filters, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_mfcc": 41}, "n_mfcc=41"),
        ({"hop": 0}, "hop=0"),
        ({"n_fft": 100}, "n_fft=100"),
        ({"f_min": 5000}, "f_min=5000"),
        ({"top_db": -1}, "top_db=-1"),
        ({"window": "glass"}, "window='glass'"),
    ],
)
def test_wrong_mfcc_settings_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        mfcc(noise(4000), 8000, **{"frame": 400, "hop": 80, **options})


def test_segments_of_the_paper_cover_the_recording():
    starts, ends = segment_bounds(108_000)
    assert len(starts) == 24
    assert starts[0] == 0 and ends[-1] == 108_000
    assert set(ends - starts) == {16_000}  # 108,000 / 6.75
    assert set(np.diff(starts)) == {4_000}  # a quarter is new


@pytest.mark.parametrize("n_samples", [1, 2, 30, 1001, 99_991])
def test_segments_of_any_recording(n_samples):
    starts, ends = segment_bounds(n_samples)
    assert starts[0] == 0 and ends[-1] == n_samples and len(starts) == 24
    assert len(set(ends - starts)) == 1 and (np.diff(starts) >= 0).all()


def test_segments_of_given_length():
    assert segment_bounds(1000, n_segments=3, length=400).starts.tolist() == [0, 100, 200]
    assert segment_bounds(1000, n_segments=None, length=400).ends.tolist() == list(
        range(400, 1001, 100)
    )
    assert segment_bounds(10, n_segments=None, length=400).ends.tolist() == [400]


def brute_force_start(signal, first, end, window):
    candidates = range(first, max(first, min(end, len(signal)) - window) + 1)
    energies = [np.sum(signal[c : c + window] ** 2) for c in candidates]
    return first + int(np.argmax(energies))


@pytest.mark.parametrize("n_samples", [300, 671, 2000])
def test_strongest_window_is_found_and_lies_in_its_segment(n_samples):
    """300 samples give segments shorter than the window."""
    signal = noise(n_samples, seed=n_samples)
    bounds = segment_bounds(n_samples)
    found = strongest_starts(signal, bounds, 100)
    expected = [brute_force_start(signal, a, b, 100) for a, b in zip(*bounds, strict=True)]
    assert found.tolist() == expected


def test_features_of_a_recording_are_librosas_of_the_strongest_windows():
    rate = 8000
    signal = noise(20 * rate) * (1 + 5 * (np.sin(np.arange(20 * rate) / 9000) > 0.9)) + 0.3
    found = segment_features(signal, rate)
    assert found.mfcc.shape == (24, 1950)
    centred = signal - signal.mean()
    assert len(np.unique(found.window_starts)) < 24  # neighbours share windows
    for row, first in zip(
        found.mfcc, np.round(found.window_starts * rate).astype(int), strict=True
    ):
        expected = librosa.feature.mfcc(
            y=centred[first : first + 12000],
            sr=rate,
            n_mfcc=13,
            n_fft=400,
            hop_length=80,
            n_mels=40,
        )
        np.testing.assert_allclose(row.reshape(13, 150), expected[:, :150], atol=1e-6)
    assert (found.window_starts >= found.starts).all()
    assert (found.window_starts + 1.5 <= found.ends + 1e-9).all()


def test_segments_shorter_than_the_window_are_filled_with_zeros():
    rate = 2000
    signal = noise(8 * rate)  # segments of 1.185 s
    found = segment_features(signal, rate)
    segments = cut_segments(signal, rate)
    assert segments.shape == (24, 2370)
    padded = np.pad(segments, [(0, 0), (0, 3000 - 2370)])
    np.testing.assert_allclose(found.mfcc, window_features(padded, rate), atol=1e-9)
    np.testing.assert_array_equal(found.window_starts, found.starts)


@pytest.mark.parametrize("n_samples", [1, 7, 500])
def test_tiny_recordings_have_features(n_samples):
    found = segment_features(noise(n_samples), 8000)
    assert found.mfcc.shape == (24, 1950) and np.isfinite(found.mfcc).all()


def test_silence_is_at_the_floor():
    found = segment_features(np.full(80_000, 0.25), 8000)
    expected = np.zeros((13, 150))
    expected[0] = -100 * np.sqrt(40)  # 1e-10 in every filter
    np.testing.assert_allclose(found.mfcc, np.tile(expected.ravel(), (24, 1)), atol=1e-9)


def test_offset_does_not_matter():
    signal = noise(40_000)
    plain, shifted = (segment_features(s, 8000) for s in (signal, signal + 10))
    np.testing.assert_allclose(plain.mfcc, shifted.mfcc, atol=1e-6)


def test_cepstral_power_is_the_share_of_the_kept_coefficients():
    signal = np.cumsum(noise(12_000))
    settings = {"n_segments": 1, "n_mfcc": 5}
    found = segment_features(signal, 8000, **settings)
    everything = segment_features(signal, 8000, **{**settings, "n_mfcc": 40})
    power = np.sum(everything.mfcc.reshape(40, 150) ** 2, axis=1)
    np.testing.assert_allclose(found.cepstral_power, power[1:5].sum() / power[1:].sum())
    np.testing.assert_allclose(everything.cepstral_power, 1.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"overlap": 1}, "overlap=1"),
        ({"n_segments": 0}, "n_segments=0"),
        ({"n_segments": None}, "n_segments=None"),
        ({"window": 0}, "window=0"),
        ({"segment": -1}, "segment=-1"),
        ({"n_mfcc": 50}, "n_mfcc=50"),
        ({"n_windows": 20_000}, "sample_rate=8000 is too low"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        FeatureSettings(**settings).samples(8000)


@pytest.mark.parametrize("signal", [np.zeros((2, 100)), [], [1.0, np.nan]])
def test_wrong_signals_are_refused(signal):
    with pytest.raises(ValueError, match="signal"):
        segment_features(signal, 8000)
