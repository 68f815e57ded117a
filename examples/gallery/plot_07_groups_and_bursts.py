"""
Groups and bursts
=================

**Question.** My rows are segments of recordings. If a whole recording has the wrong label, do its segments make
each other look right? And are faults that last for a while easier to find than single ones?
"""

# %%
# Forty recordings of ten segments; segments of a recording resemble each other. Five recordings have the wrong label.
import matplotlib.pyplot as plt
import numpy as np

from gemmed import GEMMEDClassifier, SensorDetector
from gemmed.report.palette import ANOMALOUS, NOMINAL, series_style

rng = np.random.default_rng(0)
N_RECORDINGS, N_SEGMENTS, N_FEATURES = 40, 10, 8
recording = np.repeat(np.arange(N_RECORDINGS), N_SEGMENTS)
kind = np.arange(N_RECORDINGS) % 2
own = rng.normal(size=(N_RECORDINGS, N_FEATURES))
own[:, :3] += 1.6 * (2 * kind[:, None] - 1)
X = own[recording] + 0.4 * rng.normal(size=(len(recording), N_FEATURES))
wrong_recordings = rng.choice(N_RECORDINGS, 5, replace=False)
y = np.where(np.isin(np.arange(N_RECORDINGS), wrong_recordings), 1 - kind, kind)[recording]
wrong = np.isin(recording, wrong_recordings)

# %%
# The same fit twice. The second one is given the groups: each recording is judged by the others.
alone = GEMMEDClassifier(random_state=0).fit(X, y)
together = GEMMEDClassifier(random_state=0).fit(X, y, groups=recording)
for name, model in (("without groups", alone), ("with groups", together)):
    flagged = model.state_proba_[:, 1] > 0.5
    print(f"{name}: {flagged[wrong].sum()} of {wrong.sum()} wrong, {flagged[~wrong].sum()} false")

# %%
# Bursts: a sensor whose noise trebles for thirty samples at a time. With ``order``, neighbours in time count as
# evidence for each other. Without it, every sample is judged alone.
readings = rng.normal(size=(400, 4))
noisy = np.zeros(400, dtype=bool)
for start in (60, 180, 320):
    noisy[start : start + 30] = True
readings[noisy] *= 3.0
burst = SensorDetector({"sensor": slice(0, 4)}, random_state=0).fit(readings, order=np.arange(400))
single = SensorDetector({"sensor": slice(0, 4)}, bursts=False, random_state=0)
single.fit(readings, order=np.arange(400))
proba = {
    "each sample alone": single.screen(readings, order=np.arange(400)).proba[:, 0],
    "with its neighbours": burst.screen(readings, order=np.arange(400)).proba[:, 0],
}
for name, p in proba.items():
    print(
        f"{name}: {(p > 0.5)[noisy].sum()} of {noisy.sum()} found, {(p > 0.5)[~noisy].sum()} false"
    )

# %%
# The picture. Above: the probability that the label is wrong, segment by segment. Without groups the segments of a
# wrong recording confirm each other's label. With groups most of them are flagged, and perhaps segments of recordings
# that are unusual but rightly labelled. Below: P(broken) over time, shaded where the sensor is noisy.
figure, axes = plt.subplots(3, 1, figsize=(9, 7.4), layout="constrained")
for ax, model, name in zip(axes, (alone, together), ("without", "with"), strict=False):
    for rows, style, label in (
        (~wrong, NOMINAL, "right label"),
        (wrong, ANOMALOUS, "wrong label"),
    ):
        ax.scatter(
            np.flatnonzero(rows) / N_SEGMENTS,
            model.state_proba_[rows, 1],
            s=16,
            color=style.colour,
            marker=style.marker,
            label=label,
        )
    ax.axhline(0.5, color="#777777", linestyle="--", linewidth=1)
    ax.set(ylim=(-0.05, 1.05), xlim=(-0.5, N_RECORDINGS + 0.5), ylabel="P(wrong label)")
    ax.set_title(f"{name} groups", loc="left")
axes[1].set_xlabel("recording")
axes[0].legend(loc="upper right", ncols=2)
for index, (name, p) in enumerate(proba.items()):
    style = series_style(index)
    axes[2].plot(
        p, color=style.colour, linestyle=("-", "-")[index], linewidth=(0.8, 2)[index], label=name
    )
for start in (60, 180, 320):
    axes[2].axvspan(start, start + 30, color=ANOMALOUS.colour, alpha=0.15, linewidth=0)
axes[2].set(xlabel="time", ylabel="P(broken)", ylim=(-0.05, 1.3), xlim=(0, 400))
axes[2].legend(loc="upper right", ncols=2)
axes[2].set_title("a sensor in bursts", loc="left")
plt.show()
