"""Tables and names of strangers: what reaches the terminal, spreadsheets and the memory."""

import json
import os
import pty
import re
import subprocess
import sys

import numpy as np
import pytest

from attack.hostile_models import parts_of, write_model
from attack.limited import GIGABYTE, environment, gemmed
from gemmed.cli import audit, main
from gemmed.cli.terminal import printable
from gemmed.rows.cells import as_text

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
FORMULA = "=cmd|' /C calc'!A0"


def table(path, label="ill", column="age", cell="plain"):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    frame = pd.DataFrame(
        {
            column: rng.normal(size=40) + 6.0 * y,
            "dose": rng.normal(size=40) + 6.0 * y,
            "note": [cell, "other"] * 20,
            "target": np.where(y == 1, label, "well"),
        }
    )
    frame.loc[5, "target"] = "well"
    frame.to_csv(path, index=False)
    return str(path)


@pytest.fixture
def hostile(tmp_path):
    return table(tmp_path / "t.csv", label=f"ill{ESCAPE}", column=f"age{ESCAPE}")


def on_a_terminal(*arguments):
    """What a command writes to a terminal."""
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gemmed", *arguments],
        stdin=subprocess.DEVNULL, stdout=other_end, stderr=other_end, env=environment(),
    )  # fmt: skip
    os.close(other_end)
    seen = b""
    try:
        while part := os.read(main_end, 65536):
            seen += part
    except OSError:  # how a terminal says that it is over
        pass
    process.wait(timeout=60)
    os.close(main_end)
    return seen.decode()


def steering(text):
    return STEERING.findall(text.replace("\n", ""))


def test_control_characters_are_written_out():
    assert printable("a\x1b[31mb\u202ec\u2028d\x9be\r") == "a\\x1b[31mb\\u202ec\\u2028d\\x9be\\r"
    assert (
        printable("naïve 漢字 \U0001f469\u200d\U0001f52c")
        == "naïve 漢字 \U0001f469\u200d\U0001f52c"
    )
    assert printable("\udcff") == "\\udcff"


def test_names_and_labels_do_not_steer_the_terminal(hostile, tmp_path, capsys):
    model = str(tmp_path / "m")
    assert main(["fit", hostile, "--target", "target", "--out", model]) == 0
    assert main(["audit", hostile, "--target", "target"]) == 0
    assert main(["predict", model, hostile, "--out", str(tmp_path / "p.csv")]) == 0
    assert main(["audit", hostile, "--target", f"none{ESCAPE}"]) == 2
    with pytest.raises(SystemExit):
        main(["fit", hostile, f"--nonsense{ESCAPE}"])
    written = capsys.readouterr()
    assert "ill\\x1b]0;owned\\x07" in written.out
    assert steering(written.out + written.err) == []


def test_nor_does_a_table_printed_there(hostile):
    seen = on_a_terminal("audit", hostile, "--target", "target", "--out", "-")
    assert "\\x1b]0;owned" in seen
    assert "\x1b]0;" not in seen and "\x1b[2J" not in seen and "\u202e" not in seen


def test_nor_does_the_header_of_a_foreign_model(hostile, tmp_path, capsys):
    model = tmp_path / "m"
    assert main(["fit", hostile, "--target", "target", "--out", str(model)]) == 0
    header, payload = parts_of(model)
    for change in (
        {"class_name": f"x{ESCAPE}"},
        {"gemmed_version": f"9{ESCAPE}"},
        {"format_version": 7, "gemmed_version": ESCAPE},
        {"format": ESCAPE},
    ):
        write_model(model, {**header, **change}, payload)
        main(["predict", str(model), hostile, "--out", str(tmp_path / "p.csv")])
    written = capsys.readouterr()
    assert "owned" in written.err
    assert steering(written.out + written.err) == []


@pytest.mark.parametrize(
    "cell", [FORMULA, "@SUM(A1)", "+cmd|x", "-2+3+cmd|x", "\t=1+1", "\r=1", "=1+1", "-x"]
)
def test_what_a_spreadsheet_would_run_is_text(cell):
    assert as_text(cell) == "'" + cell


