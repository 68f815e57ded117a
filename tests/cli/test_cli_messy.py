"""Messy tables on the command line: notes, choices, rows without a label, names of outputs."""

import json

import numpy as np
import pytest

from patients import FLIPPED, call, patients, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

FIT = ["--target", "diagnosis", "--drop", "visit", "patient"]


def notes(err):
    return [line.removeprefix("gemmed: note: ") for line in err.splitlines()]


@pytest.fixture
def messy(tmp_path):
    """The patients with an index, comments, units, spellings, dates, duplicates, a rare class."""
    table = patients()
    table["dose"] = [f"{1000 * value:.0f} mV" for value in table["dose"]]
    table.loc[::5, "diagnosis"] = table.loc[::5, "diagnosis"].str.upper()
    table["seen"] = np.where(np.arange(len(table)) % 3, "2020-01-05", "2020-02-07")
    table.loc[150, "diagnosis"] = "unsure"
    table.loc[[151, 152], "diagnosis"] = None
    table = pd.concat([table, table.iloc[[0, 1]]], ignore_index=True)
    path = tmp_path / "messy.csv.gz"
    text = "# export of the ward\n" + table.to_csv()
    import gzip

    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_everything_that_was_decided_is_said(messy, capsys, tmp_path):
    code, out, err = call(capsys, "fit", messy, *FIT, "--out", tmp_path / "m", "--json")
    assert code == 0, err
    text = "\n".join(notes(err))
    for words in (
        "begin with '#' are skipped",
        "the first column of",
        "differ only in case or spaces are taken for one class",
        "left out: 1 row of classes with fewer than 2 rows",
        "'dose' is read as numbers: in 'mV'",
        "'seen' is left out: dates or times",
        "2 rows repeat an earlier row",
        "2 rows without a label are left out",
    ):
        assert words in text, words
    summary = json.loads(out)
    assert summary["rows"] == 159 and summary["rows_without_label"] == 2
    assert set(summary["classes"]) == {"ill", "well"}
    assert summary["numeric_columns"] == ["age", "dose"]


def test_the_flipped_labels_are_found_all_the_same(messy, capsys):
    code, out, _ = call(capsys, "audit", messy, *FIT, "--json", "--duplicates", "once")
    entries = json.loads(out)["suspicious"]
    assert code == 0
    assert {entry["row"] - 1 for entry in entries[: len(FLIPPED)]} == set(FLIPPED)
    assert [entry["index"] for entry in entries[:1]] == [str(entries[0]["row"] - 1)]


def test_choices_are_respected(messy, capsys, tmp_path):
    options = ["--spelling", "as-written", "--min-class-rows", "1", "--duplicates", "once"]
    options += ["--numeric", "seen", "--comment", "#", "--header", "yes", "--decimal", "."]
    line = refusal(capsys, "fit", messy, *FIT, *options, "--out", tmp_path / "m")
    assert "class 'unsure' has 1 sample" in line
    options[options.index("--min-class-rows") + 1] = "2"
    code, out, err = call(capsys, "fit", messy, *FIT, *options, "--out", tmp_path / "m", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert set(summary["classes"]) == {"ill", "ILL", "well", "WELL"}
    assert summary["rows"] == 157 and "seen" in summary["numeric_columns"]


@pytest.mark.parametrize("command", ["fit", "audit"])
def test_rows_without_a_label_are_scored_where_asked_for(messy, capsys, tmp_path, command):
    """Not trained on: the model is the same without them."""
    scored = tmp_path / "scored.csv"
    out = tmp_path / ("m" if command == "fit" else "found.csv")
    code, _, err = call(capsys, command, messy, *FIT, "--out", out, "--unlabelled", scored)
    assert code == 0, err
    found = pd.read_csv(scored, keep_default_na=False)
    assert found["row"].tolist() == [151, 152, 153]
    assert found["label"].tolist() == ["unsure", "", ""]
    truth = np.random.default_rng(0).permutation(160) % 2 == 0
    assert found["prediction"].tolist() == np.where(truth[150:153], "ill", "well").tolist()
    assert found["p_value"].between(0, 1).all() and found["proba"].between(0.5, 1).all()
    if command == "audit":
        assert found["index"].tolist() == [150, 151, 152]


def test_scores_of_all_labelled_tables_are_an_empty_table(capsys, tmp_path):
    patients().to_csv(tmp_path / "t.csv", index=False)
    command = ("audit", tmp_path / "t.csv", *FIT, "--unlabelled", tmp_path / "u.csv")
    code, _, err = call(capsys, *command)
    assert code == 0, err
    assert len(pd.read_csv(tmp_path / "u.csv")) == 0


def test_blocks_read_messy_tables_too(messy, capsys, tmp_path):
    code, out, err = call(capsys, "fit", messy, *FIT, "--stream", "--out", tmp_path / "m", "--json")
    assert code == 0, err
    assert json.loads(out)["numeric_columns"] == ["age", "dose"]
    assert set(json.loads(out)["classes"]) == {"ill", "well"}
    line = refusal(
        capsys,
        *("fit", messy, *FIT, "--stream", "--out", tmp_path / "n"),
        *("--unlabelled", tmp_path / "u.csv"),
    )
    assert "--unlabelled needs the whole table" in line


@pytest.mark.parametrize("command", ["audit", "predict"])
def test_an_old_workbook_is_not_written_as_csv(messy, capsys, tmp_path, command):
    if command == "predict":
        call(capsys, "fit", messy, *FIT, "--out", tmp_path / "m")
    arguments = [messy, *FIT] if command == "audit" else [tmp_path / "m", messy]
    line = refusal(capsys, command, *arguments, "--out", tmp_path / "x.xls")
    assert "x.xls' is in a format that is not written" in line and ".csv" in line
    assert not (tmp_path / "x.xls").exists()


def test_predictions_of_a_messy_table(messy, capsys, tmp_path):
    call(capsys, "fit", messy, *FIT, "--out", tmp_path / "m")
    code, _, err = call(capsys, "predict", tmp_path / "m", messy, "--out", tmp_path / "p.csv.gz")
    assert code == 0, err
    written = pd.read_csv(tmp_path / "p.csv.gz")
    assert len(written) == 162 and set(written["prediction"]) == {"ill", "well"}
