"""Systems solved by products alone, against a direct solution."""

import numpy as np
import pytest

from gemmed._core.conjugate_gradients import conjugate_gradients

N = 40


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(N, N))
    return half @ half.T / N + np.eye(N), rng.normal(size=N), rng.normal(size=N)


def plain(matrix):
    return lambda p: (matrix @ p, p)


def test_the_system_is_solved_from_any_start(problem):
    matrix, right, start = problem
    found = conjugate_gradients(
        plain(matrix), np.copy, start, right - matrix @ start, reduction=1e-12, max_steps=3 * N
    )
    assert found.solved
    np.testing.assert_allclose(found.answer, np.linalg.solve(matrix, right), atol=1e-10)
    np.testing.assert_allclose(found.residual, right - matrix @ found.answer, atol=1e-12)


def test_an_exact_preconditioner_takes_one_step(problem):
    matrix, right, start = problem
    found = conjugate_gradients(
        plain(matrix),
        lambda r: np.linalg.solve(matrix, r),
        start,
        right - matrix @ start,
        reduction=1e-9,
        max_steps=N,
    )
    assert (found.n_steps, found.solved) == (1, True)
    np.testing.assert_allclose(found.answer, np.linalg.solve(matrix, right), atol=1e-12)


def test_the_answer_may_be_what_products_are_made_of(problem):
    """B x for the system (I + B) x = b, without a product of its own."""
    matrix, right, _ = problem
    inner = matrix - np.eye(N)

    def system(p):
        image = inner @ p
        return p + image, image

    found = conjugate_gradients(
        system, np.copy, np.zeros(N), right, reduction=1e-12, max_steps=3 * N
    )
    np.testing.assert_allclose(found.answer, inner @ np.linalg.solve(matrix, right), atol=1e-10)


def test_every_stopping_rule_is_obeyed(problem):
    matrix, right, _ = problem
    solution = np.linalg.solve(matrix, right)

    def solve(**rule):
        return conjugate_gradients(
            plain(matrix), np.copy, np.zeros(N), right, **{"max_steps": 3 * N, **rule}
        )

    short = solve(max_steps=2)
    assert (short.n_steps, short.solved) == (2, False)
    by_residual = solve(enough=lambda r: r @ r < 1e-6)
    assert by_residual.solved
    assert np.linalg.norm(right - matrix @ by_residual.answer) < 1e-3
    # All eigenvalues are at least 1: the error in the norm of A is below the residual's length.
    by_error = solve(error=1e-8)
    wrong = by_error.answer - solution
    assert by_error.solved
    assert wrong @ matrix @ wrong < 1e-8
    assert by_error.n_steps < solve(reduction=1e-12).n_steps


def test_nothing_is_done_for_a_solved_system(problem):
    matrix, _, start = problem
    found = conjugate_gradients(plain(matrix), np.copy, start, np.zeros(N), max_steps=5)
    assert (found.n_steps, found.solved) == (0, True)
    np.testing.assert_array_equal(found.answer, start)
