"""Claims of the paper that no figure shows, one table each. Separated ring, 100 samples a class.

svm      MED has the SVM as its limit: largest difference of both decision functions on the test set
kept     the samples with E[eta] > 1/2 are the minimal-entropy set: share of them that is in it
alarms   control of false alarms: percent of nominal samples with E[eta] < 1/2, of anomalies found
vectors  anomalies among support vectors: percent of the total weight |lam eta| that anomalies have
labels   ring labels drawn at random or half of each: test error, percent
oracle   MED with an oracle: the truth, or the parametric estimate of it; test error, anomalies left
power    percent of the power that 13 of 40 MFCCs and 50 principal components keep; 40 walkers

python benchmarks/paper/claims.py --seeds 50
"""

import argparse
import warnings

import numpy as np
from sklearn.decomposition import PCA
from sklearn.svm import LinearSVC

from gemmed import Solver
from gemmed.acoustics import segment_features
from gemmed.datasets import make_ring
from gemmed.datasets.footsteps.simulation import RATE, iter_footsteps
from gemmed.experiments.summary import markdown_table
from gemmed.experiments.summary import mean_text as mean
from gemmed.paper import (
    GEMDetector,
    GEMMEDClassifier,
    MEDClassifier,
    OracleMEDClassifier,
    TwoStageClassifier,
)

RADIUS, RATES = 55, (0.2, 0.3, 0.4, 0.5)


def ring(seed, rate=0.2, **options):
    return make_ring(
        100, radius=RADIUS, corruption=rate, layout="separated", random_state=seed, **options
    )


def gem_med(data, seed, **options):
    return GEMMEDClassifier("linear", n_neighbors=5, random_state=seed, **options).fit(
        data.X, data.y
    )


def table(head, rows):
    print(markdown_table(head, [[str(cell) for cell in row] for row in rows]), flush=True)


def svm_limit(n_seeds):
    """The dual of MED with variance C / c tends to that of the SVM as c grows."""
    rows = []
    for rate in (10, 100, 1000, 10000):
        distances = []
        for seed in range(min(n_seeds, 5)):
            data = ring(seed)
            scale = np.sqrt(np.mean(data.X**2))
            X, X_test = data.X / scale, data.X_test / scale
            # Both treat the bias as the weight of a constant column.
            svm = LinearSVC(loss="hinge", C=1.0, tol=1e-8, max_iter=1_000_000).fit(X, data.y)
            variances = {"function_variance": 1 / rate, "bias_variance": 1 / rate}
            solver = Solver(tol=1e-8, max_iter=1000)
            med = MEDClassifier("linear", kernel_params=variances, C=rate, solver=solver)
            med.fit(X, data.y)
            f = svm.decision_function(X_test)
            distances.append(np.abs(med.decision_function(X_test) - f).max() / np.abs(f).max())
        rows.append([f"{rate:g}", mean(distances, 4)])
    table(["c", "largest difference / largest f"], rows)


def kept_set(n_seeds):
    rows = []
    for slack in (0.01, 0.05, 0.3):
        shares, sizes = [], []
        for seed in range(n_seeds):
            data = ring(seed)
            model = gem_med(data, seed, entropy_slack=slack)
            kept = model.nominal_proba_ > 0.5
            for label in (-1, 1):
                own = data.y == label
                nearest = np.argsort(model.knn_distances_[own])[: kept[own].sum()]
                shares.append(100.0 * kept[own][nearest].mean())
                sizes.append(100.0 * kept[own].mean())
        rows.append([slack, mean(sizes), mean(shares)])
    table(["entropy_slack", "kept, % of the class", "of these among the nearest, %"], rows)


def alarms(n_seeds):
    rows = []
    for coverage in (0.5, 0.7, 0.8, 0.9, 0.95):
        false, found, error = [], [], []
        for seed in range(n_seeds):
            data = ring(seed)
            model = gem_med(data, seed, coverage=coverage)
            called = model.nominal_proba_ < 0.5
            false.append(100.0 * called[~data.anomalous].mean())
            found.append(100.0 * called[data.anomalous].mean())
            error.append(100.0 * (1.0 - model.score(data.X_test, data.y_test)))
        rows.append([coverage, mean(false), mean(found), mean(error, 2)])
    table(["coverage", "false alarms, %", "anomalies found, %", "test error, %"], rows)


