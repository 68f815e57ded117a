"""
A table with wrong labels
=========================

**Question.** Some labels of my table are wrong, and some rows were measured badly. Which rows should
I look at first, and how many of the ones I am shown will be false alarms?
"""

# %%
# 569 tumours with 30 measurements come with scikit-learn. One label in ten is made wrong, and in
# 30 rows half of the measurements read zero. The model does not know which rows these are.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.report.palette import ANOMALOUS, NOMINAL, PURPLE

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(y))
wrong, broken = order[:57], order[57:87]
y.iloc[wrong] = 1 - y.iloc[wrong]
X.iloc[broken, :15] = 0.0

# %%
# Fit the model. ``explain`` returns a table with one row for each sample.
model = GEMMEDClassifier(random_state=0).fit(StandardScaler().fit_transform(X), y)
table = model.explain()
print(table["verdict"].value_counts().to_string())
worst = table.sort_values("nominal_proba").head(5)
print(worst[["label", "suggested_label", "verdict", "nominal_proba"]].round(3).to_string())

# %%
# How many of them are right? Here the truth is known.
truth = np.full(len(y), "nothing", dtype=object)
truth[wrong], truth[broken] = "wrong label", "dead readings"
flagged = {
    "suspicious label": np.array(table["verdict"] == "suspicious label"),
    "suspicious measurement": np.array(table["verdict"] == "suspicious measurement"),
}
for verdict, fault in (
    ("suspicious label", "wrong label"),
    ("suspicious measurement", "dead readings"),
):
    found = int((flagged[verdict] & (truth == fault)).sum())
    false = int((flagged[verdict] & (truth == "nothing")).sum())
    print(f"{verdict}: {found} of {(truth == fault).sum()} found, {false} false alarms")
low, high = model.label_error_interval_
print(
    f"share of wrong labels {model.label_error_share_:.3f}, 90 % interval {low:.3f} to {high:.3f}"
)

# %%
# The picture has one point for each row: to the right the probability that its label is wrong, upwards
# that its measurement is bad. Most rows without a fault are at the bottom left. Squares and triangles
# there were missed. Circles beyond a dashed line are false alarms.
figure, ax = plt.subplots(figsize=(7, 5.2), layout="constrained")
jitter = rng.uniform(-0.012, 0.012, size=(len(y), 2))
looks = {
    "nothing": (NOMINAL.colour, "o", "no fault"),
    "wrong label": (ANOMALOUS.colour, "s", "wrong label"),
    "dead readings": (PURPLE, "^", "dead readings"),
}
for fault, (colour, marker, name) in looks.items():
    rows = truth == fault
    ax.scatter(
        *(model.state_proba_[rows][:, [1, 2]] + jitter[rows]).T,
        s=28,
        color=colour,
        marker=marker,
        alpha=0.65,
        linewidths=0.4,
        edgecolors="black",
        label=f"{name} ({rows.sum()} rows)",
    )
ax.axvline(0.5, color="#777777", linestyle="--", linewidth=1)
ax.axhline(0.5, color="#777777", linestyle="--", linewidth=1)
ax.set(xlabel="probability of a wrong label", ylabel="probability of a bad measurement")
ax.set_title("One fit, one draw of the faults; points are shaken a little")
ax.legend(loc="upper right")
plt.show()
