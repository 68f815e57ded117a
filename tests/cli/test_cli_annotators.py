"""gemmed audit --annotators."""

import json

import numpy as np
import pytest

from gemmed.cli.main import main

pd = pytest.importorskip("pandas")


@pytest.fixture
def answers(tmp_path):
    rng = np.random.default_rng(0)
    t = rng.integers(0, 2, 120)
    lines = ["x,z,ann,bob,cy"]
    for label, point in zip(t, rng.normal(size=(120, 2)) + 2.5 * t[:, None], strict=True):
        cells = []
        for accuracy in (0.95, 0.75, 0.3):
            word = ("no", "yes")[int(label if rng.random() < accuracy else 1 - label)]
            cells.append(word if rng.random() < 0.8 else "")
        lines.append(",".join([*(f"{v:.4f}" for v in point), *cells]))
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_annotators_are_rated_and_labels_written(answers, tmp_path, capsys):
    out = tmp_path / "labels.csv"
    command = ["audit", str(answers), "--annotators", "ann", "bob", "cy", "--json"]
    assert main([*command, "--out", str(out)]) == 0
    summary = json.loads(capsys.readouterr().out)
    right = {own["annotator"]: own["accuracy"] for own in summary["annotators"]}
    assert right["ann"] > right["bob"] > 0.5 > right["cy"]
    for own in summary["annotators"]:
        assert own["interval"][0] <= own["accuracy"] <= own["interval"][1]
    assert len(out.read_text().splitlines()) == summary["rows"] + 1
    assert main([*command[:-1], "--top", "3"]) == 0
    assert "annotator" in capsys.readouterr().out


