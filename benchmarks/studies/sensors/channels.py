"""Sound with broken channels: spoken digits recorded by three microphones, of which some fail."""

from __future__ import annotations

import numpy as np
from scipy import signal as filters

from gemmed._core.types import FloatArray
from gemmed.acoustics import FeatureSettings
from gemmed.acoustics.features import summaries_of_windows
from gemmed.datasets import FAULT_KINDS, inject_fault
from gemmed.experiments.runner import Result, Task

from ..recordings.runs import CLIP_SECONDS, DIGITS_FOLDER, spoken_digits
from .comparison import Samples, compare

FOLDER = DIGITS_FOLDER
CUTS = (3600.0, 2200.0, 1400.0)
"""Hertz above which each microphone records little."""
NOISE = 0.05
"""Deviation of the noise of a microphone, of the root mean square of the clip."""
FAILING = 0.2
"""Share of clips at which a microphone fails, each by itself."""
MAX_CLIPS = 40
"""Of a digit and speaker."""
SETTINGS = FeatureSettings(n_segments=1, overlap=0.0, window=CLIP_SECONDS, n_windows=40)


def evaluate_channels(folder: str, split: int) -> Result:
    """Trained on four speakers, tested on the others; faults in both."""
    clips = spoken_digits(folder)
    few = clips.numbers < MAX_CLIPS
    speakers, y = clips.speakers[few], clips.y[few]
    rng = np.random.default_rng(split)
    names = rng.permutation(np.unique(speakers))
    rows = [_channels(values, clips.rate, rng) for values in clips.signals[few]]
    summaries = np.stack([own for own, _ in rows])
    broken = np.stack([own for _, own in rows])
    parts = []
    for chosen in (names[:4], names[4:]):
        members = np.isin(speakers, chosen)
        screened = [summaries[members, channel] for channel in range(len(CUTS))]
        # Means and deviations of the MFCCs classify; all summaries screen.
        n_used = 2 * SETTINGS.n_mfcc
        parts.append(
            Samples([s[:, :n_used] for s in screened], screened, y[members], broken[members])
        )
    return {"methods": compare(parts[0], parts[1], split)}


def _channels(
    values: FloatArray, rate: float, rng: np.random.Generator
) -> tuple[FloatArray, np.ndarray]:
    """Summaries of what three microphones record, and which of them have failed."""
    level = float(np.sqrt(np.mean(values**2))) + 1e-6
    heard, failed = [], rng.random(len(CUTS)) < FAILING
    for cut, fails in zip(CUTS, failed, strict=True):
        b, a = filters.butter(2, min(cut / (0.5 * rate), 0.99))
        noise = NOISE * level * rng.normal(size=len(values))
        own: FloatArray = filters.lfilter(b, a, values) + noise
        if fails:
            kind = str(rng.choice(list(FAULT_KINDS)))
            own = inject_fault(own, kind, rate, rng)
        heard.append(own - own.mean())
    return summaries_of_windows(SETTINGS, np.stack(heard), rate), failed


def channels_task(folder: str, split: int) -> Task:
    return Task(
        f"sensors/channels/split-{split:03d}",
        evaluate_channels,
        {"folder": folder, "split": split},
    )
