"""Recordings of a manifest as rows to review: features to judge by, measures to read, sound."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._core.exceptions import AudioFileError, ReviewError, TableError
from .._core.progress import report, reported
from .._core.types import FloatArray
from ..acoustics.audio import audio_rate, read_audio
from ..acoustics.features import FeatureSettings
from ..acoustics.recordings import features_of_audio
from ..acoustics.transformers import SegmentPCA
from ..report.findings import Audited
from ..report.sounds import Measures, measures, sound_for_page
from ..rows.tables import Table
from .subjects import Known, apply_marks

SUFFIXES = (".wav", ".wave", ".flac", ".ogg", ".oga", ".aif", ".aiff")
LONGEST_WINDOW = 1.5
"""Seconds around the strongest response that are judged; shorter recordings are judged whole."""
FRAME_STEP = 0.01
N_MFCC = 13
COMPONENTS = 30
USUAL_FRAMES = 0.99
"""Share of the frames of trusted recordings that is not called a place of a fault."""
NAMES = {
    "seconds": "duration (s)",
    "level_db": "level (dB)",
    "peak_db": "peak (dB)",
    "clipped": "flat tops per second",
    "offset": "offset",
    "quiet_share": "quiet share",
    "centre_hz": "spectral centre (Hz)",
    "width_hz": "spectral width (Hz)",
    "crossings": "zero crossings per second",
}


class Recording(NamedTuple):
    """A recording of the manifest that could be read."""

    path: str
    start: float | None
    end: float | None
    mfcc: FloatArray
    """Shape (n_mfcc, n_frames)."""
    window_start: float
    """Seconds from the beginning of the recording."""
    measures: Measures


def is_manifest(table: Table) -> bool:
    """Whether the rows are recordings: a column "path" with names of sound files."""
    if "path" not in table.columns:
        return False
    cells, present = table.text("path")
    found = [str(cell).lower().endswith(SUFFIXES) for cell in cells[present]]
    return bool(found) and all(found)


class RecordingSubject:
    """Recordings with labels.

    Parameters
    ----------
    table : columns path (relative to ``folder``), the labels, perhaps start and end (seconds in
        the file)
    group : column whose recordings do not vouch for each other
    """

    def __init__(
        self,
        table: Table,
        target: str,
        classifier: Any,
        *,
        folder: str | os.PathLike[str],
        identifiers: tuple[str, ...] = (),
        group: str | None = None,
    ) -> None:
        table.require_columns([target], "target")
        if group is not None:
            table.require_columns([group], "group")
        labels, present = table.labels(target)
        self.table, self.target, self._group = table, target, group
        self._classifier = classifier
        self._identifiers = tuple(dict.fromkeys((*identifiers, "path")))
        positions = np.flatnonzero(present)
        paths = [Path(folder) / str(cell) for cell in table.text("path")[0][positions]]
        starts, ends = (_seconds(table, name, positions) for name in ("start", "end"))
        self.problems: list[str] = []
        """Recordings that cannot be used, with the reason."""
        found: dict[int, Recording] = {}
        settings, rate = _settings(paths)
        report("distances", 0, len(paths))
        for position, path, start, end in reported(
            "recordings", zip(positions, paths, starts, ends, strict=True), len(paths)
        ):
            try:
                found[int(position)] = _read(path, start, end, settings, rate)
            except (AudioFileError, OSError) as error:
                self.problems.append(f"row {position + 1}, {str(path)!r}: {error}")
        if not found:
            first = f" ({self.problems[0]})" if self.problems else ""
            raise ReviewError(f"{table.name}: none of the recordings can be used{first}")
        self.rows = np.array(sorted(found))
        self._recordings = [found[row] for row in self.rows]
        self._labels = labels[self.rows]
        self.labels = self._labels.astype(str)
        self.classes = [str(label) for label in np.unique(self._labels)]
        if len(self.classes) < 2:
            raise TableError(
                f"column {target!r} of {table.name} (target) has one class only in the recordings "
                "that can be used: two are needed"
            )
        self._mfcc = np.stack([recording.mfcc for recording in self._recordings])
        flat = self._mfcc.reshape(len(self._mfcc), -1)
        n = min(COMPONENTS, len(flat) - 1, flat.shape[1])
        self._step = (settings.window or LONGEST_WINDOW) / settings.n_windows
        scores = SegmentPCA(n).fit_transform(flat)
        # One scale for all: components keep their sizes.
        self._X: FloatArray = scores / max(float(np.median(np.abs(scores[:, 0]))), 1e-12)

    def fit(self, known: Known) -> Audited:
        """Fit with what is known."""
        import pandas as pd

        classifier = clone(self._classifier)
        corrected, priors, kept = apply_marks(
            self._labels, self.labels, known, classifier.prior_nominal
        )
        options: dict[str, Any] = {}
        if known.certain:
            options["prior_nominal"] = priors[kept]
        if self._group is not None:
            options["groups"] = self.table.text(self._group)[0][self.rows].astype(str)[kept]
        classifier.fit(self._X[kept], corrected[kept], **options)
        measured = np.array([recording.measures for recording in self._recordings])
        facts = [("recordings that cannot be used", problem) for problem in self.problems]
        return Audited(
            name=self.table.name.strip("'"),
            target=self.target,
            table_rows=self.rows,
            labels=corrected.astype(str),
            frame=pd.DataFrame(measured, columns=[NAMES[name] for name in Measures._fields]),
            categories=[],
            X=self._X,
            classifier=classifier,
            fitted=kept,
            identifiers={name: self.table.text(name)[0][self.rows] for name in self._identifiers},
            facts=[
                (
                    "judged by",
                    f"{N_MFCC} MFCCs in {self._mfcc.shape[2]} frames of the strongest "
                    f"{self._step * self._mfcc.shape[2]:.2g} s, {self._X.shape[1]} components; "
                    "the columns shown describe the recordings and are not what they are judged by",
                ),
                *facts,
            ],
            cells=self.table.frame.iloc[self.rows].reset_index(drop=True),
        )

    def recording(self, row: int) -> str | None:
        """The file of a row's recording."""
        return self._recordings[row].path

    def places(self, row: int, audited: Audited) -> list[dict[str, Any]]:
        """Where in time a recording is unlike the trusted ones of its class.

        The mean over coefficients of their distances from the class median, in spreads, frame by
        frame. Frames beyond what 99 % of the frames of trusted recordings of the class show are
        named, at most three runs of them, the strongest ones.
        """
        same = audited.labels == audited.labels[row]
        same[row] = False
        trusted = np.zeros(len(same), dtype=bool)
        trusted[audited.fitted] = audited.classifier.nominal_proba_ >= 0.5
        chosen = self._mfcc[same & trusted]
        if len(chosen) < 5:
            return []
        low, middle, high = np.quantile(chosen, (0.25, 0.5, 0.75), axis=0)
        spread = np.maximum((high - low) / 1.349, 1e-9)
        strength = np.mean(np.abs(self._mfcc[row] - middle) / spread, axis=0)
        usual = np.mean(np.abs(chosen - middle) / spread, axis=1)
        runs = _runs(strength > np.quantile(usual, USUAL_FRAMES))
        runs.sort(key=lambda run: -float(strength[run[0] : run[1]].max()))
        begin = self._recordings[row].window_start
        return [
            {
                "start": begin + first * self._step,
                "end": begin + last * self._step,
                "text": f"{strength[first:last].max():.1f} spreads from its class at "
                f"{begin + first * self._step:.2f} to {begin + last * self._step:.2f} s",
            }
            for first, last in runs[:3]
        ]

    def sound(
        self, row: int, audited: Audited, *, urls: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """The recording of a row for the page; inside it, unless there are addresses."""
        own, places = self._recordings[row], self.places(row, audited)
        audio, picture = (None, None) if urls is None else urls
        sound = sound_for_page(own.path, own.start, own.end, places, url=audio, picture_url=picture)
        sound["notes"] = [f"Unlike its class: {place['text']}." for place in places] + sound[
            "notes"
        ]
        return sound

    def bounds(self, row: int) -> tuple[float | None, float | None]:
        """Seconds in the file between which the recording lies."""
        return self._recordings[row].start, self._recordings[row].end


def _settings(paths: list[Path]) -> tuple[FeatureSettings, float | None]:
    """Window and frames for recordings of these lengths, and their most common rate."""
    import soundfile

    rates: Counter[int] = Counter()
    lengths = []
    for path in dict.fromkeys(paths):
        with suppress(AudioFileError, OSError, RuntimeError):  # reported when the file is read
            rates[audio_rate(path)] += 1
            lengths.append(float(soundfile.info(str(path)).duration))
    typical = float(np.median(lengths)) if lengths else LONGEST_WINDOW
    n_frames = max(10, round(min(LONGEST_WINDOW, typical) / FRAME_STEP))
    rate = float(max(rates, key=lambda r: (rates[r], -r))) if rates else None
    return (
        FeatureSettings(
            n_segments=1,
            overlap=0.0,
            window=n_frames * FRAME_STEP,
            n_windows=n_frames,
            frame=0.025,
            n_mfcc=N_MFCC,
        ),
        rate,
    )


def _read(
    path: Path,
    start: float | None,
    end: float | None,
    settings: FeatureSettings,
    rate: float | None,
) -> Recording:
    audio = read_audio(path, rate=rate, start=start, end=end)
    features = features_of_audio(settings, audio).features
    mfcc = features.mfcc[0].reshape(settings.n_mfcc, settings.n_windows)
    window_start = float(features.window_starts[0])
    return Recording(str(path), start, end, mfcc, window_start, measures(audio))


def _seconds(table: Table, name: str, positions: np.ndarray) -> list[float | None]:
    if name not in table.columns:
        return [None] * len(positions)
    values = table.only_numbers(name, "seconds in the file")[positions]
    return [None if np.isnan(value) else float(value) for value in values]


def _runs(chosen: np.ndarray) -> list[tuple[int, int]]:
    """First and behind-last positions of runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
