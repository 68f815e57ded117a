"""Systems solved by products alone, against a direct solution."""

import numpy as np
import pytest

from gemmed._core.conjugate_gradients import conjugate_gradients

N = 40


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(N, N))
    return half @ half.T / N + np.eye(N), rng.normal(size=(N, 2)), rng.normal(size=(N, 2))


def plain(matrix):
    return lambda p, which: matrix @ p


def itself(residual, which):
    return residual.copy()


def test_the_system_is_solved_from_any_start(problem):
    matrix, right, start = problem
    found = conjugate_gradients(
        plain(matrix), itself, start, right - matrix @ start, reduction=1e-12, max_steps=3 * N
    )
    assert found.solved
    np.testing.assert_allclose(found.answer, np.linalg.solve(matrix, right), atol=1e-10)
    np.testing.assert_allclose(found.residual, right - matrix @ found.answer, atol=1e-12)


def test_an_exact_preconditioner_takes_one_step(problem):
    matrix, right, start = problem
    found = conjugate_gradients(
        plain(matrix),
        lambda r, which: np.linalg.solve(matrix, r),
        start,
        right - matrix @ start,
        reduction=1e-9,
        max_steps=N,
    )
    assert (found.n_steps, found.solved) == (1, True)
    np.testing.assert_allclose(found.answer, np.linalg.solve(matrix, right), atol=1e-12)


def test_both_stopping_rules_are_obeyed(problem):
    matrix, right, _ = problem
    start = np.zeros((N, 2))
    short = conjugate_gradients(plain(matrix), itself, start, right, reduction=0.0, max_steps=2)
    assert (short.n_steps, short.solved) == (2, False)
    found = conjugate_gradients(
        plain(matrix), itself, start, right, reduction=1e-4, max_steps=3 * N
    )
    assert found.solved and np.all(found.reached <= 1e-4)
    solution = np.linalg.solve(matrix, right)
    wrong = found.answer - solution
    # The estimate is the norm of the residual; all eigenvalues of A are at least 1.
    assert np.all(np.diag(wrong.T @ matrix @ wrong) <= 1e-8 * np.sum(right * right, axis=0))


def test_nothing_is_done_for_a_solved_system(problem):
    matrix, _, start = problem
    found = conjugate_gradients(
        plain(matrix), itself, start, np.zeros((N, 2)), reduction=0.0, max_steps=5
    )
    assert (found.n_steps, found.solved) == (0, True)
    np.testing.assert_array_equal(found.answer, start)


def test_every_system_has_its_own_matrix_and_end(problem):
    matrix, right, _ = problem
    matrices = [matrix, 3.0 * matrix + np.eye(N)]
    products = []

    def system(p, which):
        products.append(list(which))
        return np.column_stack([matrices[j] @ own for j, own in zip(which, p.T, strict=True)])

    found = conjugate_gradients(
        system,
        itself,
        np.zeros((N, 2)),
        right,
        reduction=np.array([1e-12, 0.5]),
        max_steps=3 * N,
    )
    assert found.solved
    np.testing.assert_allclose(found.answer[:, 0], np.linalg.solve(matrix, right[:, 0]), atol=1e-10)
    wrong = found.answer[:, 1] - np.linalg.solve(matrices[1], right[:, 1])
    assert 1e-6 < wrong @ matrices[1] @ wrong < 0.5**2 * right[:, 1] @ right[:, 1]
    assert products[0] == [0, 1]
    assert products[-1] == [0]  # the other one was solved long before
    assert found.n_steps == len(products)
