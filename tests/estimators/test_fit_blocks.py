"""Large samples: features in place of the kernel, and rows that are read in blocks."""

import contextlib
import io
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from flat_options import parameters_of
from gemmed import GEMMEDClassifier, MEDClassifier, Solver
from gemmed._core.exceptions import DegenerateDataError
from gemmed.rows.blocks import ArrayBlocks, LocalBlocks, block_variance, take_rows
from gemmed.rows.sources import read_blocks, read_parquet

KERNEL = {"gamma": 0.25, "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0}}


def sample(n=1000, n_classes=2, seed=0):
    """Curved classes in four dimensions, a tenth of the labels wrong; single precision."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] ** 2, [1.0, 2.0][: n_classes - 1])
    wrong = rng.random(n) < 0.1
    y[wrong] = (y[wrong] + 1) % n_classes
    return X, y


def classifier(**options):
    # Rows in blocks have no forest: without one, fit gives the same model.
    given = {"base": None, "n_components": 60, "random_state": 0, **options}
    return GEMMEDClassifier(**parameters_of(**given))


def assert_same_model(ours, theirs, X, atol=1e-6):
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=atol)
    np.testing.assert_allclose(ours.nominal_proba_, theirs.nominal_proba_, atol=atol)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=atol)
    assert ours.gamma_ == pytest.approx(theirs.gamma_, rel=1e-12)


# All samples as landmarks: the kernel itself.


def test_as_many_landmarks_as_samples_take_the_path_of_the_exact_kernel():
    """The same iterations, to what single precision allows.

    Rounding may exchange one of the 200 draws that states are averaged over; there are none in MED.
    """
    X, y = sample(300)
    exact = classifier(n_components=None, **KERNEL).fit(X, y)
    features = classifier(n_components=300, **KERNEL).fit(X, y)
    np.testing.assert_allclose(features.knn_distances_, exact.knn_distances_, rtol=1e-9)
    np.testing.assert_allclose(features.entropy_statistic_, exact.entropy_statistic_, atol=1e-9)
    np.testing.assert_allclose(features.nominal_proba_, exact.nominal_proba_, atol=2e-3)
    np.testing.assert_allclose(features.dual_coef_, exact.dual_coef_, atol=5e-3)
    given = {**KERNEL, "random_state": 0}
    features = MEDClassifier(solver=Solver(n_components=300), **given).fit(X, y)
    exact = MEDClassifier(solver=Solver(n_components=None), **given).fit(X, y)
    np.testing.assert_allclose(features.dual_coef_, exact.dual_coef_, atol=1e-3)


@pytest.mark.parametrize("options", [KERNEL, {}], ids=["given kernel", "tuned kernel"])
@pytest.mark.parametrize("seed", [0, 1])
def test_as_many_landmarks_as_samples_give_the_exact_classifier(options, seed):
    """Where the iteration stops depends on rounding: f to 2 % of its range, nearly all samples."""
    X, y = sample(250, seed=seed)
    exact = classifier(n_components=None, **options).fit(X, y)
    features = classifier(n_components=250, **options).fit(X, y)
    assert features.gamma_ == pytest.approx(exact.gamma_)
    f = exact.decision_function(X)
    assert np.abs(features.decision_function(X) - f).max() <= 0.02 * np.ptp(f)
    difference = np.abs(features.nominal_proba_ - exact.nominal_proba_)
    assert difference.mean() <= 0.005 and difference.max() <= 0.15
    clear = np.abs(f) > 0.1
    np.testing.assert_array_equal(features.predict(X[clear]), exact.predict(X[clear]))


def test_f_is_the_minimum_although_the_multipliers_are_rough():
    """The function that rough multipliers define misses the bias by the gradient, f does not."""
    X, y = sample(9000)
    rough = classifier(tol=1e-3, **KERNEL).fit_blocks(X, y)
    precise = classifier(tol=1e-10, **KERNEL).fit_blocks(X, y)
    assert rough.kkt_residual_ > 0.005
    difference = rough.decision_function(X[:500]) - precise.decision_function(X[:500])
    assert np.abs(difference).max() < 0.2 * rough.kkt_residual_


# Where the rows come from does not matter.


@pytest.fixture(scope="module")
def fitted():
    X, y = sample()
    return X, y, classifier().fit(X, y)


@pytest.mark.parametrize("source", ["path", "memory map", "float64", "blocks", "stream", "parquet"])
def test_rows_of_any_source_give_the_model_of_fit(fitted, source, tmp_path):
    X, y, whole = fitted
    path = tmp_path / "x.npy"
    np.save(path, X)
    if source == "path":
        rows = str(path)
    elif source == "memory map":
        rows = np.load(path, mmap_mode="r")
    elif source == "float64":
        rows = X.astype(np.float64)
    elif source == "blocks":
        rows = LocalBlocks(X, n_threads=2)
    elif source == "stream":
        pieces = np.array_split(np.arange(len(X)), 7)
        rows, labels = read_blocks((X[part], y[part]) for part in pieces)
        np.testing.assert_array_equal(labels, y)
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pandas.DataFrame(X, columns=list("abcd")).assign(label=y)
        frame.to_parquet(tmp_path / "x.parquet", row_group_size=400)
        rows, labels = read_parquet(tmp_path / "x.parquet", label="label")
        np.testing.assert_array_equal(labels, y)
    assert_same_model(classifier().fit_blocks(rows, y), whole, X)


@pytest.mark.parametrize("gamma", ["tuned", "scale", "auto", 0.3])
def test_gamma_follows_one_rule(gamma):
    """ "scale" is that of all rows, though no block holds all."""
    X, y = sample(800)
    X[500:] *= 3.0
    options = {"gamma": gamma, "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0}}
    whole = classifier(**options).fit(X, y)
    small = classifier(**options).fit_blocks(LocalBlocks(X, block_rows=350), y)
    assert small.gamma_ == pytest.approx(whole.gamma_, rel=1e-9)
    if gamma == "scale":
        assert small.gamma_ == pytest.approx(1 / (4 * X.astype(float).var()), rel=1e-9)


def test_variance_in_one_pass_is_that_of_the_array():
    X = np.random.default_rng(0).normal(1e4, 1.0, size=(1000, 3)).astype(np.float32)
    assert block_variance(LocalBlocks(X, block_rows=77)) == pytest.approx(
        X.astype(np.float64).var(), rel=1e-9
    )


def test_rows_are_taken_from_the_blocks_that_hold_them():
    class Watched(ArrayBlocks):
        def select(self, which):
            selected.append(list(which))
            return super().select(which)

    selected = []
    X = np.arange(60.0).reshape(20, 3)
    blocks = Watched(np.split(X, 5))
    rows = np.array([17, 9, 9, 18])
    np.testing.assert_array_equal(take_rows(blocks, rows), X[rows])
    assert selected == [[0, 2, 4]]
    assert take_rows(blocks, np.empty(0, dtype=int)).shape == (0, 3)


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_other_kernels(kernel, fitted):
    X = fitted[0]
    labels = np.where(X[:, 0] > 0, "b", "a")
    whole = classifier(kernel=kernel).fit(X, labels)
    assert_same_model(classifier(kernel=kernel).fit_blocks(X, labels), whole, X)
    assert whole.score(X, labels) > 0.97


def test_the_linear_kernel_has_no_landmarks():
    """Its features are the columns of X: the solution is the exact one."""
    X, _ = sample(600)
    y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
    y[::12] ^= 1
    options = {
        "kernel": "linear",
        "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0},
    }
    exact = classifier(**options, n_components=None).fit(X, y)
    blocks = classifier(**options).fit_blocks(X, y)
    f = exact.decision_function(X)
    assert np.abs(blocks.decision_function(X) - f).max() <= 0.02 * np.ptp(f)


def test_three_classes():
    X, y = sample(600, n_classes=3)
    names = np.array(["low", "mid", "top"])[y]
    whole = classifier().fit(X, names)
    blocks = classifier().fit_blocks(X, names)
    assert blocks.decision_function(X).shape == (600, 3)
    assert_same_model(blocks, whole, X)
    assert blocks.score(X, names) > 0.7


def test_weights_certainties_and_groups_mean_the_same():
    X, y = sample(600)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.2, 3.0, size=600)
    prior = np.full(600, 0.9)
    prior[:20], prior[20:40] = 0.0, 1.0
    groups = np.arange(600) // 3
    known = {"sample_weight": weights, "prior_nominal": prior, "groups": groups}
    whole = classifier(**KERNEL).fit(X, y, **known)
    blocks = classifier(**KERNEL).fit_blocks(X, y, **known)
    assert_same_model(blocks, whole, X)
    np.testing.assert_array_equal(blocks.nominal_proba_[:20], 0.0)
    np.testing.assert_array_equal(blocks.nominal_proba_[20:40], 1.0)
    plain = classifier(**KERNEL).fit_blocks(X, y)
    for name in ("sample_weight", "prior_nominal"):
        other = classifier(**KERNEL).fit_blocks(X, y, **{name: known[name]})
        assert np.abs(other.nominal_proba_ - plain.nominal_proba_).max() > 1e-3


def test_certain_anomalies_are_no_landmarks():
    X, y = sample(1200)
    X[:50] += 100.0
    prior = np.full(1200, 0.95)
    prior[:50] = 0.0
    model = classifier(n_components=1200, **KERNEL).fit_blocks(X, y, prior_nominal=prior)
    assert np.abs(model._function.samples).max() < 50


def test_a_users_kernel_sees_rows_only():
    """Means of rows need not be what a kernel function understands: here whole numbers."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(2000, 3)).astype(np.float32)
    y = (X[:, 0] > 2).astype(int)

    def same_values(A, B):
        assert np.array_equal(A, np.rint(A)) and np.array_equal(B, np.rint(B))
        return np.exp(-0.3 * np.abs(A[:, None] - B).sum(axis=2))

    model = classifier(kernel=same_values, n_components=40).fit_blocks(X, y)
    assert model.score(X, y) > 0.95


def test_a_small_prior_leaves_landmarks():
    """Nobody is trusted beforehand: the landmarks come from the more trusted half."""
    X, y = sample(1200)
    model = classifier(**KERNEL).fit_blocks(X, y, prior_nominal=np.full(len(y), 0.3))
    assert model.score(X, y) > 0.8


# After the fit.


def test_what_a_model_from_blocks_can_do(fitted):
    X, y, whole = fitted
    model = classifier().fit_blocks(X, y)
    far = np.vstack([X[:50], np.full((5, 4), 30.0, dtype=np.float32)])
    np.testing.assert_allclose(model.p_values(far), whole.p_values(far), atol=1e-6)
    alarms = model.screen(far, false_alarm_rate=0.05)
    assert alarms[50:].all() and alarms[:50].mean() < 0.2
    assert model.predict_or_abstain(far)[-1] is None
    with pytest.raises(ValueError, match=r"fitted from blocks keeps no training samples.*fit\(X"):
        model.explain()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.p_values(far), model.p_values(far))
    assert whole.explain()["nominal_proba"].shape == (1000,)


