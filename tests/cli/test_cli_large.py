"""gemmed fit of tables in blocks, here and on a Dask cluster."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gemmed._core.exceptions import TableError
from gemmed.cli import main
from gemmed.estimators.table_blocks import _first_pass, cluster_blocks, local_blocks, scan_table
from gemmed.estimators.table_columns import Handling, Roles
from gemmed.io.model_files import load_model
from gemmed.rows.tables import BATCH_ROWS, open_batches, read_table
from patients import call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

FIT = ["--target", "state", "--gamma", "0.3", "--prior", "trust", "--components", "60"]


def readings(n=3000, seed=0):
    """Numbers with gaps, a category, a prior, and some rows without a label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    state = np.where(X[:, 0] + X[:, 1] ** 2 > 1, "high", "low").astype(object)
    frame.loc[::17, "c"] = np.nan
    frame["place"] = rng.choice(["north", "south", "west"], n)
    frame["trust"] = np.where(np.arange(n) % 50, 0.95, 0.5)
    state[::101] = None
    return frame.assign(state=state)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table as t.csv, as t.parquet in several row groups, and as parts in a folder."""
    path = tmp_path_factory.mktemp("large")
    table = readings()
    table.to_csv(path / "t.csv", index=False)
    table.to_parquet(path / "t.parquet", row_group_size=1500)
    (path / "parts").mkdir()
    table[:1000].to_parquet(path / "parts" / "a.parquet", row_group_size=700)
    table[1000:].to_parquet(path / "parts" / "b.parquet")
    return path


def fitted(*arguments):
    """The classifier of a model that gemmed fit writes."""
    *rest, out = map(str, arguments)
    assert main(["fit", *rest, *FIT, "--out", out]) == 0
    return load_model(out)


# -- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "parts"])
def test_batches_are_the_table(folder, name, monkeypatch):
    monkeypatch.setattr("gemmed.rows.tables.BATCH_ROWS", 512)
    whole = read_table(folder / "t.csv")
    batches = open_batches(folder / name)
    assert batches.columns == whole.columns
    parts = list(batches.batches(["c", "place"]))
    assert max(map(len, parts)) == 512
    np.testing.assert_array_equal(np.concatenate([p.row_numbers for p in parts]), np.arange(3000))
    for column in ("c", "place"):
        cells = np.concatenate([part.text(column)[0] for part in parts])
        np.testing.assert_array_equal(cells, whole.text(column)[0])
    np.testing.assert_array_equal(
        np.concatenate([part.numbers("c")[0] for part in parts]), whole.numbers("c")[0]
    )


def test_numeric_columns_know_further_marks_of_missing_values(tmp_path):
    frame = pd.DataFrame({"x": [1.5, -999.0, np.nan, 2.0], "n": [1, -999, 3, 4]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.parquet", missing=("-999",))
    np.testing.assert_array_equal(table.numbers("x")[0], [1.5, np.nan, np.nan, 2.0])
    for name in ("t.parquet", "t.csv"):
        table = read_table(tmp_path / name, missing=("-999",))
        np.testing.assert_array_equal(table.numbers("n")[0], [1, np.nan, 3, 4])
        np.testing.assert_array_equal(table.present("n"), [True, False, True, True])


def test_errors_name_the_row_of_the_whole_table(tmp_path, monkeypatch):
    monkeypatch.setattr("gemmed.rows.tables.BATCH_ROWS", 100)
    frame = readings(300).astype({"a": object})
    frame.loc[250, "a"] = "broken"
    frame.to_csv(tmp_path / "t.csv", index=False)
    batches = open_batches(tmp_path / "t.csv")
    with pytest.raises(TableError, match=r"'broken' in row 251 is none"):
        scan_table(batches, Roles("state"), object(), Handling(), scaling="robust", seed=0)
    with pytest.raises(TableError, match=r"'broken' in row 251, which is not a number"):
        [part.only_numbers("a", "a column of numbers") for part in batches.batches()]


def test_a_model_of_blocks_knows_which_cells_are_missing(tmp_path, capsys):
    """As a model of a whole table does; it used to refuse them in later tables."""
    frame = readings(300).astype({"a": object}).dropna(subset="state")
    frame.loc[frame.index[::9], "a"] = "n.d."
    frame.to_csv(tmp_path / "t.csv", index=False)
    for stream in ([], ["--stream"]):
        fitted(tmp_path / "t.csv", "--missing", "n.d.", *stream, tmp_path / "m.gemmed")
        asked = ["predict", tmp_path / "m.gemmed", tmp_path / "t.csv", "--out", tmp_path / "p.csv"]
        code, _, err = call(capsys, *asked)
        assert code == 0, err


@pytest.mark.parametrize(
    "extra", [["--duplicates", "once"], ["--spans", "s.csv"], ["--sensors", "together"]]
)
def test_what_blocks_cannot_do_is_refused(folder, capsys, tmp_path, extra):
    """It used to be ignored."""
    out = tmp_path / "m.gemmed"
    line = refusal(capsys, "fit", folder / "t.csv", *FIT, "--stream", *extra, "--out", out)
    assert "needs the whole table, which is read in blocks" in line
    assert not out.exists()


def test_files_of_other_columns_are_refused(folder, tmp_path):
    readings(50).to_parquet(tmp_path / "a.parquet")
    readings(50).drop(columns="b").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"b.parquet' has other columns"):
        open_batches(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(TableError, match=r"b.parquet' is a damaged Parquet file"):
        open_batches(tmp_path)


def test_an_index_of_pandas_is_a_column_with_a_note(tmp_path):
    readings(60).set_index("a").to_parquet(tmp_path / "t.parquet")
    for read in (open_batches, read_table):
        table = read(tmp_path / "t.parquet")
        assert "a" in table.columns
        assert [note.text for note in table.notes if "the pandas index 'a'" in note.text]


def test_the_sample_of_a_large_table_is_random(tmp_path, monkeypatch):
    monkeypatch.setattr("gemmed.estimators.table_blocks.SAMPLE_ROWS", 200)
    monkeypatch.setattr("gemmed.rows.tables.BATCH_ROWS", 100)
    readings(2000).to_parquet(tmp_path / "t.parquet")
    samples = [
        _first_pass(
            open_batches(tmp_path / "t.parquet"), Roles("state"), np.random.default_rng(seed)
        )[1].frame
        for seed in (0, 0, 1)
    ]
    assert samples[0].equals(samples[1]) and not samples[0].equals(samples[2])
    assert len(samples[0]) == 200
    # From all parts of the table, with the labels of their rows.
    position = pd.Index(readings(2000)["a"]).get_indexer(samples[0]["a"])
    counts = np.histogram(position, bins=4, range=(0, 2000))[0]
    assert counts.min() > 25
    pd.testing.assert_series_equal(
        samples[0]["state"],
        readings(2000)["state"].iloc[position],
        check_index=False,
        check_dtype=False,
    )


# -- fit in blocks -----------------------------------------------------------------------------


def test_a_streamed_fit_is_the_fit_in_memory(folder, tmp_path):
    """Columns to the digit; the classifier but for single precision."""
    whole = fitted(folder / "t.parquet", "--base", "none", tmp_path / "whole")
    streamed = fitted(folder / "t.parquet", "--stream", tmp_path / "streamed")
    frame = readings().drop(columns=["state", "trust"])
    np.testing.assert_array_equal(streamed[0].transform(frame), whole[0].transform(frame))
    np.testing.assert_array_equal(streamed.classes_, whole.classes_)
    np.testing.assert_allclose(
        streamed.decision_function(frame), whole.decision_function(frame), atol=0.05
    )
    difference = streamed[-1].nominal_proba_ - whole[-1].nominal_proba_
    assert np.abs(difference).mean() < 1e-3


def test_files_of_the_same_rows_give_the_same_model(folder, tmp_path):
    frame = readings().drop(columns=["state", "trust"])
    values = [
        fitted(folder / name, "--stream", tmp_path / "m").decision_function(frame)
        for name in ("t.csv", "t.parquet", "parts")
    ]
    # Their blocks are cut elsewhere: sums in single precision differ in the last digits.
    np.testing.assert_allclose(values[1], values[0], atol=0.05)
    np.testing.assert_allclose(values[2], values[0], atol=0.05)


def test_a_streamed_fit_says_what_a_fit_in_memory_says(folder, capsys, tmp_path):
    summaries = []
    for extra in (["--base", "none"], ["--stream"]):
        code, out, err = call(
            capsys, "fit", folder / "t.csv", *FIT, *extra, "--out", tmp_path / "m", "--json"
        )
        assert code == 0 and err == "gemmed: note: 30 rows without a label are left out\n"
        summaries.append(json.loads(out))
    whole, streamed = summaries
    for name in ("rows", "rows_without_label", "classes", "numeric_columns", "converged"):
        assert streamed[name] == whole[name]
    assert streamed["held_out_accuracy"] == pytest.approx(whole["held_out_accuracy"], abs=0.003)


def test_large_files_and_folders_are_streamed_unasked(folder, tmp_path, monkeypatch):
    explicit = fitted(folder / "t.parquet", "--stream", tmp_path / "m")
    monkeypatch.setattr("gemmed.cli.streaming.STREAM_FROM_BYTES", 1000)
    unasked = fitted(folder / "t.parquet", tmp_path / "m")
    np.testing.assert_array_equal(unasked[-1].dual_coef_, explicit[-1].dual_coef_)
    monkeypatch.undo()
    assert fitted(folder / "parts", tmp_path / "m")[-1].converged_


def test_memory_does_not_grow_with_the_table(tmp_path, monkeypatch):
    """100 MB of numbers go through in a fraction of that."""
    import tracemalloc

    monkeypatch.setattr("gemmed.estimators.table_blocks.SAMPLE_ROWS", 10_000)
    rng = np.random.default_rng(0)
    for part in range(8):
        X = rng.normal(size=(50_000, 30))
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(30)])
        frame.assign(y=(X[:, 0] > 0).astype(int)).to_parquet(tmp_path / f"{part}.parquet")
    from gemmed import GEMMEDClassifier

    batches = open_batches(tmp_path)
    tracemalloc.start()
    scan = scan_table(
        batches, Roles("y"), GEMMEDClassifier(), Handling(), scaling="standard", seed=0
    )
    blocks = local_blocks(batches, scan, n_threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(blocks.sizes) == 400_000 and max(blocks.sizes) == BATCH_ROWS
    assert peak < 0.5 * 400_000 * 30 * 8


# -- on a cluster ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",  # what is sent is still pickled
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "parts"])
def test_blocks_on_a_cluster_are_those_here(client, folder, name, monkeypatch):
    from gemmed import GEMMEDClassifier

    batches = open_batches(folder / name)
    scan = scan_table(
        batches, Roles("state"), GEMMEDClassifier(), Handling(), scaling="robust", seed=0
    )
    here = local_blocks(batches, scan, n_threads=1)
    there = cluster_blocks(batches, scan, client)
    assert there.sizes == here.sizes == tuple(scan.block_sizes)
    for ours, theirs in zip(here.map(_block), there.map(_block), strict=True):
        np.testing.assert_array_equal(theirs, ours)


def _block(block, _):
    return np.array(block)


def test_a_fit_on_a_cluster_is_the_streamed_fit(client, folder, tmp_path, capsys):
    frame = readings().drop(columns=["state", "trust"])
    here = fitted(folder / "t.parquet", "--stream", tmp_path / "here")
    address = client.scheduler.address
    there = fitted(folder / "t.parquet", "--scheduler", address, tmp_path / "there")
    assert f"2 workers at {address}" in capsys.readouterr().err
    np.testing.assert_allclose(there[-1].nominal_proba_, here[-1].nominal_proba_, atol=1e-6)
    np.testing.assert_allclose(
        there.decision_function(frame), here.decision_function(frame), atol=1e-6
    )


def test_large_row_groups_are_divided_among_the_workers(client, tmp_path):
    n = 5 * BATCH_ROWS + 77
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.where(rng.random(n) < 0.01, None, (X[:, 0] > 0).astype(int).astype(object))
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(tmp_path / "t.parquet")
    from gemmed import GEMMEDClassifier

    batches = open_batches(tmp_path / "t.parquet")
    assert len(batches.groups) == 1
    scan = scan_table(
        batches, Roles("y"), GEMMEDClassifier(), Handling(), scaling="standard", seed=0
    )
    blocks = cluster_blocks(batches, scan, client)
    rows = np.concatenate(list(blocks.map(_block)))
    expected = scan.pipeline[0].transform(pd.DataFrame(X, columns=["a", "b"])[pd.notna(y)])
    np.testing.assert_array_equal(rows, expected.astype(np.float32))
    holders = client.has_what().values()
    assert min(len(held) for held in holders) > 1


def test_a_cluster_made_for_the_fit(folder, tmp_path):
    """As a user would run it: worker processes come and go with the command."""
    command = [sys.executable, "-m", "gemmed", "fit", str(folder / "t.parquet"), *FIT]
    result = subprocess.run(
        [*command, "--scheduler", "local", "--workers", "1", "--out", str(tmp_path / "m")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == "gemmed: note: 30 rows without a label are left out\n"
    assert "Held-out accuracy" in result.stdout
    frame = readings().drop(columns=["state", "trust"])
    here = fitted(folder / "t.parquet", "--stream", tmp_path / "here")
    there = load_model(tmp_path / "m")
    np.testing.assert_allclose(
        there.decision_function(frame), here.decision_function(frame), atol=1e-6
    )


def test_ctrl_c_ends_the_workers(folder, tmp_path):
    command = [sys.executable, "-m", "gemmed", "fit", str(folder / "t.parquet"), *FIT]
    process = subprocess.Popen(
        [*command, "--scheduler", "local", "--workers", "2", "--out", str(tmp_path / "m")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert "without a label" in process.stderr.readline()  # the cluster runs by then
    # As a terminal sends it, to all processes; Python may lose one inside a destructor.
    for _ in range(10):
        os.killpg(process.pid, signal.SIGINT)
        try:
            out, err = process.communicate(timeout=10)
            break
        except subprocess.TimeoutExpired:
            continue
    assert process.returncode == 130 and out == ""
    assert err.splitlines()[-1].startswith("gemmed: interrupted")
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _group_exists(process.pid):
        time.sleep(0.2)
    assert not _group_exists(process.pid)


def _group_exists(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler answers there (Time"),
        (["--scheduler", "nonsense"], "no Dask scheduler answers there (missing port"),
        (["--scheduler", "local", "--workers", "0"], "--workers: 0 must be at least 1"),
        (["--workers", "2"], "--workers 2 goes with --scheduler local only"),
        (["--stream", "--drop", "z"], "has no column 'z' (drop)"),
        (["--stream", "--encoding", "klingon"], "encoding='klingon' is unknown"),
    ],
)
def test_one_line_errors(folder, capsys, tmp_path, monkeypatch, extra, message):
    pytest.importorskip("distributed")
    monkeypatch.setattr("gemmed.cli.streaming.ANSWER_SECONDS", 0.3)
    out = tmp_path / "m"
    assert message in refusal(capsys, "fit", folder / "t.csv", *FIT, *extra, "--out", out)
    assert not out.exists()


def test_without_dask_the_extra_is_named(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    extra = ["--scheduler", "local", "--out", tmp_path / "m"]
    assert 'pip install "gemmed[dask]"' in refusal(capsys, "fit", folder / "t.csv", *FIT, *extra)


def test_standard_input_is_not_streamed(capsys, tmp_path):
    line = refusal(capsys, "fit", "-", *FIT, "--stream", "--out", tmp_path / "m")
    assert "standard input cannot be read twice" in line
