"""On a Dask cluster: the same result as here, even when a worker dies."""

import importlib
import os
import platform
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed")

from flat_options import parameters_of
from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed.evidence.distances import EuclideanDistances, Neighbourhood, plan_references
from gemmed.model.decision_step import solve_med, solve_med_functions
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.landmark_space import LandmarkSpace
from gemmed.model.kernels.landmarks import choose_landmarks, nystroem_map
from gemmed.rows import dask_blocks, gather_labels, lazily, parquet_blocks
from gemmed.rows.blocks import LocalBlocks, sum_blocks, take_rows
from gemmed.rows.dask_blocks import partition_bounds

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours


def sample(n=6000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1.0, -1.0)
    y[rng.random(n) < 0.1] *= -1
    return X, y


def solve(blocks, y, m=80):
    """The whole large-sample fit; f and its multipliers."""
    classes = (y > 0).astype(np.intp)
    distances = EuclideanDistances(blocks)
    halves = Neighbourhood(5, max_references=300)
    d = distances.to_nearest(plan_references(distances, classes, [0, 1], halves))
    chosen = choose_landmarks(classes, m, np.random.default_rng(0))
    made = nystroem_map(Kernel("rbf", gamma=0.2), take_rows(blocks, chosen))
    space = LandmarkSpace(blocks, made)
    solution = solve_med(space, y, 3.0, np.minimum(1.0, 1.0 / d), max_iter=50, tol=1e-6)
    assert solution.converged
    return solution.decision.f, solution.certificate.lam


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
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
    for blocks, error in (
        (LocalBlocks(X, block_rows=1000), 1e-9),
        (LocalBlocks(X), 1e-4),  # other blocks: sums differ by rounding
    ):
        for ours, theirs in zip(solve(there, labels), solve(blocks, y), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=error)


def classifier(**options):
    return GEMMEDClassifier(**parameters_of(**{"n_components": 60, "random_state": 0, **options}))


def test_many_landmarks_are_solved_as_here(client):
    """Several functions in one pass, kernel values kept by the workers or computed anew."""
    import dask.array as da

    X, y = sample(3000)
    signs, weights = np.column_stack([y, np.where(X[:, 2] > 0.3, 1.0, -1.0)]), np.ones(len(y))
    made = nystroem_map(Kernel("rbf", gamma=0.2), X[:100])
    blocks = dask_blocks(da.from_array(X, chunks=(700, 6)), client)
    for cache in (10**9, 0):
        there, here = (
            solve_med_functions(
                LandmarkSpace(own, made, kept_bytes=cache),
                signs,
                3.0,
                weights,
                max_iter=30,
                tol=1e-6,
            )
            for own in (blocks, LocalBlocks(X, sizes=blocks.sizes))
        )
        for ours, theirs in zip(there, here, strict=True):
            assert ours.converged
            np.testing.assert_allclose(ours.decision.f, theirs.decision.f, atol=1e-6)


def test_the_classifier_equals_the_local_one(client):
    """Kernel, probabilities and screening, from blocks of the same rows."""
    import dask.array as da

    X, y = sample(2000)
    here = classifier().fit_blocks(LocalBlocks(X, block_rows=500), y)
    there = classifier().fit_blocks(dask_blocks(da.from_array(X, chunks=(500, 6)), client), y)
    np.testing.assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(there.nominal_proba_, here.nominal_proba_, atol=1e-6)
    np.testing.assert_allclose(there.p_values(X[:20]), here.p_values(X[:20]), atol=1e-6)
    lazy = lazily(there, da.from_array(X, chunks=(700, 6)))
    np.testing.assert_array_equal(lazy.compute(), here.predict(X))


def test_one_and_two_workers_fit_the_same_function(client, monkeypatch):
    """Of kernel values that are computed anew in every pass."""
    import dask.array as da

    X, y = sample(6000)
    monkeypatch.setitem(LandmarkSpace.__init__.__kwdefaults__, "kept_bytes", 0)
    kernel = {
        "n_components": 100,
        "gamma": 0.2,
        "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0},
    }
    rows = da.from_array(X, chunks=(1000, 6))
    apart = []
    for n_workers in (1, 2):
        homes = sorted(client.nthreads())[:n_workers]
        # The function has the name of its module.
        module = importlib.import_module("gemmed.rows.dask_blocks")
        monkeypatch.setattr(module, "partition_homes", lambda _, own=homes: own)
        apart.append(dask_blocks(rows, client, block_rows=350))
    assert [len(own.partitions) for own in apart] == [1, 2]
    assert len(apart[0].sizes) == 18
    one, two, none = (
        classifier(**kernel).fit_blocks(blocks, y)
        for blocks in (*apart, LocalBlocks(X, sizes=apart[0].sizes))
    )
    np.testing.assert_array_equal(two.decision_function(X), one.decision_function(X))
    np.testing.assert_array_equal(two.nominal_proba_, one.nominal_proba_)
    np.testing.assert_allclose(none.decision_function(X), one.decision_function(X), atol=1e-6)


