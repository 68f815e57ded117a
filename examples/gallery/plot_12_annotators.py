"""
Several annotators
==================

**Question.** Ten people labelled my samples, three of them each sample. How often is each of them right, and which
labels are true?
"""

# %%
# 300 samples of two overlapping classes have three answers each. The worst annotator guesses, the best is right in
# 95 % of the answers.
import matplotlib.pyplot as plt
import numpy as np

from gemmed import AnnotatorGEMMEDClassifier
from gemmed.report.palette import BLACK, series_style

rng = np.random.default_rng(2)
N_SAMPLES, N_ANNOTATORS, N_ANSWERS = 300, 10, 3
truth = rng.integers(0, 2, N_SAMPLES)
X = rng.normal(size=(N_SAMPLES, 5))
X[:, 0] += 1.5 * (2 * truth - 1)
accuracy = np.linspace(0.5, 0.95, N_ANNOTATORS)
answers = np.full((N_SAMPLES, N_ANNOTATORS), np.nan)
for sample in range(N_SAMPLES):
    for annotator in rng.choice(N_ANNOTATORS, N_ANSWERS, replace=False):
        right = rng.random() < accuracy[annotator]
        answers[sample, annotator] = truth[sample] if right else 1 - truth[sample]

# %%
# One fit learns the classifier, the labels and how often each annotator is right.
model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, answers)
votes = np.nanmean(answers, axis=1) > 0.5
shares = {
    "majority of the answers": np.mean(votes == truth),
    "labels of the model": np.mean(model.true_label_ == truth),
}
for name, share in shares.items():
    print(f"{name}: {100 * share:.1f} % right")
low, high = model.annotator_interval_.T
print(
    f"{np.sum((low <= accuracy) & (accuracy <= high))} of {N_ANNOTATORS} intervals hold the truth"
)

# %%
# The picture. Left: for each annotator the estimate with its 90 % interval, and the truth as a cross. About one
# interval in ten may miss the truth. Right: how many labels are right. The model does not know the true labels.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.2), width_ratios=(2.2, 1), layout="constrained"
)
places, style = np.arange(N_ANNOTATORS), series_style(0)
estimate = model.annotator_accuracy_
left.errorbar(
    places,
    100 * estimate,
    100 * np.array([estimate - low, high - estimate]),
    color=style.colour,
    marker=style.marker,
    linestyle="none",
    capsize=4,
    label="estimate, 90 % interval",
)
left.plot(places + 0.18, 100 * accuracy, "x", color=BLACK, markersize=8, label="truth")
left.set(xlabel="annotator", ylabel="right answers (%)", xticks=places)
left.set_title(f"{N_SAMPLES} samples, {N_ANSWERS} answers each, one run")
left.legend(loc="upper left")
for index, share in enumerate(shares.values()):
    look = series_style(index)
    error = 100 * np.sqrt(share * (1 - share) / N_SAMPLES)
    right.errorbar(
        index, 100 * share, error, color=look.colour, marker=look.marker, markersize=9, capsize=4
    )
right.set_xticks(range(2), ["majority", "model"])
right.set(xlim=(-0.5, 1.5), ylabel="labels that are right (%)", title="with one standard error")
right.grid(axis="y", alpha=0.25)
plt.show()
