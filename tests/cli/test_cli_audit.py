"""The command audit, as a user would run it."""

import io
import json
import shlex

import numpy as np
import pytest
from scipy import special

from gemmed.cli.main import build_parser
from gemmed.cli.options import review_arguments
from gemmed.cli.terminal import counted_names
from patients import FIT, FLIPPED, call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

VERDICTS = {"ok", "suspicious label", "suspicious measurement", "both"}


# -- audit -------------------------------------------------------------------------------------


def test_the_flipped_labels_come_first(folder, capsys, tmp_path):
    found = tmp_path / "suspicious.csv"
    code, out, err = call(
        capsys, "audit", folder / "t.csv", *FIT, "--id", "patient", "--out", found, "--top", "5"
    )
    assert code == 0, err
    table = pd.read_csv(found)
    top = table.head(len(FLIPPED))
    assert set(top["row"] - 1) == set(FLIPPED)
    assert top["patient"].tolist() == [f"P{row - 1:03d}" for row in top["row"]]
    assert (top["label"] != top["suggested_label"]).all()
    assert top["verdict"].isin({"suspicious label", "both"}).all()
    assert table["anomaly_score"].is_monotonic_decreasing
    assert (table["anomaly_score"] > 0.5).all()
    assert out.startswith("Held-out accuracy ") and "duality" not in out
    assert "160 (ill: " in out and "Estimated number of faulty rows" in out and "verdicts" in out
    listed = out[out.index("\nrow ") :].split("more rows")[0].splitlines()
    assert sum(line.startswith(tuple("0123456789")) for line in listed) == 5
    assert str(found) in out


def test_the_terms_add_up_and_the_conflicts_are_rows_of_the_table(folder, capsys):
    code, out, err = call(
        capsys, "audit", folder / "t.csv", *FIT, "--threshold", "0", "--json", "--id", "patient"
    )
    assert code == 0, err
    report = json.loads(out)
    labels = pd.read_csv(folder / "t.csv")["diagnosis"]
    assert report["rows"] == len(report["suspicious"]) == sum(report["verdicts"].values()) == 160
    assert set(report["verdicts"]) <= VERDICTS
    low, high = report["contamination_interval"]
    assert 0 <= low <= report["contamination"] <= high <= 1
    for entry in report["suspicious"]:
        assert entry["label"] == labels[entry["row"] - 1]
        total = sum(entry[name] for name in ("prior", "label_term", "measurement_term"))
        assert total == pytest.approx(special.logit(1 - entry["anomaly_score"]), abs=1e-5)
        assert len(entry["conflicting_rows"]) <= 3
        assert all(1 <= row <= 160 and row != entry["row"] for row in entry["conflicting_rows"])


def test_rows_keep_their_numbers_when_labels_are_missing(folder, capsys, tmp_path):
    table = pd.read_csv(folder / "t.csv")
    table.loc[[0, 1, 60], "diagnosis"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = call(capsys, "audit", tmp_path / "t.csv", *FIT, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["rows"] == 157 and report["rows_without_label"] == 3
    rows = [entry["row"] - 1 for entry in report["suspicious"][: len(FLIPPED)]]
    assert set(rows) == set(FLIPPED)


def test_certainties_are_respected(folder, capsys, tmp_path):
    """A row declared wrong stays wrong; JSON has no infinite log-odds."""
    table = pd.read_csv(folder / "t.csv").assign(trust=0.95)
    table.loc[10, "trust"] = 0.0
    table.to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = call(capsys, "audit", tmp_path / "t.csv", *FIT, "--prior", "trust", "--json")
    assert code == 0
    entry = next(e for e in json.loads(out)["suspicious"] if e["row"] == 11)
    assert entry["anomaly_score"] == 1.0 and entry["prior"] is None


def test_the_ranking_can_be_piped(folder, capsys):
    code, out, err = call(capsys, "audit", folder / "t.csv", *FIT, "--out", "-")
    assert code == 0, err
    table = pd.read_csv(io.StringIO(out))
    assert list(table.columns[:2]) == ["row", "label"]
    assert set(table["row"].head(len(FLIPPED)) - 1) == set(FLIPPED)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--threshold", "2"], ["--threshold: 2 must be between 0 and 1"]),
        (["--top", "-1"], ["--top: -1 must be at least 0"]),
        (["--id", "patientt"], ["'patientt' (id)", "did you mean 'patient'?"]),
        (["--id", "diagnosis"], ["'diagnosis'", "target"]),
        (["--out", "/dev/null/x.csv"], ["--out"]),
    ],
)
def test_bad_arguments_of_audit(folder, capsys, arguments, words):
    line = refusal(capsys, "audit", folder / "t.csv", *FIT, *arguments)
    for word in words:
        assert word in line


