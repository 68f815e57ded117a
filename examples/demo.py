"""A table, a recording and a ring with known faults, and what gemmed finds in them (make demo).

The table comes with scikit-learn and gets wrong labels and dead readings. The recording is
simulated: four microphones beside a path, some of which fail for a while. The ring is the
simulation of the GEM-MED paper: 40 of 100 samples a class are replaced by anomalies
around both classes.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier, MEDClassifier, SensorDetector
from gemmed.acoustics.features import segment_summaries
from gemmed.acoustics.segments import segment_bounds
from gemmed.datasets import make_footsteps, make_ring
from gemmed.report import plot_boundaries, save_figure
from gemmed.report.palette import ANOMALOUS, BLUE, NOMINAL, PURPLE

SHOWN = "human_with_animal-01"
"""The recording in the picture."""
SENSOR_OF_THE_PICTURE = 0
SEGMENT = 2.0  # seconds; spans name the segments by their beginnings


class Table(NamedTuple):
    states: np.ndarray
    """Probabilities of nominal, wrong label, bad measurement."""
    wrong: np.ndarray
    broken: np.ndarray


class Walk(NamedTuple):
    signal: np.ndarray
    rate: int
    faults: list
    """(start, stop, kind) in seconds."""
    found: list
    """(start, stop) in seconds."""
    name: str


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo.png"), help="picture to write")
    parser.add_argument("--seed", type=int, default=0, help="of table and ring")
    options = parser.parse_args(argv)
    table = show_table(options.seed)
    walk = show_recording()
    data, models = show_ring(options.seed)
    print(f"\npicture: {save_figure(draw(table, walk, data, models), options.out)}")
    return 0


def show_table(seed):
    """Wrong labels and dead readings in a table: what is found, what is missed."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    wrong, broken = np.zeros(len(y), bool), np.zeros(len(y), bool)
    wrong[order[:57]], broken[order[57:87]] = True, True
    y[wrong] = 1 - y[wrong]
    X[broken, :15] = 0.0
    model = GEMMEDClassifier(random_state=seed).fit(StandardScaler().fit_transform(X), y)
    print(
        f"a table of {len(y)} rows, {wrong.sum()} wrong labels, {broken.sum()} with dead readings"
    )
    for name, state, truth in (("wrong labels", 1, wrong), ("bad measurements", 2, broken)):
        flagged = model.state_proba_[:, state] > 0.5
        false = (flagged & ~truth).sum()
        print(f"  {name:17s} {(flagged & truth).sum():3d} of {truth.sum()} found, {false} false")
    low, high = model.contamination_interval_
    share = 100 * model.contamination_
    print(f"  faulty rows, estimated: {share:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)")
    return Table(model.state_proba_, wrong, broken)


def show_recording():
    """Which of four microphones was broken when, in 16 walks without any label."""
    data = make_footsteps(8, 8, random_state=1)
    n_subjects, n_sensors, n_samples = data.signals.shape
    bounds = segment_bounds(n_samples)
    starts = np.asarray(bounds.starts) / data.rate
    rows = np.concatenate(
        [np.hstack([segment_summaries(s, data.rate, window=1.5) for s in w]) for w in data.signals]
    )
    groups = np.repeat(data.subjects, len(starts))
    seconds = np.tile(starts, n_subjects)
    names = [str(k + 1) for k in range(n_sensors)]
    width = rows.shape[1] // n_sensors
    views = {name: slice(width * k, width * (k + 1)) for k, name in enumerate(names)}
    detector = SensorDetector(views, random_state=0).fit(rows, order=seconds, groups=groups)
    spans = detector.spans(rows, order=seconds, groups=groups)
    print(f"\n{n_subjects} simulated recordings of {n_sensors} microphones, no labels")
    subject = list(data.subjects).index(SHOWN)
    for fault in data.faults[subject]:
        where = f"sensor {fault.sensor + 1} in {SHOWN}"
        print(f"  really: {where}, {fault.kind} from {fault.start:.1f} to {fault.stop:.1f} s")
    for span in (s for s in spans if s.group == SHOWN):
        where = f"sensor {span.sensor} in {span.group}"
        print(f"  found:  {where}, from {span.start:.1f} to {span.stop + SEGMENT:.1f} s")
    sensor = SENSOR_OF_THE_PICTURE
    of_picture = [f for f in data.faults[subject] if f.sensor == sensor]
    found = [s for s in spans if s.group == SHOWN and s.sensor == names[sensor]]
    return Walk(
        data.signals[subject, sensor],
        data.rate,
        [(f.start, f.stop, f.kind.replace("_", " ")) for f in of_picture],
        [(s.start, s.stop + SEGMENT) for s in found],
        f"{SHOWN}, sensor {names[sensor]}",
    )


