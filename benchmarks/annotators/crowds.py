"""Annotators of real crowds whose true labels are known: intervals, labels, what checks bring.

python benchmarks/annotators/crowds.py NAME=ANSWERS.csv,TRUTH.csv [...] [--draws 5]

ANSWERS.csv has the columns question, worker, answer, TRUTH.csv question and truth. The fit sees
answers alone, and so many true labels of questions drawn at random. An interval is of the
probability of a right answer; it is compared with the share of right answers. Of annotators with
few answers the two differ, so those with 50 answers and more are counted apart. Labels are judged
on questions whose true label was not given. The tables are docs/figures/annotators-crowd*.json.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from gemmed import AnnotatorGEMMEDClassifier

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import write_figures

N_KNOWN = (0, 50, 200)
MANY_ANSWERS, UNCLEAR = 50, 0.2
COMMAND = "python benchmarks/annotators/crowds.py NAME=ANSWERS.csv,TRUTH.csv"


def read(paths):
    """Arguments of ``fit_answers`` after X, and the true label of every sample."""
    answers, truth = (pd.read_csv(path) for path in paths.split(","))
    truth = truth.set_index("question")["truth"]
    answers = answers[answers["question"].isin(truth.index)]
    names, sample = np.unique(answers["question"], return_inverse=True)
    given = sample, answers["worker"].to_numpy(), answers["answer"].to_numpy()
    return given, truth.loc[names].to_numpy()


def intervals(model, given, truth):
    """Which intervals contain the share of right answers, their widths, and numbers of answers."""
    sample, worker, answer = given
    right = pd.Series(answer == truth[sample]).groupby(worker).agg(["mean", "size"])
    right = right.loc[model.annotators_]
    low, high = model.annotator_interval_.T
    return (low <= right["mean"]) & (right["mean"] <= high), high - low, right["size"]


def judged(model, truth, is_known):
    """Measures of the labels that were not given."""
    proba = model.true_label_proba_.max(axis=1)[~is_known]
    wrong = (model.true_label_ != truth)[~is_known]
    unclear = 1.0 - proba > UNCLEAR
    return {
        "labels right": 1.0 - wrong.mean(),
        "mean probability": proba.mean(),
        "unclear": unclear.mean(),
        "wrong if unclear": wrong[unclear].mean() if unclear.any() else np.nan,
        "wrong if clear": wrong[~unclear].mean(),
    }


def one_fit(given, truth, n_known, draw):
    is_known = np.zeros(len(truth), dtype=bool)
    is_known[np.random.default_rng([draw, 3]).permutation(len(truth))[:n_known]] = True
    known = np.where(is_known, truth.astype(object), None)
    model = AnnotatorGEMMEDClassifier(random_state=draw)
    model.fit_answers(None, *given, known_labels=known)
    contains, width, size = intervals(model, given, truth)
    return {
        "contains": contains.mean(),
        "contains, many": contains[size >= MANY_ANSWERS].mean(),
        "annotators, many": np.sum(size >= MANY_ANSWERS),
        "annotators": len(size),
        "width": width.mean(),
        "limit": model.shared_error_limit_,
        **judged(model, truth, is_known),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("crowds", nargs="+", metavar="NAME=ANSWERS.csv,TRUTH.csv")
    parser.add_argument("--draws", type=int, default=5, help="of the questions that are checked")
    options = parser.parse_args()
    of_annotators, of_labels = [], []
    for crowd in options.crowds:
        name, _, paths = crowd.partition("=")
        given, truth = read(paths)
        for n_known in N_KNOWN:
            runs = [one_fit(given, truth, n_known, draw) for draw in range(options.draws)]
            mean = pd.DataFrame(runs).mean()
            print(name, n_known, mean.round(3).to_dict(), flush=True)
            percent = (100 * mean).map("{:.0f} %".format)
            of_annotators.append(
                [name, n_known, f"{mean['annotators']:.0f}", percent["contains"],
                 f"{mean['annotators, many']:.0f}", percent["contains, many"],
                 f"{mean['width']:.2f}", f"{mean['limit']:.2f}"]
            )  # fmt: skip
            of_labels.append(
                [name, n_known, f"{100 * mean['labels right']:.1f} %",
                 f"{mean['mean probability']:.2f}", percent["unclear"],
                 percent["wrong if unclear"], percent["wrong if clear"]]
            )  # fmt: skip
    first = ["crowd", "true labels given"]
    write_figures(
        "annotators-crowds",
        f"Two public crowds: intervals (means of {options.draws} draws)",
        [*first, "annotators", "intervals that contain the share",
         f"annotators with {MANY_ANSWERS} answers", "the same of them", "mean width",
         "shared errors at most"],
        of_annotators,
        COMMAND,
    )  # fmt: skip
    write_figures(
        "annotators-crowd-labels",
        "Two public crowds: labels that were not given",
        [*first, "labels right", "mean probability", "unclear", "wrong if unclear",
         "wrong if clear"],
        of_labels,
        COMMAND,
    )  # fmt: skip


if __name__ == "__main__":
    main()
