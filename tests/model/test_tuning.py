"""Tuning of the kernel, against leave-one-out refits of MED one by one."""

import warnings

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.datasets import make_classification, make_moons

from gemmed import GEMMEDClassifier, MEDClassifier, Selection, Solver
from gemmed.model import tuning
from gemmed.model.kernels.function_space import GramSpace
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.med import learn_med
from gemmed.model.tuning import margin_cost, subsample_rows, tune_kernel
from gemmed.paper import RampSVC


def held_out_loss(space, signs, weights, c):
    """Mean negative log-likelihood of the labels under leave-one-out margins of MED."""
    return margin_cost(learn_med(space, signs, weights, c).held_out, weights)


def small_problem(seed, n=30):
    X, y = make_classification(n, 4, flip_y=0.15, random_state=seed)
    rng = np.random.default_rng(seed)
    gram = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(-1)) + 1.0
    return gram, 2.0 * y - 1.0, rng.integers(1, 3, n).astype(float)


def refitted_margins(gram, labels, weights, c):
    """Margin of each sample under MED without one copy of it."""
    margins = np.empty(len(labels))
    for n in range(len(labels)):
        rest = weights.copy()
        rest[n] -= 1.0
        kept = rest > 0
        model = MEDClassifier(
            "precomputed", kernel_params={"bias_variance": 0.0}, solver=Solver(tol=1e-10), C=c
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(gram[np.ix_(kept, kept)], labels[kept], sample_weight=rest[kept])
        margins[n] = labels[n] * model.decision_function(gram[n, kept][None])[0]
    return margins


def loss_of(margins, weights):
    """Mean negative log-likelihood at the slope that Platt's targets ask for."""
    target = 1.0 - 1.0 / (weights.sum() + 2.0)

    def cost(log_slope):
        p = special.expit(np.exp(log_slope) * margins)
        q = special.expit(-np.exp(log_slope) * margins)
        return -weights @ (special.xlogy(target, p) + special.xlogy(1 - target, q))

    grid = np.linspace(-3, 3, 61)
    start = grid[np.argmin([cost(a) for a in grid])]
    best = optimize.minimize_scalar(cost, bracket=(start - 0.1, start, start + 0.1))
    return -weights @ special.log_expit(np.exp(best.x) * margins) / weights.sum()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_held_out_margins_are_those_of_refits_to_first_order(seed, weighted):
    gram, labels, weights = small_problem(seed)
    if not weighted:
        weights = np.ones(30)
    exact = refitted_margins(gram, labels, weights, 3.0)
    approximate = learn_med(GramSpace(gram), labels[:, None], weights, 3.0).held_out[:, 0]
    in_sample = MEDClassifier("precomputed", kernel_params={"bias_variance": 0.0}).fit(
        gram, labels, sample_weight=weights
    )
    naive = labels * in_sample.decision_function(gram)
    error = np.abs(approximate - exact)
    assert error.max() < 0.15
    assert error.mean() < 0.3 * np.abs(naive - exact).mean()
    loss = held_out_loss(GramSpace(gram), labels[:, None], weights, 3.0)
    assert loss == pytest.approx(loss_of(exact, weights), abs=0.02)


def test_the_scale_of_f_does_not_count_but_its_ranking_does():
    """Shrinking the loss means better held-out predictions, not larger values."""
    gram, labels, weights = small_problem(0)
    noise = np.eye(30) + 1.0  # every sample by itself: nothing is learned
    informed = held_out_loss(GramSpace(gram), labels[:, None], weights, 3.0)
    ignorant = held_out_loss(GramSpace(noise), labels[:, None], weights, 3.0)
    assert informed < ignorant


def tuned(X, y, weights=None, kernel="rbf", **parts):
    scale = 1.0 / (X.shape[1] * X.var())
    parts = {"tune_gamma": True, "tune_variance": True, "tune_bias": True} | parts
    weights = np.ones(len(y)) if weights is None else weights
    signs = np.where(y > 0, 1.0, -1.0)[:, None]
    return tune_kernel(Kernel(kernel, gamma=scale), X, signs, weights, 3.0, **parts)


def test_flipped_labels_ask_for_a_smaller_amplitude():
    changes = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat([0, 1], 60))
        X = rng.normal(size=(120, 10))
        X[:, 0] += np.where(y, 3.0, -3.0)
        noisy = y.copy()
        noisy[rng.choice(120, 30, replace=False)] ^= 1
        clean, flipped = (
            tuned(X, labels, tune_gamma=False)[0].function_variance for labels in (y, noisy)
        )
        changes.append(np.log(flipped / clean))
    assert np.mean(changes) < -0.8
    assert np.max(changes) < 1e-9


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_far_from_the_origin_a_linear_function_is_found_as_well(kernel):
    """The bias makes up for the way to the centre, and the amplitude is that around it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = X[:, 0] + 0.5 * rng.normal(size=200) > 0.8
    losses = [
        min(candidate.loss for candidate in tuned(matrix, y, kernel=kernel)[1])
        for part in (X, X + 3.0, X + 30.0)
        for matrix in [part if kernel == "linear" else part @ part.T]
    ]
    assert max(losses) < losses[0] + 0.01


def test_among_equals_a_linear_function_is_small_and_has_hardly_a_bias():
    rng = np.random.default_rng(1)
    y = rng.permutation(np.repeat([0, 1], 100))
    X = rng.normal(size=(200, 2)) + np.where(y, 2.0, -2.0)[:, None]
    kernel, candidates = tuned(X, y, kernel="linear")
    assert kernel.function_variance == min(c.kernel.function_variance for c in candidates)
    assert kernel.bias_variance == min(c.kernel.bias_variance for c in candidates)
    losses = [candidate.loss for candidate in candidates]
    assert max(losses) - min(losses) < 0.05  # the data could not tell


def test_a_fine_boundary_asks_for_a_narrower_kernel():
    X, y = make_moons(200, noise=0.1, random_state=0)
    fine, _ = tuned(X, y)
    coarse, _ = tuned(X, X[:, 0] > 0.5)
    assert fine.gamma > coarse.gamma


def test_the_winner_has_the_smallest_score_and_fixed_parameters_stay():
    X, y = make_moons(80, noise=0.2, random_state=0)
    kernel, candidates = tuned(X, y)
    assert len(candidates) == len(Selection().widths) * len(Selection().variances)
    assert len({candidate.kernel for candidate in candidates}) == len(candidates)
    assert kernel == min(candidates, key=lambda candidate: candidate.score).kernel
    assert all(candidate.score >= candidate.loss for candidate in candidates)
    scale = 1.0 / (2 * X.var())
    kernel, _ = tuned(X, y, tune_gamma=False)
    assert kernel.gamma == scale
    kernel, candidates = tuned(X, y, tune_variance=False, tune_bias=False)
    assert kernel.function_variance == 1.0
    assert kernel.bias_variance == Kernel("rbf").bias_variance
    assert len(candidates) == len(Selection().widths)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_a_candidate_is_judged_as_the_kernel_it_stands_for(kernel):
    X, y = make_moons(60, noise=0.3, random_state=1)
    _, candidates = tuned(X, y, kernel=kernel)
    signs = np.where(y > 0, 1.0, -1.0)[:, None]
    for candidate in candidates:
        gram = candidate.kernel.between(X, X)
        loss = held_out_loss(GramSpace(gram), signs, np.ones(60), 3.0)
        # Samples at the edge of the margin count or do not, by the last digits of f.
        assert candidate.loss == pytest.approx(loss, abs=6e-3)


def test_a_weight_of_two_counts_a_sample_twice():
    gram, labels, _ = small_problem(1)
    weights = np.ones(30)
    weights[[3, 8, 20]] = 2.0
    rows = np.repeat(np.arange(30), weights.astype(int))
    weighted = held_out_loss(GramSpace(gram), labels[:, None], weights, 3.0)
    copied = held_out_loss(GramSpace(gram[np.ix_(rows, rows)]), labels[rows, None], np.ones(33), 3)
    assert weighted == pytest.approx(copied, abs=1e-3)


def test_samples_without_weight_do_not_count():
    X, y = make_classification(120, 3, n_redundant=0, flip_y=0.05, random_state=2)
    weights = np.ones(120)
    weights[80:] = 0.0
    garbage = y.copy()
    garbage[80:] = 1 - garbage[80:]
    first, _ = tuned(X, y, weights)
    second, _ = tuned(X, garbage, weights)
    assert first == second


def test_a_subset_of_rows_keeps_every_class():
    n = 5000
    signs = -np.ones((n, 3))
    index = np.zeros(n, dtype=int)
    index[[7, 4999]] = 1
    index[100:130] = 2
    signs[np.arange(n), index] = 1.0
    weights = np.ones(n)
    weights[:5] = 0.0
    for seed in range(10):
        rows = subsample_rows(signs, weights, seed)
        half = Selection().max_rows // 2
        assert half <= len(rows) <= half + 30
        assert set(index[rows]) == {0, 1, 2}
        assert np.all(np.diff(rows) > 0)
        assert rows.min() >= 5
        np.testing.assert_array_equal(rows, subsample_rows(signs, weights, seed))
    np.testing.assert_array_equal(subsample_rows(signs[:50], weights[:50], 0), np.arange(5, 50))


def test_the_choice_is_deterministic_and_public():
    X, y = make_moons(100, noise=0.2, random_state=0)
    models = [GEMMEDClassifier(base=None, random_state=0).fit(X, y) for _ in range(2)]
    assert models[0].gamma_ == models[1].gamma_
    assert models[0].function_variance_ == models[1].function_variance_
    assert models[0].tuning_ == models[1].tuning_
    best = min(models[0].tuning_, key=lambda candidate: candidate.score).kernel
    assert (best.gamma, best.function_variance) == (
        models[0].gamma_,
        models[0].function_variance_,
    )
    fixed = GEMMEDClassifier(
        gamma=0.5,
        kernel_params={"function_variance": 0.7, "bias_variance": 0.2},
        base=None,
        random_state=0,
    ).fit(X, y)
    assert fixed.tuning_ == []
    assert (fixed.gamma_, fixed.function_variance_, fixed.bias_variance_) == (0.5, 0.7, 0.2)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_leaving_out_candidates_does_not_change_the_choice(kernel, monkeypatch):
    """Screening by half of the rows and the stop after a rise: against all candidates."""
    for seed in range(4):
        X, y = make_classification(300, 6, flip_y=0.2, class_sep=0.7, random_state=seed)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        labels = (2.0 * y - 1.0)[:, None]
        options = {"tune_gamma": True, "tune_variance": True, "tune_bias": True}
        start = Kernel(kernel, gamma=1.0 / 6.0)
        quick, few = tune_kernel(start, X, labels, np.ones(300), 3.0, **options)
        with monkeypatch.context() as patch:
            patch.setattr(tuning, "MIN_SCREENED_ROWS", 10**9)
            patch.setattr(tuning, "MAX_LOSS_RISE_NATS", np.inf)
            full, candidates = tune_kernel(start, X, labels, np.ones(300), 3.0, **options)
        expected = 12 if kernel == "rbf" else 10
        assert len(candidates) == expected
        assert len(few) < expected or kernel == "linear"  # whose losses hardly differ
        assert quick == full


def test_a_boundary_away_from_the_origin_has_a_bias():
    """Of the two biases of linear kernels the larger is taken where it is needed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 1.3).astype(int)
    model = GEMMEDClassifier("linear", base=None, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.predict(np.zeros((1, 3)))[0] == 0


def many_classes(n_classes):
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(n_classes, 5))
    X = np.repeat(centres, 4, axis=0) + 0.5 * rng.normal(size=(4 * n_classes, 5))
    return X, np.repeat(np.arange(n_classes), 4)


