"""gemmed audit --annotators."""

import json

import numpy as np
import pytest

from gemmed.cli.main import main

pytest.importorskip("pandas")


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