@pytest.mark.parametrize(
    "cell",
    ["-1.5", "+1,5", "-1e-7", "-", "--", "+49 (170) 123-45", "-5 %", "a=b", "", "2026-11-16"],
)
def test_numbers_dates_and_telephones_stay(cell):
    assert as_text(cell) == cell


def test_tables_for_people_hold_no_formula(tmp_path, capsys):
    path = table(tmp_path / "t.csv", label=FORMULA, column="=age", cell="-cmd|x")
    model = str(tmp_path / "m")
    assert main(["fit", path, "--target", "target", "--out", model]) == 0
    outputs = [str(tmp_path / name) for name in ("a.csv", "p.csv", "raw.csv", "p.parquet")]
    assert main(["audit", path, "--target", "target", "--id", "note", "--out", outputs[0]]) == 0
    assert main(["predict", model, path, "--out", outputs[1]]) == 0
    assert "are written with ' in front" in capsys.readouterr().err
    assert main(["predict", model, path, "--out", outputs[2], "--raw-cells"]) == 0
    assert main(["predict", model, path, "--out", outputs[3]]) == 0
    assert "in front" not in capsys.readouterr().err
    for name in outputs[:2]:
        frame = pd.read_csv(name, dtype=str, keep_default_na=False)
        cells = [*frame.columns, *frame.to_numpy().ravel()]
        assert [cell for cell in cells if as_text(cell) != cell] == []
        assert "'" + FORMULA in cells
    raw = pd.read_csv(outputs[2], dtype=str, keep_default_na=False)
    assert {"=age", "target"} <= set(raw.columns) and FORMULA in set(raw["target"])
    assert FORMULA in set(pd.read_parquet(outputs[3])["target"])


def test_raw_cells_hold_for_rows_without_a_label(tmp_path, capsys):
    path = tmp_path / "t.csv"
    lines = [f"{i % 7},{'ab'[i % 2]},=n{i}" for i in range(40)] + ["3,,=1+1"]
    path.write_text("\n".join(["x,y,name", *lines]))
    for options, cell in (([], "'=1+1"), (["--raw-cells"], "=1+1")):
        out = tmp_path / "u.csv"
        asked = ["audit", path, "--target", "y", "--id", "name", "--unlabelled", out, *options]
        assert main([str(word) for word in asked]) == 0
        assert pd.read_csv(out)["name"].tolist() == [cell]


# -- what is no table --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zlib", "hex", "rot13", "base64", "bz2", "nonsense", "\0"])
def test_codecs_that_are_no_encoding(name, tmp_path, capsys):
    path = table(tmp_path / "t.csv")
    assert main(["audit", path, "--target", "target", "--encoding", name]) == 2
    assert "is unknown: try utf-8" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_a_device_is_not_read(more, tmp_path, capsys):
    out = str(tmp_path / "m")
    assert main(["fit", "/dev/zero", "--target", "t", "--out", out, *more]) == 2
    assert main(["features", "/dev/zero", "--out", str(tmp_path / "f.csv")]) == 2
    assert capsys.readouterr().err.count("is a device") == 2