@pytest.mark.parametrize("n_classes", [5, 20])
def test_of_many_classes_some_choose_the_kernel(n_classes, monkeypatch):
    """All of a few, and of many as many as are enough; the kernel is that of all."""
    X, y = many_classes(n_classes)
    widths = []

    def learn(space, signs, *arguments, **options):
        widths.append(signs.shape[1])
        return learn_med(space, signs, *arguments, **options)

    monkeypatch.setattr(tuning, "learn_med", learn)
    chosen = []
    for most in (tuning.MAX_FUNCTIONS, n_classes):
        monkeypatch.setattr(tuning, "MAX_FUNCTIONS", most)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen.append(GEMMEDClassifier(base=None, random_state=0).fit(X, y))
    assert set(widths) == {min(n_classes, 6), n_classes}
    assert chosen[0].gamma_ == chosen[1].gamma_
    if n_classes <= 6:
        assert np.array_equal(chosen[0].dual_coef_, chosen[1].dual_coef_)


def test_only_classifiers_that_tune_take_a_tuned_kernel():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"kernel=.tuned."):
        RampSVC("tuned").fit(X, y)


def test_a_width_that_is_tuned_predicts_better():
    """Cells of a chessboard need a narrow kernel."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(600, 2))
    y, new = np.floor(X).sum(axis=1) % 2, np.arange(600) >= 400
    given, tuned = (
        MEDClassifier(gamma=gamma).fit(X[~new], y[~new]).score(X[new], y[new])
        for gamma in ("scale", "tuned")
    )
    assert tuned > given + 0.05
