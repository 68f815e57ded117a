"""``gemmed predict`` of recordings: processed as in training, one prediction each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.exceptions import ManifestError
from .._core.optional import require
from .progress import FitProgress
from .recordings import PATH, files_of
from .terminal import note

if TYPE_CHECKING:
    from ..acoustics import ReadSegments
    from ..rows.tables import Table


def is_sound_model(model: Any) -> bool:
    """Whether a model was fitted on recordings."""
    from sklearn.pipeline import Pipeline

    from ..acoustics import RecordingMFCC

    return isinstance(model, Pipeline) and isinstance(model[0], RecordingMFCC)


class ReadRecordings(NamedTuple):
    """Recordings to predict: one row of ``frame`` each, features of those that could be read."""

    frame: Any
    segments: ReadSegments
    features: Any

    def averaged(self, values: Any) -> Any:
        """Means over the segments of each recording, shape (n_recordings, ...); NaN if unread."""
        import numpy as np

        means = np.full((len(self.frame), *np.shape(values)[1:]), np.nan)
        for i in np.unique(self.segments.recording):
            means[i] = values[self.segments.recording == i].mean(axis=0)
        return means

    def lowest(self, values: Any) -> Any:
        """The lowest value of the segments of each recording; NaN if it was not read."""
        import numpy as np

        found = np.full(len(self.frame), np.nan)
        for i in np.unique(self.segments.recording):
            found[i] = values[self.segments.recording == i].min()
        return found


def read_recordings(model: Any, names: list[str], table: Table | None) -> ReadRecordings:
    """Recordings, processed as the fitted model expects them.

    Parameters
    ----------
    names : sound files, if there is no manifest
    table : manifest
    """
    import pandas as pd

    require("soundfile", "recordings need", "audio")
    reader = model[0]
    if table is None:
        frame = pd.DataFrame({PATH: names})
        files: list[Any] = [(name, None, None) for name in names]
    else:
        frame, files = table.frame, list(files_of(table)[0])
    with FitProgress():
        segments = reader.read(files)
    for i, problem in segments.problems.items():
        note(f"{files[i][0]} cannot be used: {problem}")
    if len(segments.problems) == len(files):
        raise ManifestError("none of the recordings could be used")
    return ReadRecordings(frame, segments, model[1:-1].transform(segments.mfcc))


def predicted_recordings(
    model: Any, recordings: ReadRecordings, *, proba: bool, rate: float | None
) -> dict[str, Any]:
    """New columns for the recordings: prediction, what else was asked for, and flags."""
    import numpy as np

    from ..acoustics.sound_files import damage_of

    last, features, n = model[-1], recordings.features, len(recordings.frame)
    read = np.ones(n, dtype=bool)
    read[list(recordings.segments.problems)] = False
    probabilities = recordings.averaged(last.predict_proba(features))
    classes = np.asarray(last.classes_).astype(object)
    prediction = np.full(n, None, dtype=object)
    if np.all(np.bincount(recordings.segments.recording, minlength=n) <= 1):
        prediction[recordings.segments.recording] = last.predict(features)
    else:
        prediction[read] = classes[np.argmax(probabilities[read], axis=1)]
    added: dict[str, Any] = {"prediction": prediction}
    if proba:
        added |= {f"proba_{c}": probabilities[:, i] for i, c in enumerate(classes)}
    if rate is not None:
        added["p_value"] = recordings.lowest(last.p_values(features))
        marked = np.full(n, None, dtype=object)
        suspicious = last.screen(features, false_alarm_rate=rate)
        marked[read] = recordings.averaged(suspicious.astype(float))[read] > 0
        added["suspicious"] = marked
    words = [set[str]() for _ in range(n)]
    for i, damage in zip(
        recordings.segments.recording, damage_of(recordings.segments.flags), strict=True
    ):
        words[i] |= set(damage.split(", ")) - {""}
    flags = [", ".join(sorted(found)) for found in words]
    for i, problem in recordings.segments.problems.items():
        flags[i] = problem
    added["flags"] = flags
    return added
