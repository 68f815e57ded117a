"""Products of thousands of rows with a few columns, in stacks of products that are small.

BLAS copies a matrix before it multiplies it by more than one column, which takes longer than the
product itself; up to a million multiplications it does not. A stack of such products is one call,
during which other threads run: calls of their own would have them wait for each other in Python.
"""

from __future__ import annotations

import numpy as np

SMALL_PRODUCT = 1_000_000
"""Multiplications up to which BLAS does not copy."""
LEAST_ROWS = 16


def times_columns(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """rows @ columns, for shapes (n, m) and (m,) or (m, k)."""
    if columns.ndim == 1 or not (step := _rows_of_small_product(*columns.shape)):
        return rows @ columns
    (n, m), k = rows.shape, columns.shape[1]
    whole = n - n % step
    found = np.empty((n, k), dtype=rows.dtype)
    stack = rows[:whole].reshape(whole // step, step, m)
    np.matmul(stack, columns, out=found[:whole].reshape(whole // step, step, k))
    np.matmul(rows[whole:], columns, out=found[whole:])
    return found


def transposed_times(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """numbers' @ rows, for shapes (n,) or (n, k) and (n, m); stacks are summed in double."""
    if numbers.ndim == 1:
        return numbers @ rows
    (n, m), k = rows.shape, numbers.shape[1]
    if not (step := _rows_of_small_product(m, k)):
        return numbers.T @ rows
    whole = n - n % step
    left = numbers[:whole].reshape(whole // step, step, k).transpose(0, 2, 1)
    stack = rows[:whole].reshape(whole // step, step, m)
    found: np.ndarray = np.matmul(left, stack).sum(axis=0, dtype=np.float64)
    return found + numbers[whole:].T @ rows[whole:]


def _rows_of_small_product(m: int, k: int) -> int:
    """How many rows of m numbers times k columns are small; 0 if hardly any."""
    step = SMALL_PRODUCT // (m * k)
    return step if step >= LEAST_ROWS else 0
