"""
Dead sensors
============

**Question.** My rows are readings of several sensors, and some sensor is dead or stuck for a while. Can
a classifier leave out the broken sensor and still use the rest of the row, also for new rows?
"""

# %%
# Four sensors measure the same event, each with five noisy features. They fail in bursts: for about
# twenty rows a sensor returns a constant, or only noise.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gemmed import SensorGEMMEDClassifier
from gemmed.report.palette import FALSE_ALARM, HIT, LIGHT_GREY, MISSED

N_SENSORS, N_FEATURES = 4, 5


def recording(n_rows, seed):
    """Readings (n_rows, 20), labels, and which sensor is broken when."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, N_SENSORS, N_FEATURES)) + 1.1 * y[:, None, None]
    broken = np.zeros((n_rows, N_SENSORS), dtype=bool)
    for sensor in range(N_SENSORS):
        for start in rng.choice(n_rows - 30, size=4, replace=False):
            stop = start + int(rng.integers(10, 30))
            broken[start:stop, sensor] = True
            dead = rng.random() < 0.5
            shape = X[start:stop, sensor].shape
            X[start:stop, sensor] = -2.0 if dead else 4.0 * rng.normal(size=shape)
    return X.reshape(n_rows, -1), y, broken


X, y, broken = recording(500, seed=1)
X_new, y_new, broken_new = recording(500, seed=2)
print(f"{100 * broken.mean():.0f} % of the readings are of a broken sensor")

# %%
# ``views`` says which columns belong to which sensor, ``order`` that rows follow each other.
names = ("north", "east", "south", "west")
views = {name: slice(5 * k, 5 * k + 5) for k, name in enumerate(names)}
model = SensorGEMMEDClassifier(views, random_state=0).fit(X, y, order=np.arange(500))
svm = make_pipeline(StandardScaler(), SVC()).fit(X, y)
order = np.arange(500)
print(f"SVM                    {100 * svm.score(X_new, y_new):.1f} % right on new rows")
right = np.mean(model.predict(X_new, order=order) == y_new)
print(f"SensorGEMMEDClassifier {100 * right:.1f} % right on new rows")

# %%
# ``spans`` lists the faults of new rows as stretches of time.
for span in model.spans(X_new, order=order)[:6]:
    print(span)

# %%
# The picture: new rows from left to right, one line per sensor. Blue: broken and found. Vermillion: broken and
# not found. Yellow: false alarms. Misses lie at the edges of bursts or are gaps within one. These faults are
# large, and sensors fail independently. Small faults are found less often.
found = model.screen(X_new, order=order).broken
states = 2 * broken_new.astype(int) + found.astype(int)
figure, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
colours = ListedColormap([LIGHT_GREY, FALSE_ALARM, MISSED, HIT])
ax.imshow(states.T, cmap=colours, vmin=0, vmax=3, aspect="auto", interpolation="nearest")
ax.set_yticks(range(N_SENSORS), names)
ax.set_xlabel("row, in the order of time")
ax.set_title("Broken sensors in 500 new rows")
meanings = ("broken and found", "broken, not found", "false alarm", "healthy")
counts = [int((states == code).sum()) for code in (3, 2, 1, 0)]
patches = [
    Patch(facecolor=colour, edgecolor="#777777", label=f"{name} ({count})")
    for colour, name, count in zip(
        (HIT, MISSED, FALSE_ALARM, LIGHT_GREY), meanings, counts, strict=True
    )
]
figure.legend(handles=patches, loc="outside lower center", ncols=4)
plt.show()
