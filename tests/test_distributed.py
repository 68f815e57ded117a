"""On a Dask cluster: the same result as here, even when a worker dies."""

import os
import signal
import threading

import numpy as np
import pytest
from scipy import special

pytest.importorskip("distributed")

from gemmed import MEDClassifier
from gemmed.block_space import BlockFeatureSpace
from gemmed.blocks import LocalBlocks, sum_blocks, take_rows
from gemmed.distributed import dask_blocks, gather_labels, lazily, parquet_blocks
from gemmed.dual import DualProblem
from gemmed.engines import MeanField
from gemmed.entropy.reference_sets import reference_distances
from gemmed.kernels import Kernel
from gemmed.landmarks import choose_landmarks
from gemmed.nystroem import nystroem_map

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours


def sample(n=6000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1.0, -1.0)
    y[rng.random(n) < 0.1] *= -1
    return X, y


def solve(blocks, y, m=80, dtype=np.float32):
    """The whole large-sample fit; weights of f and nominal probabilities."""
    classes = (y > 0).astype(np.intp)
    d = reference_distances(blocks, classes, 5, seed=0, max_references=300)
    chosen = choose_landmarks(blocks, classes, m, np.random.default_rng(0))
    made = nystroem_map(Kernel("rbf", gamma=0.2), take_rows(blocks, chosen), dtype=dtype)
    space = BlockFeatureSpace(blocks, made)
    solution = MeanField("collapsed").solve(
        DualProblem(
            space,
            y,
            d,
            np.full(len(y), special.logit(0.95)),
            3.0,
            np.full(2, 0.5),
            np.full(2, 0.7 * d.mean()),
        )
    )
    assert solution.converged
    w = space.from_coefficients(solution.multipliers.lam * solution.nominal * y)
    return w, solution.nominal


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as made,
    ):
        yield made


def weighted_rows(block, scale, weights):
    return scale * (weights @ block)


def tripled(block, _):
    return 3 * block


def test_passes_are_those_of_local_blocks(client):
    import dask.array as da

    X, y = sample(1000)
    blocks = dask_blocks(da.from_array(X, chunks=(300, 2)), client, block_rows=200)
    assert blocks.sizes == (200, 100, 200, 100, 200, 100, 100)
    np.testing.assert_allclose(
        sum_blocks(blocks.map(weighted_rows, 2.0, [y])), 2.0 * y @ X.astype(float), rtol=1e-4
    )
    rows = np.array([999, 0, 450])
    np.testing.assert_array_equal(take_rows(blocks.keep(tripled).select([6]), [99]), 3 * X[[999]])
    np.testing.assert_array_equal(take_rows(blocks, rows), X[rows])


def test_fit_equals_the_local_one(client):
    import dask.array as da

    X, y = sample(4000)
    there = dask_blocks(da.from_array(X, chunks=(1000, 6)), client)
    labels = gather_labels(da.from_array(y, chunks=1000))
    for blocks, dtype in (
        (LocalBlocks(X, block_rows=1000), np.float32),
        (LocalBlocks(X), np.float64),  # other blocks: sums differ by rounding
    ):
        here = solve(blocks, y, dtype=dtype)
        for ours, theirs in zip(solve(there, labels, dtype=dtype), here, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_data_frames_and_parquet_files(client, tmp_path):
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    X, y = sample(900)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    blocks = dask_blocks(dataframe.from_pandas(frame, npartitions=3), client)
    np.testing.assert_array_equal(take_rows(blocks, np.arange(900)), X)
    frame.assign(label=y)[:500].to_parquet(tmp_path / "a.parquet", row_group_size=200)
    frame.assign(label=y)[500:].to_parquet(tmp_path / "b.parquet")
    blocks, labels = parquet_blocks(tmp_path, client, label="label")
    assert blocks.sizes == (200, 200, 100, 400)
    np.testing.assert_array_equal(take_rows(blocks, np.arange(900)), X)
    np.testing.assert_array_equal(labels, y)
    with pytest.raises(ValueError, match="no column 'z'"):
        parquet_blocks(tmp_path, client, label="z")


def test_predictions_are_lazy_and_equal(client):
    import dask.array as da

    X, y = sample(400)
    model = MEDClassifier(gamma=0.2).fit(X, np.where(y > 0, "up", "down"))
    lazy = lazily(model, da.from_array(X, chunks=(150, 3)))
    assert lazy.shape == (400,) and lazy.dtype == model.classes_.dtype
    np.testing.assert_array_equal(lazy.compute(), model.predict(X))
    proba = lazily(model, da.from_array(X, chunks=150), "predict_proba")
    assert proba.shape == (400, 2)
    np.testing.assert_allclose(proba.compute(), model.predict_proba(X))
    with pytest.raises(ValueError, match="method='score'"):
        lazily(model, da.from_array(X), "score")


def test_no_client_is_told(monkeypatch):
    import dask.array as da
    import distributed

    def none():
        raise ValueError("no client")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(ValueError, match=r"needs a distributed.Client"):
        dask_blocks(da.zeros((4, 2)))


@pytest.mark.slow
def test_a_worker_that_dies_does_not_change_the_result():
    import dask.array as da
    from distributed import Client, LocalCluster

    X, y = sample(20_000)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        blocks = dask_blocks(da.from_array(X, chunks=(2000, 6)), client)
        undisturbed = solve(blocks, y)
        victims = client.run(os.getpid)
        pid = next(iter(victims.values()))
        killer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
        killer.start()
        disturbed = solve(blocks, y)
        killer.join()
        assert pid not in client.run(os.getpid).values()
    np.testing.assert_array_equal(disturbed[0], undisturbed[0])
    np.testing.assert_array_equal(disturbed[1], undisturbed[1])