def test_predictions_are_those_of_the_landmarks(fitted):
    """f is a sum over landmarks; written out from kernel and coefficients."""
    X, _, model = fitted
    kernel, Z = model._function.kernel, model._function.samples
    coefficients = model._function.coefficients
    bias = model._function.offset + kernel.bias_variance * coefficients.sum()
    squares = ((X[:40, None, :].astype(float) - Z[None]) ** 2).sum(axis=2)
    f = model.function_variance_ * np.exp(-model.gamma_ * squares) @ coefficients + bias
    np.testing.assert_allclose(model.decision_function(X[:40]), f, atol=1e-9)
    assert len(Z) <= 60


def test_a_fit_from_blocks_forgets_the_columns_of_an_earlier_fit():
    pandas = pytest.importorskip("pandas")
    X, y = sample(300)
    model = classifier().fit(pandas.DataFrame(X, columns=list("abcd")), y)
    model.fit_blocks(X, y)
    assert not hasattr(model, "feature_names_in_")
    model.predict(X)


def test_feedback_on_single_samples_starts_from_the_last_solution():
    X, y = sample(1200)
    model = classifier(warm_start=True).fit_blocks(X, y)
    steps, worst = model.n_iter_, int(np.argmin(model.nominal_proba_))
    prior = np.full(1200, 0.95)
    prior[worst] = 1.0
    model.fit_blocks(X, y, prior_nominal=prior)
    assert model.nominal_proba_[worst] == 1.0
    assert model.n_iter_ <= steps


