"""
Many classes
============

**Question.** I have ten classes. Which labels are wrong, and what should they be?
"""

# %%
# 1,797 images of digits come with scikit-learn. 8 % of them get another label.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from gemmed import GEMMEDClassifier
from gemmed.datasets import corrupt
from gemmed.report.palette import ANOMALOUS, BLUE

images, truth = load_digits(return_X_y=True)
X = images / 16.0
y = corrupt(X, truth, "flips", 0.08, random_state=0).y
wrong = y != truth

forest = RandomForestClassifier(200, random_state=0)
model = GEMMEDClassifier(base=forest, random_state=0).fit(X, y)
table = model.explain()
flagged = np.array(table["verdict"] == "suspicious label")
suggested = np.array(table["suggested_label"])
print(f"{flagged[wrong].sum()} of {wrong.sum()} wrong labels found, {flagged[~wrong].sum()} false")
right = (suggested == truth)[flagged & wrong].mean()
print(f"of those found, {100 * right:.0f} % get their true label suggested")

# %%
# How often each class has a wrong label is learned, too: ``label_error_rates_`` has one rate per true class.
for digit, rate in zip(model.classes_, model.label_error_rates_, strict=True):
    print(f"{digit}: {100 * rate:.0f} % wrong", end="   ")

# %%
# The picture: the flagged images that the model is least sure about, each with its given and its suggested label. A
# vermillion frame is a false alarm: the given label was right.
doubtful = np.flatnonzero(flagged)[np.argsort(model.state_proba_[flagged, 1])][:24]
figure, axes = plt.subplots(3, 8, figsize=(9, 4.6), layout="constrained")
for ax, row in zip(axes.ravel(), doubtful, strict=True):
    colour = BLUE if wrong[row] else ANOMALOUS.colour
    ax.imshow(images[row].reshape(8, 8), cmap="Greys")
    mark = "" if wrong[row] else " (false)"
    ax.set_title(f"{y[row]}, suggested {suggested[row]}{mark}", fontsize=8, color=colour)
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set(color=colour, linewidth=1 if wrong[row] else 3)
figure.suptitle("given label: suggested label")
plt.show()
