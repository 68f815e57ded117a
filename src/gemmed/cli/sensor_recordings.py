"""Recordings of several sensors: those of one subject at the same time are one sample.

It has a view per sensor. A recording that cannot be used is a missing sensor, and the sample stays.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from .._core.exceptions import ManifestError, TableError
from ..acoustics import ReadSegments
from ..acoustics.manifest import END, LABEL, PATH, START, files_of
from ..acoustics.several_sensors import Moments, SensorComponents, moments_of
from ..estimators.column_plan import ColumnPlan
from ..rows.tables import Table
from .options import MAX_COMPONENTS
from .recordings import flags_of, means_of, positions_in, read_manifest, reader_of
from .sensor_tables import classifier_of_sensors, report_spans
from .terminal import fit_progress, note, warnings_as_notes
from .training import Training, known_of, proba_columns

SUBJECT, SENSOR = "subject", "sensor"


def are_several_sensors(table: Table, choice: str) -> bool:
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


class Samples(NamedTuple):
    """Samples of several sensors, one row a moment and segment."""

    mfcc: np.ndarray
    """NaN where a sensor is missing, shape (n_samples, n_sensors * n_features)."""
    moment: np.ndarray
    order: np.ndarray
    """Seconds."""
    subject: np.ndarray


def train_on_sensors(options: argparse.Namespace, table: Table) -> Training:
    """Read the recordings of a manifest and fit a model with a view per sensor."""
    options.target = options.target or LABEL
    classifier, known = classifier_of_sensors(options), known_of(options, table)
    moments = _moments(table)
    note(
        f"{len(table)} recordings of {len(moments.sensors)} sensors are {len(moments.recording)} "
        "samples: same subject and times (--sensors apart: each by itself)"
    )
    reader = reader_of(options)
    segments, problems = read_manifest(reader, table, is_fitted=False)
    samples = _samples(table, moments, segments, reader.n_segments)
    of_label = _labels_of(moments, known, table)
    used = np.flatnonzero(of_label[samples.moment] >= 0)
    chosen = of_label[samples.moment[used]]
    labels = known.labels[chosen]
    if len(np.unique(labels)) < 2:
        raise TableError(f"{table.name} has usable recordings of one class only: two are needed")
    components = SensorComponents(
        moments.sensors,
        n_components=options.sound_components or MAX_COMPONENTS,
        n_mfcc=options.mfcc,
    ).fit(samples.mfcc[used])
    features = components.transform(samples.mfcc)
    views, screening = components.views()
    classifier.set_params(views=views, screen_views=screening)
    given: dict[str, Any] = {"groups": samples.subject[used], "order": samples.order[used]}
    given |= {name: values[chosen] for name, values in known.options.items()}
    with warnings_as_notes(), fit_progress():
        classifier.fit(features[used], labels, **given)
    report_spans(classifier.spans(), options.spans)
    first = moments.first()
    rest = np.setdiff1d(np.arange(len(features)), used)
    return Training(
        Pipeline([("recordings", reader), ("components", components), ("classifier", classifier)]),
        ColumnPlan(components.get_feature_names_out().tolist(), [], {}),
        labels,
        int(np.sum(of_label < 0)),
        table,
        first[samples.moment[used]],
        options.target,
        features[used],
        lambda: (first[samples.moment[rest]], features[rest]),
        facts={"recording": samples.subject[used], "time": samples.order[used]},
        problems=problems,
        recordings=len(table) - len(problems),
    )


def is_sensor_model(model: Any) -> bool:
    """Whether a model of recordings takes several sensors a sample."""
    return isinstance(model[1], SensorComponents)


def predict_sensors(
    model: Any, table: Table | None, *, proba: bool, rate: float | None, spans: str | None
) -> tuple[dict[str, Any], bool]:
    """New columns for a manifest, one entry per recording, and whether some could not be used.

    The prediction is that of the moment; ``broken_proba`` is P(broken) of the recording's sensor.

    ``spans``: file for the stretches of time in which a sensor is broken.
    """
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
    reader, components, classifier = model
    moments, n = _moments(table, components.sensors), len(table)
    segments, problems = read_manifest(reader, table)
    samples = _samples(table, moments, segments, reader.n_segments)
    features = components.transform(samples.mfcc)
    where = {"order": samples.order, "groups": samples.subject}
    n_moments = len(moments.recording)
    probabilities = means_of(classifier.predict_proba(features, **where), samples.moment, n_moments)
    screened = classifier.screen(features, **where)
    broken_samples = np.where(screened.missing, np.nan, screened.proba)
    broken = means_of(broken_samples, samples.moment, n_moments)
    report_spans(classifier.spans(features, **where), spans)
    # Recordings of sensors that did not occur in training have no moment.
    moment, sensor = moments.moment_and_sensor()
    rows = np.sort(moments.recording[moments.recording >= 0])
    of_recordings = np.full((n, probabilities.shape[1] + 1), np.nan)
    of_recordings[rows] = np.column_stack([probabilities[moment], broken[moment, sensor]])
    prediction = np.full(n, None, dtype=object)
    classes = np.asarray(classifier.classes_).astype(object)
    prediction[rows] = classes[np.argmax(probabilities[moment], axis=1)]
    added: dict[str, Any] = {"prediction": prediction}
    if proba:
        added |= proba_columns(classifier, of_recordings[:, :-1])
    added |= {"broken_proba": of_recordings[:, -1], "flags": flags_of(segments, n)}
    return added, bool(problems)


def _keys(table: Table) -> list[tuple[str, ...]]:
    """Recordings with the same key are of the same moment."""
    columns = [table.text(name)[0] for name in (SUBJECT, START, END) if name in table.columns]
    return [tuple(map(str, key)) for key in zip(*columns, strict=True)]


def _moments(table: Table, wanted: tuple[str, ...] | None = None) -> Moments:
    """Recordings that belong together; of ``wanted`` sensors only, in their order."""
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
    absent = np.full(len(found.recording), -1)
    of = dict(zip(found.sensors, found.recording.T, strict=True))
    kept = np.column_stack([of.get(name, absent) for name in wanted])
    kept = kept[(kept >= 0).any(axis=1)]
    if not len(kept):
        raise ManifestError(
            f"{table.name} has no recording of the sensors of the model ({', '.join(wanted)})"
        )
    return Moments(wanted, kept)


def _samples(table: Table, moments: Moments, segments: ReadSegments, n_segments: int) -> Samples:
    """MFCCs of all sensors side by side, NaN where a recording is missing or unusable."""
    n_moments, n_sensors = moments.recording.shape
    first = moments.first()
    mfcc = np.full((n_moments, n_segments, n_sensors, segments.mfcc.shape[1]), np.nan)
    # Of a moment without a usable recording nothing is known, but its place in the file.
    files = files_of(table)
    seconds = np.array([files[i][1] or 0.0 for i in first])[:, None] + np.arange(n_segments)
    for moment, sensor in np.argwhere(moments.recording >= 0):
        own = np.flatnonzero(segments.recording == moments.recording[moment, sensor])
        mfcc[moment, : len(own), sensor] = segments.mfcc[own]
        seconds[moment, : len(own)] = segments.starts[own]
    return Samples(
        mfcc.reshape(n_moments * n_segments, -1),
        np.repeat(np.arange(n_moments), n_segments),
        seconds.reshape(-1),
        np.repeat(table.text(SUBJECT)[0][first].astype(str), n_segments),
    )


def _labels_of(moments: Moments, known: Any, table: Table) -> np.ndarray:
    """For each moment the position of one of its labels, -1 if it has none."""
    places = positions_in(known.rows, len(table))
    found = np.full(len(moments.recording), -1)
    for moment, row in enumerate(moments.recording):
        rows = [int(i) for i in row if i >= 0 and places[i] >= 0]
        for other in rows:
            if known.labels[places[other]] != known.labels[places[rows[0]]]:
                raise ManifestError(
                    f"{table.name}: rows {table.row_number(rows[0])} and "
                    f"{table.row_number(other)} are of the same time and have different "
                    "labels: correct one, or use --sensors apart"
                )
        if rows:
            found[moment] = places[rows[0]]
    return found
