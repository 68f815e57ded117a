"""Levels and power of test-time screening: clean data, contaminated training sets, batches, times.

python benchmarks/screening/calibration.py
python benchmarks/screening/calibration.py --only contaminated --runs 50
"""

import argparse
import time

import numpy as np

from gemmed import GEMMEDClassifier
from gemmed.datasets import make_ring
from gemmed.evidence.screening import conformal_p_values, screen, trust_points
from gemmed.model.kernels.landmarks import MIN_TRUST

RATES = (0.01, 0.05, 0.1)


def two_modes(rng, n):
    return rng.normal(size=(n, 2)) + 8.0 * (rng.random(n) < 0.3)[:, None]


DISTRIBUTIONS = {
    "normal, d = 2": lambda rng, n: rng.normal(size=(n, 2)),
    "normal, d = 20": lambda rng, n: rng.normal(size=(n, 20)),
    "normal, d = 50": lambda rng, n: rng.normal(size=(n, 50)),
    "two modes 70 : 30, d = 2": two_modes,
    "Student t 1.5, d = 2": lambda rng, n: rng.standard_t(1.5, size=(n, 2)),
    "Student t 1.5, d = 10": lambda rng, n: rng.standard_t(1.5, size=(n, 10)),
    "lognormal, d = 2": lambda rng, n: np.exp(1.5 * rng.normal(size=(n, 2))),
    "Poisson(1), d = 5": lambda rng, n: rng.poisson(1.0, (n, 5)).astype(float),
    "grid 6 x 6": lambda rng, n: rng.integers(0, 6, (n, 2)).astype(float),
}


def outskirts_distrusted(X, share):
    ranks = np.linalg.norm(X - np.median(X, axis=0), axis=1).argsort().argsort() / len(X)
    return np.where(ranks >= 1.0 - share, 0.01, 0.99)


TRUST = {
    "all": lambda X, rng: np.ones(len(X)),
    "95 %": lambda X, rng: outskirts_distrusted(X, 0.05),
    "65 %": lambda X, rng: outskirts_distrusted(X, 0.35),
    "coins": lambda X, rng: rng.random(len(X)),
}


def levels(p_values):
    return [screen(p_values, false_alarm_rate=rate).mean() for rate in RATES]


def percent(values):
    return "  ".join(f"{100 * v:5.1f}" for v in np.mean(values, axis=0))


def clean(runs, n=199, n_new=200):
    print(f"\nClean data: {n} training samples, false alarms in % at 1, 5, 10 %; {runs} runs")
    errors = [100 * np.sqrt(rate * (1 - rate) * (1 / (n + 2) + 1 / n_new) / runs) for rate in RATES]
    print("standard error of an exact level: " + ", ".join(f"{e:.2f}" for e in errors))
    print(f"{'':26s}{'trusted':9s}{'all calibrate':>21s}{'gap':>21s}   gap found")
    for name, draw in DISTRIBUTIONS.items():
        for kind, trust_of in TRUST.items():
            given, automatic, gaps = [], [], 0
            for seed in range(runs):
                rng = np.random.default_rng(seed)
                X, new = draw(rng, n), draw(rng, n_new)
                trust, z = trust_of(X, rng), np.zeros(n, dtype=int)
                everything = trust_points(X, z, trust, left_out=np.zeros(n, dtype=bool))
                given.append(levels(everything.p_values(new).p_values))
                reference = trust_points(X, z, trust)
                automatic.append(levels(reference.p_values(new).p_values))
                gaps += len(reference.class_statistics) < n
            print(
                f"{name:26s}{kind:9s}{percent(given):>21s}{percent(automatic):>21s}   "
                f"{100 * gaps / runs:5.1f} %"
            )


def by_weights(reference, weights, new):
    """Weighted conformal p-values with given weights of all training samples (pooled)."""
    statistics = reference.statistics(distances_to(reference, new)).min(axis=1)
    kept = weights > 0
    return conformal_p_values(reference.pooled_statistics[kept], statistics, weights[kept])


def distances_to(reference, new):
    return np.sqrt(((new[:, None] - reference.points) ** 2).sum(axis=2))


