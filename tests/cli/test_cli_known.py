"""Labels that somebody has checked, from a column of the table."""

import json

import numpy as np
import pytest

from gemmed.io.model_files import load_model
from patients import FIT, FLIPPED, call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def with_known(folder, path, spelling=str):
    """The table with a column of true labels of four wrong rows and one right one."""
    table = pd.read_csv(folder / "t.csv")
    right = [None] * len(table)
    for row in (*FLIPPED[:4], 0):
        other = {"ill": "well", "well": "ill"}[table["diagnosis"][row]]
        right[row] = spelling(other if row in FLIPPED else table["diagnosis"][row])
    table.assign(checked=right).to_csv(path, index=False)
    return table


@pytest.mark.parametrize("further", [(), ("--stream",), ("--spelling", "as-written")])
def test_known_labels_come_from_a_column(folder, capsys, tmp_path, further):
    spelling = str if "as-written" in further else str.upper
    table = with_known(folder, tmp_path / "k.csv", spelling)
    command = ("fit", tmp_path / "k.csv", *FIT, "--known", "checked", "--out", tmp_path / "m")
    code, _, err = call(capsys, *command, *further)
    assert code == 0, err
    model = load_model(tmp_path / "m")
    assert "checked" not in list(model.feature_names_in_)
    states = model[-1].state_proba_
    np.testing.assert_array_equal(states[FLIPPED[:4], 1], 1.0)
    assert states[0, 0] == 1.0
    assert len(states) == len(table)


def test_known_labels_that_make_no_sense(folder, capsys, tmp_path):
    with_known(folder, tmp_path / "k.csv", lambda text: text[::-1])
    command = ("fit", tmp_path / "k.csv", *FIT, "--out", tmp_path / "m", "--known", "checked")
    said = refusal(capsys, *command)
    assert "column 'checked'" in said and "row 1, which is not a class of the target" in said
    with_known(folder, tmp_path / "k.csv", lambda text: text + "e")
    assert "(did you mean '" in refusal(capsys, *command)
    with_known(folder, tmp_path / "k.csv")
    assert "both target and known" in refusal(capsys, *command[:-1], "diagnosis")
    assert "no column 'nobody'" in refusal(capsys, *command[:-1], "nobody")


def test_known_labels_of_numbers(folder, capsys, tmp_path):
    table = with_known(folder, tmp_path / "k.csv")
    checked = pd.read_csv(tmp_path / "k.csv")["checked"]
    codes = {"ill": 1, "well": 2}
    table = table.assign(diagnosis=table["diagnosis"].map(codes), checked=checked.map(codes))
    table.to_csv(tmp_path / "k.csv", index=False)  # 1.0 and 2.0, because of the empty cells
    command = ("fit", tmp_path / "k.csv", *FIT, "--known", "checked", "--out", tmp_path / "m")
    code, _, err = call(capsys, *command)
    assert code == 0, err
    np.testing.assert_array_equal(load_model(tmp_path / "m")[-1].state_proba_[FLIPPED[:4], 1], 1.0)


def test_an_audit_is_about_what_nobody_has_checked(folder, capsys, tmp_path):
    table = with_known(folder, tmp_path / "k.csv")
    html = tmp_path / "report.html"
    command = ("audit", tmp_path / "k.csv", *FIT, "--known", "checked", "--json", "--html", html)
    code, out, err = call(capsys, *command)
    assert code == 0, err
    found = json.loads(out)
    rows = {record["row"] - 1 for record in found["suspicious"]}
    assert rows == set(FLIPPED[4:])
    assert found["verdicts"] == {"ok": len(table) - 4, "suspicious label": 4}
    assert "checked by a person and no longer counted" in html.read_text()
