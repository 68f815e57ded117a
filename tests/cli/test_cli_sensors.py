"""gemmed fit and predict of recordings of several sensors, as a user would run them."""

import io
import json

import numpy as np
import pytest

from gemmed.acoustics import write_audio
from gemmed.acoustics.several_sensors import SensorComponents, moments_of
from gemmed.io.model_files import load_model
from patients import call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("soundfile")

RATE, N, SENSORS = 4000, 60, ("1", "2", "10")
BROKEN = {4: 0, 11: 0, 17: 1, 22: 1, 30: 2, 41: 2}
"""Subjects of which one sensor records noise."""


def heard(subject, high, sensor, broken):
    """A tone of 300 or 900 Hz as one of three microphones records it."""
    rng = np.random.default_rng([subject, high, sensor])
    time = np.arange(RATE // 2) / RATE
    pitch = np.random.default_rng([subject, high]).uniform(0.9, 1.1)
    if broken:
        return 0.5 * rng.standard_normal(len(time))
    tone = np.sin(2 * np.pi * (900 if high else 300) * pitch * time)
    return (0.2 / (1 + sensor)) * tone + 0.02 * rng.standard_normal(len(time))


def write(folder, name, subjects, broken, without=()):
    (folder / name).mkdir()
    lines = ["path,label,subject,sensor"]
    for i in subjects:
        for number, sensor in enumerate(SENSORS):
            if (i, sensor) in without:
                continue
            path = f"{name}/{i}-{sensor}.wav"
            write_audio(folder / path, heard(i, i % 2, number, broken.get(i) == number), RATE)
            lines.append(f"{path},{'high' if i % 2 else 'low'},walk-{i},{sensor}")
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """old.csv with 60 subjects; new.csv with 12 more: a broken, a missing, an unreadable sensor."""
    path = tmp_path_factory.mktemp("sensors")
    write(path, "old", range(N), BROKEN)
    write(path, "new", range(100, 112), {103: 1}, without={(105, "2")})
    (path / "new" / "106-1.wav").write_text("this is no sound")
    return path


def test_recordings_of_a_subject_are_views_of_one_sample(folder, capsys):
    """Sensors are in the order of their numbers; a broken one is named."""
    code, out, err = call(capsys, "fit", folder / "old.csv", "--out", folder / "m.gemmed", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert summary["rows"] == N
    assert summary["recordings"] == N * len(SENSORS)
    assert list(summary["sensors"]) == ["1", "2", "10", "all"]
    assert "180 recordings of 3 sensors are 60 samples" in err
    model = load_model(folder / "m.gemmed")[-1]
    assert model.sensor_names_ == SENSORS
    assert model.broken_proba_.shape == (N, len(SENSORS))
    found = {(int(i), int(s)) for i, s in np.argwhere(model.broken_proba_ > 0.5)}
    assert set(BROKEN.items()) <= found
    assert len(found) <= len(BROKEN) + 3
    for subject, sensor in BROKEN.items():
        assert f"broken: sensor {SENSORS[sensor]} in walk-{subject}," in err


def test_new_moments_with_broken_and_missing_sensors(folder, capsys):
    """Every recording gets the prediction of its moment, and P(broken) of its sensor."""
    if not (folder / "m.gemmed").exists():
        call(capsys, "fit", folder / "old.csv", "--out", folder / "m.gemmed")
    code, out, err = call(capsys, "predict", folder / "m.gemmed", folder / "new.csv", "--proba")
    assert code == 3  # 106-1.wav
    assert "106-1.wav" in err
    table = pd.read_csv(io.StringIO(out))
    assert len(table) == 35
    assert (table["prediction"] == table["label"]).all()
    by_subject = table.groupby("subject")["prediction"].nunique()
    assert (by_subject == 1).all()
    unread = table["path"] == "new/106-1.wav"
    assert np.isnan(table.loc[unread, "broken_proba"]).all()
    noisy = (table["subject"] == "walk-103") & (table["sensor"] == 2)
    assert (table.loc[noisy, "broken_proba"] > 0.5).all()
    others = ~noisy & ~unread
    assert (table.loc[others, "broken_proba"] > 0.5).mean() < 0.1


def test_segments_follow_each_other(folder, capsys, tmp_path):
    """Several segments a recording: samples are segments, in the order of time."""
    code, out, err = call(
        capsys,
        "fit",
        folder / "old.csv",
        "--out",
        tmp_path / "m",
        "--segments",
        "3",
        "--window",
        "0.2",
        "--json",
    )
    assert code == 0, err
    assert json.loads(out)["rows"] == 3 * N
    model = load_model(tmp_path / "m")[-1]
    assert all(span.n_samples <= 3 for span in model.spans())


def test_apart_is_one_row_a_recording(folder, capsys, tmp_path):
    code, out, err = call(
        capsys, "fit", folder / "old.csv", "--out", tmp_path / "m", "--sensors", "apart", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["rows"] == N * len(SENSORS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.assign(subject="a"), "two recordings of sensor '1' are of the same time"),
        (lambda t: t.drop(columns="subject"), "subject"),
        (lambda t: t.assign(sensor="1").drop_duplicates("subject"), "of sensor '1' only"),
        (
            lambda t: t.assign(label=["high", *t["label"][1:]]),
            "different labels",
        ),
        (lambda t: t.assign(sensor=[None, *t["sensor"][1:]]), "has no sensor in row"),
    ],
)
def test_manifests_that_cannot_be_joined(folder, capsys, change, said):
    """One sentence with the rows and what to do."""
    change(pd.read_csv(folder / "old.csv", dtype=str)).to_csv(folder / "bad.csv", index=False)
    error = refusal(
        capsys, "fit", folder / "bad.csv", "--out", folder / "x", "--sensors", "together"
    )
    assert said in error


def test_sound_files_alone_are_refused(folder, capsys):
    if not (folder / "m.gemmed").exists():
        call(capsys, "fit", folder / "old.csv", "--out", folder / "m.gemmed")
    error = refusal(capsys, "predict", folder / "m.gemmed", folder / "new" / "100-1.wav")
    assert "give a manifest with the columns path, subject and sensor" in error


def test_moments_and_components():
    """Positions of recordings by moment; missing sensors stay NaN."""
    moments = moments_of(["a", "a", "b", "c", "c"], ["2", "10", "10", "10", "2"])
    assert moments.sensors == ("2", "10")
    assert moments.recording.tolist() == [[0, 1], [-1, 2], [4, 3]]
    assert moments.first().tolist() == [0, 2, 3]
    X = np.random.default_rng(0).normal(size=(20, 2 * 2 * 5))
    X[3, :10] = np.nan
    made = SensorComponents(("a", "b"), n_components=4, n_mfcc=2).fit(X)
    found = made.transform(X)
    assert found.shape == (20, 2 * 4 + 2 * 6)
    views, screening = made.views()
    assert np.isnan(found[3, views["a"]]).all()
    assert np.isnan(found[3, screening["a"]]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()
    np.testing.assert_allclose(found[0, screening["b"]][:2], X[0, 10:].reshape(2, 5).mean(axis=1))
    assert len(made.get_feature_names_out()) == found.shape[1]


def test_audit_judges_sensors_of_a_moment_together(folder, capsys, tmp_path):
    page, spans = tmp_path / "page.html", tmp_path / "spans.json"
    code, said, _ = call(
        capsys, "audit", folder / "old.csv", "--html", page, "--spans", spans, "--json"
    )
    assert code == 0
    found = json.loads(said)
    assert found["rows"] == 60
    broken = {(record["recording"], record["sensors"]) for record in found["suspicious"]}
    for subject, sensor in BROKEN.items():
        assert (f"walk-{subject}", SENSORS[sensor]) in broken
    assert {fault["sensor"] for fault in json.loads(spans.read_text())} <= set(SENSORS)
    text = page.read_text()
    for sensor in SENSORS:
        assert f"{sensor}: first MFCC" in text
    code, said, _ = call(capsys, "audit", folder / "old.csv", "--sensors", "apart", "--json")
    assert code == 0 and json.loads(said)["rows"] == 180
