"""gemmed audit --stream: the answers of an audit in memory, without the table in memory."""

import json
import tracemalloc

import numpy as np
import pytest

from patients import call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

AUDIT = ["--target", "state", "--gamma", "0.3", "--components", "60", "--id", "name"]


def readings(n=2000, seed=0):
    """Numbers, a category, an identifier, some wrong labels and some rows without a label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    high = X[:, 0] + X[:, 1] > 0
    wrong = rng.random(n) < 0.04
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.insert(0, "name", [f"r{i:05d}" for i in range(n)])
    frame["place"] = rng.choice(["north", "south"], n)
    state = np.where(high ^ wrong, "high", "low").astype(object)
    state[::101] = None
    return frame.assign(state=state)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table as t.csv and as t.parquet in several row groups."""
    path = tmp_path_factory.mktemp("streamed")
    readings().to_csv(path / "t.csv", index=False)
    readings().to_parquet(path / "t.parquet", row_group_size=700)
    return path


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks and samples that are less than the table."""
    monkeypatch.setattr("gemmed.rows.tables.BATCH_ROWS", 512)
    monkeypatch.setattr("gemmed.cli.streaming.SAMPLE_ROWS", 800)


def audit(capsys, *arguments):
    code, out, err = call(capsys, "audit", *arguments, *AUDIT, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_answers_are_those_of_an_audit_in_memory(folder, capsys, small_blocks, tmp_path):
    whole = audit(capsys, folder / "t.csv", "--base", "none")
    parts = [
        audit(capsys, folder / name, "--stream", "--out", tmp_path / f"{name}.csv")
        for name in ("t.csv", "t.parquet")
    ]
    scores = {one["row"]: one["anomaly_score"] for one in whole["suspicious"]}
    assert len(scores) > 30
    for part in parts:
        for name in ("rows", "rows_without_label", "classes", "numeric_columns", "is_informative"):
            assert part[name] == whole[name]
        assert part["suspicious_rows"] == pytest.approx(whole["suspicious_rows"], abs=2)
        assert sum(part["verdicts"].values()) == whole["rows"]
        assert part["contamination"] == pytest.approx(whole["contamination"], abs=0.005)
        found = {one["row"]: one for one in part["suspicious"]}
        assert len(found.keys() ^ scores.keys()) <= 2
        for row in found.keys() & scores.keys():
            assert found[row]["anomaly_score"] == pytest.approx(scores[row], abs=0.02)
            assert found[row]["name"] == f"r{row - 1:05d}"
    written = pd.read_csv(tmp_path / "t.csv.csv")
    table = readings()
    np.testing.assert_array_equal(written["label"], table["state"].iloc[written["row"] - 1])
    assert written["reasons"].str.len().min() > 10
    # Rows to compare with are trusted rows of the other class.
    others = written["conflicting_rows"].iloc[0].split()
    assert set(table["state"].iloc[[int(row) - 1 for row in others]]) == (
        {"high", "low"} - {written["label"].iloc[0]}
    )


def test_the_report_counts_all_rows(folder, capsys, small_blocks, tmp_path):
    code, out, err = call(
        capsys, "audit", folder / "t.parquet", *AUDIT, "--stream", "--html", tmp_path / "r.html"
    )
    assert code == 0, err
    assert "rows           1980 (high: " in out
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "of 1,980 rows are flagged" in page
    assert "800 random ones" in page
    counts = readings()["state"].value_counts()
    assert f"high: {counts['high']}, low: {counts['low']}" in page


def test_more_rows_than_can_be_listed_are_counted(folder, capsys, monkeypatch, small_blocks):
    monkeypatch.setattr("gemmed.cli.streaming.MAX_LISTED", 20)
    code, out, err = call(
        capsys, "audit", folder / "t.parquet", *AUDIT, "--stream", "--threshold", "0.9", "--json"
    )
    found = json.loads(out)
    assert code == 0 and found["suspicious_rows"] > 20
    assert f"{found['suspicious_rows']} rows are suspicious: the first 20 are listed" in err
    scores = [one["anomaly_score"] for one in found["suspicious"]]
    assert len(scores) >= 20 and scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--known", "place"], "--known needs the whole table"),
        (["--unlabelled", "u.csv"], "--unlabelled needs the whole table"),
        (["--pred-probs", "p.npy"], "--pred-probs needs the whole table"),
        (["--sensor", "a=x", "--order", "t"], "--sensor needs the whole table"),
        (["--annotators", "a", "b"], "--annotators needs the whole table"),
        (["--spans", "s.csv"], "--spans needs the whole table"),
        (["--duplicates", "once"], "--duplicates once needs the whole table"),
        (["--recordings", "yes"], "--recordings yes needs the whole table"),
        (["--base", "forest"], "base='forest' is fitted to rows in memory"),
    ],
)
def test_what_needs_the_whole_table_is_refused(
    folder, capsys, tmp_path, monkeypatch, extra, message
):
    monkeypatch.chdir(tmp_path)
    line = refusal(capsys, "audit", folder / "t.parquet", *AUDIT, "--stream", *extra)
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_columns_of_the_table(tmp_path, capsys, monkeypatch):
    """What is kept of a row that is not listed: its label and probabilities, no cells."""
    monkeypatch.setattr("gemmed.cli.streaming.SAMPLE_ROWS", 500)
    monkeypatch.setattr("gemmed.estimators.table_blocks.SAMPLE_ROWS", 1000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 40))
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(40)])
    frame = frame.assign(state=np.where(X[:, 0] > 0, "p", "q"))
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=1000)
    from gemmed.cli import streaming

    peaks = []

    def read(*arguments):
        tracemalloc.start()
        found = plain(*arguments)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        return found

    plain = streaming._read
    monkeypatch.setattr(streaming, "_read", read)
    del X, frame
    options = ["--target", "state", "--gamma", "0.02", "--components", "20", "--stream"]
    code, _, err = call(capsys, "audit", tmp_path / "t.parquet", *options)
    assert code == 0, err
    assert peaks[0] < 0.7 * 12_000 * 40 * 8