def test_one_column_may_be_group_and_identifier(folder, capsys):
    code, out, err = call(
        capsys, "audit", folder / "t.csv", *FIT, "--group", "patient", "--id", "patient", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["suspicious"][0]["patient"].startswith("P")


def test_unknown_names_get_the_nearest_known_one(folder, capsys):
    line = refusal(capsys, "audit", folder / "t.csv", "--target", "diagnossis")
    assert "did you mean 'diagnosis'?" in line
    line = refusal(capsys, "audit", folder / "t.csv", "--tarket", "diagnosis")
    assert "did you mean '--target'?" in line
    assert "did you mean 'audit'?" in refusal(capsys, "audti", folder / "t.csv")
    said = refusal(capsys, "train", folder / "t.csv")
    assert "'train' is no command: use gemmed fit" in said


def test_marks_of_missing_values_are_stored_with_the_model(folder, capsys, tmp_path):
    table = pd.read_csv(folder / "t.csv").astype({"age": object})
    table.loc[[4, 9], "age"] = "-"
    table.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m"
    code, _, err = call(capsys, "fit", tmp_path / "t.csv", *FIT, "--missing=-", "--out", model)
    assert code == 0, err
    code, _, err = call(capsys, "predict", model, tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert len(pd.read_csv(tmp_path / "p.csv")) == len(table)


def test_probabilities_of_own_models_from_files(folder, capsys, tmp_path):
    table = pd.read_csv(folder / "t.csv")
    is_ill = (table["diagnosis"] == "ill").to_numpy(copy=True)
    is_ill[FLIPPED] = ~is_ill[FLIPPED]
    probs = pd.DataFrame({"well": np.where(is_ill, 0.03, 0.97), "name": "x"})
    probs["ill"] = 1.0 - probs["well"]
    probs.to_csv(tmp_path / "p.csv", index=False)
    np.save(tmp_path / "p.npy", probs[["ill", "well"]].to_numpy())
    np.save(tmp_path / "two.npy", np.array([probs[["ill", "well"]].to_numpy()] * 2))
    # Without the measurements only the probabilities know the classes.
    command = ["audit", folder / "t.csv", *FIT, "age", "dose", "--json"]
    code, out, _ = call(capsys, *command)
    assert code == 0 and not json.loads(out)["suspicious"]
    for name in ("p.npy", "p.csv", "two.npy"):
        code, out, err = call(capsys, *command, "--pred-probs", tmp_path / name)
        assert code == 0, err
        found = {record["row"] - 1 for record in json.loads(out)["suspicious"]}
        assert found == set(FLIPPED), name
    np.save(tmp_path / "short.npy", np.full((4, 2), 0.5))
    line = refusal(capsys, *command, "--pred-probs", tmp_path / "short.npy")
    assert "short.npy" in line and "expected (160, 2)" in line
    probs.drop(columns="ill").to_csv(tmp_path / "one.csv", index=False)
    line = refusal(capsys, *command, "--pred-probs", tmp_path / "one.csv")
    assert "no column 'ill'" in line


def test_embeddings_are_columns(folder, capsys, tmp_path):
    table = pd.read_csv(folder / "t.csv")
    np.save(tmp_path / "e.npy", table[["age", "dose"]].to_numpy(dtype=np.float32))
    table.drop(columns=["age", "dose"]).to_csv(tmp_path / "rest.csv", index=False)
    command = ["audit", tmp_path / "rest.csv", *FIT, "--json"]
    code, out, err = call(capsys, *command, "--embeddings", tmp_path / "e.npy")
    assert code == 0, err
    assert {record["row"] - 1 for record in json.loads(out)["suspicious"]} >= set(FLIPPED)
    np.save(tmp_path / "e.npy", np.zeros((3, 2)))
    line = refusal(capsys, *command, "--embeddings", tmp_path / "e.npy")
    assert "shape (3, 2), expected numbers of shape (160, dimensions)" in line
    (tmp_path / "e.npy").write_text("x")
    assert "as .npy" in refusal(capsys, *command, "--embeddings", tmp_path / "e.npy")


def test_many_names_are_cut_to_the_most_frequent():
    assert counted_names({"a": 1, "b": 2}) == "a: 1, b: 2"
    many = counted_names({f"class {i}": i for i in range(20)})
    assert many.startswith("class 19: 19, class 18: 18") and many.endswith("and 12 more")


def test_bad_measurements_suggest_no_label(folder, capsys, tmp_path):
    table = pd.read_csv(folder / "t.csv")
    numbers = table.select_dtypes("number").columns
    table[numbers] = table[numbers].astype(float)
    table.loc[3, numbers] = 1e6
    table.to_csv(tmp_path / "t.csv", index=False)
    code, out, err = call(capsys, "audit", tmp_path / "t.csv", *FIT)
    assert code == 0, err
    line = next(line for line in out.splitlines() if "suspicious measurement  " in line)
    assert line.split()[0] == "4"
    assert line.split("suspicious measurement")[1].startswith(" " * 5)


@pytest.mark.parametrize("name", ["row", "label", "verdict", "reasons"])
@pytest.mark.parametrize("stream", [False, True])
def test_columns_that_name_rows_do_not_replace_results(folder, capsys, tmp_path, name, stream):
    frame = pd.read_csv(folder / "t.csv").rename(columns={"patient": name})
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ["--drop", "visit", "--id", name, "--threshold", "0", *["--stream"] * stream]
    command = ["audit", tmp_path / "t.csv", "--target", "diagnosis", *given]
    code, out, err = call(capsys, *command, "--out", tmp_path / "o.csv")
    assert code == 0 and f"{name}_" in out, err
    found = pd.read_csv(tmp_path / "o.csv").sort_values("row")
    assert found["row"].tolist() == list(range(1, len(frame) + 1))
    assert found[f"{name}_"].tolist() == frame[name].tolist()
    assert found["label"].tolist() == frame["diagnosis"].tolist()


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_probabilities_of_numbered_classes_are_in_the_order_of_the_numbers(
    tmp_path, capsys, suffix
):
    """And not in that of their texts, in which 10 comes before 2."""
    labels = np.repeat([0, 2, 10], 30)
    columns = {"x": np.random.default_rng(0).normal(size=90), "y": labels}
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    probs = np.where(labels[:, None] == [0, 2, 10], 0.9, 0.05)
    np.save(tmp_path / "p.npy", probs)
    pd.DataFrame(probs, columns=[0, 2, 10]).to_csv(tmp_path / "p.csv", index=False)
    command = ["audit", tmp_path / "t.csv", "--target", "y", "--json"]
    code, out, err = call(capsys, *command, "--pred-probs", tmp_path / f"p{suffix}")
    assert code == 0, err
    assert json.loads(out)["held_out_accuracy"] > 0.9


def test_the_command_of_a_review_reads_and_fits_as_the_audit_did():
    """All options that audit and review share, and no others."""
    given = "t.csv --target y --drop a b --seed 3 --encoding latin-1 --decimal , --missing - x"
    given += " --kernel linear --gamma 0.5 --min-class-rows 4 --id patient"
    parser = build_parser()
    audit = parser.parse_args(["audit", *given.split(), "--top", "5", "--html", "r.html"])
    review = parser.parse_args(["review", *shlex.split(review_arguments(audit))])
    assert vars(review) == vars(parser.parse_args(["review", *given.split()]))
    audit = parser.parse_args(["audit", "t.csv", "--target", "y"])
    assert review_arguments(audit) == "t.csv --target y"
