"""Sound files as the first step of a pipeline."""

import numpy as np
import pytest
from sklearn.base import clone

from gemmed._core.exceptions import AudioFileError
from gemmed.acoustics import RecordingMFCC, recording_features, write_audio
from gemmed.acoustics.sound_files import damage_of, sound_files

pytest.importorskip("soundfile")

RATE = 4000


@pytest.fixture
def files(tmp_path):
    """Six sounds of 0.3 to 0.8 s; the last at another rate."""
    paths = []
    for i in range(6):
        rate = 8000 if i == 5 else RATE
        signal = 0.1 * np.random.default_rng(i).standard_normal(round((0.3 + i / 10) * rate))
        write_audio(tmp_path / f"{i}.wav", signal, rate)
        paths.append(str(tmp_path / f"{i}.wav"))
    return paths


def test_rate_and_window_are_those_of_most_files(files):
    reader = RecordingMFCC().fit(files)
    assert reader.rate_ == RATE
    assert reader.settings_["window"] == pytest.approx(
        np.quantile(0.3 + np.arange(6) / 10, 0.75), abs=0.01
    )
    assert reader.settings_["n_windows"] == round(reader.settings_["window"] * 100)
    found = reader.transform(files)
    assert found.shape == (6, len(reader.get_feature_names_out()))
    expected = recording_features(files[5], rate=RATE, **reader.settings_).features.mfcc
    np.testing.assert_array_equal(found[5:], expected)


def test_what_was_learned_holds_for_other_files(files):
    reader = RecordingMFCC().fit(files[:4])
    np.testing.assert_array_equal(reader.transform(files[5:]), reader.transform(files)[5:])
    other = clone(reader).fit(files[5:])
    assert other.rate_ == 8000 and other.settings_["window"] == 0.8


def test_segments_excerpts_and_problems(files, tmp_path):
    (tmp_path / "bad.wav").write_text("no sound")
    rows = [(files[4], 0.1, 0.5), str(tmp_path / "bad.wav"), tmp_path / "none.wav", files[3]]
    reader = RecordingMFCC(n_segments=3, window=0.2).fit(rows)
    found = reader.read(rows)
    assert found.recording.tolist() == [0, 0, 0, 3, 3, 3]
    assert set(found.problems) == {1, 2} and found.problems[2] == "no such file"
    assert found.starts[0] == pytest.approx(0.1) and found.ends[2] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="n_segments=3"):
        reader.transform(rows)
    with pytest.raises(AudioFileError, match=r"none.wav': no such file"):
        RecordingMFCC().fit(files).transform([files[0], str(tmp_path / "none.wav")])


def test_processes_change_nothing(files):
    one, two = (RecordingMFCC(n_jobs=n).fit(files).transform(files) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_bad_input_is_named(files, tmp_path):
    for wrong, message in [
        ({"window": -1.0}, "window=-1"),
        ({"n_mfcc": 60}, "n_mfcc=60"),
        ({"rate": 50.0}, "sample_rate=50"),
        ({"f_max": 3000.0}, "f_max=3000"),
    ]:
        with pytest.raises(ValueError, match=message):
            RecordingMFCC(**wrong).fit(files)
    with pytest.raises(ValueError, match="lists no recording"):
        RecordingMFCC().fit([])
    with pytest.raises(ValueError, match="neither a path nor"):
        sound_files([("a", 1, 2, 3)])
    with pytest.raises(AudioFileError, match="none of the recordings"):
        RecordingMFCC().fit([tmp_path / "none.wav"])


def test_damage_in_words():
    flags = {name: np.array(mark) for name, mark in [("silent", [1, 0, 0]), ("clipped", [1, 1, 0])]}
    assert damage_of({**flags, "padded": np.array([1, 1, 1])}) == ["silent, clipped", "clipped", ""]
