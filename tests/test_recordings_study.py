"""Real recordings: faults only in the training clips, speakers kept apart, excess errors."""

import numpy as np
import pytest

from gemmed._core.exceptions import ExperimentDataError
from gemmed.acoustics import write_audio
from studies import Options
from studies.recordings import runs as recordings
from studies.recordings.target import recordings_target

pytest.importorskip("soundfile")
RATE, SPEAKERS, CLIPS = 8000, "abcdef", 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tones, which the speakers hit differently, in the place of two digits."""
    place = tmp_path_factory.mktemp("data")
    (place / "fsdd" / "recordings").mkdir(parents=True)
    rng = np.random.default_rng(0)
    time = np.arange(4000) / RATE
    for digit, pitch in (("3", 400.0), ("8", 900.0)):
        for speaker in SPEAKERS:
            for clip in range(CLIPS):
                tone = np.sin(2 * np.pi * pitch * rng.uniform(0.9, 1.1) * time)
                signal = 0.3 * tone + 0.02 * rng.normal(size=len(time))
                name = f"{digit}_{speaker}_{clip}.wav"
                write_audio(place / "fsdd" / "recordings" / name, signal, RATE)
    return place


def test_clips_of_two_digits_are_cut_to_one_length(folder):
    clips = recordings.spoken_digits(str(folder))
    assert clips.signals.shape == (96, 4800)
    assert np.bincount(clips.y).tolist() == [48, 48]
    assert not clips.signals[:, 4000:].any()


@pytest.mark.slow  # of a study outside the package
def test_excess_is_what_faults_in_training_cost(folder, monkeypatch):
    monkeypatch.setattr(recordings, "GAMMA_STEPS", (1.0, 4.0))
    found = recordings.evaluate_digits(str(folder), 0.4, 0)
    baseline = found["SVM"]["clean_error"]
    assert baseline < 10.0  # 400 Hz and 900 Hz are told apart
    for measures in found.values():
        assert measures["excess_error"] == pytest.approx(measures["error"] - baseline)
        own = measures["error"] - measures["clean_error"]
        assert measures["own_excess_error"] == pytest.approx(own)
    assert found["GEM-MED"]["auc"] > 60.0


def test_speakers_tested_on_are_never_trained_on(folder):
    clips = recordings.spoken_digits(str(folder))
    test = recordings._tested(clips, 3)
    assert len(set(clips.speakers[test])) == recordings.SPEAKERS_TESTED
    assert not set(clips.speakers[test]) & set(clips.speakers[~test])


def test_the_target_takes_what_the_folder_holds(folder):
    tasks = recordings_target(Options(folder)).tasks(2)
    assert {task.function for task in tasks} == {recordings.evaluate_digits}
    assert [task.arguments["rate"] for task in tasks] == [0.2, 0.2, 0.4, 0.4]


def test_recordings_ask_for_their_folder(tmp_path):
    with pytest.raises(ExperimentDataError, match="--data"):
        recordings_target(Options())
    with pytest.raises(ExperimentDataError, match="neither fsdd nor"):
        recordings_target(Options(tmp_path))
