"""Sensor faults: what they do to a signal, and when they come and go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from ..._core.types import BoolArray, FloatArray

CHAIN_STEP = 0.125  # Seconds between two steps of the chain that switches faults on and off


STALE = "stale"  # The recorder hands out what its memory holds of an earlier recording


class Fault(NamedTuple):
    """One burst of one fault.

    Examples
    --------
    >>> from gemmed.datasets import Fault
    >>> burst = Fault(sensor=2, kind="stuck", start=1.5, stop=4.0)
    >>> burst.stop - burst.start
    2.5
    """

    sensor: int
    """Counted from 0."""
    kind: str
    """One of ``FAULT_KINDS``, or "stale"."""
    start: float
    """Seconds."""
    stop: float
    """Seconds."""


@dataclass(frozen=True)
class FaultModel:
    """When one sensor fails, and how."""

    share: float  # Share of the time spent in a fault, over many recordings
    mean_burst: float  # Mean length of a burst, seconds
    kinds: Mapping[str, float]  # Relative frequency of the kinds of fault


def inject_fault(
    signal: Any, kind: str, rate: float, rng: Generator, *, level: float | None = None
) -> FloatArray:
    """A copy of a signal as a faulty sensor would record it; the severity is drawn at random.

    Parameters
    ----------
    signal : array-like of shape (n_samples,), full scale is 1
    kind : one of ``FAULT_KINDS``
    rate : samples per second
    rng : random generator
    level : amplitude of the healthy signal to which the severity refers; by default four times the
        root mean square of ``signal``, about the height of its peaks

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.datasets import inject_fault
    >>> signal = np.sin(np.linspace(0, 60, 4000))
    >>> stuck = inject_fault(signal, "stuck", 4000.0, np.random.default_rng(0))
    >>> bool((np.diff(stuck) == 0).mean() > 0.9)
    True
    """
    if kind not in FAULT_KINDS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {', '.join(FAULT_KINDS)}.")
    if not rate > 0:
        raise ValueError(f"rate={rate!r} must be positive: samples per second.")
    values = np.array(signal, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(
            f"signal has shape {values.shape}: give a non-empty vector of finite numbers."
        )
    reference = 4.0 * float(np.sqrt(np.mean(values**2))) if level is None else float(level)
    return FAULT_KINDS[kind](values, max(reference, 1e-4), rate, rng)


def draw_bursts(n_steps: int, share: float, mean_burst: float, rng: Generator) -> BoolArray:
    """A two-state Markov chain, True while the sensor is faulty, shape (n_steps,).

    The chain starts in its stationary state: a burst may be under way at the start.

    ``share``: stationary probability of the faulty state, in [0, 1). ``mean_burst``: mean number of
    steps in the faulty state, at least 1.
    """
    if not 0.0 <= share < 1.0:
        raise ValueError(f"share={share!r} must be at least 0 and below 1.")
    if not mean_burst >= 1.0:
        raise ValueError(f"mean_burst={mean_burst!r} must be at least 1 step.")
    leave = 1.0 / mean_burst
    enter = leave * share / (1.0 - share)
    if enter > 1.0:
        raise ValueError(
            f"share={share!r} cannot be reached with bursts of {mean_burst!r} steps: lengthen them."
        )
    draws = rng.random(n_steps + 1)
    faulty = np.empty(n_steps, dtype=bool)
    state = bool(draws[0] < share)
    for step in range(n_steps):
        faulty[step] = state
        state = bool(draws[step + 1] >= leave) if state else bool(draws[step + 1] < enter)
    return faulty


def draw_faults(
    models: Sequence[FaultModel], common: Sequence[FaultModel], duration: float, rng: Generator
) -> list[Fault]:
    """Faults of all sensors during one recording: those of the shared recorder, and their own.

    They are in the order in which they happen to the signal: a memory is stale before a sensor adds
    its noise.
    """
    shared = [burst for model in common for burst in _bursts_of(model, duration, rng)]
    return [
        Fault(sensor, *burst)
        for sensor, model in enumerate(models)
        for burst in (*shared, *_bursts_of(model, duration, rng))
    ]


def apply_faults(
    signals: FloatArray,
    faults: Sequence[Fault],
    rate: float,
    rng: Generator,
    *,
    earlier: FloatArray | None = None,
) -> FloatArray:
    """A copy of the signals, shape (n_sensors, n_samples), with the faults in it.

    ``earlier``: what a stale memory holds, of the shape of ``signals``; needed for the kind
    ``STALE``.
    """
    broken = signals.copy()
    levels = 4.0 * np.sqrt(np.mean(signals**2, axis=1))
    for fault in faults:
        part = slice(round(fault.start * rate), round(fault.stop * rate))
        if fault.kind == STALE:
            if earlier is None:
                raise ValueError("earlier=None: a stale memory needs the signals that it holds.")
            broken[fault.sensor, part] = earlier[fault.sensor, part]
        elif part.start < part.stop:
            broken[fault.sensor, part] = inject_fault(
                broken[fault.sensor, part], fault.kind, rate, rng, level=levels[fault.sensor]
            )
    return broken


def faulty_share(faults: Sequence[Fault], n_sensors: int, starts: Any, length: float) -> FloatArray:
    """Share of each stretch of time that is faulty, shape (n_sensors, n_stretches).

    ``starts``: array-like of shape (n_stretches,) or (n_sensors, n_stretches), seconds. ``length``:
    length of a stretch, seconds.
    """
    begins = np.asarray(starts, dtype=np.float64)
    begins = np.broadcast_to(begins, (n_sensors, begins.shape[-1]))
    shares = np.zeros(begins.shape)
    for sensor in range(n_sensors):
        for start, stop in _union([(f.start, f.stop) for f in faults if f.sensor == sensor]):
            overlap = np.minimum(stop, begins[sensor] + length) - np.maximum(start, begins[sensor])
            shares[sensor] += np.clip(overlap, 0.0, None)
    return shares / length


def _bursts_of(
    model: FaultModel, duration: float, rng: Generator
) -> list[tuple[str, float, float]]:
    n_steps = int(np.ceil(duration / CHAIN_STEP))
    faulty = draw_bursts(n_steps, model.share, max(1.0, model.mean_burst / CHAIN_STEP), rng)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], faulty.astype(int), [0]])))
    names, weights = list(model.kinds), np.array(list(model.kinds.values()))
    bursts = []
    for first, last in edges.reshape(-1, 2):
        kind = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        bursts.append((kind, float(first * CHAIN_STEP), min(float(last * CHAIN_STEP), duration)))
    return bursts


def _union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _broadband_noise(signal: FloatArray, level: float, rate: float, rng: Generator) -> FloatArray:
    """A broken shield or preamplifier."""
    return signal + level * 10.0 ** rng.uniform(-1.5, 0.0) * rng.normal(size=len(signal))


def _dropout(signal: FloatArray, level: float, rate: float, rng: Generator) -> FloatArray:
    """A loose contact: nothing but the noise of the recorder, with short returns of the signal."""
    gone = ~draw_bursts(len(signal), 0.12, max(1.0, 0.06 * rate), rng)
    return np.where(gone, 0.0, signal) + 2e-4 * rng.normal(size=len(signal))


def _clipping(signal: FloatArray, level: float, rate: float, rng: Generator) -> FloatArray:
    """A wrong gain: amplified many times, cut at full scale, recorded at the old range."""
    limit = level * rng.uniform(0.4, 1.0)
    return np.clip(signal * rng.uniform(8.0, 40.0), -limit, limit)


def _stuck(signal: FloatArray, level: float, rate: float, rng: Generator) -> FloatArray:
    """A converter that repeats a value, for 10 to 300 milliseconds at a time."""
    lengths = np.maximum(1, np.exp(rng.uniform(np.log(0.01), np.log(0.3), len(signal))) * rate)
    firsts = np.concatenate([[0], np.cumsum(lengths.astype(int))])
    firsts = firsts[firsts < len(signal)]
    held = np.repeat(firsts, np.diff(np.append(firsts, len(signal))))
    return signal[held]


def _spikes(signal: FloatArray, level: float, rate: float, rng: Generator) -> FloatArray:
    """Knocks on a loose mount or cable: 3 to 8 a second, as loud as steps, ringing shortly."""
    n_spikes = 1 + rng.poisson(rng.uniform(3.0, 8.0) * len(signal) / rate)
    train = np.zeros(len(signal))
    sizes = level * np.exp(rng.normal(0.0, 0.3, n_spikes)) * rng.choice([-1.0, 1.0], n_spikes)
    np.add.at(train, rng.integers(0, len(signal), n_spikes), sizes * 10.0 ** rng.uniform(-0.7, 0.2))
    time = np.arange(int(0.08 * rate) + 1) / rate
    ringing = np.cos(2.0 * np.pi * rng.uniform(250.0, 900.0) * time)
    tail = np.exp(-time / rng.uniform(0.004, 0.012)) * ringing
    return signal + np.convolve(train, tail)[: len(signal)]


def _hum(signal: FloatArray, level: float, rate: float, rng: Generator) -> FloatArray:
    """Mains: 50 or 60 Hz with harmonics that fall off slowly."""
    time = np.arange(len(signal)) / rate
    base = float(rng.choice([50.0, 60.0])) * (1.0 + 0.002 * rng.normal())
    harmonics = np.arange(1, int(min(0.45 * rate, 800.0) / base) + 1)
    amplitudes = harmonics**-0.8 * np.exp(0.4 * rng.normal(size=len(harmonics)))
    phases = rng.uniform(0.0, 2.0 * np.pi, len(harmonics))
    waves = np.sin(2.0 * np.pi * base * harmonics[:, None] * time + phases[:, None])
    return signal + level * 10.0 ** rng.uniform(-1.0, 0.2) * (amplitudes[:, None] * waves).sum(0)


def _gain_loss(signal: FloatArray, level: float, rate: float, rng: Generator) -> FloatArray:
    """A covered or failing microphone: quieter by 3 to 30 dB, most at high frequencies."""
    frequencies = np.fft.rfftfreq(len(signal), 1.0 / rate)
    cut = rng.uniform(120.0, 400.0)
    gain = 10.0 ** (-rng.uniform(3.0, 30.0) / 20.0) / (1.0 + (frequencies / cut) ** 2)
    muffled = np.fft.irfft(np.fft.rfft(signal) * gain, len(signal))
    return muffled + 2e-4 * rng.normal(size=len(signal))


FAULT_KINDS: dict[str, Callable[[FloatArray, float, float, Generator], FloatArray]] = {
    "noise": _broadband_noise,
    "dropout": _dropout,
    "clipping": _clipping,
    "stuck": _stuck,
    "spikes": _spikes,
    "hum": _hum,
    "gain_loss": _gain_loss,
}
"""Kinds of fault by name that any signal can have; ``STALE`` needs an earlier recording as well."""
