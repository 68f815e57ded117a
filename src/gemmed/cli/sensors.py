"""``gemmed fit`` and ``gemmed predict`` of recordings of several sensors: one sample a moment.

Recordings of one subject with the same start and end, by different sensors, are one sample with a
view a sensor. One that cannot be used is a missing sensor, and the sample stays.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.exceptions import ManifestError, TableError
from .._core.optional import require
from .progress import FitProgress
from .recordings import (
    END,
    LABEL,
    MOST_COMPONENTS,
    PATH,
    START,
    facts_of,
    files_of,
    problems_of,
    reader_of,
)
from .span_files import report_spans
from .terminal import busy, note, warnings_as_notes
from .training import Learned, Training, handling_of, report_notes, roles_of

if TYPE_CHECKING:
    import numpy as np

    from ..acoustics import ReadSegments
    from ..acoustics.several_sensors import Moments
    from ..rows.tables import Table

SUBJECT, SENSOR = "subject", "sensor"


def add_sensor_option(parser: Any) -> None:
    """``--sensors``: whether recordings of several sensors are one sample."""
    parser.add_argument(
        "--sensors",
        choices=["auto", "together", "apart"],
        default="auto",
        help="recordings of one subject at the same time by different sensors: one sample with a "
        "view a sensor, of which some may be broken, or each by itself (default: together, if the "
        "manifest has the columns subject and sensor)",
    )


def are_together(table: Table, choice: str) -> bool:
    """Whether the recordings of a manifest are samples of several sensors."""
    if choice == "apart":
        return False
    if choice == "together":
        table.require_columns([SUBJECT, SENSOR], "--sensors together")
        return True
    if SUBJECT not in table.columns or SENSOR not in table.columns:
        return False
    keys, sensors = _keys(table), table.text(SENSOR)[0]
    # Every recording by another sensor of its moment, and more than one in most of them.
    return len(set(zip(keys, sensors, strict=True))) == len(keys) >= 1.5 * len(set(keys))


class Moment(NamedTuple):
    """Samples of several sensors, one row a moment and segment."""

    mfcc: np.ndarray
    """NaN where a sensor is missing, shape (n_samples, n_sensors * n_features)."""
    moment: np.ndarray
    order: np.ndarray
    """Seconds."""
    subject: np.ndarray


def train_on_sensors(options: argparse.Namespace, table: Table) -> Training:
    """Read the recordings of a manifest and fit a model with a view a sensor."""
    require("soundfile", "recordings need", "audio")
    import numpy as np
    from sklearn.pipeline import Pipeline

    from ..acoustics.several_sensors import SensorComponents
    from ..estimators.column_plan import ColumnPlan

    options.target = options.target or LABEL
    classifier, roles = classifier_of_sensors(options), roles_of(options)
    roles.check(table)
    known = roles.what_is_known(table, handling_of(options))
    report_notes([*table.notes, *known.notes])
    moments = _moments(table)
    note(
        f"{len(table)} recordings of {len(moments.sensors)} sensors are {len(moments.recording)} "
        "samples: same subject and times (--sensors apart: each by itself)"
    )
    reader = reader_of(options)
    files, positions = files_of(table)
    with busy(f"reading {len(files)} recordings"):
        reader.fit(files)
        segments = reader.read(files)
    problems = problems_of(table, positions, segments)
    samples = _samples(table, moments, segments, reader.n_segments)
    place = {int(row): i for i, row in enumerate(known.rows)}
    labelled = _labelled_rows(moments, known.labels, place, table)
    used = np.flatnonzero(labelled[samples.moment] >= 0)
    chosen = labelled[samples.moment[used]]
    labels = known.labels[chosen]
    if len(np.unique(labels)) < 2:
        raise TableError(f"{table.name} has usable recordings of one class only: two are needed")
    components = SensorComponents(
        moments.sensors,
        n_components=options.sound_components or MOST_COMPONENTS,
        n_mfcc=options.mfcc,
    ).fit(samples.mfcc[used])
    features = components.transform(samples.mfcc)
    views, screening = components.views()
    classifier.set_params(views=views, screen_views=screening)
    given: dict[str, Any] = {"groups": samples.subject[used], "order": samples.order[used]}
    given |= {name: values[chosen] for name, values in known.options.items()}
    with warnings_as_notes(), FitProgress():
        classifier.fit(features[used], labels, **given)
    pipeline = Pipeline(
        [("recordings", reader), ("components", components), ("classifier", classifier)]
    )
    report_spans(classifier.spans(), options.spans)
    first = moments.first()
    rest = np.setdiff1d(np.arange(len(features)), used)
    return Training(
        table,
        first[samples.moment[used]],
        Learned(
            pipeline,
            ColumnPlan(components.get_feature_names_out().tolist(), [], {}),
            labels,
            int(np.sum(labelled < 0)),
            features[used],
            labels,
            recordings=len(files) - len(problems),
        ),
        {"recording": samples.subject[used], "time": samples.order[used]},
        problems,
        lambda: (first[samples.moment[rest]], features[rest]),
        roles.target,
    )


def sensors_of(classifier: Any) -> dict[str, Any]:
    """How often sensors fail, for the summary of a fit; nothing of other classifiers."""
    return {"sensors": classifier.fault_rates_} if hasattr(classifier, "fault_rates_") else {}


def sensor_lines(summary: dict[str, Any]) -> list[str]:
    """The same for people."""
    return [
        f"sensor {name:7s} broken {rates['share']:.1%} of the time, {rates['mean_burst']:.1f} "
        "samples at a time"
        for name, rates in summary.get("sensors", {}).items()
    ]


def is_sensor_model(model: Any) -> bool:
    """Whether a model of recordings takes several sensors a sample."""
    from ..acoustics.several_sensors import SensorComponents

    return isinstance(model[1], SensorComponents)


def predict_sensors(
    model: Any, table: Table | None, *, proba: bool, rate: float | None, spans: str | None
) -> Any:
    """New columns for a manifest, one entry a recording, and the recordings with a problem.

    ``spans`` is the file for the stretches of time in which a sensor is broken.

    The prediction is that of the moment; ``broken_proba`` is P(broken) of the recording's sensor.
    """
    import numpy as np

    if table is None:
        raise ManifestError(
            "the model takes several sensors: give a manifest with the columns path, subject and "
            "sensor instead of sound files"
        )
    if rate is not None:
        raise ValueError(
            f"--screen {rate:g} has no meaning for a model of several sensors: broken_proba says "
            "which are broken"
        )
    table.require_columns([PATH, SUBJECT, SENSOR], "a model of several sensors")
    require("soundfile", "recordings need", "audio")
    reader, components, classifier = model
    moments = _moments(table, components.sensors)
    files, positions = files_of(table)
    with busy(f"reading {len(files)} recordings"):
        segments = reader.read(files)
    problems_of(table, positions, segments)
    samples = _samples(table, moments, segments, reader.n_segments)
    features = components.transform(samples.mfcc)
    where = {"order": samples.order, "groups": samples.subject}
    n_moments = len(moments.recording)
    probabilities = _averaged(classifier.predict_proba(features, **where), samples, n_moments)
    screened = classifier.screen(features, **where)
    broken = _averaged(np.where(screened.missing, np.nan, screened.proba), samples, n_moments)
    report_spans(classifier.spans(features, **where), spans)
    n = len(table)
    own, sensor = moments.moment_and_sensor()
    rows = np.sort(moments.recording[moments.recording >= 0])
    chosen = np.full(n, None, dtype=object)
    chosen[rows] = np.asarray(classifier.classes_).astype(object)[
        np.argmax(probabilities[own], axis=1)
    ]
    added: dict[str, Any] = {"prediction": chosen}
    if proba:
        for i, name in enumerate(classifier.classes_):
            values = np.full(n, np.nan)
            values[rows] = probabilities[own, i]
            added[f"proba_{name}"] = values
    values = np.full(n, np.nan)
    values[rows] = broken[own, sensor]
    added["broken_proba"] = values
    added["flags"] = [segments.problems.get(i, "") for i in range(n)]
    damage = facts_of(table, positions[segments.recording], segments)["flags"]
    for i, text in zip(segments.recording, damage, strict=True):
        if text and text not in added["flags"][i]:
            added["flags"][i] = ", ".join(filter(None, [added["flags"][i], text]))
    return added, segments.problems


def _keys(table: Table) -> list[tuple[str, ...]]:
    """Recordings with the same key are of the same moment."""
    columns = [table.text(name)[0] for name in (SUBJECT, START, END) if name in table.columns]
    return [tuple(map(str, key)) for key in zip(*columns, strict=True)]


def _moments(table: Table, wanted: tuple[str, ...] | None = None) -> Moments:
    """Recordings that belong together; of ``wanted`` sensors only, in their order."""
    import numpy as np

    from ..acoustics.several_sensors import Moments, moments_of

    for name in (SUBJECT, SENSOR):
        empty = np.flatnonzero(~table.text(name)[1])
        if len(empty):
            raise ManifestError(
                f"{table.name} has no {name} in row {table.row_number(empty[0])}: fill it in, or "
                "use --sensors apart"
            )
    found = moments_of(_keys(table), [str(name) for name in table.text(SENSOR)[0]])
    if wanted is None:
        if len(found.sensors) < 2:
            raise ManifestError(
                f"{table.name} has recordings of sensor {found.sensors[0]!r} only: use --sensors "
                "apart"
            )
        return found
    strange = [name for name in found.sensors if name not in wanted]
    if strange:
        note(f"sensors that did not occur in training are left out: {', '.join(strange)}")
    columns = [
        found.recording[:, found.sensors.index(name)]
        if name in found.sensors
        else np.full(len(found.recording), -1)
        for name in wanted
    ]
    kept = np.column_stack(columns)
    kept = kept[(kept >= 0).any(axis=1)]
    if not len(kept):
        raise ManifestError(
            f"{table.name} has no recording of the sensors of the model ({', '.join(wanted)})"
        )
    return Moments(wanted, kept)


def _samples(table: Table, moments: Moments, segments: ReadSegments, n_segments: int) -> Moment:
    """MFCCs of all sensors side by side, NaN where a recording is missing or unusable."""
    import numpy as np

    width, n_sensors = segments.mfcc.shape[1], len(moments.sensors)
    of = {int(i): np.flatnonzero(segments.recording == i) for i in np.unique(segments.recording)}
    subjects = table.text(SUBJECT)[0]
    mfcc = np.full((len(moments.recording), n_segments, n_sensors, width), np.nan)
    # Of a moment without a usable recording nothing is known, but its place in the file.
    files = files_of(table)[0]
    begins = np.array([files[i][1] or 0.0 for i in moments.first()])
    seconds = begins[:, None] + np.arange(n_segments)
    for moment, row in enumerate(moments.recording):
        for sensor, recording in enumerate(row):
            own = of.get(int(recording))
            if own is not None:
                mfcc[moment, : len(own), sensor] = segments.mfcc[own]
                seconds[moment, : len(own)] = segments.starts[own]
    n_moments = len(mfcc)
    return Moment(
        mfcc.reshape(n_moments * n_segments, -1),
        np.repeat(np.arange(n_moments), n_segments),
        seconds.reshape(-1),
        np.repeat(subjects[moments.first()].astype(str), n_segments),
    )


def _labelled_rows(
    moments: Moments, labels: np.ndarray, place: dict[int, int], table: Table
) -> np.ndarray:
    """For each moment the position of one of its labels, -1 if it has none."""
    import numpy as np

    found = np.full(len(moments.recording), -1)
    for moment, row in enumerate(moments.recording):
        known = [int(i) for i in row if int(i) in place]
        if not known:
            continue
        different = [i for i in known if labels[place[i]] != labels[place[known[0]]]]
        if different:
            raise ManifestError(
                f"{table.name}: rows {table.row_number(known[0])} and "
                f"{table.row_number(different[0])} are of the same time and have different "
                "labels: correct one, or use --sensors apart"
            )
        found[moment] = place[known[0]]
    return found


def _averaged(values: np.ndarray, samples: Moment, n_moments: int) -> np.ndarray:
    """Means over the segments of each moment; NaN where there is no value."""
    import numpy as np

    sums = np.zeros((n_moments, values.shape[1]))
    counts = np.zeros_like(sums)
    np.add.at(sums, samples.moment, np.nan_to_num(values))
    np.add.at(counts, samples.moment, np.isfinite(values))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def classifier_of_sensors(options: argparse.Namespace) -> Any:
    if options.prior is not None:
        raise ValueError("--prior has no meaning with several sensors: leave it out")
    for name in ("known", "each", "plan", "strata", "pred_probs", "embeddings"):
        if getattr(options, name, None):
            option = name.replace("_", "-")
            raise ValueError(f"--{option} has no meaning with several sensors: leave it out")
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"seed={options.seed} must be between 0 and {2**32 - 1}")
    from ..sensors import SensorGEMMEDClassifier

    return SensorGEMMEDClassifier(
        kernel=options.kernel,
        gamma=options.gamma,
        degree=options.degree,
        C=options.C,
        max_iter=options.max_iter,
        random_state=options.seed,
    )
