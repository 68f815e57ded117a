"""Train on data of which 40 % is corrupted, and look at what came out (make demo).

Two Gaussian classes in the plane; in each, 40 of 100 training samples were replaced by anomalies
on a ring around both classes. The test samples are clean.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed.datasets import make_ring
from gemmed.report import plot_anomaly_scores, plot_boundaries, save_figure


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo.png"), help="picture to write")
    parser.add_argument("--radius", type=float, default=75.0, help="radius of the ring")
    parser.add_argument("--corruption", type=float, default=0.4, help="share of anomalies")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    data = make_ring(
        100, radius=options.radius, corruption=options.corruption, random_state=options.seed
    )
    clean = ~data.anomalous
    oracle = MEDClassifier("linear").fit(data.X[clean], data.y[clean])
    models = {
        "SVM": SVC(kernel="linear").fit(data.X, data.y),
        "MED": MEDClassifier("linear").fit(data.X, data.y),
        "GEM-MED": GEMMEDClassifier("linear", random_state=options.seed).fit(data.X, data.y),
    }

    print(
        f"{len(data.y)} training samples, {data.anomalous.sum()} of them corrupted; "
        f"{len(data.y_test)} clean test samples\n"
    )
    print("test error")
    for name, model in {**models, "oracle (MED, clean samples only)": oracle}.items():
        error = np.mean(model.predict(data.X_test) != data.y_test)
        print(f"  {name:34s} {100 * error:5.1f} %")

    model = models["GEM-MED"]
    found = model.anomaly_scores_ > 0.5
    caught = (found & data.anomalous).sum()
    print(
        f"\nanomalies found by GEM-MED (score > 0.5): {caught} of {data.anomalous.sum()}, "
        f"{(found & clean).sum()} false alarms among {clean.sum()} nominal samples "
        f"(AUC {roc_auc_score(data.anomalous, model.anomaly_scores_):.3f})"
    )
    print("\nthe five most suspicious samples")
    print("  row   label      x1      x2   score   k-NN distance / class median")
    for row in np.argsort(-model.anomaly_scores_ - 1e-6 * model.knn_distances_)[:5]:
        x1, x2 = data.X[row]
        score, distance = model.anomaly_scores_[row], model.knn_distances_[row]
        print(
            f"  {row:3d}   {data.y[row]:+d}     {x1:7.1f} {x2:7.1f}   {score:.3f}   {distance:6.1f}"
        )

    figure = draw(data, {**models, "oracle": oracle})
    print(f"\npicture: {save_figure(figure, options.out)}")
    return 0


def draw(data, models):
    """The whole ring, its centre, and the anomaly scores."""
    from gemmed.report.plots import import_pyplot

    pyplot = import_pyplot()
    figure, (whole, centre, scores) = pyplot.subplots(1, 3, figsize=(15, 5.8), layout="constrained")
    sample = (data.X, data.y, data.anomalous, models)
    plot_boundaries(*sample, ax=whole, legend=False)
    figure.legend(*whole.get_legend_handles_labels(), loc="outside lower center", ncols=8)
    plot_boundaries(*sample, ax=centre, reach=16, legend=False)
    centre.set_title("The centre")
    plot_anomaly_scores(
        data.anomalous, {"GEM-MED: anomaly scores": models["GEM-MED"].anomaly_scores_}, axes=scores
    )
    return figure


if __name__ == "__main__":
    sys.exit(main())
