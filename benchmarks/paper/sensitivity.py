"""How the constants that the paper does not print change the result of its model.

Test error (percent) and AUC of the scores on the ring, separated layout, R = 55, with one constant
changed at a time; mean and standard error over seeds.

python benchmarks/paper/sensitivity.py --seeds 10
"""

import argparse
import warnings

import numpy as np
from sklearn.metrics import roc_auc_score

from gemmed.datasets import make_ring
from gemmed.paper import GEMMEDClassifier

CHANGED = {
    "coverage": (0.3, 0.5, 0.7),
    "entropy_slack": (0.05, 0.3, 1.0),
    "prior_nominal": (0.8, 0.95, 0.99),
    "C": (1.5, 3.0, 10.0),
}
RATES = (0.2, 0.5)


def measure(options, rate, seed):
    data = make_ring(100, radius=55, corruption=rate, layout="separated", random_state=seed)
    model = GEMMEDClassifier("linear", n_neighbors=5, random_state=seed, **options)
    model.fit(data.X, data.y)
    error = 100.0 * (1.0 - model.score(data.X_test, data.y_test))
    return error, roc_auc_score(data.anomalous, model.anomaly_scores_)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    n_seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")  # some settings cannot be met; the table shows what they give
    heads = " | ".join(f"error, r_a = {rate:g} | AUC" for rate in RATES)
    print(f"| constant | value | {heads} |")
    print("|---" * (2 + 2 * len(RATES)) + "|")
    for name, values in CHANGED.items():
        for value in values:
            cells = []
            for rate in RATES:
                runs = np.array([measure({name: value}, rate, seed) for seed in range(n_seeds)])
                error = runs[:, 0].std(ddof=1) / np.sqrt(n_seeds)
                cells += [f"{runs[:, 0].mean():.2f} ± {error:.2f}", f"{runs[:, 1].mean():.3f}"]
            print(f"| `{name}` | {value:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
