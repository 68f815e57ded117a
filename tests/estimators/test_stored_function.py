"""Predictions of many rows: in blocks, on threads, with the same digits."""

import threading

import numpy as np
import pytest

import gemmed.estimators.kernel_classifier
from gemmed.estimators.kernel_classifier import StoredFunction
from gemmed.model.kernels.kernel import Kernel

N, M = 1000, 40


def function_of(kernel, n_functions=None):
    rng = np.random.default_rng(0)
    shape = M if n_functions is None else (M, n_functions)
    return StoredFunction(
        kernel, rng.normal(size=shape), 0.5, np.arange(M), rng.normal(size=(M, 3))
    )


@pytest.mark.parametrize("kernel", [Kernel("rbf", gamma=0.3), Kernel("poly", gamma=0.1)])
@pytest.mark.parametrize("n_functions", [None, 3])
def test_blocks_and_threads_change_nothing(monkeypatch, kernel, n_functions):
    X = np.random.default_rng(1).normal(size=(N, 3))
    stored = function_of(kernel, n_functions)
    expected = kernel.between(X, stored.samples) @ stored.coefficients + 0.5
    np.testing.assert_allclose(stored.values(X), expected, atol=1e-12)
    monkeypatch.setattr(gemmed.estimators.kernel_classifier, "QUERY_VALUES", 70 * M)
    in_blocks = []
    for n_threads in (1, 3):
        monkeypatch.setattr(
            gemmed.estimators.kernel_classifier, "block_threads", lambda _, n=n_threads: n
        )
        in_blocks.append(stored.values(X))
    np.testing.assert_array_equal(*in_blocks)
    np.testing.assert_allclose(in_blocks[0], expected, atol=1e-12)


def test_a_function_of_the_user_runs_in_one_thread(monkeypatch):
    seen = set()

    def kernel(X, Y):
        seen.add(threading.get_ident())
        return X @ Y.T

    monkeypatch.setattr(gemmed.estimators.kernel_classifier, "QUERY_VALUES", 70 * M)
    monkeypatch.setattr(gemmed.estimators.kernel_classifier, "block_threads", lambda _: 3)
    function_of(Kernel(kernel)).values(np.zeros((N, 3)))
    assert seen == {threading.get_ident()}
