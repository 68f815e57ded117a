"""``gemmed review`` without its page: export, and one line for whatever is wrong."""

import json
import socket
import sys

import pytest

from gemmed._core.exceptions import ReviewError
from gemmed.acoustics.manifest import lists_recordings
from gemmed.cli import main
from gemmed.review.marks import MarkStore
from gemmed.rows.tables import read_table
from reviewed import write_clips, write_patients

COMMON = ("--target", "diagnosis", "--id", "patient", "--encoding", "latin-1")


def call(capsys, *arguments):
    capsys.readouterr()
    try:
        code = main(["review", *map(str, arguments)])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refusal(capsys, *arguments):
    code, out, err = call(capsys, *arguments)
    lines = [line for line in err.splitlines() if not line.startswith("gemmed: note: ")]
    assert (code, out, len(lines)) == (2, "", 1), err
    assert lines[0].startswith("gemmed: error: ")
    return lines[0]


@pytest.fixture
def table(tmp_path):
    return write_patients(tmp_path / "t.csv")


def mark(table, row, kind, label=None):
    store = MarkStore(f"{table}.review.sqlite")
    given = str(read_table(table, encoding="latin-1").frame["diagnosis"].iloc[row])
    store.add(row, kind, label, "ann", content="c", given=given)
    store.close()


def test_export_with_true_labels_beside_the_given_ones(table, capsys, tmp_path):
    given = read_table(table, encoding="latin-1").frame["diagnosis"]
    true = "kränk" if given.iloc[3] == "gesund" else "gesund"
    mark(table, 3, "wrong", true)
    mark(table, 4, "right")
    mark(table, 20, "bad")
    out = tmp_path / "known.csv"
    common = (table, *COMMON, "--export", out, "--labels", "given")
    code, text, err = call(capsys, *common)
    assert code == 0, err
    assert text.startswith("1 label wrong (column known_label), 1 bad row (left out)")
    written = read_table(out, encoding="latin-1").frame
    assert written.columns[-1] == "known_label" and len(written) == 119
    assert written["diagnosis"].tolist() == given.drop(20).tolist()
    filled = {i: cell for i, cell in enumerate(written["known_label"]) if cell}
    assert filled == {3: true, 4: given.iloc[4]}
    log = (tmp_path / "known.csv.changes.csv").read_text(encoding="utf-8")
    assert "label, in its own column" in log
    code, text, _ = call(capsys, *common, "--bad", "flag", "--json")
    assert code == 0 and json.loads(text)["known"] == "known_label"
    # and from there into a fit
    arguments = ("--target", "diagnosis", "--drop", "patient", "review", "--encoding", "latin-1")
    code = main(["audit", str(out), *arguments, "--known", "known_label", "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    # What was checked is not asked again.
    assert not {4, 5} & {row["row"] for row in json.loads(captured.out)["suspicious"]}


def test_export_without_a_browser(table, capsys, tmp_path):
    mark(table, 3, "wrong", "kränk")
    mark(table, 20, "bad")
    out = tmp_path / "c.csv"
    code, text, err = call(capsys, table, *COMMON, "--export", out)
    assert code == 0, err
    assert text.startswith("1 label corrected, 1 bad row (left out), 0 disputed")
    assert len(out.read_bytes().split(b"\r\n")) == len(table.read_bytes().split(b"\r\n")) - 1
    code, text, _ = call(capsys, table, *COMMON, "--export", out, "--bad", "flag", "--json")
    assert code == 0 and json.loads(text)["bad"] == 1
    assert b";review\r\n" in out.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "nothing"], "has no column 'nothing' (target)"),
        (["--target", "diagnosis", "--id", "nothing"], "has no column 'nothing' (id)"),
        (["--target", "diagnosis", "--export", "{out}"], "there are no marks"),
        (["--target", "diagnosis", "--export", "{table}"], "is a file to read"),
        (["--target", "diagnosis", "--export", "-"], "--export - is not possible"),
        (["--target", "diagnosis", "--port", "70000"], "--port: 70000 must be between 0 and 65535"),
        (["--target", "diagnosis", "--until-precision", "90"], "--until-precision: 90 must be"),
        (["--target", "diagnosis", "--until", "0.1", "--until-precision", "0.9"], "choose one"),
        (["--target", "diagnosis", "--reviewer", " "], "reviewer=' ' must be a name"),
        (["--target", "diagnosis", "--marks", "/dev/null/x"], "name another file with --marks"),
    ],
)
def test_wrong_calls(table, capsys, tmp_path, arguments, words):
    given = [a.format(out=tmp_path / "c.csv", table=table) for a in arguments]
    assert words in refusal(capsys, table, *given, "--encoding", "latin-1")


