"""
Footsteps, from sound to verdict
================================

**Question.** I have recordings of four microphones in the field. Who walks there, which
microphone was broken, and when?
"""

# %%
# Twelve humans alone and twelve leading an animal walk past four simulated microphones, which fail at
# times: noise, dropouts, clipping, hum. The simulation keeps the truth about every fault.
import matplotlib.pyplot as plt
import numpy as np

from gemmed import SensorGEMMEDClassifier
from gemmed.acoustics import SegmentPCA, segment_features
from gemmed.acoustics.features import segment_summaries
from gemmed.datasets import make_footsteps
from gemmed.report.palette import ANOMALOUS, BLUE, NOMINAL

data = make_footsteps(12, 12, random_state=3)
n_subjects, n_sensors, n_samples = data.signals.shape
print(f"{n_subjects} recordings, {n_sensors} sensors, {n_samples / data.rate:.1f} s each")

# %%
# From sound to rows: each recording has 24 segments, and each segment is represented by its strongest
# 1.5 seconds. MFCCs of this window separate the walkers. Ten summaries of it (level, clipping, flatness
# ...) show faults.
mfcc, summaries = [], []
for signals in data.signals:
    features = [segment_features(s, data.rate, window=1.5) for s in signals]
    mfcc.append(np.stack([f.mfcc for f in features], axis=1))
    summaries.append(np.stack([segment_summaries(s, data.rate, window=1.5) for s in signals], 1))
    starts = features[0].starts
mfcc, summaries = np.concatenate(mfcc), np.concatenate(summaries)
n_segments = len(starts)
number = np.repeat(np.arange(n_subjects), n_segments)
subject, y = data.subjects[number], data.labels[number]
seconds = np.tile(starts, n_subjects)

# %%
# Train on eight walkers of each kind, keep four of each for the test. Principal components are fitted
# to the training part.
train = (number % 12) < 8
components = [
    SegmentPCA(20, n_blocks=1).fit(mfcc[train, k]).transform(mfcc[:, k]) for k in range(n_sensors)
]
X = np.hstack([*components, *(summaries[:, k] for k in range(n_sensors))])
n_summaries = summaries.shape[2]
names = [str(k + 1) for k in range(n_sensors)]
views = {name: slice(20 * k, 20 * k + 20) for k, name in enumerate(names)}
first = 20 * n_sensors
screen_views = {
    name: slice(first + n_summaries * k, first + n_summaries * (k + 1))
    for k, name in enumerate(names)
}
model = SensorGEMMEDClassifier(views, screen_views=screen_views, random_state=0)
model.fit(X[train], y[train], order=seconds[train], groups=subject[train])

# %%
# New recordings: who walks, and which sensor failed when.
new = {"order": seconds[~train], "groups": subject[~train]}
right = model.predict(X[~train], **new) == y[~train]
print(f"segments of new walkers: {100 * right.mean():.0f} % right")
for span in model.spans(X[~train], **new)[:6]:
    print(span)

# %%
# The picture is one recording of the test. Faults are shaded; the bars under the waves are the spans
# that the model found. Spans consist of segments (two seconds long, half a second apart), so that bars
# begin early. Short bars over healthy sound are false alarms.
failing = {k: sum(f.stop - f.start for f in data.faults[k]) for k in np.unique(number[~train])}
shown = max((k for k in failing if failing[k] < 25), key=lambda k: failing[k])
spans = [s for s in model.spans(X[~train], **new) if s.group == data.subjects[shown]]
time = np.arange(n_samples) / data.rate
figure, axes = plt.subplots(n_sensors, 1, figsize=(9, 6.6), sharex=True, layout="constrained")
for k, ax in enumerate(axes):
    signal = data.signals[shown, k]
    reach = 1.5 * np.abs(signal).max()
    ax.plot(time, signal, color=NOMINAL.colour, linewidth=0.4)
    for fault in (f for f in data.faults[shown] if f.sensor == k):
        ax.axvspan(fault.start, fault.stop, color=ANOMALOUS.colour, alpha=0.25, linewidth=0)
        ax.text(fault.start + 0.05, 0.7 * reach, fault.kind.replace("_", " "), fontsize=8)
    for span in (s for s in spans if s.sensor == names[k]):
        ax.plot([span.start, span.stop + 2.0], [-0.85 * reach] * 2, color=BLUE, linewidth=4)
    ax.set(ylim=(-reach, reach), xlim=(0, time[-1]))
    ax.set_ylabel(f"sensor {names[k]}")
axes[0].set_title(f"{data.subjects[shown]}: faults are shaded, bars are what was found")
axes[-1].set_xlabel("seconds")
plt.show()
