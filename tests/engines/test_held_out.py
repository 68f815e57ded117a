"""The held-out mean field: a fixed point of its definition, recomputed here from scratch."""

import numpy as np
import pytest
from scipy import special

from gemmed import MEDClassifier
from gemmed.engines import MeanField, Start
from gemmed.model.dual import DualProblem
from gemmed.model.kernels.function_space import FeatureSpace, GramSpace

C = 3.0


def blobs(seed, n=80, n_classes=2, flips=6):
    """Blobs with some labels flipped; class of each sample, and which are flipped."""
    rng = np.random.default_rng(seed)
    index = rng.permutation(np.arange(n) % n_classes)
    angle = 2 * np.pi * index / n_classes
    X = rng.normal(size=(n, 2)) + 3.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    wrong = np.zeros(n, dtype=bool)
    wrong[rng.choice(n, flips, replace=False)] = True
    return X, np.where(wrong, (index + 1) % n_classes, index), wrong


def rbf(X, gamma=0.1):
    return 0.6 * np.exp(-gamma * ((X[:, None] - X) ** 2).sum(-1)) + 0.6


def problem_of(X, index, *, columns=None, weights=None, prior=0.95, gram=None):
    """Evidence is part of the prior log-odds, as in the default model."""
    n, n_classes = len(index), int(index.max()) + 1
    if columns is None:
        columns = np.where(index[:, None] == np.arange(n_classes), 1.0, -1.0)
        if n_classes == 2:
            columns = columns[:, 1]
    evidence = np.maximum(np.abs(X[:, 1]) - 2.0, 0.0)
    return DualProblem(
        space=GramSpace(rbf(X) if gram is None else gram),
        labels=columns,
        distances=np.zeros(n),
        prior_log_odds=special.logit(np.broadcast_to(prior, n)) - evidence,
        c=C,
        coverage=np.full(n_classes, 0.5),
        entropy_bounds=np.full(n_classes, np.inf),
        weights=np.empty(0) if weights is None else weights,
    )


def loss_and_slope(margins):
    v = np.maximum(C * (1.0 - margins), 1.0)
    return v - 1.0 - np.log(v), C * (1.0 - 1.0 / v)


def log_odds_by_definition(problem, solution, held_out):
    """Prior, minus the loss at the stretched held-out margin, plus the fields of the class.

    Of several functions, the margin is half the lead over the strongest other class.
    """
    _lam, mu, kappa = solution.multipliers
    z = problem.class_index
    sizes = np.bincount(z, problem.weights)
    field = (kappa[z] - mu[z] * problem.distances) / sizes[z]
    scale = solution.diagnostics["margin_scale"]
    margins = held_out.reshape(len(z), -1)
    if margins.shape[1] > 1:
        values = margins * problem.signs
        own = values[np.arange(len(z)), z]
        values[np.arange(len(z)), z] = -np.inf
        margins = 0.5 * (own - values.max(axis=1))[:, None]
    return problem.prior_log_odds - loss_and_slope(scale * margins)[0][:, 0] + field


def held_out_by_inverse(problem, solution):
    """Equation 37 by dense inverses, one column a function."""
    gram, r, s = problem.space.gram(), solution.nominal, problem.weights
    columns = []
    lams = solution.multipliers.lam.reshape(len(r), -1)
    for labels, lam in zip(problem.signs.T, lams.T, strict=True):
        margins = labels * (gram @ (s * r * lam * labels))
        curvature = np.where(lam > 0, (C - lam) ** 2, 0.0)
        S = gram @ np.linalg.inv(np.eye(len(r)) + (s * r * curvature)[:, None] * gram)
        variance = np.diag(S)
        share = r * np.minimum(s, 1.0)
        columns.append(margins - variance * share * lam / (1.0 - share * curvature * variance))
    return np.column_stack(columns)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_what_the_definition_gives(seed, weighted, n_classes):
    X, index, _ = blobs(seed, n_classes=n_classes)
    weights = np.random.default_rng(seed).uniform(0.5, 2.5, 80) if weighted else None
    problem = problem_of(X, index, weights=weights)
    solution = MeanField().solve(problem, tol=1e-8)
    assert solution.converged
    held_out = held_out_by_inverse(problem, solution)
    expected = special.expit(log_odds_by_definition(problem, solution, held_out))
    error = np.abs(expected - solution.nominal)
    # S_nn jumps where a sample enters the margin, and is held fixed late: a few may be off.
    assert error.mean() < 4e-3
    assert np.mean(error < 0.01) >= 0.95


