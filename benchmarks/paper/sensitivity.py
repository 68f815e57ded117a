"""How the constants that the paper does not print change the result of its model.

One constant is changed at a time; mean and standard error over runs.

ring       test error (percent) and AUC of the scores; separated layout, R = 55
footsteps  accuracy on all test segments and AUC of the scores of training segments (percent),
           all sensors; SVM beside; simulation seed 50, which served development

python benchmarks/paper/sensitivity.py ring --runs 10
python benchmarks/paper/sensitivity.py footsteps --runs 5
"""

import argparse
import warnings
from functools import lru_cache

import numpy as np
from sklearn.metrics import roc_auc_score

from gemmed.datasets import make_ring
from gemmed.experiments.footsteps import data as segments
from gemmed.experiments.footsteps import runs
from gemmed.experiments.summary import markdown_table, mean_text
from gemmed.paper import GEMMEDClassifier

CHANGED = {
    "coverage": (0.3, 0.5, 0.7),
    "entropy_slack": (0.05, 0.3, 1.0),
    "prior_nominal": (0.8, 0.95, 0.99),
    "C": (1.5, 3.0, 10.0),
}
RATES = (0.2, 0.5)
MIXES, FOOTSTEP_SEED = ("realistic", "strong"), 50
FOOTSTEP_CHANGED = {
    **CHANGED,
    "coverage": (0.3, 0.5, 0.7, 0.9),
    "entropy_slack": (0.05, 0.3, 1.0, np.inf),
}


def on_ring(options, rate, seed):
    data = make_ring(100, radius=55, corruption=rate, layout="separated", random_state=seed)
    model = GEMMEDClassifier("linear", n_neighbors=5, random_state=seed, **options)
    model.fit(data.X, data.y)
    error = 100.0 * (1.0 - model.score(data.X_test, data.y_test))
    return error, roc_auc_score(data.anomalous, model.anomaly_scores_)


@lru_cache(maxsize=1)
def footsteps(mix, split):
    """A split, its features, and C and gamma by cross-validation of the SVM."""
    seen = (FOOTSTEP_SEED, 84, 66)
    train, components = segments.reduced(*seen, 25, split, mix)
    data = segments.simulated_segments(*seen, mix)
    own = segments.split_of(data, train, components, segments.SENSORS[segments.ALL])
    X, X_test = own.concatenated()
    chosen = runs.choose(X, own.train.y, own.train.subjects, split)
    return own, X, X_test, chosen


def on_footsteps(options, mix, split):
    """Of the paper's model with these options; of the SVM if there are none."""
    own, X, X_test, chosen = footsteps(mix, split)
    if not options:
        model = runs.peer("SVM", chosen, split).fit(X, own.train.y)
        return 100.0 * model.score(X_test, own.test.y), np.nan
    model = runs.peer(runs.REFERENCE, chosen, split).set_params(**options)
    model.fit(X, own.train.y, groups=own.train.subjects)
    auc = 100.0 * roc_auc_score(own.train.faulty.any(axis=1), model.anomaly_scores_)
    return 100.0 * model.score(X_test, own.test.y), auc


def table(head, settings, cells, measure, n_runs, digits):
    """One line for each setting, two columns for each cell."""
    runs = {
        (setting, cell, run): measure(dict([setting] if setting[0] else []), cell, run)
        for cell in cells
        for run in range(n_runs)
        for setting in settings
    }
    lines = []
    for name, value in settings:
        line = [f"`{name}`", f"{value:g}"] if name else ["SVM", ""]
        for cell in cells:
            own = np.array([runs[(name, value), cell, run] for run in range(n_runs)])
            second = own[:, 1].mean()
            line += [mean_text(own[:, 0].tolist(), digits[0])]
            line += ["" if np.isnan(second) else f"{second:.{digits[1]}f}"]
        lines.append(line)
    print(markdown_table(["constant", "value", *head], lines))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", choices=("ring", "footsteps"))
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # some settings cannot be met; the table shows what they give
    if given.data == "ring":
        head = [text for r in RATES for text in (f"error, r_a = {r:g}", "AUC")]
        settings = [(name, value) for name, values in CHANGED.items() for value in values]
        table(head, settings, RATES, on_ring, given.runs, (2, 3))
    else:
        head = [text for mix in MIXES for text in (f"accuracy, {mix}", "AUC")]
        settings = [(n, value) for n, values in FOOTSTEP_CHANGED.items() for value in values]
        table(head, [("", None), *settings], MIXES, on_footsteps, given.runs, (1, 1))


if __name__ == "__main__":
    main()