def test_standard_input_cannot_be_reviewed(capsys):
    assert "TABLE must be a file" in refusal(capsys, "-", "--target", "x")


def test_a_port_that_is_taken(table, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal(capsys, table, *COMMON, "--port", port)
    assert f"--port {port} cannot be used" in line and "choose another one" in line


def test_without_the_extra(table, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install "gemmed[review]"' in refusal(capsys, table, *COMMON)


def test_a_changed_table(table, capsys, tmp_path):
    mark(table, 3, "bad")
    out = tmp_path / "c.csv"
    assert call(capsys, table, *COMMON, "--export", out)[0] == 0
    table.write_bytes(table.read_bytes() + b"X;1,0;2,0;south;gesund\r\n")
    line = refusal(capsys, table, *COMMON, "--export", out)
    assert "has changed since it was reviewed (120 rows then, 121 now; 0 of 1 marks" in line
    code, _, err = call(capsys, table, *COMMON, "--export", out, "--changed", "match")
    assert code == 0 and "0 marks follow their rows, 1 are set aside" in err


def test_manifests_are_known_by_their_paths(table, tmp_path):
    assert lists_recordings(read_table(write_clips(tmp_path)))
    assert not lists_recordings(read_table(table, encoding="latin-1"))


def test_recordings_that_cannot_be_read(capsys, tmp_path):
    (tmp_path / "m.csv").write_text("path,word\na.wav,x\nb.wav,y\n")
    line = refusal(capsys, tmp_path / "m.csv", "--target", "word")
    assert "none of the recordings can be used" in line and "no such file" in line


def test_a_manifest_has_its_classes_in_the_column_label(table, capsys, tmp_path):
    (tmp_path / "m.csv").write_text("path,label\na.wav,x\nb.wav,y\n")
    assert "none of the recordings can be used" in refusal(capsys, tmp_path / "m.csv")
    assert "--target COLUMN is needed" in refusal(capsys, table, "--encoding", "latin-1")


def test_the_log_holds_no_formulas(table, capsys, tmp_path):
    store = MarkStore(f"{table}.review.sqlite")
    store.add(20, "bad", None, "=HYPERLINK(1)", content="c", given="@x")
    store.close()
    assert call(capsys, table, *COMMON, "--export", tmp_path / "c.csv")[0] == 0
    log = (tmp_path / "c.csv.changes.csv").read_text(encoding="utf-8")
    assert ",'=HYPERLINK(1)," in log and ",'@x," in log


def test_an_audit_writes_a_plan_of_checks(table, capsys, tmp_path):
    from gemmed.checks import load_plan
    from gemmed.rows.tables import file_digest

    arguments = ["audit", str(table), "--target", "diagnosis", "--encoding", "latin-1"]
    assert main([*arguments, "--plan", str(tmp_path / "p.json"), "--seed", "3"]) == 0
    assert "plan of 120 rows to check" in capsys.readouterr().out
    plan = load_plan(tmp_path / "p.json", digest=file_digest(table))
    assert len(plan) == 120 and plan.seed == 3


def test_a_plan_of_an_audit_is_taken_or_refused(table, capsys, tmp_path):
    from test_review_session import open_session

    from gemmed.checks import load_plan

    plan = tmp_path / "p.json"
    options = ["--target", "diagnosis", "--encoding", "latin-1", "--drop", "patient"]
    made = ["audit", str(table), *options, "--plan", str(plan), "--seed", "3"]
    assert main([*made, "--strata", "verdict"]) == 0
    equal = load_plan(plan)
    assert main(made) == 0 and load_plan(plan).weights.tolist() != equal.weights.tolist()
    common = (table, *options, "--plan", plan, "--no-browser")
    assert "leave out --checks" in refusal(capsys, *common, "--checks", "9")
    assert "the plan has seed 3" in refusal(capsys, *common, "--seed", "5")
    session, _ = open_session(table)
    session.plan_draws(None, plan=load_plan(plan))
    assert session.checks.plan.order.tolist() == load_plan(plan).order.tolist()
    with pytest.raises(ReviewError, match="are other ones"):
        session.plan_draws(None, plan=equal)
    session.store.close()
    (tmp_path / "other.csv").write_bytes(table.read_bytes() + b"P999;1,0;2,0;south;gesund\r\n")
    line = refusal(capsys, tmp_path / "other.csv", *common[1:])
    assert "was made for another table" in line