def test_few_rows_need_no_other_method():
    X, y = sample(80)
    assert classifier(n_components="auto", n_neighbors=5).fit_blocks(X, y).score(X, y) > 0.7


# What is refused.


def with_nan(X):
    X = X.copy()
    X[150, 2] = np.nan
    return LocalBlocks(X, block_rows=100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: (with_nan(X), y), "block 1 of X contains NaN"),
        (lambda X, y: (X, y[:-1]), "199 labels for 200 rows"),
        (lambda X, y: (X, np.zeros(200)), "one class only"),
        (lambda X, y: (ArrayBlocks([X[:100], X[100:, :3]]), y), r"columns: \[3, 4\]"),
        (lambda X, y: (X[:, 0], y), "must be a matrix"),
        (lambda X, y: (X.astype(int), y), "convert it to float32"),
        (lambda X, y: ("rows.csv", y), "not a .npy file"),
        (lambda X, y: (X, np.linspace(0, 1, 200)), "continuous"),
    ],
)
def test_bad_rows_and_labels(make, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit_blocks(*make(*sample(200)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "precomputed"}, "kernel='precomputed' has no rows"),
        ({"n_components": None}, "n_components=None asks for the exact kernel"),
        ({"n_components": 0}, "n_components=0 must be"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        classifier(**options).fit_blocks(*sample(200))


def test_bad_details_of_samples():
    X, y = sample(200)
    for name in ("sample_weight", "prior_nominal", "groups"):
        with pytest.raises(ValueError, match=r"200|\(199,\)"):
            classifier().fit_blocks(X, y, **{name: np.ones(199)})


def test_degenerate_rows():
    X, y = sample(200)
    with pytest.raises(DegenerateDataError, match="constant"):
        classifier().fit_blocks(np.ones_like(X), y)
    X[y == 1] = X[y == 1][0]
    with pytest.raises(DegenerateDataError, match="duplicates"):
        classifier().fit_blocks(X, y)


def test_memory_grows_with_the_rows_only():
    """A kernel matrix of 20,000 samples has 3.2 GB; the features here have 16 MB."""
    X, y = sample(20_000)
    tracemalloc.start()
    model = classifier(n_components=200, n_jobs=1, **KERNEL).fit_blocks(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.converged_
    assert peak < 300e6


@pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours
def test_the_example_of_a_cluster_in_the_guide(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    page = (Path(__file__).parents[2] / "docs" / "guide" / "large.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(page.split("```py\n")[1].partition("```")[0], {"__name__": "__main__"})
    assert printed.getvalue() == "True\n"
