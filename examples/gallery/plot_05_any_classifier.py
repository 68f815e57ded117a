"""
Any classifier made robust
==========================

**Question.** I have a classifier: a random forest, nearest neighbours, a pipeline. Can wrong labels be kept from
misleading it?
"""

# %%
# ``base=`` takes any scikit-learn classifier with ``predict_proba``. Its held-out predictions help to find wrong
# labels, and it is fitted again to the most likely labels.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.datasets import corrupt
from gemmed.report.palette import method_style

X, y = load_breast_cancer(return_X_y=True)
RATES, DRAWS = (0.0, 0.1, 0.2, 0.3), 4
BASES = {
    "random forest": RandomForestClassifier(50, random_state=0),
    "nearest neighbours": KNeighborsClassifier(5),
    "logistic regression": LogisticRegression(max_iter=1000),
}


def errors(base, rate, draw):
    """Test error of the classifier alone and as a base, labels of the training part flipped."""
    parts = train_test_split(X, y, test_size=0.4, stratify=y, random_state=draw)
    scaler = StandardScaler().fit(parts[0])
    X_train, X_test, y_train, y_test = (*map(scaler.transform, parts[:2]), *parts[2:])
    noisy = corrupt(X_train, y_train, "flips", rate, random_state=draw).y if rate else y_train
    models = (base, GEMMEDClassifier(base=base, random_state=0))
    return [100 * np.mean(m.fit(X_train, noisy).predict(X_test) != y_test) for m in models]


found = {
    name: np.array([[errors(base, rate, draw) for draw in range(DRAWS)] for rate in RATES])
    for name, base in BASES.items()
}
for name, values in found.items():
    alone, robust = values[2].mean(axis=0)
    print(f"20 % wrong labels, {name}: {alone:.1f} % error alone, {robust:.1f} % as a base")

# %%
# A base may itself be a pipeline:
pipeline = make_pipeline(StandardScaler(), LogisticRegression())
model = GEMMEDClassifier(base=pipeline, random_state=0).fit(StandardScaler().fit_transform(X), y)
print(f"wrong labels in the table as it comes: {100 * model.label_error_share_:.1f} %")

# %%
# The picture: test errors on clean rows. The more labels are wrong, the larger the gain as a base. Without
# wrong labels the only gain is what the kernel classifier adds. Differences within the bars may be chance.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, found.items(), strict=True):
    for column, (label, method) in enumerate((("alone", "SVM"), ("as a base", "GEM-MED"))):
        style = method_style(method)
        ax.errorbar(
            np.array(RATES) * 100 + (-0.4, 0.4)[column],
            values[:, :, column].mean(axis=1),
            values[:, :, column].std(axis=1, ddof=1) / np.sqrt(DRAWS),
            color=style.colour,
            marker=style.marker,
            linestyle=("--", "-")[column],
            capsize=3,
            label=label,
        )
    ax.set(title=name, xlabel="wrong labels (%)")
    ax.grid(alpha=0.25)
axes[0].set_ylabel("test error (%)")
axes[0].legend(loc="upper left")
figure.suptitle(f"Mean and standard error of {DRAWS} splits")
plt.show()
