"""Recordings: a manifest to a model of sounds, and such a model to predictions.

The model is a pipeline of MFCCs (with rate and window), principal components and the classifier.
New recordings are thus processed exactly as in training.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from .._core.exceptions import ManifestError, TableError
from .._core.optional import require
from ..acoustics import ReadSegments, RecordingMFCC, SegmentPCA
from ..acoustics.manifest import END, LABEL, PATH, START, files_of
from ..acoustics.sound_files import damage_of
from ..estimators.column_plan import ColumnPlan
from ..report.audited import Audited, audited_rows
from ..report.sounds import Recordings
from ..rows.tables import Table
from .options import MAX_COMPONENTS, refuse
from .terminal import busy, fit_progress, note, warnings_as_notes
from .training import Training, classifier_of, known_of, proba_columns

UNREADABLE = "unreadable"
"""Verdict of a recording that could not be used."""


def is_sound_model(model: Any) -> bool:
    """Whether a model was fitted on recordings."""
    return isinstance(model, Pipeline) and isinstance(model[0], RecordingMFCC)


def train_on_recordings(options: argparse.Namespace, table: Table) -> Training:
    """Read the recordings of a manifest and fit; what cannot be used is said on standard error."""
    refuse(options, ("pred_probs", "embeddings"), "has no meaning with recordings: leave it out")
    options.target = options.target or LABEL
    classifier, known = classifier_of(options), known_of(options, table)
    if known.n_unlabelled:
        note(f"{known.n_unlabelled} recordings without a label are not learned from")
    reader = reader_of(options)
    segments, problems = read_manifest(reader, table, is_fitted=False)
    rows = segments.recording
    of_label = positions_in(known.rows, len(table))[rows]
    used, rest = np.flatnonzero(of_label >= 0), np.flatnonzero(of_label < 0)
    order = of_label[used]
    labels = known.labels[order]
    if len(np.unique(labels)) < 2:
        raise TableError(
            f"{table.name} has usable recordings of one class only ({len(problems)} recordings "
            "cannot be used): two are needed"
        )
    pca = SegmentPCA(_n_components(options, len(used), segments.mfcc.shape[1]))
    features = pca.fit(segments.mfcc[used]).transform(segments.mfcc)
    note(
        f"recordings at {reader.rate_:g} Hz, windows of {reader.settings_['window']:g} s, "
        f"{pca.n_components} components with {100 * pca.variance_kept_[0]:.0f} % of the variance: "
        "the model keeps them"
    )
    given = {name: values[order] for name, values in known.options.items()}
    if reader.n_segments > 1 and "groups" not in given:
        given["groups"] = rows[used].astype(str)  # segments of a recording overlap
    with warnings_as_notes(), fit_progress():
        classifier.fit(features[used], labels, **given)
    facts: dict[str, Any] = {PATH: table.text(PATH)[0][rows]}
    if len(set(rows.tolist())) < len(rows):
        facts |= {START: segments.starts, END: segments.ends}
    facts["flags"] = np.array(damage_of(segments.flags), dtype=object)
    said = labels, known.n_unlabelled, table, rows[used], options.target
    return Training(
        Pipeline([("recordings", reader), ("components", pca), ("classifier", classifier)]),
        ColumnPlan(pca.get_feature_names_out().tolist(), [], {}),
        *said,
        features[used],
        lambda: (rows[rest], features[rest]),
        facts={name: values[used] for name, values in facts.items()},
        problems=problems,
        recordings=len(table) - len(problems),
    )


def positions_in(chosen: np.ndarray, n_rows: int) -> np.ndarray:
    """Place of each row of a table among chosen ones, -1 if it is none of them."""
    places = np.full(n_rows, -1)
    places[chosen] = np.arange(len(chosen))
    return places


def audited_recordings(
    training: Training, options: argparse.Namespace, identifiers: tuple[str, ...]
) -> tuple[Audited, Callable[[int], dict[str, Any]] | None]:
    """Recordings are read once more, measured and played, if a page is asked for."""
    import pandas as pd

    table, rows, labels = training.table, training.rows, training.labels
    frame, sound = pd.DataFrame(index=range(len(rows))), None
    if options.html is not None:
        own, number = np.unique(rows, return_inverse=True)
        files = files_of(table)
        recordings = Recordings([files[row] for row in own])
        frame = recordings.frame().iloc[number].reset_index(drop=True)

        def sound(row: int) -> dict[str, Any]:
            alike = np.zeros(len(own), dtype=bool)
            trusted = training.classifier.nominal_proba_ >= 0.5
            alike[number[trusted & (labels == labels[row])]] = True
            return recordings.sound(int(number[row]), alike)

    judged_by = (
        f"{training.pipeline[1].n_components} components of MFCCs; the columns shown describe the "
        "recordings and are not what they are judged by"
    )
    problems = [(str(p[PATH]), f"cannot be used: {p['problem']}") for p in training.problems]
    what = (table, rows, labels, training.features, training.classifier, training.target, frame)
    audited = audited_rows(*what, identifiers, facts=[("judged by", judged_by), *problems])
    facts = {name: values.astype(str) for name, values in training.facts.items()}
    return replace(audited, identifiers=audited.identifiers | facts), sound


def with_damaged(found: Any, ranked: Any, training: Training) -> Any:
    """Suspicious recordings, those with damage among the others, and the unreadable ones first."""
    import pandas as pd

    damaged = ranked[(ranked["flags"] != "") & ~ranked.index.isin(found.index)]
    damaged = damaged.sort_values("anomaly_score", ascending=False, kind="stable")
    labels = training.table.text(training.target)[0]
    same = {"anomaly_score": 1.0, "verdict": UNREADABLE, "conflicting_rows": []}
    unreadable = pd.DataFrame(
        {**one, "label": labels[one["row"] - 1], "flags": one["problem"], **same}
        for one in training.problems
    )
    parts = [part for part in (unreadable, found, damaged) if len(part)]
    if not parts:
        return found
    listed = pd.concat(parts, ignore_index=True).reindex(columns=found.columns)
    # Reasons are given for what is suspicious; the flags of the others say it all.
    listed["reasons"] = listed["reasons"].fillna("")
    listed["odd_columns"] = [
        names if isinstance(names, list) else [] for names in listed["odd_columns"]
    ]
    return listed


def reader_of(options: argparse.Namespace) -> RecordingMFCC:
    """The first step of the model, by the options, not fitted."""
    return RecordingMFCC(
        rate=options.rate,
        window=options.window,
        n_segments=options.segments,
        n_mfcc=options.mfcc,
        n_mels=options.mels,
        n_jobs=options.jobs,
    )


def read_manifest(
    reader: Any, table: Table, *, is_fitted: bool = True
) -> tuple[ReadSegments, list[dict[str, Any]]]:
    """Segments of the recordings of a manifest, and recordings that cannot be used."""
    cells = table.text(PATH)[0].tolist()
    names = [f"{cell} (row {row})" for row, cell in enumerate(cells, 1)]
    segments = _read(reader, files_of(table), names, f" of {table.name}", is_fitted=is_fitted)
    problems = [
        {"row": i + 1, PATH: str(cells[i]), "problem": problem}
        for i, problem in segments.problems.items()
    ]
    return segments, problems


def _read(
    reader: Any, files: Sequence[Any], names: Sequence[str], where: str, *, is_fitted: bool = True
) -> ReadSegments:
    require("soundfile", "recordings need", "audio")
    with fit_progress():
        if not is_fitted:
            reader.fit(files)
        segments: ReadSegments = reader.read(files)
    for i, problem in segments.problems.items():
        note(f"{names[i]} cannot be used: {problem}")
    if len(segments.problems) == len(files):
        raise ManifestError(f"none of the recordings{where} could be used")
    return segments


def _n_components(options: argparse.Namespace, n_rows: int, n_features: int) -> int:
    most = min(n_rows, n_features)
    if options.sound_components is None:
        return min(MAX_COMPONENTS, max(1, most - 1))
    if not 1 <= options.sound_components <= most:
        raise ValueError(
            f"--sound-components {options.sound_components} must be between 1 and {most}: there "
            f"are {n_rows} segments of {n_features} numbers"
        )
    return int(options.sound_components)


def predict_recordings(
    model: Any, names: list[str], table: Table | None, *, proba: bool, rate: float | None
) -> tuple[Any, dict[str, Any], bool]:
    """Predict recordings, which are processed as the fitted model expects them.

    ``names`` are sound files, if there is no manifest. The result is the recordings as a frame, its
    new columns, and whether some recordings could not be used.
    """
    import pandas as pd

    files: list[Any] = [(name, None, None) for name in names] if table is None else files_of(table)
    frame = pd.DataFrame({PATH: names}) if table is None else table.frame
    segments = _read(model[0], files, [file[0] for file in files], "")
    features, last, n = model[1:-1].transform(segments.mfcc), model[-1], len(files)
    of, read = segments.recording, np.ones(n, dtype=bool)
    read[list(segments.problems)] = False
    with warnings_as_notes(), busy(f"predicting {n} recordings"):
        probabilities = means_of(last.predict_proba(features), of, n)
        prediction = np.full(n, None, dtype=object)
        if np.all(np.bincount(of, minlength=n) <= 1):
            prediction[of] = last.predict(features)
        else:
            classes = np.asarray(last.classes_).astype(object)
            prediction[read] = classes[np.argmax(probabilities[read], axis=1)]
        added: dict[str, Any] = {"prediction": prediction}
        if proba:
            added |= proba_columns(last, probabilities)
        if rate is not None:
            lowest = np.full(n, np.nan)
            np.fmin.at(lowest, of, last.p_values(features))
            marked = np.full(n, None, dtype=object)
            marked[read] = False
            marked[of[last.screen(features, false_alarm_rate=rate)]] = True
            added |= {"p_value": lowest, "suspicious": marked}
    return frame, added | {"flags": flags_of(segments, n)}, bool(segments.problems)


def flags_of(segments: ReadSegments, n: int) -> list[str]:
    """Of each recording what is damaged, or why it cannot be used."""
    words = [set[str]() for _ in range(n)]
    for i, damage in zip(segments.recording, damage_of(segments.flags), strict=True):
        words[i] |= set(damage.split(", ")) - {""}
    return [segments.problems.get(i, ", ".join(sorted(found))) for i, found in enumerate(words)]


def means_of(values: np.ndarray, of: np.ndarray, n: int) -> np.ndarray:
    """Means of the rows of each of n recordings or moments; NaN where there is no value."""
    sums = np.zeros((n, values.shape[1]))
    counts = np.zeros_like(sums)
    np.add.at(sums, of, np.nan_to_num(values))
    np.add.at(counts, of, np.isfinite(values))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
