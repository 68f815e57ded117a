"""The commands fit and predict, as a user would run them."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed.io.model_files import load_model, read_header, save_model
from patients import FIT, FLIPPED, call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize("command", ["fit", "predict", "audit"])
def test_help_has_examples(command, capsys):
    code, out, _ = call(capsys, command, "--help")
    assert code == 0
    assert f"examples:\n  gemmed {command} " in out


# -- fit ---------------------------------------------------------------------------------------


def test_fit_says_what_it_did(folder, capsys, tmp_path):
    code, out, err = call(capsys, "fit", folder / "t.csv", *FIT, "--out", tmp_path / "m")
    assert code == 0
    assert (
        out.startswith("Held-out accuracy ") and "160 (ill: " in out and str(tmp_path / "m") in out
    )
    assert err == "gemmed: note: column 'patient' is left out: text that differs from row to row\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_fit_as_json(folder, capsys, tmp_path):
    code, out, _ = call(capsys, "fit", folder / "t.csv", *FIT, "--out", tmp_path / "m", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["rows"] == sum(summary["classes"].values()) == 160
    assert summary["numeric_columns"] == ["age", "dose"]
    assert summary["categorical_columns"] == ["ward"]
    assert list(summary["left_out_columns"]) == ["patient"]
    assert summary["converged"] is True
    assert 0.9 < summary["held_out_accuracy"] <= 1 - len(FLIPPED) / 160
    assert summary["held_out_interval"][0] > summary["majority_share"]


def test_options_reach_the_classifier(folder, capsys, tmp_path):
    expected = {
        "kernel": "poly",
        "gamma": 0.5,
        "degree": 2,
        "C": 4.5,
        "n_neighbors": 4,
        "max_iter": 50,
        "random_state": 7,
    }
    names = {"n_neighbors": "neighbors", "random_state": "seed"}
    options = [
        part
        for name, value in expected.items()
        for part in (f"--{names.get(name, name).replace('_', '-')}", value)
    ]
    command = ("fit", folder / "t.csv", "--target", "diagnosis", "--group", "visit")
    code, _, err = call(capsys, *command, *options, "--out", tmp_path / "m")
    assert code == 0, err
    found = load_model(tmp_path / "m")[-1].get_params()
    found |= {**found["kernel_params"], "max_iter": found["solver"].max_iter}
    assert {name: found[name] for name in expected} == expected


def test_the_same_seed_gives_the_same_model(folder, capsys, tmp_path):
    frame = pd.read_csv(folder / "t.csv")
    for name in ("a", "b"):
        call(capsys, "fit", folder / "t.csv", *FIT, "--seed", "5", "--out", tmp_path / name)
    first, second = (load_model(tmp_path / name).decision_function(frame) for name in ("a", "b"))
    assert first.tobytes() == second.tobytes()


def test_a_table_from_standard_input(folder, capsys, tmp_path, monkeypatch):
    table = io.TextIOWrapper(io.BytesIO((folder / "t.csv").read_bytes()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", table)
    code, out, err = call(capsys, "fit", "-", *FIT, "--out", tmp_path / "m", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 160
    assert read_header(tmp_path / "m").classes == ["ill", "well"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.csv", "--target", "y", "--out", "m"], ["nothing.csv", "No such file"]),
        ([".", "--target", "y", "--out", "m"], ["is a folder"]),
        (["t.csv", "--target", "y", "--out", "m"], ["no column 'y'", "'diagnosis'"]),
        (["t.csv", "--target", "patient", "--out", "m"], ["160 different values"]),
        (["t.csv", "--out", "m"], ["--target"]),
        (["t.csv", "--target", "diagnosis"], ["--out"]),
        (["t.csv", *FIT, "--out", "-"], ["--out -"]),
        (["t.csv", *FIT, "--out", ""], ["--out ''"]),
        (["t.csv", *FIT, "--out", "."], ["not the name of a file"]),
        (["t.csv", *FIT, "--out", "t.csv"], ["a file to read"]),
        (["t.csv", *FIT, "--out", "none/m"], ["no folder"]),
        (["t.csv", *FIT, "--out", "/dev/null"], ["not a regular file"]),
        (["t.csv", *FIT, "--out", "m", "--C", "0.5"], ["C=0.5"]),
        (["t.csv", *FIT, "--out", "m", "--gamma", "wide"], ["--gamma", "'wide'"]),
        (["t.csv", *FIT, "--out", "m", "--gamma", "-1"], ["gamma=-1"]),
        (["t.csv", *FIT, "--out", "m", "--kernel", "odd"], ["--kernel", "odd"]),
        (["t.csv", *FIT, "--out", "m", "--seed", "-1"], ["--seed: -1 must be between 0"]),
        (["t.csv", *FIT, "--out", "m", "--weight", "ward"], ["'ward'", "weight", "row 1"]),
        (["t.csv", *FIT, "--out", "m", "--prior", "age"], ["prior_nominal"]),
        (["t.csv", *FIT, "--out", "m", "--weight", "nothing"], ["'nothing'", "weight"]),
        (["t.csv", *FIT, "--out", "m", "--encoding", "klingon"], ["'klingon'"]),
        (["t.csv", *FIT, "--out", "m", "--group", "visit"], ["both group and drop"]),
    ],
)
def test_bad_arguments_of_fit(folder, capsys, tmp_path, monkeypatch, arguments, words):
    (tmp_path / "t.csv").write_bytes((folder / "t.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    line = refusal(capsys, "fit", *arguments)
    for word in words:
        assert word in line
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


NUMBERS = [f"{i % 7},{(i * i) % 11},{i % 2}\n" for i in range(40)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["is empty"]),
        (b"a,b,y\n", ["no rows"]),
        (bytes(range(256)) * 9, ["binary data"]),
        ("a,b,y\ná,1,0\n".encode("latin-1"), ["not UTF-8", "--encoding"]),
        (b"a,a,y\n1,2,0\n", ["more than one column 'a'"]),
        (b"a,b,y\n1,2,0\n", ["one class only, '0', in 1 rows"]),
        (b"a,b,y\n1,2,0\n2,3,1\n", ["class 0 has 1 sample"]),
        (("a,b,y\ninf,2,0\n" + "".join(NUMBERS)).encode(), ["'inf' in row 1", "--missing"]),
        (("a,b,y\n1e999,2,0\n" + "".join(NUMBERS)).encode(), ["'1e999' in row 1"]),
        (("a,b,y\nbad,2,0\n" + "".join(NUMBERS)).encode(), ["'bad' in row 1", "--categorical"]),
        (("a,b,y\n" + "1,2,0\n3,4,\n" * 9).encode(), ["one class only"]),
        (("a,b,y\n" + "1,2,0\n1,2,1\n" * 9).encode(), ["constant"]),
        (b"a,b,y\n1,2\n", ["line 2", "2 cells"]),
    ],
)
def test_bad_tables_are_one_line(capsys, tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    line = refusal(capsys, "fit", path, "--target", "y", "--out", tmp_path / "m")
    for word in words:
        assert word in line
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "content",
    [
        "a;b;y\n" + "".join(NUMBERS).replace(",", ";").replace("3;", "3,5;", 4),
        "a,b,y\n" + "".join(NUMBERS) + ",5,0\nNaN,,1\n",
        "a,b,y\n" + "".join(NUMBERS) + "1,2,\n1,2,NA\n",
        "a,b,y\n" + "".join(NUMBERS).replace("5,", f"{10**30},"),
        "a,b,y\n" + "".join(NUMBERS).replace(",1\n", ",vrai\n").replace(",0\n", ",faux\n"),
        "c,b,y\n" + "".join("xyz"[i % 3] + line[1:] for i, line in enumerate(NUMBERS)),
    ],
    ids=["semicolons", "gaps", "labels missing", "huge integers", "text labels", "text"],
)
def test_odd_but_sensible_tables_are_fitted(capsys, tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_text(content)
    code, _, err = call(capsys, "fit", path, "--target", "y", "--out", tmp_path / "m")
    assert code == 0, err
    code, out, err = call(capsys, "predict", tmp_path / "m", path)
    assert code == 0, err
    assert len(out.splitlines()) == len(content.splitlines())


def test_files_without_permission(folder, capsys, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a,y\n1,0\n")
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read and write everything")
    assert "Permission denied" in refusal(
        capsys, "fit", secret, "--target", "y", "--out", tmp_path / "m"
    )
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert "no permission" in refusal(capsys, "fit", folder / "t.csv", *FIT, "--out", closed / "m")


@pytest.mark.parametrize("missing", ["pandas", "skops"])
def test_missing_extras_are_named_with_the_command(folder, capsys, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    line = refusal(capsys, "fit", folder / "t.csv", *FIT, "--out", tmp_path / "m")
    assert missing in line and 'pip install "gemmed[cli]"' in line


def wait_for_work(pid, *, seconds):
    """Until a process has used so much processor time: imports are over, however busy we are."""
    used, tick = Path(f"/proc/{pid}/stat"), os.sysconf("SC_CLK_TCK")
    for _ in range(600):
        time.sleep(0.1)
        if not used.exists():  # no such files on this system
            time.sleep(2 * seconds)
            return
        if sum(map(int, used.read_text().split()[13:15])) > seconds * tick:
            return


def test_an_interrupt_leaves_the_old_model_as_it_was(tmp_path):
    """Ctrl-C while a long fit runs: exit code 130, one line, no file touched."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(8000, 5)), columns=list("abcde"))
    table.assign(y=rng.integers(0, 2, 8000)).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "m").write_text("old")
    command = [sys.executable, "-m", "gemmed", "fit", tmp_path / "t.csv", "--target", "y"]
    process = subprocess.Popen(
        [*command, "--out", tmp_path / "m"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        wait_for_work(process.pid, seconds=2.5)
        running = process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert running, f"the fit ended before it could be interrupted: {err}"
    assert process.returncode == 130
    assert (
        out == ""
        and err.startswith("gemmed: interrupted; the same command starts again")
        and err.count("\n") == 1
    )
    assert "kept" not in err
    assert (tmp_path / "m").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "t.csv"]


# -- predict -----------------------------------------------------------------------------------


def test_predictions_are_those_of_the_model(folder, capsys):
    code, out, err = call(capsys, "predict", folder / "m.gemmed", folder / "new.csv", "--proba")
    assert code == 0
    written = pd.read_csv(io.StringIO(out))
    new = pd.read_csv(folder / "new.csv")
    model = load_model(folder / "m.gemmed")
    assert list(written.columns) == [*new.columns, "prediction", "proba_ill", "proba_well"]
    pd.testing.assert_frame_equal(written[new.columns], new)
    assert written["prediction"].tolist() == model.predict(new).tolist()
    np.testing.assert_allclose(
        written[["proba_ill", "proba_well"]].to_numpy(), model.predict_proba(new), rtol=1e-12
    )
    assert err == "gemmed: note: columns the model does not use: 'patient', 'visit'\n"


def test_predictions_are_right(folder, capsys):
    """Against the labels before some were flipped: the classes are eight units apart."""
    code, out, _ = call(capsys, "predict", folder / "m.gemmed", folder / "t.csv")
    written = pd.read_csv(io.StringIO(out))
    assert code == 0
    wrong = np.flatnonzero(written["prediction"] != written["diagnosis"])
    assert set(FLIPPED) <= set(wrong)
    assert len(wrong) <= len(FLIPPED) + 2


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_predictions_to_a_file(folder, capsys, tmp_path, name):
    out_file = tmp_path / name
    code, out, _ = call(
        capsys, "predict", folder / "m.gemmed", folder / "new.csv", "--out", out_file
    )
    assert code == 0
    assert out.startswith("30 rows (") and str(out_file) in out
    read = pd.read_csv(out_file) if name.endswith("csv") else pd.read_parquet(out_file)
    assert len(read) == 30 and "prediction" in read.columns


def test_predictions_as_json(folder, capsys, tmp_path):
    model, table = folder / "m.gemmed", folder / "new.csv"
    _, out, _ = call(capsys, "predict", model, table, "--proba", "--json")
    summary = json.loads(out)
    assert summary["rows"] == sum(summary["predicted"].values()) == 30
    first = summary["predictions"][0]
    assert set(first) == {"row", "prediction", "proba_ill", "proba_well"} and first["row"] == 1
    _, out, _ = call(capsys, "predict", model, table, "--json", "--out", tmp_path / "p.csv")
    assert json.loads(out)["out"] == str(tmp_path / "p.csv")
    assert (tmp_path / "p.csv").exists()


def test_screening_marks_rows_unlike_the_training_rows(folder, capsys, tmp_path):
    table = pd.read_csv(folder / "new.csv")
    table.loc[4, "dose"] = 60.0
    table.to_csv(tmp_path / "new.csv", index=False)
    code, out, err = call(
        capsys, "predict", folder / "m.gemmed", tmp_path / "new.csv", "--screen", "0.05"
    )
    assert code == 0, err
    written = pd.read_csv(io.StringIO(out))
    assert written["p_value"].between(0, 1, inclusive="right").all()
    assert written["suspicious"][4]
    assert written["p_value"][4] == written["p_value"].min()
    assert written["suspicious"].sum() < 10


def test_new_categories_are_noted(folder, capsys, tmp_path):
    table = pd.read_csv(folder / "new.csv").assign(ward="moon")
    table.to_csv(tmp_path / "new.csv", index=False)
    code, out, err = call(capsys, "predict", folder / "m.gemmed", tmp_path / "new.csv", "--proba")
    assert code == 0 and len(out.splitlines()) == 31
    assert "'ward' has values that did not occur in training: 'moon'" in err
    assert all(line.startswith("gemmed: note: ") for line in err.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.csv", "new.csv"], ["'t.csv' is not a model file"]),
        (["nothing", "new.csv"], ["No such file", "nothing"]),
        ([".", "new.csv"], ["is not a file"]),
        (["m.gemmed", "m.gemmed"], ["zip archive"]),
        (["m.gemmed", "new.csv", "--screen", "0"], ["--screen: 0 must be between 0 and 1"]),
        (["m.gemmed", "new.csv", "--screen", "nan"], ["--screen: nan must be"]),
        (["m.gemmed", "new.csv", "--out", "new.csv"], ["a file to read"]),
        (["m.gemmed", "new.csv", "--out", "m.gemmed"], ["a file to read"]),
        (["m.gemmed", "short.csv"], ["no column 'dose', 'ward'", "used by the model"]),
        (["m.gemmed", "words.csv"], ["'dose'", "'high' in row 2", "not a number"]),
        (["m.gemmed", "again.csv"], ["'prediction' already"]),
        (["plain.gemmed", "new.csv"], ["without column names"]),
        (["svm.gemmed", "new.csv", "--proba"], ["SVC", "no class probabilities", "--proba"]),
        (["svm.gemmed", "new.csv", "--screen", "0.1"], ["SVC", "cannot screen", "--screen"]),
    ],
)
def test_bad_arguments_of_predict(folder, capsys, tmp_path, monkeypatch, arguments, words):
    from sklearn.svm import SVC

    for name in ("t.csv", "new.csv", "m.gemmed"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "short.csv").write_text("age,other\n1,2\n")
    (tmp_path / "words.csv").write_text("age,dose,ward\n1,2,north\n1,high,north\n")
    (tmp_path / "again.csv").write_text("age,dose,ward,prediction\n1,2,north,ill\n")
    train = pd.read_csv(folder / "t.csv")[["age", "dose"]]
    save_model(MEDClassifier().fit(train.to_numpy(), np.arange(160) % 2), tmp_path / "plain.gemmed")
    save_model(SVC().fit(train, np.arange(160) % 2), tmp_path / "svm.gemmed")
    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    line = refusal(capsys, "predict", *arguments)
    for word in words:
        assert word in line
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_models_saved_in_python_can_be_used(folder, capsys, tmp_path):
    train = pd.read_csv(folder / "t.csv")
    model = GEMMEDClassifier(random_state=0).fit(train[["age", "dose"]], train["diagnosis"])
    save_model(model, tmp_path / "m")
    code, out, _ = call(capsys, "predict", tmp_path / "m", folder / "t.csv")
    assert code == 0
    written = pd.read_csv(io.StringIO(out))
    assert written["prediction"].tolist() == model.predict(train[["age", "dose"]]).tolist()


def test_a_closed_pipe_is_not_an_error(folder):
    command = f"{sys.executable} -m gemmed predict {folder / 'm.gemmed'} {folder / 't.csv'}"
    result = subprocess.run(
        f"{command} | head -n 1", shell=True, capture_output=True, text=True, check=False
    )
    assert result.stdout.startswith("patient,age,")
    assert "Traceback" not in result.stderr
