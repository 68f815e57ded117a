"""Labels of several annotators: majority, Dawid-Skene, and both with a classifier in one model.

python benchmarks/annotators/compare.py [--repetitions 10] [--adversaries 0.1]

Accuracies are uniform in 0.4 to 0.95; with --adversaries that share of the annotators (one at
least, and less than half) is right in 10 to 30 % only. Votes that end in a draw are decided by a
coin. Without --adversaries the table docs/figures/annotators-simulated.json is written.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from gemmed import AnnotatorGEMMEDClassifier
from gemmed.model.states.answers import Answers, infer_labels, majority

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import write_figures

N_TRAIN, N_TEST = 300, 1000


def samples(n, rng):
    """Two overlapping classes in five dimensions, of which two say something."""
    t = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 5))
    X[:, 0] += 1.5 * (2 * t - 1)
    X[:, 1] += 0.8 * (2 * t - 1)
    return X, t


def answered(t, n_annotators, n_answers, rng, adversaries=0.0):
    """Answers of random annotators to every sample, NaN elsewhere; accuracies of those who did."""
    accuracy = rng.uniform(0.4, 0.95, n_annotators)
    if adversaries:
        count = min(max(1, round(adversaries * n_annotators)), (n_annotators - 1) // 2)
        accuracy[:count] = rng.uniform(0.1, 0.3, count)
    y = np.full((len(t), n_annotators), np.nan)
    for i, label in enumerate(t):
        for a in rng.choice(n_annotators, n_answers, replace=False):
            y[i, a] = label if rng.random() < accuracy[a] else 1 - label
    asked = ~np.isnan(y).all(axis=0)
    return y[:, asked], accuracy[asked]


def quality(truth, score, limit=0.5):
    """Percent right and AUC."""
    return [100 * np.mean((score > limit) == truth), 100 * roc_auc_score(truth, score)]


def svm_on(labels, X, X_test, t_test):
    """What an SVM learns from these labels."""
    if len(np.unique(labels)) < 2:
        return [50.0, 50.0]
    model = SVC(C=1.0, gamma="scale").fit(X, labels)
    return quality(t_test, model.decision_function(X_test), 0.0)


def compare(n_annotators, n_answers, repetition, adversaries):
    rng = np.random.default_rng([n_annotators, n_answers, repetition])
    (X, t), (X_test, t_test) = samples(N_TRAIN, rng), samples(N_TEST, rng)
    y, accuracy = answered(t, n_annotators, n_answers, rng, adversaries)
    sample, annotator = np.nonzero(~np.isnan(y))
    labels = y[sample, annotator].astype(int)
    everybody = np.ones(len(X)), np.full(len(X), -1)
    answers = Answers(sample, annotator, labels, y.shape[1], 2, *everybody)
    votes = majority(answers)[:, 1]
    votes = votes + 1e-6 * rng.uniform(-1.0, 1.0, len(votes))
    skene = infer_labels(answers).labels[:, 1]
    model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y)
    low, high = model.annotator_interval_.T
    return [
        *quality(t, votes),
        *quality(t, skene),
        *quality(t, model.true_label_proba_[:, 1]),
        *svm_on((votes > 0.5).astype(int), X, X_test, t_test),
        *svm_on((skene > 0.5).astype(int), X, X_test, t_test),
        *quality(t_test, model.decision_function(X_test), 0.0),
        100 * np.mean((low <= accuracy) & (accuracy <= high)),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--adversaries", type=float, default=0.0)
    options = parser.parse_args()
    print("annotators, answers a sample; labels right and AUC: majority, Dawid-Skene, model;")
    print("test right and AUC: SVM on majority, SVM on Dawid-Skene, model; intervals that hold;")
    print("below: standard errors; then label accuracy of the model minus majority, Dawid-Skene,")
    print("test accuracy minus both, each with its standard error")
    lines = []
    for n_annotators in (3, 10, 40):
        for n_answers in (2, 5, 10):
            if n_answers > n_annotators:
                continue
            found = np.array(
                [
                    compare(n_annotators, n_answers, r, options.adversaries)
                    for r in range(options.repetitions)
                ]
            )
            root = np.sqrt(len(found))
            means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / root
            print(f"{n_annotators:3d} {n_answers:3d} {_row(means)}")
            print(f"      ± {_row(errors)}")
            shown = [f"{means[i]:.1f} ± {errors[i]:.1f}" for i in (0, 2, 4)]
            lines.append([n_annotators, n_answers, *shown, f"{means[-1]:.0f}"])
            paired = [found[:, 4] - found[:, 0], found[:, 4] - found[:, 2]]
            paired += [found[:, 10] - found[:, 6], found[:, 10] - found[:, 8]]
            texts = [f"{d.mean():+.1f} ± {d.std(ddof=1) / root:.1f}" for d in paired]
            print(f"        {', '.join(texts)}", flush=True)
    if not options.adversaries:
        write_figures(
            "annotators-simulated",
            "Percent of right labels with simulated annotators",
            ["annotators", "answers per row", "majority", "Dawid-Skene", "gemmed",
             "intervals that cover, %"],
            lines,
            "python benchmarks/annotators/compare.py",
        )  # fmt: skip


def _row(values):
    return " ".join(f"{value:6.1f}" for value in values)


if __name__ == "__main__":
    main()