def test_probabilities_are_those_of_refits_without_the_sample():
    """The first-order formula stands for this: MED on all others, weighted by their r."""
    X, index, _ = blobs(1, n=40, flips=4)
    problem = problem_of(X, index)
    solution = MeanField().solve(problem, tol=1e-8)
    gram, labels = rbf(X), problem.labels
    held_out = np.empty(40)
    for n in range(40):
        rest = np.arange(40) != n
        model = MEDClassifier("precomputed", C=C, bias_variance=0.0, tol=1e-9)
        model.fit(gram[np.ix_(rest, rest)], labels[rest], sample_weight=solution.nominal[rest])
        held_out[n] = labels[n] * model.decision_function(gram[n, rest][None])[0]
    expected = special.expit(log_odds_by_definition(problem, solution, held_out))
    error = np.abs(expected - solution.nominal)
    assert error.mean() < 0.01
    assert error.max() < 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_functions_are_optimal_for_the_probabilities(n_classes):
    X, index, _ = blobs(0, n_classes=n_classes)
    problem = problem_of(X, index)
    solution = MeanField().solve(problem, tol=1e-10)
    gram = rbf(X)
    lams = solution.multipliers.lam.reshape(80, -1)
    for labels, lam in zip(problem.signs.T, lams.T, strict=True):
        margins = labels * (gram @ (solution.nominal * lam * labels))
        np.testing.assert_allclose(loss_and_slope(margins)[1], lam, atol=1e-3)
        med = MEDClassifier("precomputed", C=C, bias_variance=0.0, tol=1e-12)
        med.fit(gram, labels, sample_weight=solution.nominal)
        np.testing.assert_allclose(labels * med.decision_function(gram), margins, atol=1e-4)
    assert solution.duality_gap <= 1e-8


def test_flipped_labels_are_found_and_others_trusted():
    for seed in range(5):
        X, index, wrong = blobs(seed)
        nominal = MeanField().solve(problem_of(X, index)).nominal
        assert np.mean((nominal < 0.5) == wrong) > 0.95


def test_no_sample_vouches_for_itself():
    """Alone in its region a sample keeps its prior: without itself nothing is known there."""
    X, index, _ = blobs(2)
    X[0] = [40.0, 0.0]
    gram = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(-1))  # no bias
    nominal = {
        form: MeanField(form).solve(problem_of(X, index, gram=gram)).nominal[0]
        for form in ("held_out", "factorised")
    }
    at_zero = loss_and_slope(np.zeros(1))[0][0]  # margin zero, whatever the scale
    expected = special.expit(special.logit(0.95) - at_zero)
    assert nominal["held_out"] == pytest.approx(expected, abs=0.05)
    assert nominal["factorised"] > nominal["held_out"] + 0.05


@pytest.mark.parametrize("n_classes", [2, 3])
def test_certainties_are_respected_exactly(n_classes):
    X, index, wrong = blobs(3, n_classes=n_classes)
    prior = np.full(80, 0.95)
    prior[wrong] = 1.0
    prior[np.flatnonzero(~wrong)[:5]] = 0.0
    nominal = MeanField().solve(problem_of(X, index, prior=prior)).nominal
    np.testing.assert_array_equal(nominal[prior == 1.0], 1.0)
    np.testing.assert_array_equal(nominal[prior == 0.0], 0.0)
    inside = (prior > 0) & (prior < 1)
    assert np.all((nominal[inside] > 0) & (nominal[inside] < 1))


def test_a_sample_known_as_anomalous_is_as_good_as_absent():
    X, index, wrong = blobs(4)
    prior = np.where(wrong, 0.0, 0.95)
    known = MeanField().solve(problem_of(X, index, prior=prior), tol=1e-9)
    kept = ~wrong
    problem = problem_of(X[kept], index[kept])
    # The entropy bound is zero, coverage is met: the class sizes cancel out.
    absent = MeanField().solve(problem, tol=1e-9)
    np.testing.assert_allclose(known.nominal[kept], absent.nominal, atol=5e-3)


