"""``gemmed fit`` and ``gemmed audit`` of recordings: a manifest in, a model of sounds out.

The model is a pipeline of MFCCs (with rate and window), principal components and the classifier, so
that new recordings are processed exactly as in training.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.exceptions import ManifestError, TableError
from .._core.optional import require
from .progress import FitProgress
from .terminal import note, warnings_as_notes
from .training import (
    Learned,
    Training,
    classifier_of,
    handling_of,
    report_notes,
    roles_of,
)

if TYPE_CHECKING:
    from ..acoustics import ReadSegments
    from ..rows.tables import Table

SOUND_SUFFIXES = (".wav", ".wave", ".flac", ".ogg", ".oga", ".opus", ".aif", ".aiff", ".mp3")
PATH, LABEL, START, END = "path", "label", "start", "end"
FEATURE_COLUMN = re.compile(r"(.+_)?(m\d{4}|p\d{2,})")
"""Columns of a table that ``gemmed features`` wrote: its rows are segments, not recordings."""
MOST_COMPONENTS = 50
SOME_FAILED = 3
"""Exit code if some recordings could not be used."""
UNREADABLE = "unreadable"
"""Verdict of a recording that could not be used."""


def add_recording_options(parser: Any) -> None:
    """Options for manifests; the settings are stored in the model."""
    group = parser.add_argument_group("recordings (if the table lists sound files)")
    group.add_argument(
        "--recordings",
        choices=["auto", "yes", "no"],
        default="auto",
        help="whether the table is a manifest with the columns path, label and perhaps start, end "
        "(default: auto, if path names sound files)",
    )
    group.add_argument("--rate", type=float, help="sample rate (default: the most common one)")
    group.add_argument(
        "--window",
        type=float,
        help="seconds of strongest response (default: what most recordings last, at most 1.5)",
    )
    group.add_argument(
        "--segments", type=int, default=1, help="overlapping segments a recording (default: 1)"
    )
    group.add_argument("--mfcc", type=int, default=13, help="coefficients (default: 13)")
    group.add_argument("--mels", type=int, default=40, help="mel filters (default: 40)")
    group.add_argument(
        "--sound-components",
        type=int,
        metavar="N",
        help=f"principal components of the MFCCs (default: {MOST_COMPONENTS}, fewer for few files)",
    )
    group.add_argument("--jobs", type=int, default=1, help="processes that read files (default: 1)")


def is_sound(path: str) -> bool:
    """Whether a name is that of a sound file."""
    return path.lower().endswith(SOUND_SUFFIXES)


def lists_recordings(table: Table, choice: str) -> bool:
    """Whether a table is a manifest of recordings."""
    if choice == "no":
        return False
    if choice == "yes":
        table.require_columns([PATH], "recordings")
        return True
    if PATH not in table.columns or any(FEATURE_COLUMN.fullmatch(c) for c in table.columns):
        return False
    cells, present = table.text(PATH)
    named = cells[present]
    return len(named) > 0 and 2 * sum(map(is_sound, named)) > len(named)


def train_on_recordings(options: argparse.Namespace, table: Table) -> Training:
    """Read the recordings of a manifest and fit; what cannot be used is said on standard error."""
    require("soundfile", "recordings need", "audio")
    from sklearn.pipeline import Pipeline

    from ..acoustics import SegmentPCA
    from ..estimators.column_plan import ColumnPlan

    options.target = options.target or LABEL
    classifier, roles = classifier_of(options), roles_of(options)
    roles.check(table)
    known = roles.what_is_known(table, handling_of(options))
    report_notes([*table.notes, *known.notes])
    if known.n_unlabelled:
        note(f"{known.n_unlabelled} recordings without a label are not learned from")
    files, positions = files_of(table)
    reader = reader_of(options)
    with FitProgress():
        reader.fit(files)
        segments = reader.read(files)
    problems = problems_of(table, positions, segments)
    rows = positions[segments.recording]
    place = {int(row): i for i, row in enumerate(known.rows)}
    used = [i for i, row in enumerate(rows) if int(row) in place]
    order = [place[int(rows[i])] for i in used]
    _check_left(known, order, table, problems)
    pca = SegmentPCA(_n_components(options, len(used), segments.mfcc.shape[1]))
    features = pca.fit(segments.mfcc[used]).transform(segments.mfcc)
    note(
        f"recordings at {reader.rate_:g} Hz, windows of {reader.settings_['window']:g} s, "
        f"{pca.n_components} components with {pca.variance_kept_[0]:.0%} of the variance: the "
        "model keeps them"
    )
    given = {name: values[order] for name, values in known.options.items()}
    if reader.n_segments > 1 and "groups" not in given:
        given["groups"] = rows[used].astype(str)  # segments of a recording overlap
    with warnings_as_notes(), FitProgress():
        classifier.fit(features[used], known.labels[order], **given)
    pipeline = Pipeline([("recordings", reader), ("components", pca), ("classifier", classifier)])
    plan = ColumnPlan(pca.get_feature_names_out().tolist(), [], {})
    learned = Learned(
        pipeline,
        plan,
        known.labels[order],
        known.n_unlabelled,
        features[used],
        known.labels[order],
        recordings=len(files) - len(problems),
    )
    facts = {name: values[used] for name, values in facts_of(table, rows, segments).items()}
    rest = [i for i, row in enumerate(rows) if int(row) not in place]
    return Training(
        table,
        rows[used],
        learned,
        facts,
        problems,
        lambda: (rows[rest], features[rest]),
        roles.target,
    )


def facts_of(table: Table, rows: Any, segments: ReadSegments) -> dict[str, Any]:
    """What to say of each segment besides its score: the file, times, and what is damaged."""
    import numpy as np

    from ..acoustics.sound_files import damage_of

    facts: dict[str, Any] = {PATH: table.text(PATH)[0][rows]}
    if len(set(segments.recording.tolist())) < len(rows):
        facts |= {START: segments.starts, END: segments.ends}
    return {**facts, "flags": np.array(damage_of(segments.flags), dtype=object)}


def with_damaged(found: Any, ranked: Any, training: Training) -> Any:
    """Suspicious recordings, those with damage among the others, and the unreadable ones first."""
    import pandas as pd

    damaged = ranked[(ranked["flags"] != "") & ~ranked.index.isin(found.index)]
    damaged = damaged.sort_values("anomaly_score", ascending=False, kind="stable")
    table, target = training.table, training.target
    unreadable = pd.DataFrame(
        [
            {
                "row": problem["row"],
                PATH: problem[PATH],
                "label": table.text(target)[0][problem["row"] - 1],
                "anomaly_score": 1.0,
                "verdict": UNREADABLE,
                "flags": problem["problem"],
                "conflicting_rows": [],
            }
            for problem in training.problems
        ],
        columns=["row", PATH, "label", "anomaly_score", "verdict", "flags", "conflicting_rows"],
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


def files_of(table: Table) -> tuple[list[tuple[str, float | None, float | None]], Any]:
    """The recordings of a manifest, paths relative to its folder, and their positions."""
    import numpy as np

    cells, present = table.text(PATH)
    empty = np.flatnonzero(~present)
    if len(empty):
        raise ManifestError(
            f"{table.name} has no path in row {table.row_number(empty[0])}: fill it in"
        )
    folder = Path(".") if table.source is None else Path(table.source).parent
    times: dict[str, Any] = {
        name: table.only_numbers(name, "seconds in the file")
        for name in (START, END)
        if name in table.columns
    }
    files = []
    for i, cell in enumerate(cells):
        start, end = (
            None if name not in times or np.isnan(times[name][i]) else float(times[name][i])
            for name in (START, END)
        )
        if (start or 0.0) < 0 or (end is not None and end <= (start or 0.0)):
            raise ManifestError(
                f"{table.name}, row {table.row_number(i)}: start={start}, end={end} must be "
                "seconds with 0 <= start < end"
            )
        files.append((str(folder / cell), start, end))
    return files, np.arange(len(files))


def reader_of(options: argparse.Namespace) -> Any:
    """The first step of the model, by the options, not fitted."""
    from ..acoustics import RecordingMFCC

    if options.jobs < 1:
        raise ValueError(f"--jobs {options.jobs} must be at least 1")
    if options.rate is not None and not 1 <= options.rate <= 1e7:
        raise ValueError(f"--rate {options.rate:g} must be between 1 and 10,000,000")
    return RecordingMFCC(
        rate=options.rate,
        window=options.window,
        n_segments=options.segments,
        n_mfcc=options.mfcc,
        n_mels=options.mels,
        n_jobs=options.jobs,
    )


def problems_of(table: Table, positions: Any, segments: ReadSegments) -> list[dict[str, Any]]:
    """Recordings that cannot be used, each said on standard error."""
    names = table.text(PATH)[0]
    problems = [
        {"row": int(positions[i]) + 1, PATH: str(names[positions[i]]), "problem": problem}
        for i, problem in segments.problems.items()
    ]
    for problem in problems:
        note(f"{problem[PATH]} (row {problem['row']}) cannot be used: {problem['problem']}")
    if len(problems) == len(names):
        raise ManifestError(f"none of the recordings of {table.name} could be used")
    return problems


def _check_left(known: Any, order: list[int], table: Table, problems: list[Any]) -> None:
    import numpy as np

    if len(np.unique(known.labels[order])) < 2:
        raise TableError(
            f"{table.name} has usable recordings of one class only ({len(problems)} recordings "
            "cannot be used): two are needed"
        )


def _n_components(options: argparse.Namespace, n_rows: int, n_features: int) -> int:
    most = min(n_rows, n_features)
    if options.sound_components is None:
        return min(MOST_COMPONENTS, max(1, most - 1))
    if not 1 <= options.sound_components <= most:
        raise ValueError(
            f"--sound-components {options.sound_components} must be between 1 and {most}: there "
            f"are {n_rows} segments of {n_features} numbers"
        )
    return int(options.sound_components)
