"""The yardstick: Nystroem features and preconditioned conjugate gradients, squared loss, float32.

About the least work a kernel classifier of a large sample can do; it trusts every label.
"""

import numpy as np
from scipy import linalg


def rbf(X, Z, gamma):
    K = X @ (2 * gamma * Z.T)
    K -= gamma * np.einsum("ij,ij->i", X, X)[:, None]
    K -= gamma * np.einsum("ij,ij->i", Z, Z)
    return np.exp(K, out=K)


def fit(X, y, m, gamma, ridge=1.0, n_steps=20, seed=0, block=4096):
    """Landmarks and coefficients of f(x) = k(x, Z) b, from float32 rows and labels -1 and +1."""
    Z = X[np.random.default_rng(seed).choice(len(X), m, replace=False)]
    blocks = [rbf(X[i : i + block], Z, gamma) for i in range(0, len(X), block)]
    K_mm = rbf(Z, Z, gamma).astype(np.float64)
    # Preconditioner: the rows at the landmarks stand for all (Falkon).
    upper = linalg.cholesky(K_mm + 1e-6 * m * np.eye(m))
    lower = linalg.cholesky(len(X) / m * upper @ upper.T + ridge * np.eye(m))

    def back(v):
        return linalg.solve_triangular(upper, linalg.solve_triangular(lower, v))

    def system(v):
        b = back(v).astype(np.float32)
        total = sum(K.T @ (K @ b) for K in blocks) + ridge * (K_mm @ b)
        half = linalg.solve_triangular(upper, total, trans="T")
        return linalg.solve_triangular(lower, half, trans="T")

    starts = range(0, len(X), block)
    right = sum(K.T @ y[i : i + block] for K, i in zip(blocks, starts, strict=True))
    residual = linalg.solve_triangular(upper, right.astype(np.float64), trans="T")
    residual = linalg.solve_triangular(lower, residual, trans="T")
    v, direction = np.zeros(m), residual
    for _ in range(n_steps):
        image = system(direction)
        scale = residual @ residual / (direction @ image)
        v, after = v + scale * direction, residual - scale * image
        direction = after + after @ after / (residual @ residual) * direction
        residual = after
    return Z, back(v).astype(np.float32)