@pytest.mark.parametrize(("seed", "n_classes"), [(5, 2), (6, 3), (7, 3), (8, 3)])
def test_a_warm_start_ends_at_the_same_solution_sooner(seed, n_classes):
    """Where the share of wrong labels is clear: else the scale of margins may be another."""
    X, index, _ = blobs(seed, n_classes=n_classes)
    problem = problem_of(X, index)
    cold = MeanField().solve(problem)
    kept = (problem.weights * cold.nominal)[:, None] * problem.signs
    start = Start(cold.multipliers.lam * kept.reshape(problem.labels.shape), cold.nominal)
    warm = MeanField().solve(problem, start=start)
    assert warm.converged
    assert warm.n_iter < cold.n_iter
    change = np.abs(warm.nominal - cold.nominal)
    assert change.mean() < 2e-3
    np.testing.assert_array_equal(warm.nominal < 0.5, cold.nominal < 0.5)


def test_kernel_matrix_and_features_give_one_solution():
    for seed in range(3):
        X, index, _ = blobs(seed)
        features = np.column_stack([0.3 * X, np.ones(80)])
        by_gram = problem_of(X, index, gram=features @ features.T)
        by_features = DualProblem(
            FeatureSpace(features),
            by_gram.labels,
            by_gram.distances,
            by_gram.prior_log_odds,
            C,
            by_gram.coverage,
            by_gram.entropy_bounds,
        )
        first, second = (MeanField().solve(p, tol=1e-8) for p in (by_gram, by_features))
        np.testing.assert_allclose(first.nominal, second.nominal, atol=5e-3)


def test_two_columns_for_two_classes_mirror_each_other():
    """A function for each of two classes: the same twice, and each doubt counts once."""
    X, index, _ = blobs(6)
    signs = np.where(index, 1.0, -1.0)
    double = MeanField().solve(
        problem_of(X, index, columns=np.column_stack([-signs, signs])), tol=1e-9
    )
    lam = double.multipliers.lam
    np.testing.assert_allclose(lam[:, 0], lam[:, 1], atol=1e-8)
    single = MeanField().solve(problem_of(X, index), tol=1e-9)
    np.testing.assert_allclose(double.nominal, single.nominal, atol=1e-6)


def test_permuting_the_classes_permutes_the_functions():
    X, index, _ = blobs(7, n=90, n_classes=3)
    first = MeanField().solve(problem_of(X, index), tol=1e-9)
    names = np.array([2, 0, 1])  # class z is called names[z]
    second = MeanField().solve(problem_of(X, names[index]), tol=1e-9)
    np.testing.assert_allclose(second.nominal, first.nominal, atol=1e-6)
    np.testing.assert_allclose(second.multipliers.lam[:, names], first.multipliers.lam, atol=1e-5)
    np.testing.assert_allclose(second.multipliers.mu[names], first.multipliers.mu, atol=1e-5)


def test_order_of_samples_does_not_matter():
    X, index, _ = blobs(8)
    order = np.random.default_rng(0).permutation(80)
    first = MeanField().solve(problem_of(X, index), tol=1e-9)
    second = MeanField().solve(problem_of(X[order], index[order]), tol=1e-9)
    np.testing.assert_allclose(second.nominal, first.nominal[order], atol=1e-6)


def test_coverage_keeps_half_of_a_class_against_all_evidence():
    X, index, _ = blobs(9)
    prior = np.where(index == 1, 0.02, 0.95)
    solution = MeanField().solve(problem_of(X, index, prior=prior))
    assert solution.nominal[index == 1].mean() >= 0.5 - 1e-6
    assert solution.multipliers.kappa[1] > 0
    assert solution.multipliers.kappa[0] == 0


def test_stopping_early_is_not_called_converged():
    solution = MeanField().solve(problem_of(*blobs(0)[:2]), max_iter=1)
    assert not solution.converged
    assert solution.kkt_residual > 0
