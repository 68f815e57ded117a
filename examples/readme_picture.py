"""The picture of the README: the table of its example, every row by what one fit says of it.

python examples/readme_picture.py [--out docs/pictures/readme.png]
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.report.palette import ANOMALOUS, NOMINAL, PURPLE
from gemmed.report.plots import import_pyplot, save_figure


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/pictures/readme.png"))
    options = parser.parse_args(argv)
    X, y = load_breast_cancer(return_X_y=True)
    wrong = np.random.default_rng(0).choice(len(y), 60, replace=False)
    y[wrong] = 1 - y[wrong]
    X[:40, :10] = 0.0
    model = GEMMEDClassifier(random_state=0).fit(StandardScaler().fit_transform(X), y)
    faults = np.zeros(len(y), dtype=int)
    faults[wrong], faults[:40] = 1, 2

    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(2, 1, figsize=(7.2, 3.6), sharex=True, layout="constrained")
    names = ("nothing wrong", "wrong label", "dead sensors")
    looks = ((NOMINAL.colour, "o"), (ANOMALOUS.colour, "s"), (PURPLE, "^"))
    for ax, state, title in zip(
        axes, (1, 2), ("P(the label is wrong)", "P(the measurement is bad)"), strict=True
    ):
        for fault, (colour, marker) in enumerate(looks):
            rows = np.flatnonzero(faults == fault)
            ax.scatter(
                rows,
                model.state_proba_[rows, state],
                s=14,
                color=colour,
                marker=marker,
                linewidths=0.2,
                edgecolors="black",
                label=names[fault],
            )
        ax.axhline(0.5, color="#777777", linestyle="--", linewidth=1)
        ax.set(ylim=(-0.05, 1.05), xlim=(-6, len(y) + 5))
        ax.set_title(title, loc="left", fontsize=10)
    axes[1].set_xlabel("row of the table; colours are the truth, which the model did not know")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)
    print(save_figure(figure, options.out))


if __name__ == "__main__":
    main()