def test_bad_rows_on_the_workers_are_told(client):
    import dask.array as da

    X, y = sample(400)
    X[250, 1] = np.nan
    blocks = dask_blocks(da.from_array(X, chunks=(100, 6)), client)
    with pytest.raises(ValueError, match="block 2 of X contains NaN"):
        classifier().fit_blocks(blocks, y)


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


@pytest.fixture(scope="module")
def processes():
    """A cluster of two processes; one that is killed is started again."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.mark.slow
def test_a_worker_that_dies_does_not_change_the_result(processes):
    import dask.array as da

    X, y = sample(3000)
    kernel = {"gamma": 0.2, "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0}}
    blocks = dask_blocks(da.from_array(X, chunks=(1000, 6)), processes)
    # Imports are not part of the time below; a module itself cannot be sent back.
    processes.run(lambda: importlib.import_module("gemmed.estimators.gemmed").__name__)
    began = time.monotonic()
    undisturbed = classifier(**kernel).fit_blocks(blocks, y)
    pid = next(iter(processes.run(os.getpid).values()))
    killer = threading.Timer(0.3 * (time.monotonic() - began), os.kill, (pid, signal.SIGKILL))
    killer.start()
    disturbed = classifier(**kernel).fit_blocks(blocks, y)
    assert not killer.is_alive()  # it happened during the fit
    assert pid not in processes.run(os.getpid).values()
    np.testing.assert_array_equal(disturbed.nominal_proba_, undisturbed.nominal_proba_)
    np.testing.assert_array_equal(disturbed.decision_function(X), undisturbed.decision_function(X))
    local = classifier(**kernel).fit_blocks(LocalBlocks(X, block_rows=1000), y)
    np.testing.assert_allclose(
        disturbed.decision_function(X), local.decision_function(X), atol=1e-6
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_workers_use_their_memory_again(processes):
    """Dask starts them with a setting that has the system clear every larger array anew."""
    import dask.array as da

    X, y = sample(2000)
    blocks = dask_blocks(da.from_array(X, chunks=(500, 6)), processes)
    sum_blocks(blocks.map(weighted_rows, 2.0, [y]))
    faults = processes.run(page_faults_of_large_arrays)
    assert max(faults.values()) < 10_000, faults


def page_faults_of_large_arrays():
    """Of 100 arrays of 256 pages each."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(131_072)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_a_pass_goes_on_without_the_actor_of_a_dead_worker(processes):
    import dask.array as da

    X, y = sample(2000)
    blocks = dask_blocks(da.from_array(X, chunks=(500, 6)), processes)
    before = sum_blocks(blocks.map(weighted_rows, 2.0, [y]))
    first = {key: actor._address for key, actor in blocks._actors._actors.items()}
    pids = processes.run(os.getpid)
    os.kill(pids[next(iter(first.values()))], signal.SIGKILL)
    for _ in range(2):  # by a task, then by the new actor
        np.testing.assert_array_equal(sum_blocks(blocks.map(weighted_rows, 2.0, [y])), before)
    second = {key: actor._address for key, actor in blocks._actors._actors.items()}
    assert set(second) == set(first)
    assert second != first


@pytest.mark.parametrize("n_partitions", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("sizes", [[5], [10, 10, 10, 10, 10, 3], [1] * 40, [50, 1, 1, 50]])
def test_partitions_are_even_and_whole(sizes, n_partitions):
    bounds = partition_bounds(sizes, n_partitions)
    assert [a for a, _ in bounds] == [0, *(b for _, b in bounds[:-1])]
    assert bounds[-1][1] == len(sizes)
    rows = [sum(sizes[a:b]) for a, b in bounds]
    assert max(rows) <= sum(sizes) / n_partitions + max(sizes)
    assert len(bounds) <= min(n_partitions, len(sizes))


def test_blocks_are_divided_among_the_workers_and_few_tasks_pass_over_them(client):
    import dask.array as da

    X, _ = sample(4000)
    blocks = dask_blocks(da.from_array(X, chunks=(4000, 6)), client, block_rows=100)
    assert blocks.sizes == (100,) * 40
    kept = blocks.keep(tripled)
    np.testing.assert_array_equal(np.concatenate(list(kept.map(_itself))), 3 * X)
    holders = [set(keys) for keys in client.has_what().values()]
    partitions = [partition.future.key for partition in kept.partitions]
    assert len(partitions) == 2
    assert [sum(key in held for key in partitions) for held in holders] == [1, 1]
    held_by = [actor._address for actor in kept._actors._actors.values()]
    assert held_by == [client.who_has()[key][0] for key in kept._actors._actors]


def test_passes_longer_than_a_look_after_the_actor_arrive(client, monkeypatch):
    import dask.array as da

    module = importlib.import_module("gemmed.rows.dask_blocks")
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.02)
    X, _ = sample(400)
    blocks = dask_blocks(da.from_array(X, chunks=(200, 6)), client)
    np.testing.assert_array_equal(np.concatenate(list(blocks.map(slowly))), X)
    assert len(blocks._actors._actors) == 2


def slowly(block, _):
    time.sleep(0.1)
    return block


def _itself(block, _):
    return block