@pytest.mark.parametrize(("cell", "more"), [(b"1,", []), (b"x", ["--stream"])])
def test_a_line_without_an_end_is_refused_in_the_memory_of_the_file(cell, more, tmp_path):
    """200 MB in one line took 2.3 GB."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n" + cell * (60_000_000 // len(cell)))
    result = gemmed(
        "fit", path, "--target", "a", "--out", tmp_path / "m", *more, memory=1.3 * GIGABYTE
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1 and "line of more than" in result.stderr


def test_many_columns_are_checked_in_time(tmp_path):
    """Comparing every name with every other took minutes."""
    path = tmp_path / "t.csv"
    names = ",".join(f"c{i}" for i in range(100_000))
    path.write_text(f"{names},c7\n" + "1," * 100_000 + "1\n")
    result = gemmed("fit", path, "--target", "a", "--out", tmp_path / "m", seconds=30)
    assert result.returncode == 2
    assert "more than one column 'c7'" in result.stderr


def test_json_needs_no_escaping(hostile, capsys):
    assert main(["audit", hostile, "--target", "target", "--json"]) == 0
    written = capsys.readouterr().out
    assert steering(written) == []
    assert any(ESCAPE in name for name in json.loads(written)["classes"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--html", "r.html", "--plan", "r.html"], "--plan 'r.html' is the file of --html too"),
        (["--unlabelled", "-", "--json"], "--unlabelled - is not possible: it needs a file"),
        (["--spans", "-"], "--spans - is not possible: it needs a file"),
        (["--pred-probs", "p.csv", "--out", "p.csv"], "--out 'p.csv' is a file to read"),
        (["--plan", "t.csv"], "--plan 't.csv' is a file to read"),
        (["--plan", "-"], "--plan - is not possible"),
        (["--spans", "s.csv"], "--spans needs sensors"),
        (["--annotators", "age", "dose", "--plan", "p.json"], "--plan has no meaning with"),
        (["--annotators", "age", "dose", "--prefix", "_"], "--prefix has no meaning with"),
    ],
)
def test_options_that_would_be_lost_are_refused(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    table("t.csv")
    target = [] if "--annotators" in options else ["--target", "target"]
    assert main(["audit", "t.csv", *target, *options]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_two_results_of_a_fit_need_two_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table("t.csv")
    options = ["--target", "target", "--out", "m.csv", "--unlabelled", "./m.csv"]
    assert main(["fit", "t.csv", *options]) == 2
    assert "is the file of --out too" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict m t.csv --spans", "sensors t.csv --model m --report"])
def test_two_results_of_other_commands_need_two_files(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table("t.csv")
    assert main([*command.split(), "./m.csv", "--out", "m.csv"]) == 2
    assert "'m.csv' is the file of --" in capsys.readouterr().err.replace("./", "")


def test_a_plan_is_not_written_for_a_table_that_has_changed(tmp_path, capsys, monkeypatch):
    """The rows drawn would be those of another table."""
    path, plan = table(tmp_path / "t.csv"), tmp_path / "p.json"
    train = audit.train

    def train_and_change(*arguments, **options):
        trained = train(*arguments, **options)
        table(path, label="dead")
        return trained

    monkeypatch.setattr(audit, "train", train_and_change)
    assert main(["audit", path, "--target", "target", "--plan", str(plan)]) == 2
    assert "has changed since it was read" in capsys.readouterr().err
    assert not plan.exists()


def test_a_plan_of_a_folder_is_refused_before_the_fit(tmp_path, capsys):
    options = ["--stream", "--plan", str(tmp_path / "p.json")]
    assert main(["audit", str(tmp_path), "--target", "y", *options]) == 2
    assert "--plan is for a table in one file" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--embeddings", "--pred-probs"])
def test_arrays_that_are_none_are_refused(tmp_path, capsys, option):
    path, array = table(tmp_path / "t.csv"), tmp_path / "x.npy"
    for save, words in (
        (lambda file: np.savez(file, a=np.zeros((40, 2))), "is an archive"),
        (lambda file: np.save(file, np.zeros((40, 2), complex)), "holds complex128"),
        (lambda file: np.save(file, np.array([["a", "b"]] * 40)), "holds <U1"),
        (lambda file: np.save(file, np.zeros(40, object)), "cannot read"),
    ):
        with array.open("wb") as file:
            save(file)
        assert main(["audit", path, "--target", "target", option, str(array)]) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1


@pytest.mark.parametrize("value", [np.inf, 1e308])
def test_a_constant_that_is_too_large_does_not_number_the_rows(tmp_path, capsys, value):
    path, array = table(tmp_path / "t.csv"), tmp_path / "x.npy"
    np.save(array, np.full((40, 1), value))
    assert main(["audit", path, "--target", "target", "--embeddings", str(array)]) == 2
    assert "infinite or too large" in capsys.readouterr().err
