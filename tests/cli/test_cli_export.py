"""gemmed export, as a user would run it; the graphs are run by onnxruntime."""

import json

import numpy as np
import pytest

from gemmed import GEMMEDClassifier, save_model
from gemmed.acoustics import write_audio
from gemmed.cli import main
from gemmed.io.model_files import load_model
from patients import FIT, call, patients, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """t.csv and the model m.gemmed fitted on it."""
    path = tmp_path_factory.mktemp("export")
    patients().to_csv(path / "t.csv", index=False)
    assert main(["fit", str(path / "t.csv"), *FIT, "--out", str(path / "m.gemmed")]) == 0
    return path


def session_of(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-10), ("float32", 1e-4)])
def test_export_predicts_as_the_model_file_does(folder, capsys, tmp_path, dtype, tol):
    out = tmp_path / "m.onnx"
    code, text, _ = call(
        capsys, "export", folder / "m.gemmed", "--out", out, "--dtype", dtype, "--json"
    )
    summary = json.loads(text)
    assert code == 0 and summary["bytes"] == out.stat().st_size
    assert summary["inputs"] == {"X": ["age", "dose"], "categories": ["ward"]}
    assert summary["classes"] == ["ill", "well"]
    table = patients()
    table.loc[4, "age"] = np.nan
    table.to_csv(tmp_path / "new.csv", index=False)
    predicted = tmp_path / "p.csv"
    predict = ["predict", folder / "m.gemmed", tmp_path / "new.csv", "--proba", "--out", predicted]
    assert call(capsys, *predict)[0] == 0
    expected = pd.read_csv(predicted)
    label, _, proba = session_of(out).run(
        None,
        {
            "X": table[["age", "dose"]].to_numpy(dtype),
            "categories": table[["ward"]].to_numpy(object),
        },
    )
    np.testing.assert_allclose(proba, expected[["proba_ill", "proba_well"]], atol=tol)
    assert label.tolist() == expected["prediction"].tolist()


def test_summary_for_people(folder, capsys, tmp_path):
    code, text, _ = call(capsys, "export", folder / "m.gemmed", "--out", tmp_path / "m.onnx")
    assert code == 0
    for part in ("X (numbers, float64), 2 columns: age, dose", "categories (texts)", "ill, well"):
        assert part in text


def test_numbers_with_units_are_said(capsys, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{v:.2f} mV,{v > 0}" for v in rng.normal(size=40)]
    (tmp_path / "t.csv").write_text("volts,state\n" + "\n".join(lines) + "\n")
    fit = ["fit", tmp_path / "t.csv", "--target", "state", "--out", tmp_path / "m.gemmed"]
    assert call(capsys, *fit)[0] == 0
    _, _, notes = call(capsys, "export", tmp_path / "m.gemmed", "--out", tmp_path / "m.onnx")
    assert "'volts'" in notes and "in 'mV'" in notes


def test_models_of_recordings_begin_at_their_mfccs(capsys, tmp_path):
    pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    lines = ["path,label"]
    for i in range(24):
        tone = np.sin(2 * np.pi * (300 + 600 * (i % 2)) * np.arange(2000) / 4000)
        sound = 0.2 * tone + 0.02 * rng.standard_normal(2000)
        write_audio(tmp_path / f"{i}.wav", sound, 4000)
        lines.append(f"{i}.wav,{'high' if i % 2 else 'low'}")
    (tmp_path / "m.csv").write_text("\n".join(lines) + "\n")
    assert call(capsys, "fit", tmp_path / "m.csv", "--out", tmp_path / "m.gemmed")[0] == 0
    code, text, notes = call(
        capsys, "export", tmp_path / "m.gemmed", "--out", tmp_path / "m.onnx", "--json"
    )
    assert code == 0 and "begins at the MFCCs" in notes
    assert json.loads(text)["mfcc"]["rate"] == 4000
    model = load_model(tmp_path / "m.gemmed")
    mfcc = model[0].transform([str(tmp_path / f"{i}.wav") for i in range(24)])
    decision = session_of(tmp_path / "m.onnx").run(["decision"], {"X": mfcc})[0]
    np.testing.assert_allclose(decision, model[1:].decision_function(mfcc), atol=1e-6)


def test_refusals(folder, capsys, tmp_path):
    model = folder / "m.gemmed"
    assert ".onnx" in refusal(capsys, "export", model, "--out", tmp_path / "m.txt")
    assert "no folder" in refusal(capsys, "export", model, "--out", tmp_path / "no" / "m.onnx")
    assert "not a model file" in refusal(
        capsys, "export", folder / "t.csv", "--out", tmp_path / "m.onnx"
    )
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    robust = GEMMEDClassifier(base=LogisticRegression(), random_state=0).fit(X + y[:, None], y)
    save_model(robust, tmp_path / "base.gemmed")
    text = refusal(capsys, "export", tmp_path / "base.gemmed", "--out", tmp_path / "m.onnx")
    assert "LogisticRegression" in text and "base=None" in text
    assert not (tmp_path / "m.onnx").exists()
