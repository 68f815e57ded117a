"""
Against cleanlab and LOF
========================

**Question.** There is cleanlab for wrong labels and LOF for odd rows. What is the difference?
"""

# %%
# Two tables have both kinds of faults: a tenth of the labels is wrong, and in 6 % of the rows half of the columns
# are noise. Each method ranks all rows. Average precision is 1 if all faulty rows come first. cleanlab is
# given the same forest that GEM-MED has as its base. It is an optional package (``pip install cleanlab``):
# without it its bars are missing, and the example says so.
import importlib.util

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.datasets import corrupt
from gemmed.report.palette import method_style

DRAWS = 3
TABLES = {"breast cancer": load_breast_cancer, "wine": load_wine}
WITH_CLEANLAB = importlib.util.find_spec("cleanlab") is not None
if not WITH_CLEANLAB:
    print("cleanlab is not installed: it is left out of the comparison")


def faulty(table, draw):
    """Scaled rows, labels, wrong labels and bad rows."""
    X, truth = table(return_X_y=True)
    X, rng = StandardScaler().fit_transform(X), np.random.default_rng(draw)
    y = corrupt(X, truth, "flips", 0.1, random_state=draw).y
    bad = np.zeros(len(y), dtype=bool)
    bad[rng.choice(np.flatnonzero(y == truth), round(0.06 * len(y)), replace=False)] = True
    half = X.shape[1] // 2
    X[bad, :half] = 2.0 * rng.normal(size=(bad.sum(), half))
    return X, y, y != truth, bad


def rankings(X, y):
    """For each method a score for wrong labels and one for bad rows, high = suspicious."""
    forest = RandomForestClassifier(100, random_state=0)
    found = {}
    for name, base in (("GEM-MED", None), ("GEM-MED with a forest", forest)):
        model = GEMMEDClassifier(base=base, random_state=0).fit(X, y)
        found[name] = (model.state_proba_[:, 1], model.state_proba_[:, 2])
    if WITH_CLEANLAB:
        from cleanlab.rank import get_label_quality_scores

        proba = cross_val_predict(forest, X, y, method="predict_proba", cv=5)
        quality = 1.0 - get_label_quality_scores(y, proba)
        found["cleanlab"] = (quality, quality)
    odd = -LocalOutlierFactor().fit(X).negative_outlier_factor_
    found["LOF"] = (odd, odd)
    isolated = -IsolationForest(random_state=0).fit(X).score_samples(X)
    found["isolation forest"] = (isolated, isolated)
    return found


results = {}
for name, table in TABLES.items():
    for draw in range(DRAWS):
        X, y, wrong, bad = faulty(table, draw)
        for method, (labels, rows) in rankings(X, y).items():
            found = (average_precision_score(wrong, labels), average_precision_score(bad, rows))
            results.setdefault((name, method), []).append(found)
for (name, method), values in results.items():
    labels, rows = np.mean(values, axis=0)
    print(f"{name:14s} {method:22s} wrong labels {labels:.2f}   bad rows {rows:.2f}")

# %%
# The picture. cleanlab judges labels: it is as good as the forest behind it, and does not see bad rows whose label
# fits. LOF and the isolation forest judge rows and do not see labels. GEM-MED has a probability for each kind of
# fault. On wine it is no better than LOF at bad rows. These are two small tables and few draws; the benchmarks
# have more.
methods = list(dict.fromkeys(method for _, method in results))
figure, axes = plt.subplots(2, 1, figsize=(8.5, 6.6), sharex=True, layout="constrained")
for column, (ax, title) in enumerate(zip(axes, ("wrong labels", "bad rows"), strict=True)):
    for index, method in enumerate(methods):
        style = method_style(method)
        values = np.array([[v[column] for v in results[name, method]] for name in TABLES])
        ax.bar(
            np.arange(len(TABLES)) + (index - (len(methods) - 1) / 2) * 0.16,
            values.mean(axis=1),
            0.15,
            yerr=values.std(axis=1, ddof=1) / np.sqrt(DRAWS),
            capsize=3,
            color=style.colour,
            hatch=style.hatch,
            edgecolor="white",
            label=method,
        )
    ax.set(ylabel="average precision", ylim=(0, 1.05), title=title)
    ax.set_xticks(range(len(TABLES)), TABLES)
    ax.grid(axis="y", alpha=0.25)
figure.legend(
    *axes[0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=5,
    title=f"mean and standard error of {DRAWS} draws of the faults",
)
plt.show()
