"""gemmed fit, audit and predict of recordings, as a user would run them."""

import io
import json

import numpy as np
import pytest

from gemmed import listening
from gemmed.acoustics import read_audio, recording_features, write_audio
from gemmed.cli import main
from gemmed.io.model_files import load_model
from patients import call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("soundfile")
pytest.importorskip("pyarrow")

RATE = 4000
N = 40


def sound(i, *, high, seconds=0.5):
    """A tone of 300 or 900 Hz with noise."""
    rng = np.random.default_rng([i, high])
    time = np.arange(round(seconds * RATE)) / RATE
    tone = np.sin(2 * np.pi * (900 if high else 300) * rng.uniform(0.9, 1.1) * time)
    return 0.2 * tone * rng.uniform(0.5, 1) + 0.02 * rng.standard_normal(len(time))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """sounds/, m.csv with path and label, new/ with ten more, the model m.gemmed.

    Sound 5 is silent, 6 is cut off, 7 has the wrong label, 8 is clipped; 9 is no sound.
    """
    path = tmp_path_factory.mktemp("sounds")
    (path / "sounds").mkdir()
    (path / "new").mkdir()
    lines = ["path,label"]
    for i in range(N):
        file = path / "sounds" / f"{i:02d}.wav"
        signal = sound(i, high=i % 2)
        if i == 5:
            signal = np.zeros(RATE // 2)
        if i == 8:
            signal = np.clip(20 * signal, -0.9, 0.9)
        write_audio(file, signal, RATE)
        if i == 6:
            file.write_bytes(file.read_bytes()[:-1000])
        if i == 9:
            file.write_text("this is no sound\n" * 100)
        lines.append(f"sounds/{file.name},{'low' if (i % 2 == 0) ^ (i == 7) else 'high'}")
    (path / "m.csv").write_text("\n".join(lines) + "\n")
    for i in range(10):
        write_audio(path / "new" / f"{i}.wav", sound(100 + i, high=i % 2), RATE)
    code = main(["fit", str(path / "m.csv"), "--out", str(path / "m.gemmed")])
    assert code == 3  # 09.wav
    return path


def test_fit_says_what_it_did(folder, capsys, tmp_path):
    code, out, err = call(
        capsys, "fit", folder / "m.csv", "--out", tmp_path / "m", "--json", "--window", "0.3"
    )
    summary = json.loads(out)
    assert code == 3
    assert summary["recordings"] == summary["rows"] == N - 1
    assert [problem["path"] for problem in summary["problems"]] == ["sounds/09.wav"]
    assert "sounds/09.wav (row 10) cannot be used: not a readable" in err
    assert "recordings at 4000 Hz, windows of 0.3 s" in err
    assert load_model(tmp_path / "m")[0].settings_["window"] == 0.3


def test_new_files_are_processed_as_the_old_ones(folder, capsys):
    """The model is a pipeline that takes paths."""
    new = sorted(folder.glob("new/*.wav"))
    code, out, err = call(
        capsys, "predict", folder / "m.gemmed", *new, "--proba", "--screen", "0.1"
    )
    assert code == 0, err
    written = pd.read_csv(io.StringIO(out))
    assert written["prediction"].tolist() == ["low", "high"] * 5
    model = load_model(folder / "m.gemmed")
    paths = [str(path) for path in new]
    np.testing.assert_allclose(written[["proba_high", "proba_low"]], model.predict_proba(paths))
    np.testing.assert_allclose(written["p_value"], model[-1].p_values(model[:-1].transform(paths)))
    assert set(model[0].settings_) > {"window", "n_mfcc", "n_mels"} and model[0].rate_ == RATE
    expected = recording_features(paths[0], rate=RATE, **model[0].settings_).features.mfcc
    np.testing.assert_array_equal(model[0].transform(paths[:1]), expected)


def test_one_file_alone_is_predicted_as_among_others(folder, capsys):
    """The basis is that of the training, whatever is predicted."""
    model, new = folder / "m.gemmed", sorted(folder.glob("new/*.wav"))
    _, out, _ = call(capsys, "predict", model, *new, "--proba")
    _, alone, _ = call(capsys, "predict", model, new[3], "--proba")
    one, among = (pd.read_csv(io.StringIO(text)) for text in (alone, out))
    assert one["prediction"][0] == among["prediction"][3]
    np.testing.assert_allclose(one["proba_high"][0], among["proba_high"][3], rtol=1e-9)


def test_a_manifest_of_new_files(folder, capsys, tmp_path):
    (folder / "new.csv").write_text("who;path\nA;new/0.wav\nB;nothing.wav\nC;sounds/08.wav\n")
    code, out, err = call(capsys, "predict", folder / "m.gemmed", folder / "new.csv")
    assert code == 3 and "nothing.wav cannot be used: no such file" in err
    written = pd.read_csv(io.StringIO(out), keep_default_na=False)
    assert written["who"].tolist() == ["A", "B", "C"]
    assert written["prediction"][:2].tolist() == ["low", ""] and written["prediction"][2]
    assert written["flags"].tolist() == ["", "no such file", "clipped"]
    code, out, _ = call(capsys, "predict", folder / "m.gemmed", folder / "new.csv", "--json")
    assert json.loads(out)["predictions"][1]["prediction"] is None


def test_audit_shows_what_is_wrong_with_a_recording(folder, capsys, tmp_path):
    out_file = tmp_path / "s.csv"
    code, out, err = call(capsys, "audit", folder / "m.csv", "--out", out_file)
    assert code == 3, err
    found = pd.read_csv(out_file, keep_default_na=False).set_index("row")
    assert found.loc[10, "verdict"] == "unreadable" and found.index[0] == 10
    assert found.loc[6, "flags"] == "silent" and found.loc[7, "flags"] == "truncated"
    assert found.loc[9, "flags"] == "clipped"
    assert found.loc[8, "flags"] == "" and found.loc[8, "label"] == "low"
    assert found.loc[8, "suggested_label"] == "high"
    assert found["path"].str.startswith("sounds/").all()
    assert "silent" in out and "unreadable" in out
    code, out, _ = call(capsys, "audit", folder / "m.csv", "--json")
    assert json.loads(out)["problems"][0]["row"] == 10


def test_segments_are_judged_by_recording(folder, capsys, tmp_path):
    """Several rows a recording; a prediction is the mean of its segments."""
    long = tmp_path / "m.csv"
    lines = ["path,label"]
    for i in range(12):
        write_audio(tmp_path / f"{i}.wav", sound(i, high=i % 2, seconds=4), RATE)
        lines.append(f"{i}.wav,{('low', 'high')[i % 2]}")
    long.write_text("\n".join(lines))
    options = ["--segments", "4", "--window", "0.4"]
    code, out, err = call(capsys, "fit", long, *options, "--out", tmp_path / "m", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 48 and json.loads(out)["recordings"] == 12
    for i in range(6):
        write_audio(tmp_path / f"new{i}.wav", sound(50 + i, high=i % 2, seconds=3), RATE)
    new = sorted(tmp_path.glob("new*.wav"))
    code, out, err = call(capsys, "predict", tmp_path / "m", *new, "--proba")
    assert code == 0, err
    written = pd.read_csv(io.StringIO(out))
    assert written["prediction"].tolist() == ["low", "high"] * 3
    model = load_model(tmp_path / "m")
    parts = model[1:].predict_proba(model[0].read([str(new[0])]).mfcc)
    np.testing.assert_allclose(written["proba_low"][0], parts[:, 1].mean(), rtol=1e-9)
    code, out, _ = call(capsys, "audit", long, *options, "--json", "--threshold", "0")
    entries = json.loads(out)["suspicious"]
    assert len(entries) == 48 and {"start", "end", "path"} <= set(entries[0])


def test_excerpts_and_unlabelled_recordings(folder, capsys, tmp_path):
    """start and end choose a part of a file; without a label it is scored, not learned from."""
    signal = np.concatenate([sound(i, high=i % 2) for i in range(24)])
    write_audio(tmp_path / "all.wav", signal, RATE)
    lines = ["path,class,start,end"]
    for i in range(24):
        label = "" if i >= 20 else ("low", "high")[i % 2]
        lines.append(f"all.wav,{label},{i / 2},{(i + 1) / 2}")
    (tmp_path / "m.csv").write_text("\n".join(lines))
    scored = tmp_path / "u.csv"
    code, out, err = call(
        capsys,
        *("fit", tmp_path / "m.csv", "--target", "class", "--out", tmp_path / "m", "--json"),
        *("--unlabelled", scored),
    )
    assert code == 0, err
    assert json.loads(out)["rows"] == 20
    found = pd.read_csv(scored)
    assert found["row"].tolist() == [21, 22, 23, 24]
    assert found["prediction"].tolist() == ["low", "high", "low", "high"]
    heard = read_audio(tmp_path / "all.wav", start=10, end=10.5)
    assert len(heard.signal) == RATE // 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "m.csv", "--out", "x", "--window", "-1"], ["window=-1"]),
        (["fit", "m.csv", "--out", "x", "--sound-components", "99"], ["--sound-components 99"]),
        (["fit", "m.csv", "--out", "x", "--jobs", "0"], ["--jobs: 0 must be at least 1"]),
        (["fit", "m.csv", "--out", "x", "--recordings", "no"], ["--target"]),
        (["fit", "m.csv", "--out", "x", "--target", "odd"], ["no column 'odd'"]),
        (["audit", "m.csv", "--pred-probs", "p.npy"], ["--pred-probs has no meaning with"]),
        (["fit", "gone.csv", "--out", "x"], ["none of the recordings could be opened"]),
        (["fit", "times.csv", "--out", "x"], ["row 1: start=3.0, end=2.0"]),
        (["fit", "one.csv", "--out", "x"], ["one class only"]),
        (["predict", "m.gemmed", "new/0.wav", "m.csv"], ["'m.csv' is no sound file"]),
        (["predict", "m.gemmed", "nothing.wav"], ["none of the recordings"]),
        (["predict", "m.gemmed", "t.csv"], ["no column 'path'"]),
        (["predict", "t.gemmed", "new/0.wav"], ["'new/0.wav' is a recording", "table"]),
        (["predict", "t.gemmed", "t.csv", "t.csv"], ["2 tables"]),
    ],
)
def test_bad_input_is_one_line(folder, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    (folder / "gone.csv").write_text("path,label\na.wav,0\nb.wav,1\n")
    (folder / "times.csv").write_text("path,label,start,end\nsounds/01.wav,0,3,2\nb.wav,1,,\n")
    lines = [f"sounds/{i:02d}.wav,low" for i in range(4)] + ["sounds/09.wav,high"] * 2
    (folder / "one.csv").write_text("\n".join(["path,label", *lines]))
    (folder / "t.csv").write_text("x,y\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(30)))
    if not (folder / "t.gemmed").exists():
        assert main(["fit", "t.csv", "--target", "y", "--out", "t.gemmed"]) == 0
    line = refusal(capsys, *arguments)
    for word in words:
        assert word in line
    assert not (folder / "x").exists()


def test_components_of_another_basis_are_refused(folder, capsys, tmp_path):
    """Components of new recordings by themselves are not those the model knows."""
    (folder / "late.csv").write_text(
        "path,label\n" + "".join(f"new/{i}.wav,{i % 2}\n" for i in range(10))
    )
    settings = ["--segments", "1", "--window", "0.4", "--components", "5"]
    for name in ("m", "late"):
        call(
            capsys,
            "features",
            folder / f"{name}.csv",
            "--out",
            tmp_path / f"{name}.parquet",
            *settings,
        )
    model = tmp_path / "c.gemmed"
    drop = ["--drop", "path", "subject"]
    code, _, err = call(
        capsys, "fit", tmp_path / "m.parquet", "--target", "label", *drop, "--out", model
    )
    assert code == 0, err
    line = refusal(capsys, "predict", model, tmp_path / "late.parquet")
    assert "another basis" in line and "gemmed fit MANIFEST" in line
    code, _, err = call(capsys, "predict", model, tmp_path / "m.parquet")
    assert code == 0, err
    pd.read_parquet(tmp_path / "late.parquet").to_csv(tmp_path / "late.csv", index=False)
    code, _, err = call(capsys, "predict", model, tmp_path / "late.csv")
    assert code == 0 and "does not say which basis" in err


def test_a_table_of_features_is_no_manifest(folder, capsys, tmp_path):
    """What gemmed features writes has paths as well."""
    out = folder / "features.csv"
    settings = ("--segments", "1", "--window", "0.4", "--mfcc", "4", "--frames", "30")
    call(capsys, "features", folder / "m.csv", "--out", out, *settings)
    code, _, err = call(
        capsys,
        *("fit", out, "--target", "label", "--out", tmp_path / "m", "--components", "20"),
        *("--drop", "path", "subject"),
    )
    assert code == 0, err
    assert list(load_model(tmp_path / "m").named_steps) == ["columns", "classifier"]


def test_recordings_are_counted_while_they_are_read(folder, capsys):
    events = []
    with listening(lambda event: events.append(event)):
        call(capsys, "audit", folder / "m.csv", "--json")
    counts = [event.done for event in events if event.stage == "recordings"]
    total = {event.total for event in events if event.stage == "recordings"}
    assert counts == list(range(1, max(total) + 1)) and len(total) == 1