def show_ring(seed):
    """The paper's simulation: test errors, anomalies found."""
    data = make_ring(100, radius=75, corruption=0.4, random_state=seed)
    clean = ~data.anomalous
    models = {
        "SVM": SVC(kernel="linear").fit(data.X, data.y),
        "MED": MEDClassifier("linear").fit(data.X, data.y),
        "GEM-MED": GEMMEDClassifier("linear", random_state=seed).fit(data.X, data.y),
        "oracle": MEDClassifier("linear").fit(data.X[clean], data.y[clean]),
    }
    print(f"\na ring: {len(data.y)} training samples, {data.anomalous.sum()} of them corrupted")
    for name, model in models.items():
        error = np.mean(model.predict(data.X_test) != data.y_test)
        text = "oracle (MED, clean samples only)" if name == "oracle" else name
        print(f"  test error {text:34s} {100 * error:5.1f} %")
    flagged = models["GEM-MED"].anomaly_scores_ > 0.5
    print(
        f"  anomalies found by GEM-MED: {(flagged & data.anomalous).sum()} of "
        f"{data.anomalous.sum()}, {(flagged & clean).sum()} false among {clean.sum()}"
    )
    return data, models


def draw(table, walk, data, models):
    """Four panels of one size: the table, the recording, the ring and its centre."""
    from gemmed.report.plots import import_pyplot

    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(2, 2, figsize=(11.5, 12.4), layout="constrained")
    (first, second), (whole, centre) = axes
    draw_table(first, table)
    draw_walk(second, walk)
    sample = (data.X, data.y, data.anomalous, models)
    plot_boundaries(*sample, ax=whole, legend=False)
    plot_boundaries(*sample, ax=centre, reach=16, legend=False)
    whole.set_title("A ring of anomalies: decision boundaries")
    centre.set_title("The centre of the ring")
    handles = whole.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, title="lower panels")
    for ax in (first, second):
        ax.set_box_aspect(1)  # as the panels below
    return figure


def draw_table(ax, table):
    """Every row: probability of a wrong label against that of a bad measurement."""
    shaken = table.states + np.random.default_rng(0).uniform(-0.012, 0.012, table.states.shape)
    for rows, colour, marker, name in (
        (~(table.wrong | table.broken), NOMINAL.colour, "o", "no fault"),
        (table.wrong, ANOMALOUS.colour, "s", "wrong label"),
        (table.broken, PURPLE, "^", "dead readings"),
    ):
        look = {"s": 24, "alpha": 0.65, "linewidths": 0.4, "edgecolors": "black"}
        ax.scatter(*shaken[rows][:, 1:].T, color=colour, marker=marker, label=name, **look)
    ax.axvline(0.5, color="#777777", linestyle="--", linewidth=1)
    ax.axhline(0.5, color="#777777", linestyle="--", linewidth=1)
    ax.set(xlabel="probability of a wrong label", ylabel="probability of a bad measurement")
    ax.set_title("A table: the 569 rows after one fit")
    ax.legend(loc="upper right")


def draw_walk(ax, walk):
    """The sound, what failed (shaded) and what was called broken (bars)."""
    time = np.arange(len(walk.signal)) / walk.rate
    reach = 1.5 * float(np.abs(walk.signal).max())
    ax.plot(time, walk.signal, color=NOMINAL.colour, linewidth=0.4)
    for number, (start, stop, kind) in enumerate(walk.faults):
        label = "really broken" if number == 0 else None
        ax.axvspan(start, stop, color=ANOMALOUS.colour, alpha=0.25, linewidth=0, label=label)
        ax.text(start + 0.1, 0.72 * reach, kind, fontsize=9)
    for number, (start, stop) in enumerate(walk.found):
        label = "called broken" if number == 0 else None
        ax.plot([start, stop], [-0.8 * reach] * 2, color=BLUE, linewidth=5, label=label)
    ax.set(xlim=(0, time[-1]), ylim=(-reach, reach), xlabel="seconds", ylabel="amplitude")
    ax.set_title(f"A recording: {walk.name}")
    ax.legend(loc="upper right")


if __name__ == "__main__":
    sys.exit(main())