def weight_of_anomalies(n_seeds):
    rows = []
    for rate in RATES:
        shares = {"MED": [], "GEM+MED": [], "GEM-MED": []}
        for seed in range(n_seeds):
            data = ring(seed, rate)
            detector = GEMDetector(n_neighbors=5, random_state=seed)
            staged = TwoStageClassifier(detector, MEDClassifier("linear")).fit(data.X, data.y)
            weights = {
                "MED": MEDClassifier("linear").fit(data.X, data.y).dual_coef_,
                "GEM+MED": np.zeros(len(data.y)),
                "GEM-MED": gem_med(data, seed).dual_coef_,
            }
            weights["GEM+MED"][~staged.screened_] = staged.classifier_.dual_coef_
            for name, weight in weights.items():
                share = np.abs(weight[data.anomalous]).sum() / np.abs(weight).sum()
                shares[name].append(100.0 * share)
        rows.append([rate, *(mean(share) for share in shares.values())])
    table(["r_a", *shares], rows)


def labels_of_the_ring(n_seeds):
    rows = []
    for rate in RATES:
        cells = []
        for kind in ("balanced", "random"):
            errors = {"MED": [], "GEM-MED": []}
            for seed in range(n_seeds):
                data = ring(seed, rate, ring_labels=kind)
                models = {"MED": MEDClassifier("linear").fit(data.X, data.y)}
                models["GEM-MED"] = gem_med(data, seed)
                for name, model in models.items():
                    errors[name].append(100.0 * (1.0 - model.score(data.X_test, data.y_test)))
            largest = max(errors["GEM-MED"])
            cells += [mean(errors["MED"], 2), mean(errors["GEM-MED"], 2), f"{largest:.1f}"]
        rows.append([rate, *cells])
    names = ("MED", "GEM-MED", "its largest")
    table(["r_a", *(f"{n}, {kind}" for kind in ("half each", "random") for n in names)], rows)


def oracles(n_seeds):
    rows = []
    for rate in RATES:
        errors, left = {"truth": [], "estimate": []}, []
        for seed in range(n_seeds):
            data = ring(seed, rate)
            for name, told in (("truth", data.anomalous), ("estimate", None)):
                model = OracleMEDClassifier().fit(data.X, data.y, anomalous=told)
                errors[name].append(100.0 * (1.0 - model.score(data.X_test, data.y_test)))
            left.append(100.0 * model.nominal_[data.anomalous].mean())
        rows.append([rate, *(mean(own, 2) for own in errors.values()), mean(left)])
    table(["r_a", "error, truth", "error, estimate", "anomalies left by the estimate, %"], rows)


def power_of_features(n_seeds):
    """The zeroth MFCC, the loudness, counts; powers are around the mean as well."""
    found = []
    for recording in iter_footsteps(20, 20, random_state=50):
        signals = recording.signals
        found.append(np.stack([segment_features(s, RATE, n_mfcc=40).mfcc for s in signals]))
    mfcc = np.concatenate(found, axis=1)  # sensors, segments, coefficients times frames
    mfcc = mfcc.reshape(*mfcc.shape[:2], 40, 150)
    rows = []
    for sensor, own in enumerate(mfcc):
        power = np.square(own).sum(axis=(0, 2))
        centred = np.square(own - own.mean(axis=0)).sum(axis=(0, 2))
        kept = own[:, :13].reshape(len(own), -1)
        components = PCA(50, random_state=0).fit(kept)
        shares = (power[:13].sum() / power.sum(), centred[:13].sum() / centred.sum())
        shares += (components.explained_variance_ratio_.sum(),)
        rows.append([sensor + 1, *(f"{100 * share:.1f}" for share in shares)])
    table(["sensor", "13 MFCCs", "around the mean", "50 components, around the mean"], rows)


CLAIMS = {
    "svm": svm_limit,
    "kept": kept_set,
    "alarms": alarms,
    "vectors": weight_of_anomalies,
    "labels": labels_of_the_ring,
    "oracle": oracles,
    "power": power_of_features,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="svm, kept, ...; all if none")
    parser.add_argument("--seeds", type=int, default=50)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # constraints that cannot be met; the tables show the effect
    for name in chosen.claims or CLAIMS:
        print(f"{name}, {chosen.seeds} seeds")
        CLAIMS[name](chosen.seeds)


if __name__ == "__main__":
    main()