def test_what_makes_no_sense_is_refused(answers, capsys):
    assert main(["audit", str(answers)]) == 2
    assert "--annotators" in capsys.readouterr().err
    assert main(["audit", str(answers), "--annotators", "ann"]) == 2
    assert "two different columns" in capsys.readouterr().err
    assert main(["audit", str(answers), "--annotators", "ann", "bob", "--target", "cy"]) == 2
    assert "has no meaning" in capsys.readouterr().err
    assert main(["audit", str(answers), "--annotators", "ann", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err


@pytest.fixture
def long_answers(tmp_path):
    """One answer per row, of a crowd with one careless worker."""
    rng = np.random.default_rng(1)
    lines = ["item,worker,answer,seconds"]
    for item in range(150):
        label = rng.integers(0, 3)
        for worker, accuracy in (("ann", 0.95), ("bob", 0.8), ("cy", 0.85), ("dan", 0.4)):
            if rng.random() < 0.8:
                answer = label if rng.random() < accuracy else (label + rng.integers(1, 3)) % 3
                lines.append(f"i{item},{worker},{'abc'[answer]},{rng.integers(1, 99)}")
    path = tmp_path / "long.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_one_answer_a_row_is_read_and_the_worst_annotator_is_first(long_answers, tmp_path, capsys):
    page, out = tmp_path / "r.html", tmp_path / "labels.csv"
    command = ["audit", str(long_answers), "--answers", "item", "worker", "answer"]
    assert main([*command, "--html", str(page), "--out", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["annotators"][0]["annotator"] == "dan"
    assert [own["accuracy"] for own in found["annotators"]] == sorted(
        own["accuracy"] for own in found["annotators"]
    )
    assert found["rows"] == len(out.read_text().splitlines()) - 1
    assert "'seconds' is left out" in captured.err and "answers alone" in captured.err
    text = page.read_text()
    assert text.index(">dan<") < text.index(">bob<") < text.index(">ann<")
    assert "doubt" in text and "http" not in text.split("</style>")[1]


def test_known_labels_and_weights_are_read(answers, tmp_path, capsys):
    table = pd.read_csv(answers, dtype=str)
    sums = table[["x", "z"]].astype(float).sum(axis=1)
    table["truth"] = np.where(sums > 2.5, "yes", "no")
    table.loc[::3, "truth"] = ""
    table["count"] = [str(1 + i % 2) for i in range(len(table))]
    table.loc[1, ["ann", "bob", "cy"]] = ""  # nobody answered, but the label is known
    out, path = tmp_path / "labels.csv", tmp_path / "known.csv"
    table.to_csv(path, index=False)
    command = ["audit", str(path), "--annotators", "ann", "bob", "cy", "--json"]
    further = ["--known", "truth", "--weight", "count"]
    assert main([*command, "--drop", "truth", "count"]) == 0
    free = json.loads(capsys.readouterr().out)
    assert main([*command, *further, "--out", str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] > free["rows"]
    widths = [
        np.mean([np.diff(own["interval"]) for own in found["annotators"]]) for found in (free, told)
    ]
    assert widths[1] < widths[0]
    labels = pd.read_csv(out).set_index("row")
    known = table["truth"] != ""
    rows = labels.loc[np.flatnonzero(known) + 1]
    assert (rows["label"] == table.loc[known, "truth"].to_numpy()).all()
    assert (rows["doubt"] == 0.0).all()
    table.loc[4, "truth"] = "yess"
    table.to_csv(path, index=False)
    assert main([*command, *further]) == 2
    error = capsys.readouterr().err
    assert "row 5" in error and "did you mean 'yes'" in error
    table.loc[4, "count"] = "x"
    table.to_csv(path, index=False)
    assert main([*command, "--weight", "count"]) == 2
    assert "'count'" in capsys.readouterr().err


def test_what_is_known_of_an_item_is_the_same_in_all_its_rows(long_answers, capsys):
    table = pd.read_csv(long_answers).drop(columns="seconds")
    table["truth"] = np.where(table["item"] < "i3", table["answer"], None)
    first = table.groupby("item")["truth"].transform("first")
    command = ["audit", str(long_answers), "--answers", "item", "worker", "answer"]
    table.to_csv(long_answers, index=False)
    assert main([*command, "--known", "truth"]) == 2
    assert "--known truth: it differs between the answers" in capsys.readouterr().err
    table["truth"] = first
    table.to_csv(long_answers, index=False)
    assert main([*command, "--known", "truth", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == table["item"].nunique()


def test_whole_numbers_are_the_same_labels_in_columns_with_gaps(tmp_path, capsys):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 80)
    answered = {name: np.where(rng.random(80) < 0.8, truth, 1 - truth) for name in "abc"}
    table = pd.DataFrame(answered)
    table["known"] = np.where(np.arange(80) < 9, truth, np.nan)  # written as 0.0 and 1.0
    table.loc[::5, "b"] = np.nan
    path = tmp_path / "numbers.csv"
    table.to_csv(path, index=False)
    command = ["audit", str(path), "--annotators", "a", "b", "c", "--known", "known", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == ["0", "1"]


def test_unclear_rows_of_two_classes_are_listed(answers, tmp_path, capsys):
    # The likeliest of two labels has more than one half: one half as the limit lists nothing.
    page = tmp_path / "r.html"
    command = ["audit", str(answers), "--annotators", "bob", "cy", "--drop", "x", "z"]
    assert main([*command, "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert int(printed.split(" of ")[0]) > 0
    assert page.exists() and f"report in {page}" in printed


def test_the_hint_for_a_long_table_is_a_command_that_works(long_answers, capsys):
    assert main(["audit", str(long_answers), "--annotators", "answer"]) == 2
    error = capsys.readouterr().err
    command = error.split("is read by: gemmed ")[1].split()
    assert command[-3:] == ["item", "worker", "answer"]
    assert main([*command, "--json"]) == 0
    assert main(["audit", str(long_answers), "--answers", "item", "item", "answer"]) == 2
    assert "three different columns" in capsys.readouterr().err


def test_an_audit_of_answers_as_labels_names_the_command_for_answers(long_answers, capsys):
    table = pd.read_csv(long_answers).drop(columns="seconds")
    path = long_answers.with_name("three.csv")
    table.to_csv(path, index=False)
    assert main(["audit", str(path), "--target", "answer"]) == 0
    noted = capsys.readouterr().err
    command = noted.split("if each row is the answer of one person, use gemmed ")[1].split("\n")[0]
    assert command.split() == ["audit", str(path), "--answers", "item", "worker", "answer"]
    assert main([*command.split(), "--json"]) == 0
    # Numbers in both columns are more likely places of a grid.
    table["worker"] = table["worker"].map({"ann": 1, "bob": 2, "cy": 3, "dan": 4})
    table["item"] = table["item"].str[1:]
    table.to_csv(path, index=False)
    capsys.readouterr()
    assert main(["audit", str(path), "--target", "answer"]) == 0
    assert "answer of one person" not in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--annotators", "ann", "bob"], ["--answers", "x", "z", "ann"]])
def test_answers_are_not_known_labels(answers, capsys, given):
    assert main(["audit", str(answers), *given, "--known", "ann"]) == 2
    assert "--known ann: this column holds answers" in capsys.readouterr().err
