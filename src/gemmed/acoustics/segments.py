"""Overlapping segments of a recording and the strongest window in each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from .._core.parameter_checks import check_number
from .._core.types import FloatArray

IntArray = npt.NDArray[np.int64]


class SegmentBounds(NamedTuple):
    """First sample of each segment and the one behind its last, shape (n_segments,) each.

    Examples
    --------
    >>> from gemmed.acoustics import segment_bounds
    >>> bounds = segment_bounds(100, n_segments=2, overlap=0.0)
    >>> bounds.starts.tolist(), bounds.ends.tolist()
    ([0, 50], [50, 100])
    """

    starts: IntArray
    """First sample of each segment."""
    ends: IntArray
    """The sample behind the last one of each segment."""


def segment_bounds(
    n_samples: int,
    *,
    n_segments: int | None = 24,
    overlap: float = 0.75,
    length: int | None = None,
) -> SegmentBounds:
    """Bounds of segments of equal length.

    Parameters
    ----------
    n_samples : int
        Length of the recording.
    n_segments : int or None
        Number of segments. None, together with ``length``: as many as fit, at least one.
    overlap : float in [0, 1)
        Share of a segment that the next one repeats.
    length : int or None
        Samples in a segment. None: such that ``n_segments`` segments cover the recording,
        ``n_samples / (1 + (n_segments - 1) * (1 - overlap))``.

    Notes
    -----
    With a given ``length`` segments may end behind the recording: the missing samples count as
    zeros. A recording longer than its segments is left unused at the end.

    Examples
    --------
    >>> from gemmed.acoustics import segment_bounds
    >>> starts, ends = segment_bounds(1000, n_segments=4, overlap=0.5)
    >>> starts.tolist(), ends.tolist()
    ([0, 200, 400, 600], [400, 600, 800, 1000])
    """
    check_number("n_samples", n_samples, at_least=1)
    if length is not None:
        check_number("length", length, at_least=1, hint="It is that of a segment in samples.")
    check_segments(n_segments, overlap, length)
    if length is None:
        assert n_segments is not None
        exact = n_samples / (1 + (n_segments - 1) * (1 - overlap))
        length = max(1, int(exact))
        # Rounded as a whole, not added up: the last segment ends with the recording.
        starts = np.linspace(0, n_samples - length, n_segments).round().astype(np.int64)
    else:
        step = (1 - overlap) * length
        if n_segments is None:
            n_segments = max(1, 1 + int((n_samples - length) / step + 1e-9))
        starts = np.round(np.arange(n_segments) * step).astype(np.int64)
    return SegmentBounds(starts, starts + length)


def check_segments(n_segments: int | None, overlap: float, length: float | None) -> None:
    """Raise an error unless these describe segments; ``length`` in samples or seconds."""
    if n_segments is None and length is None:
        raise ValueError("n_segments=None needs the length of a segment")
    if n_segments is not None:
        check_number("n_segments", n_segments, at_least=1)
    check_number("overlap", overlap, at_least=0, below=1)


def strongest_starts(signal: Any, bounds: SegmentBounds, window: int) -> IntArray:
    """First sample of the window with most energy in each segment; the first one among equals.

    A segment not longer than the window begins with its window.

    Parameters
    ----------
    signal : array-like of shape (n_samples,)
    bounds : SegmentBounds
    window : int
        Samples in a window.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import segment_bounds, strongest_starts
    >>> signal = np.zeros(100)
    >>> signal[60:70] = 1.0
    >>> strongest_starts(signal, segment_bounds(100, n_segments=2, overlap=0.0), 10).tolist()
    [0, 60]
    """
    signal = np.asarray(signal, dtype=float)
    check_number("window", window, at_least=1, hint="It is a number of samples.")
    starts = bounds.starts.copy()
    last = len(signal) - window  # behind it, a window would only lose samples
    if last < 0 or bounds.ends[0] - bounds.starts[0] <= window:
        return starts
    energy = running_energy(signal)
    strength = energy[window:] - energy[:-window]
    for i, (first, end) in enumerate(zip(*bounds, strict=True)):
        stop = min(end - window, last) + 1
        if stop > first + 1:
            starts[i] = first + np.argmax(strength[first:stop])
    return starts


def running_energy(signal: FloatArray) -> FloatArray:
    """Energy before each sample and of all, shape (n_samples + 1,)."""
    energy = np.zeros(len(signal) + 1)
    np.cumsum(signal * signal, out=energy[1:])
    return energy


def cut_windows(
    signal: Any, starts: IntArray, window: int, *, ends: IntArray | None = None
) -> FloatArray:
    """Windows of a signal, shape (n_windows, window).

    Samples behind the signal, or behind ``ends`` (the ends of the segments), are zeros.

    Parameters
    ----------
    signal : array-like of shape (n_samples,)
    starts : array of shape (n_windows,)
        First sample of each window.
    window : int
        Samples in a window.
    ends : array of shape (n_windows,), optional

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import cut_windows
    >>> cut_windows(np.arange(6.0), np.array([1, 4]), 3)
    array([[1., 2., 3.],
           [4., 5., 0.]])
    """
    signal = np.asarray(signal, dtype=float)
    starts = np.asarray(starts, dtype=np.int64)
    missing = int(starts.max(initial=0)) + window - len(signal)
    if missing > 0:
        signal = np.concatenate([signal, np.zeros(missing)])
    windows = sliding_window_view(signal, window)[starts]
    if ends is not None:
        for row, length in zip(windows, np.asarray(ends) - starts, strict=True):
            row[max(0, length) :] = 0.0
    return windows