def schemes(X, z, trust, share):
    """Functions from new samples to pooled p-values: ways to calibrate with the same references."""
    everything = trust_points(X, z, trust, left_out=np.zeros(len(z), dtype=bool))
    by_class = np.argsort(z, kind="stable")  # the order of the calibration samples
    automatic = trust_points(X, z, trust)
    left_out = np.zeros(len(z), dtype=bool)
    for label in np.unique(z):
        members = np.flatnonzero(z == label)
        least = np.argsort(trust[members], kind="stable")[: round(share * len(members))]
        left_out[members[least]] = True
    known = trust_points(X, z, trust, left_out=left_out)
    ordered = trust[by_class]
    return {
        "auto (gap)": lambda new: automatic.p_values(new).p_values,
        "true share given": lambda new: known.p_values(new).p_values,
        "all samples": lambda new: everything.p_values(new).p_values,
        "only trusted": lambda new: by_weights(everything, 1.0 * (ordered >= MIN_TRUST), new),
        "trust as weights": lambda new: by_weights(everything, ordered, new),
        "auto, max of classes": lambda new: automatic.p_values(new).class_p_values.max(axis=1),
    }


def contaminated(runs, n_per_class=100):
    print(
        f"\nRing, {n_per_class} a class, trust of GEMMEDClassifier('rbf'); % of new samples called "
        f"anomalous at 1, 5, 10 %; {runs} runs"
    )
    for corruption, radius in [(0.0, 55), (0.05, 55), (0.2, 15), (0.2, 35), (0.2, 55)] + [
        (0.4, 15),
        (0.4, 35),
        (0.4, 55),
    ]:
        nominal, anomalous = {}, {}
        for seed in range(runs):
            data = make_ring(
                n_per_class,
                radius=radius,
                corruption=corruption,
                n_test_per_class=200,
                random_state=seed,
            )
            new = make_ring(100, radius=radius, corruption=1.0, random_state=10_000 + seed).X
            model = GEMMEDClassifier(random_state=0).fit(data.X, data.y)
            z = (data.y > 0).astype(int)
            for name, p_values in schemes(data.X, z, model.nominal_proba_, corruption).items():
                nominal.setdefault(name, []).append(levels(p_values(data.X_test)))
                anomalous.setdefault(name, []).append(levels(p_values(new)))
        print(f"corruption {corruption:g}, radius {radius}:{'nominal':>17s}{'anomalous':>21s}")
        for name in nominal:
            print(f"  {name:22s}{percent(nominal[name]):>21s}{percent(anomalous[name]):>21s}")


def batches(runs):
    print(f"\nBenjamini-Hochberg at 10 %, batches of 200 new samples, normal, d = 5; {runs} runs")
    print("training  anomalous  at    false discoveries  found")
    for n in (100, 400, 1600):
        for n_anomalous in (0, 10, 60):
            for distance in (4.0, 8.0) if n_anomalous else (0.0,):
                proportions, found = [], []
                for seed in range(runs):
                    rng = np.random.default_rng(seed)
                    z = np.zeros(n, dtype=int)
                    reference = trust_points(rng.normal(size=(n, 5)), z, np.ones(n))
                    new = rng.normal(size=(200, 5))
                    new[:n_anomalous, 0] += distance
                    alarms = screen(reference.p_values(new).p_values, fdr=0.1)
                    proportions.append(alarms[n_anomalous:].sum() / max(alarms.sum(), 1))
                    found.append(alarms[:n_anomalous].mean() if n_anomalous else np.nan)
                error = 100 * np.std(proportions) / np.sqrt(runs)
                print(
                    f"{n:8d}  {n_anomalous:9d}  {distance:2.0f}   "
                    f"{100 * np.mean(proportions):5.1f} % +- {error:3.1f}    "
                    f"{100 * np.mean(found):5.1f} %"
                )


def times(_):
    print("\nSeconds, 50 features, two classes: fit and 10 000 new samples")
    for n in (1000, 4000, 16000, 64000):
        rng = np.random.default_rng(0)
        X, new = rng.normal(size=(n, 50)), rng.normal(size=(10_000, 50))
        start = time.perf_counter()
        reference = trust_points(X, rng.integers(0, 2, n), rng.random(n), random_state=0)
        fitted = time.perf_counter()
        reference.p_values(new)
        print(
            f"n = {n:6d}: {fitted - start:7.2f} {time.perf_counter() - fitted:7.2f}   "
            f"{len(reference.reference_index)} references"
        )


PARTS = {"clean": clean, "contaminated": contaminated, "batches": batches, "times": times}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", choices=list(PARTS))
    options = parser.parse_args()
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options.runs)


if __name__ == "__main__":
    main()
