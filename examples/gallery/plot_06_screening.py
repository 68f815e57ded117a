"""
Screening with a false-alarm rate
=================================

**Question.** The model is in use. Which new rows are unlike anything it was trained on, and can I say beforehand how
many good rows will be rejected?
"""

# %%
# ``screen`` compares a new row with the trusted training rows. Its threshold is calibrated: on average the share
# ``false_alarm_rate`` of the good rows is rejected. The training part has 10 % wrong labels and 5 % noisy rows.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from gemmed import GEMMEDClassifier
from gemmed.datasets import corrupt
from gemmed.report.palette import GREY, series_style

X, y = load_digits(return_X_y=True)
keep = np.isin(y, [1, 4, 7])
X, y = X[keep] / 16.0 - 0.5, y[keep]
LEVELS, DRAWS = np.array([0.01, 0.02, 0.05, 0.1, 0.2]), 12
other_digits = load_digits().data[load_digits().target == 2] / 16.0 - 0.5


def alarm_rates(draw):
    """Share of alarms at every level: good rows, dead lines of the image, a digit never seen."""
    X_train, X_new, y_train, _ = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=draw
    )
    y_train = corrupt(X_train, y_train, "flips", 0.1, random_state=draw).y
    rng = np.random.default_rng(draw)
    noisy = rng.choice(len(X_train), len(X_train) // 20, replace=False)
    X_train[noisy] += rng.normal(size=(len(noisy), 64))
    model = GEMMEDClassifier(random_state=0).fit(X_train, y_train)
    dead = X_new.copy()
    dead[:, 24:32] = -0.5  # the fourth line of pixels is dark
    return [
        [model.screen(rows, false_alarm_rate=level).mean() for level in LEVELS]
        for rows in (X_new, dead, other_digits)
    ]


rates = 100 * np.array([alarm_rates(draw) for draw in range(DRAWS)])
good, dead, unseen = rates.mean(axis=0)
for level, a, b, c in zip(100 * LEVELS, good, dead, unseen, strict=True):
    print(
        f"allowed {level:4.0f} %: good {a:5.1f} %, dead line {b:5.1f} %, another digit {c:5.1f} %"
    )

# %%
# ``predict_or_abstain`` returns ``abstain`` instead of a class for rows that are rejected:
model = GEMMEDClassifier(random_state=0).fit(X, y)
print(model.predict_or_abstain(other_digits[:8], false_alarm_rate=0.05, abstain=-1))

# %%
# The picture: rejected rows against the allowed rate. Good rows should lie on the dotted line. The rate holds on
# average over training sets; bars are standard deviations over these. A digit that was never trained on is nearly
# always rejected. One dark line of pixels is found less often: a row that passes may still be bad. The axes are
# logarithmic, so bars that would reach zero are cut.
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
ax.plot([0.8, 25], [0.8, 25], color=GREY, linestyle=":", label="as allowed")
names = ("good rows", "fourth line of pixels dark", "a digit never trained on")
for index, name in enumerate(names):
    style = series_style(index)
    ax.errorbar(
        100 * LEVELS * (0.97, 1.0, 1.03)[index],
        rates[:, index].mean(axis=0),
        np.minimum(rates[:, index].std(axis=0, ddof=1), 0.9 * rates[:, index].mean(axis=0)),
        color=style.colour,
        marker=style.marker,
        linestyle=style.line,
        capsize=3,
        label=name,
    )
ax.set(xscale="log", yscale="log", xlabel="false_alarm_rate (%)", ylabel="rejected (%)")
ax.set_xticks(100 * LEVELS, [f"{100 * level:g}" for level in LEVELS])
ax.set_yticks(shares := (1, 2, 5, 10, 20, 50, 100), [str(share) for share in shares])
ax.minorticks_off()
ax.set_title(f"Mean and standard deviation of {DRAWS} training sets")
ax.legend(loc="lower right")
plt.show()
