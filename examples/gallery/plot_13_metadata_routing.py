"""
Weights and groups through a pipeline
=====================================

**Question.** How do ``sample_weight`` and ``groups`` reach the classifier through a pipeline, a grid search and
cross-validation by groups? Do columns keep their names?
"""

# %%
# Sixty patients have ten samples each, and samples of a patient resemble each other. One label in ten is wrong, and
# older samples count half.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sklearn
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.report.palette import series_style

rng = np.random.default_rng(1)
patient = np.repeat(np.arange(60), 10)
own = rng.normal(size=(60, 6))
truth = (own[:, 0] + own[:, 1] > 0).astype(int)[patient]
X = own[patient] + 0.5 * rng.normal(size=(600, 6))
X = pd.DataFrame(X, columns=[f"marker {k}" for k in range(6)])
y = np.where(rng.random(600) < 0.1, 1 - truth, truth)
weight = np.where(np.arange(600) % 10 < 5, 0.5, 1.0)

# %%
# Routing is switched on once. Then the classifier and the scorer say which arguments they want. ``set_output`` keeps
# the names of the columns, so that the reasons of ``explain`` name them.
with sklearn.config_context(enable_metadata_routing=True):
    classifier = GEMMEDClassifier(random_state=0)
    classifier.set_fit_request(sample_weight=True, groups=True)
    accuracy = get_scorer("accuracy").set_score_request(sample_weight=True)
    pipeline = Pipeline([("scale", StandardScaler()), ("gemmed", classifier)])
    pipeline["scale"].set_fit_request(sample_weight=False)
    pipeline.set_output(transform="pandas")
    grid = {"gemmed__C": [1.5, 3.0, 6.0, 12.0]}
    searches = {
        name: GridSearchCV(pipeline, grid, scoring=accuracy, cv=folds)
        for name, folds in (
            ("patients together", GroupKFold(5)),
            ("rows at random", KFold(5, shuffle=True, random_state=0)),
        )
    }
    for search in searches.values():
        search.fit(X, y, sample_weight=weight, groups=patient)
best = searches["patients together"].best_estimator_
print(best["gemmed"].feature_names_in_)
table = best["gemmed"].explain()
print(table.loc[table["reasons"].str.len() > 0, "reasons"].head(3).to_string())

# %%
# The picture: accuracy in cross-validation against C, with one standard error of the five folds. With rows at random
# the same patients are in training and test, and the accuracy is higher than it is for a new patient. The gap between
# the lines is the error of forgetting the groups. Both are accuracies for given labels, a tenth of which is wrong.
figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
for index, (name, search) in enumerate(searches.items()):
    style, results = series_style(index), search.cv_results_
    ax.errorbar(
        np.array(grid["gemmed__C"]) * (0.97, 1.03)[index],
        100 * results["mean_test_score"],
        100 * results["std_test_score"] / np.sqrt(5),
        color=style.colour,
        marker=style.marker,
        linestyle=style.line,
        capsize=3,
        label=name,
    )
ax.set(xscale="log", xlabel="C", ylabel="accuracy in 5 folds (%)", title="One table of 60 patients")
ax.set_xticks(grid["gemmed__C"], [f"{C:g}" for C in grid["gemmed__C"]])
ax.minorticks_off()
figure.legend(loc="outside lower center", ncols=2)
plt.show()
