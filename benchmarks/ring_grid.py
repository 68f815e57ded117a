"""The grid of the paper's simulation: excess test error over the clean-trained MED, in points.

python benchmarks/ring_grid.py --seeds 20
"""

import argparse

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed.datasets import make_ring

RADII, RATES = (15, 35, 55, 75), (0.2, 0.3, 0.4, 0.5)


def one_run(radius, rate, seed):
    data = make_ring(100, radius=radius, corruption=rate, random_state=seed)
    clean = ~data.anomalous
    oracle = MEDClassifier("linear").fit(data.X[clean], data.y[clean])
    model = GEMMEDClassifier("linear", random_state=seed).fit(data.X, data.y)
    others = [MEDClassifier("linear").fit(data.X, data.y), SVC(kernel="linear").fit(data.X, data.y)]
    reference = oracle.score(data.X_test, data.y_test)
    excess = [100 * (reference - m.score(data.X_test, data.y_test)) for m in (model, *others)]
    return [*excess, roc_auc_score(data.anomalous, model.anomaly_scores_)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    n_seeds = parser.parse_args().seeds
    print("   R  r_a   GEM-MED            MED      SVM      AUC(GEM-MED)")
    cells = []
    for radius in RADII:
        for rate in RATES:
            runs = np.array([one_run(radius, rate, seed) for seed in range(n_seeds)])
            mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(n_seeds)
            cells.append(mean)
            print(
                f"  {radius:2d}  {rate:.1f}   {mean[0]:5.2f} +- {error[0]:4.2f}   {mean[1]:6.2f}   "
                f"{mean[2]:6.2f}     {mean[3]:.3f}",
                flush=True,
            )
    cells = np.array(cells)
    print(
        f"  mean      {cells[:, 0].mean():5.2f} (worst {cells[:, 0].max():.2f}) "
        f"{cells[:, 1].mean():6.2f}   {cells[:, 2].mean():6.2f}     {cells[:, 3].mean():.3f}"
    )


if __name__ == "__main__":
    main()
