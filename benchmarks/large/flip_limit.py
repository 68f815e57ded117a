"""How accurate can a classifier be with a given RBF kernel if 20 % of the labels are flipped?

A Gaussian process classifier gets the true share of flips, and the amplitude that is best on the
test set. A method that has to estimate both cannot expect to be better. Also measured: SVC, and SVC
on the rows whose labels are right.

python benchmarks/large/flip_limit.py [--quick] [--sizes 2000]
"""

import sys

import numpy as np
from record import Record, parser
from samples import data, rbf_width
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

SHARE, SEEDS = 0.2, range(3)
AMPLITUDES = (0.3, 1.0, 3.0, 10.0, 30.0)
BIAS_PRECISION = 0.1


def most_likely(L, y, amplitude, share):
    """Whitened values and bias of the most likely function, labels being flipped at random."""
    scale = np.sqrt(amplitude)

    def objective(w):
        margins = y * (scale * (L @ w[:-1]) + w[-1])
        right = share + (1.0 - 2.0 * share) * expit(margins)
        slope = -(1.0 - 2.0 * share) * expit(margins) * expit(-margins) / right * y
        value = -np.log(right).sum() + 0.5 * w[:-1] @ w[:-1] + 0.5 * BIAS_PRECISION * w[-1] ** 2
        bias = slope.sum() + BIAS_PRECISION * w[-1]
        return value, np.append(scale * (L.T @ slope) + w[:-1], bias)

    start = np.zeros(len(y) + 1)
    return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x


def accuracies(n, seed):
    """Of the process with and without knowledge of flips for every amplitude, and of SVC."""
    sample = data(n, flipped=SHARE, seed=seed)
    gamma = rbf_width(sample.X)
    X, X_test = sample.X.astype(float), sample.X_test.astype(float)
    L = np.linalg.cholesky(rbf_kernel(X, gamma=gamma) + 1e-6 * np.eye(n))
    cross = rbf_kernel(X_test, X, gamma=gamma)
    found = {}
    for share in (0.0, SHARE):
        for amplitude in AMPLITUDES:
            w = most_likely(L, sample.y, amplitude, share)
            f = cross @ np.linalg.solve(L.T, np.sqrt(amplitude) * w[:-1]) + w[-1]
            found[share, amplitude] = np.mean((f > 0) == (sample.y_test > 0))
    right = ~sample.corrupted
    for name, kept in (("SVC", slice(None)), ("SVC, clean rows only", right)):
        model = SVC(gamma=gamma).fit(sample.X[kept], sample.y[kept])
        found[name] = model.score(sample.X_test, sample.y_test)
    return found


def main():
    made = parser(__doc__)
    made.add_argument("--sizes", type=int, nargs="+", default=[2000])
    options = made.parse_args()
    record = Record("flip_limit", options, ("n", "method"))
    for n in [300] if options.quick else options.sizes:
        if record.find(n=n, method="SVC"):
            continue
        runs = [accuracies(n, seed) for seed in SEEDS]
        mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        for name, share in (("process", 0.0), ("process that knows of 20 % flips", SHARE)):
            best = max(mean[share, amplitude] for amplitude in AMPLITUDES)
            record.add(n=n, method=name, accuracy=best)
        for name in ("SVC", "SVC, clean rows only"):
            record.add(n=n, method=name, accuracy=mean[name])


if __name__ == "__main__":
    sys.exit(main())
