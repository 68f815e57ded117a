"""Distance of the approximations of a fit to the exact solution of small problems.

python benchmarks/fit/distance_to_exact.py [--repeats 5]

Each of eight problems (6 to 8 rows of two classes, 5 or 6 of three) has a wrong label and a bad
row. The entropy and coverage multipliers are fixed, as in a fit; the bounds are those they attain.
Enumeration solves each problem exactly. Every approximation gets the same multipliers and the same
prior. The columns are means over problems, with standard errors in brackets. Equation numbers are
those of docs/research/model.md.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from gemmed.model.decision_step import margin_loss

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from exact_states import Bounds, ExactProblem, maximize_dual, product_grid

SIZES = ((6, 2), (7, 2), (8, 2), (8, 2), (5, 3), (5, 3), (6, 3), (6, 3))
SLOPE, INTERCEPT = 0.8, -2.0
"""b and a of the rule for bad rows (28): nats per unit of the statistic, and at its origin."""
LINK = 5.6
"""Log-odds for a unit of the score, as (43) has it."""
MAX_SWEEPS, STEP, TOLERANCE = 300, 0.3, 1e-6


class States(NamedTuple):
    """What a solution says about the rows."""

    bad: np.ndarray
    """P(b_n = 1), shape (n_samples,)."""
    good: np.ndarray
    """P(b_n = 0, t_n = s), shape (n_samples, n_classes)."""
    rates: np.ndarray
    """Posterior on the grid of rates."""


def make_problem(n, k, seed):
    """Classes around the corners of a polygon; row 0 has a wrong label, row 1 is far away."""
    rng = np.random.default_rng(seed)
    true = np.arange(n) % k
    angle = 2.0 * np.pi * true / k
    X = 1.3 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.5 * rng.normal(size=(n, 2))
    given = true.copy()
    given[0] = (true[0] + 1) % k
    X[1] += 2.0 * rng.choice([-1.0, 1.0], 2)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    statistics = np.empty((n, k))
    for z in range(k):  # distance to the nearest other row of the class, if there is one
        others = np.where((given == z) & ~np.eye(n, dtype=bool), squares, np.inf)
        nearest = others.min(axis=1)
        statistics[:, z] = np.sqrt(np.where(np.isfinite(nearest), nearest, squares.max()))
    points = 5 if k == 2 else 3
    small_first = 2.0 ** -np.arange(points)
    rates = product_grid(
        np.linspace(0.02, 0.4, points),
        np.geomspace(0.02, 0.4, points),
        k,
        label_error_prior=small_first,
        bad_prior=small_first,
    )
    problem = ExactProblem(
        0.2 * X @ X.T + 0.2 * np.exp(-squares / 4.0) + 0.02 * np.eye(n),
        given,
        np.full(k, 1.0 / k),
        rates,
        statistics / np.median(statistics),
        Bounds(np.full((k, 1), 1.0), np.full(k, 0.1)),
        c=3.0,
    )
    return problem, np.full((k, 1), n * SLOPE), np.full(k, -n * INTERCEPT)


def exact(problem, mu, kappa):
    """The exact solution, with the bounds that the multipliers attain."""
    solution = maximize_dual(problem, mu=mu, kappa=kappa)
    problem = replace(problem, bounds=solution.posterior.attained)
    return problem, maximize_dual(problem, mu=mu, kappa=kappa)


def class_field(problem, mu, kappa):
    """(kappa_s - mu_s d_ns) / N, shape (n_samples, n_classes)."""
    return (kappa - np.einsum("zi,nzi->nz", mu, problem.statistics)) / problem.sizes


def states_of(problem, log_good):
    """States and rates if rows are independent given the rates; log_good is added to the prior."""
    terms = problem.row_terms[0].copy()
    terms[:, :, :-1] += log_good
    rows = special.logsumexp(terms, axis=2)
    log_rates = problem.rates.log_prior + rows.sum(axis=1)
    rates = special.softmax(log_rates)
    probability = np.einsum("g,gns->ns", rates, np.exp(terms - rows[:, :, None]))
    prior = special.logsumexp(problem.row_terms[0], axis=2).sum(axis=1) + problem.rates.log_prior
    log_partition = special.logsumexp(log_rates) - special.logsumexp(prior)
    return States(probability[:, -1], probability[:, :-1], rates), float(log_partition)


def best_functions(problem, good):
    """Minimise sum_j |f_j|^2 / 2 + sum_n sum_s P(good, s) loss(side f_nj); shape of f (n, j)."""
    values = []
    for sides in problem.signs.T:

        def objective(alpha, sides=sides):
            f = problem.gram @ alpha
            losses = [margin_loss(side * f, problem.c) for side in sides]
            value = 0.5 * alpha @ f
            slope = alpha.copy()
            for s, (side, loss) in enumerate(zip(sides, losses, strict=True)):
                value += good[:, s] @ loss.value
                slope -= good[:, s] * side * loss.lam
            return value, problem.gram @ slope

        best = optimize.minimize(
            objective,
            np.zeros(problem.n_samples),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-9},
        )
        values.append(problem.gram @ best.x)
    return np.column_stack(values)


def side_losses(problem, means, variances):
    """sum_j loss(side f_nj; variance), for every label value; shape (n_samples, n_classes)."""
    total = np.zeros((problem.n_samples, problem.n_classes))
    for s, sides in enumerate(problem.signs):
        for j, side in enumerate(sides):
            total[:, s] += margin_loss(side * means[:, j], problem.c, variances[:, j]).value
    return total


def held_out(problem, good, f):
    """f without the row, to first order (37): the other multipliers change, too."""
    means = np.empty_like(f)
    for j, sides in enumerate(problem.signs.T):
        pull, curvature = np.zeros(problem.n_samples), np.zeros(problem.n_samples)
        for s, side in enumerate(sides):
            loss = margin_loss(side * f[:, j], problem.c)
            pull += good[:, s] * side * loss.lam
            curvature += good[:, s] * loss.curvature
        root = np.sqrt(curvature)
        inner = np.eye(problem.n_samples) + root[:, None] * problem.gram * root
        half = root[:, None] * problem.gram
        posterior = problem.gram - half.T @ np.linalg.solve(inner, half)
        variance = np.diag(posterior)
        means[:, j] = f[:, j] - variance * pull / (1.0 - curvature * variance)
    return means


def iterate(problem, field, evidence):
    """Fixed point of best functions and states: damped, from the states without margins."""
    good = states_of(problem, field)[0].good
    for _ in range(MAX_SWEEPS):
        f = best_functions(problem, good)
        states, log_partition = states_of(problem, field - evidence(good, f))
        change = np.abs(states.good - good).max()
        if change < TOLERANCE:
            break
        good = good + STEP * (states.good - good)
    return states, f, log_partition, change < TOLERANCE


def mean_field(problem, mu, kappa):
    """f independent of states and rates (20): an upper bound on D*."""
    field = class_field(problem, mu, kappa)

    def evidence(good, f):
        return side_losses(problem, f, np.zeros_like(f))

    states, f, log_partition, converged = iterate(problem, field, evidence)
    norm = 0.5 * np.einsum("nj,nj->", f, np.linalg.solve(problem.gram, f))
    bound = kappa @ problem.bounds.coverage - (mu * problem.bounds.entropy).sum()
    return states, float(bound + norm - log_partition), converged


def held_out_form(problem, mu, kappa, *, softened):
    """States from f without the row (23), (37)."""
    variances = np.diag(problem.gram)[:, None] * softened

    def evidence(good, f):
        return side_losses(problem, held_out(problem, good, f), variances + np.zeros_like(f))

    states, _, _, converged = iterate(problem, class_field(problem, mu, kappa), evidence)
    return states, converged


def cavity(problem, mu, kappa, *, spread, groups=None, judge=states_of):
    """States from f without the terms of the row at the same multipliers (19).

    ``spread`` counts what the states of other rows add to the variance; rows of a group are left
    out together.
    """
    names = np.arange(problem.n_samples) if groups is None else groups
    others = np.where(names[:, None] == names, 0.0, problem.gram)
    field = class_field(problem, mu, kappa)
    pulls = np.zeros((problem.n_samples, problem.signs.shape[1]))
    variances = np.diag(problem.gram)[:, None] + np.zeros_like(pulls)
    reaction = np.zeros_like(pulls)
    for _ in range(MAX_SWEEPS):
        means = others @ pulls - reaction
        log_good = field - side_losses(problem, means, variances)
        states = judge(problem, log_good)[0]
        mean, square = np.zeros_like(pulls), np.zeros_like(pulls)
        for s, sides in enumerate(problem.signs):
            lam = margin_loss(sides * means, problem.c, variances).lam
            mean += states.good[:, s, None] * sides * lam
            square += states.good[:, s, None] * lam**2
        change = np.abs(mean - pulls).max()
        if change < TOLERANCE:
            break
        pulls = pulls + STEP * (mean - pulls)
        if spread:  # the other rows answer to this one: their pulls vary with their states
            added = others**2 @ (square - mean**2)
            variances = np.diag(problem.gram)[:, None] + added
            reaction = added * pulls
    return states, change < TOLERANCE


def gaussian_cavity(problem, mu, kappa, at):
    """States from the exact mean and variance of f without the row: only its shape is assumed."""
    theta = class_field(problem, mu, kappa) - (at.lam + np.log1p(-at.lam / problem.c)).sum(axis=2)
    pushes = np.einsum("vns,nsj->vnj", problem.good, at.lam * problem.signs)
    centres = np.einsum("nm,vmj->vnj", problem.gram, pushes)
    log_prior, given_states = problem.prior
    log_weight = log_prior + np.einsum("vns,ns->v", problem.good, theta)
    log_weight = log_weight + 0.5 * np.einsum("vnj,vnj->v", pushes, centres)
    terms, field = problem.row_terms[0], class_field(problem, mu, kappa)
    probabilities, marginal = np.empty(terms.shape[1:]), np.exp(log_weight - log_weight.max())
    rates = given_states @ (marginal / marginal.sum())
    for n in range(problem.n_samples):
        without = problem.states[:, n] == problem.n_classes  # a bad row does not act on f
        joint = given_states[:, without] * marginal[without] / np.exp(terms[:, n, -1:])
        joint /= joint.sum()
        weight = joint.sum(axis=0)
        mean = weight @ centres[without, n]
        variance = problem.gram[n, n] + weight @ (centres[without, n] - mean) ** 2
        log_good = field[n].copy()
        for s, sides in enumerate(problem.signs):
            log_good[s] -= margin_loss(sides * mean, problem.c, variance).value.sum()
        rate = joint.sum(axis=1)
        chances = np.append(
            rate @ np.exp(terms[:, n, :-1] + log_good), rate @ np.exp(terms[:, n, -1])
        )
        probabilities[n] = chances / chances.sum()
    return States(probabilities[:, -1], probabilities[:, :-1], rates)


def linked(problem, mu, kappa):
    """One pass: MED of the given labels, scores without the row, probabilities by a fixed slope."""
    k, field = problem.n_classes, class_field(problem, mu, kappa)
    given = np.eye(k)[problem.class_index]
    f = best_functions(problem, given)
    means = held_out(problem, given, f)
    scores = np.column_stack([-0.5 * means, 0.5 * means]) if k == 2 else means
    log_class = special.log_softmax(LINK * scores, axis=1) - np.log(problem.class_shares)
    return states_of(problem, field + log_class)[0]


def states_of_pair(problem, log_good):
    """As :func:`states_of`, with rows 2 and 3 good or bad together."""
    terms = problem.row_terms[0].copy()
    terms[:, :, :-1] += log_good
    kept, lost = special.logsumexp(terms[:, :, :-1], axis=2), terms[:, :, -1]
    both_lost = lost[:, 2:4].sum(axis=1)
    pair = np.logaddexp(kept[:, 2:4].sum(axis=1), both_lost)
    single = np.logaddexp(kept, lost)
    log_rates = problem.rates.log_prior + np.delete(single, [2, 3], axis=1).sum(axis=1) + pair
    rates = special.softmax(log_rates)
    bad = np.exp(lost - single)
    bad[:, 2:4] = np.exp(both_lost - pair)[:, None]
    good = np.exp(terms[:, :, :-1] - kept[:, :, None]) * (1.0 - bad)[:, :, None]
    return States(rates @ bad, np.einsum("g,gns->ns", rates, good), rates), None


def grouped(problem, mu, kappa):
    """Rows 2 and 3 are good or bad together: the exact solution, and f without both rows."""
    bad = problem.states == problem.n_classes
    differ = np.where(bad[:, 2] == bad[:, 3], 0.0, -np.inf)
    _, solution = exact(replace(problem, log_joint_factor=differ), mu, kappa)
    names = np.arange(problem.n_samples)
    names[3] = 2
    states, converged = cavity(problem, mu, kappa, spread=False, groups=names, judge=states_of_pair)
    return solution.posterior, states, converged


def distances(problem, truth, found):
    """Mean differences of P(bad), P(wrong label) and both rates, and rows of another state."""
    own = np.eye(problem.n_classes)[problem.class_index]

    def three(bad, good):
        nominal = (good * own).sum(axis=1)
        return np.column_stack([nominal, good.sum(axis=1) - nominal, bad])

    expected, states = three(truth.bad_proba, truth.good_proba), three(found.bad, found.good)
    difference = np.abs(states - expected)
    moved = truth.rate_proba - found.rates
    return np.array(
        [
            difference[:, 2].mean(),
            difference[:, 1].mean(),
            difference.max(),
            np.abs(moved @ problem.rates.bad),
            np.abs(moved @ problem.rates.label_error).mean(),
            np.mean(states.argmax(axis=1) != expected.argmax(axis=1)),
        ]
    )


NAMES = {
    "gaussian": "Gaussian cavity with the exact mean and variance",
    "spread": "cavity (19), variance with the spread of other states",
    "plain": "cavity (19), variance K_nn",
    "softened": "held out (37), softened by K_nn",
    "held_out": "held out (37), loss of MED (23)",
    "mean_field": "mean field (20), (42)",
    "linked": "one pass, fixed link (43)",
    "grouped": "two rows that share b, cavity (19) without both",
    "none": "margins ignored",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="draws of each problem")
    options = parser.parse_args()
    rows, gaps = {name: [] for name in NAMES}, []
    unconverged, residuals = 0, []
    for repeat in range(options.repeats):
        for number, (n, k) in enumerate(SIZES):
            problem, mu, kappa = make_problem(n, k, 100 * repeat + number)
            problem, solution = exact(problem, mu, kappa)
            truth = solution.posterior
            residuals.append(solution.kkt_residual)
            factorised, bound, converged = mean_field(problem, mu, kappa)
            gaps.append(bound - truth.dual_value)
            found = {
                "gaussian": gaussian_cavity(problem, mu, kappa, solution.multipliers),
                "mean_field": factorised,
                "linked": linked(problem, mu, kappa),
                "none": states_of(problem, class_field(problem, mu, kappa))[0],
            }
            reached = [converged]
            for name, spread in (("spread", True), ("plain", False)):
                found[name], converged = cavity(problem, mu, kappa, spread=spread)
                reached.append(converged)
            for name, softened in (("softened", True), ("held_out", False)):
                found[name], converged = held_out_form(problem, mu, kappa, softened=softened)
                reached.append(converged)
            for name, states in found.items():
                rows[name].append(distances(problem, truth, states))
            own_truth, states, converged = grouped(problem, mu, kappa)
            rows["grouped"].append(distances(problem, own_truth, states))
            unconverged += 6 - sum(reached) - converged
    n_problems = len(gaps)
    print(f"{n_problems} problems, largest KKT residual {max(residuals):.0e}, ", end="")
    print(f"fixed points not reached {unconverged} of {6 * n_problems}")
    print(
        "| approximation | P(bad) | P(wrong label) | largest | rate e | rates rho | other state |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, values in rows.items():
        mean = np.mean(values, axis=0)
        error = np.std(values, axis=0, ddof=1) / np.sqrt(n_problems)
        cells = [f"{m:.3f} ({e:.3f})" for m, e in zip(mean, error, strict=True)]
        print(f"| {NAMES[name]} | {' | '.join(cells)} |")
    print(f"bound of mean field above D*: {np.mean(gaps):.3f} nats ", end="")
    print(f"({np.std(gaps, ddof=1) / np.sqrt(n_problems):.3f}), smallest {min(gaps):.4f}")


if __name__ == "__main__":
    main()
