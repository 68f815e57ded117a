"""The picture of the landing page: python docs/pictures/landing.py"""

from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed.datasets import make_ring

matplotlib.use("agg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).with_name("landing.png")
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#777777"
SHOWN = 90


def draw_boundary(axes):
    """The two classes; the broken readings lie on a ring far outside. Which line is learned?"""
    data = make_ring(radius=75, corruption=0.4, random_state=0)
    trusting = MEDClassifier("linear").fit(data.X, data.y)
    robust = GEMMEDClassifier("linear", random_state=0).fit(data.X, data.y)
    for label, colour, marker in ((-1, BLUE, "o"), (1, ORANGE, "s")):
        axes.scatter(*data.X[data.y == label].T, s=16, c=colour, marker=marker, linewidths=0)
    grid = np.meshgrid(np.linspace(-16, 16, 200), np.linspace(-16, 16, 200))
    points = np.column_stack([grid[0].ravel(), grid[1].ravel()])
    for model, line, name in ((trusting, "--", "every row trusted"), (robust, "-", "gemmed")):
        values = model.decision_function(points).reshape(grid[0].shape)
        axes.contour(*grid, values, levels=[0.0], colors="black", linestyles=line, linewidths=1.4)
        score = model.score(data.X_test, data.y_test)
        axes.plot([], [], color="black", linestyle=line, label=f"{name}: {score:.0%} right")
    axes.set(xticks=[], yticks=[], xlim=(-16, 16), ylim=(-16, 20))
    axes.set_xlabel("the broken ones lie far outside of the picture")
    axes.set_title("200 readings, 80 of them broken", fontsize=11)
    axes.legend(loc="upper left", fontsize=8.5, ncols=2, frameon=False)


def draw_ranking(axes):
    """The table of the guide: rows by score, and what is really wrong with them."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.sample(frac=1, random_state=0)
    y = y[X.index].to_numpy(copy=True)
    wrong, broken = np.arange(16, 569, 14), np.arange(5, 569, 30)
    y[wrong] = 1 - y[wrong]
    X.iloc[broken, :10] = 0.0
    model = GEMMEDClassifier(random_state=0).fit(StandardScaler().fit_transform(X), y)
    score = model.anomaly_scores_
    order = np.argsort(-score)[:SHOWN]
    kinds = (
        ("wrong label", np.isin(order, wrong), BLUE, "o"),
        ("dead sensors", np.isin(order, broken), ORANGE, "s"),
        ("good row", ~np.isin(order, [*wrong, *broken]), GREY, "x"),
    )
    place = np.arange(1, SHOWN + 1)
    for name, which, colour, marker in kinds:
        axes.scatter(
            place[which], score[order][which], s=20, c=colour, marker=marker, label=name, lw=1
        )
    axes.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel="rows, the most suspicious first", ylabel="probability of a fault")
    axes.set_title(f"569 rows: {len(wrong)} wrong labels, {len(broken)} dead sensors", fontsize=11)
    axes.legend(loc="upper right", fontsize=8.5)


def main():
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.9))
    draw_boundary(panels[0])
    draw_ranking(panels[1])
    figure.tight_layout(w_pad=2)
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
