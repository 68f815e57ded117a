"""Recordings to look at and to listen to."""

import base64
import io

import numpy as np
import pytest

from audits import audited
from gemmed.acoustics.audio import read_audio, write_audio
from gemmed.report.findings import Findings
from gemmed.report.html_report import HtmlReport
from gemmed.report.sounds import Recordings, envelope, measures, sound_for_page, spectrogram_png

soundfile = pytest.importorskip("soundfile")
Image = pytest.importorskip("PIL.Image")
RATE = 8000


def tone(hertz=1000.0, seconds=1.0, amplitude=0.5):
    return amplitude * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE)


def written(tmp_path, signal, name="a.wav"):
    write_audio(tmp_path / name, signal, RATE)
    return tmp_path / name


def pixels(png):
    """Palette numbers of a picture."""
    return np.asarray(Image.open(io.BytesIO(png)))


def test_measures_of_a_tone(tmp_path):
    found = measures(read_audio(written(tmp_path, tone())))
    assert found["duration (s)"] == pytest.approx(1.0)
    assert found["level (dB)"] == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=0.05)
    assert found["spectral centre (Hz)"] == pytest.approx(1000.0, abs=5)
    assert found["zero crossings per second"] == pytest.approx(2000.0, abs=5)
    assert found["flat tops per second"] == 0 and found["quiet share"] == 0


def test_a_tone_is_a_line_in_the_spectrogram(tmp_path):
    low, high = (
        pixels(spectrogram_png(read_audio(written(tmp_path, tone(hertz)))))
        for hertz in (300.0, 3000.0)
    )
    # Low frequencies are below, that is in the last rows.
    assert np.argmax(low.mean(axis=1)) > np.argmax(high.mean(axis=1)) + 20
    assert low.shape[1] >= 600


def test_silence_and_very_short_recordings_can_be_shown(tmp_path):
    for signal in (np.zeros(800), np.full(3, 0.1), np.zeros(1)):
        sound = sound_for_page(written(tmp_path, signal), None, None, [])
        assert sound["spectrogram"].startswith("data:image/png")
        assert sound["duration"] == pytest.approx(len(signal) / RATE)
    assert "silent" in sound["notes"][0]


def test_the_envelope_shows_where_it_is_loud():
    signal = np.concatenate([0.01 * tone(), tone()])
    peaks = envelope(signal)
    assert len(peaks) == 300 and max(peaks) == 100
    assert max(peaks[:149]) <= 3 and min(peaks[151:]) >= 90


def test_sound_inside_a_page_can_be_played(tmp_path):
    sound = sound_for_page(written(tmp_path, tone(seconds=12.0)), None, None, [])
    kind, _, content = sound["audio"].partition(";base64,")
    assert kind == "data:audio/mpeg"
    decoded, rate = soundfile.read(io.BytesIO(base64.b64decode(content)))
    assert rate == RATE and len(decoded) / rate == pytest.approx(10.0, abs=0.2)
    assert "This page holds the first 10 of 12.0 seconds." in sound["notes"]


def test_what_is_wrong_is_said_and_marked(tmp_path):
    signal = tone()
    signal[3000:4000] = np.clip(6 * signal[3000:4000], -0.999, 0.999)
    sound = sound_for_page(written(tmp_path, signal + 0.0), None, None, [])
    assert any("Flat tops" in note for note in sound["notes"])
    (place,) = sound["places"]
    assert place["start"] == pytest.approx(0.375, abs=0.01)
    assert place["end"] == pytest.approx(0.5, abs=0.01)
    (tmp_path / "b.wav").write_bytes(b"RIFF nothing")
    broken = sound_for_page(tmp_path / "b.wav", None, None, [])
    assert broken["audio"] is None and "It cannot be played" in broken["notes"][0]


def test_places_are_those_of_the_fault(tmp_path):
    rng = np.random.default_rng(0)
    files = []
    for i in range(12):
        signal = tone(500.0, 0.4) + 0.01 * rng.normal(size=3200)
        if i == 3:
            signal[1600:2000] = rng.uniform(-0.5, 0.5, 400)
        files.append((str(written(tmp_path, signal, f"{i}.wav")), None, None))
    files.append((str(tmp_path / "no.wav"), None, None))
    recordings = Recordings(files)
    assert recordings.problems == {12: "no such file"} and len(recordings) == 12
    alike = np.arange(12) != 3
    places = recordings.places(3, alike)
    # The strongest place, first of all, is that of the noise: 0.2 to 0.25 seconds.
    assert places[0]["start"] < 0.25 and places[0]["end"] > 0.2
    assert places[0]["end"] - places[0]["start"] < 0.2


def test_a_report_with_sound_stays_small():
    large = "data:audio/mpeg;base64," + "A" * 400_000
    sound = {"audio": large, "wave": [], "spectrogram": None, "places": [], "notes": []}
    page = HtmlReport(Findings(audited()), threshold=0.2, sound=lambda row: sound).html()
    assert len(page.encode()) < 10_000_000
    assert "recordings are left out: there is no room for their sound" in page
    assert page.count(large) == 8
