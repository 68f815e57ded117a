"""make_footsteps: recordings of walkers by four acoustic sensors that fail now and then."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.types import FloatArray
from .faults import FAULT_KINDS, STALE, Fault, FaultModel, apply_faults, draw_faults
from .walk import (
    SENSOR_POSITIONS,
    background,
    contacts_of,
    draw_walker,
    draw_weather,
    footstep_sound,
)

RATE = 4000  # Samples a second
DURATION = 13.5  # Seconds: 24 segments of 2 seconds, each half a second after the one before
N_SENSORS = len(SENSOR_POSITIONS)
N_HUMAN, N_ANIMAL = 84, 66
HUMAN, HUMAN_WITH_ANIMAL = "human", "human_with_animal"
LABELS = (HUMAN, HUMAN_WITH_ANIMAL)
EVEN = dict.fromkeys(FAULT_KINDS, 1.0)


class FaultMix(NamedTuple):
    """How often and for how long what fails."""

    sensors: tuple[FaultModel, ...]
    """Each sensor on its own. Sensor 2 fails for long, sensor 4 most of the time."""
    recorder: FaultModel  # What the four sensors share: cable, supply and recorder
    stale: FaultModel  # The recorder repeats a part of an earlier walk, of either kind


def _mix(*sensors: tuple[float, float], recorder: float, stale: float) -> FaultMix:
    """Share of the time and mean burst of each sensor; shares of what they have in common."""
    return FaultMix(
        tuple(FaultModel(share, burst, EVEN) for share, burst in sensors),
        FaultModel(recorder, 4.0, EVEN),
        FaultModel(stale, 4.0, {STALE: 1.0}),
    )


FAULT_MIXES = {
    "realistic": _mix(
        (0.05, 3.0), (0.10, 10.0), (0.08, 5.0), (0.15, 5.0), recorder=0.05, stale=0.03
    ),
    "strong": _mix((0.25, 3.0), (0.40, 10.0), (0.35, 5.0), (0.50, 5.0), recorder=0.10, stale=0.10),
}
"""docs/research/footsteps.md gives the reasons for both."""


class FootstepRecording(NamedTuple):
    """One subject walking past the sensors."""

    subject: str
    label: str
    """"human" or "human_with_animal"."""
    signals: npt.NDArray[np.float32]
    """Shape (n_sensors, n_samples), within -1 and 1."""
    faults: list[Fault]
    """The truth: what went wrong, where and when."""


class FootstepData(NamedTuple):
    """Recordings of all subjects.

    Examples
    --------
    >>> from gemmed.datasets import make_footsteps
    >>> data = make_footsteps(1, 1, duration=6.0, random_state=3)
    >>> data.rate, data.subjects.tolist()
    (4000, ['human-01', 'human_with_animal-01'])
    >>> [len(bursts) for bursts in data.faults]
    [4, 1]
    """

    signals: npt.NDArray[np.float32]
    """Shape (n_subjects, n_sensors, n_samples), within -1 and 1."""
    labels: npt.NDArray[np.str_]
    """Shape (n_subjects,)."""
    subjects: npt.NDArray[np.str_]
    """Shape (n_subjects,)."""
    faults: list[list[Fault]]
    """The truth: for each subject what went wrong, where and when."""
    rate: int
    """Samples a second."""


def make_footsteps(
    n_human: int = N_HUMAN,
    n_animal: int = N_ANIMAL,
    *,
    duration: float = DURATION,
    rate: int = RATE,
    faults: bool | str = True,
    random_state: int = 0,
) -> FootstepData:
    """Simulate walkers, alone or leading an animal, recorded by four sensors that fail at times.

    Parameters
    ----------
    n_human : subjects that walk alone
    n_animal : subjects that lead an animal
    duration : seconds a recording
    rate : samples per second, at least 2000
    faults : "realistic" (or True) or "strong", the mix of faults; False gives what healthy sensors
        would have recorded of the same subjects
    random_state : seed; a subject depends on the seed and its own name only

    Returns
    -------
    FootstepData

    Examples
    --------
    >>> from gemmed.datasets import make_footsteps
    >>> data = make_footsteps(2, 1, duration=6.0, random_state=0)
    >>> data.signals.shape, data.labels.tolist()
    ((3, 4, 24000), ['human', 'human', 'human_with_animal'])
    """
    options: Any = {"duration": duration, "rate": rate, "faults": faults}
    recordings = iter_footsteps(n_human, n_animal, random_state=random_state, **options)
    subjects, labels, signals, bursts = zip(*recordings, strict=True)
    return FootstepData(np.stack(signals), np.array(labels), np.array(subjects), list(bursts), rate)


def iter_footsteps(
    n_human: int = N_HUMAN,
    n_animal: int = N_ANIMAL,
    *,
    duration: float = DURATION,
    rate: int = RATE,
    faults: bool | str = True,
    random_state: int = 0,
) -> Iterator[FootstepRecording]:
    """The recordings of :func:`make_footsteps` one by one.

    Parameters
    ----------
    n_human, n_animal, duration, rate, faults, random_state
        As in :func:`make_footsteps`.

    Examples
    --------
    >>> from gemmed.datasets import iter_footsteps
    >>> for walk in iter_footsteps(1, 1, duration=4.0):
    ...     print(walk.subject, walk.signals.shape)
    human-01 (4, 16000)
    human_with_animal-01 (4, 16000)
    """
    if n_human < 0 or n_animal < 0 or n_human + n_animal == 0:
        raise ValueError(
            f"n_human={n_human!r} and n_animal={n_animal!r}: give at least one subject."
        )
    if not duration > 0:
        raise ValueError(f"duration={duration!r} must be positive: seconds.")
    if rate < 2000:
        raise ValueError(f"rate={rate!r} must be at least 2000 samples per second.")
    if random_state < 0:
        raise ValueError(f"random_state={random_state!r} must not be negative.")
    mix = "realistic" if faults is True else faults
    if mix is not False and mix not in FAULT_MIXES:
        raise ValueError(f"faults={faults!r} is unknown: use a bool or one of {[*FAULT_MIXES]}.")
    for label, count in zip(LABELS, (n_human, n_animal), strict=True):
        for index in range(count):
            chosen = FAULT_MIXES[mix] if isinstance(mix, str) else None
            yield _record(label, index, duration, rate, chosen, random_state)


def _record(
    label: str, index: int, duration: float, rate: int, mix: FaultMix | None, seed: int
) -> FootstepRecording:
    streams = np.random.SeedSequence([seed, LABELS.index(label), index]).spawn(3)
    # The healthy sound has its own stream: with and without faults it is the same.
    walk, trouble, before = (np.random.default_rng(stream) for stream in streams)
    signals = _healthy(label, duration, rate, walk)
    bursts: list[Fault] = []
    if mix is not None:
        bursts = draw_faults(mix.sensors, (mix.stale, mix.recorder), duration, trouble)
        stale = any(fault.kind == STALE for fault in bursts)
        # Who walked before has nothing to do with who walks now.
        other = LABELS[int(before.integers(len(LABELS)))]
        earlier = _healthy(other, duration, rate, before) if stale else None
        signals = apply_faults(signals, bursts, rate, trouble, earlier=earlier)
    clipped: FloatArray = np.clip(signals, -1.0, 1.0)
    return FootstepRecording(f"{label}-{index + 1:02d}", label, clipped.astype(np.float32), bursts)


def _healthy(label: str, duration: float, rate: int, rng: np.random.Generator) -> FloatArray:
    """What healthy sensors record of a new subject, shape (n_sensors, n_samples)."""
    n_samples = round(duration * rate)
    walker = draw_walker(label == HUMAN_WITH_ANIMAL, duration, rng)
    contacts = contacts_of(walker, duration, rng)
    sounds = footstep_sound(walker, contacts, n_samples, rate, rng)
    return sounds + background(draw_weather(rng), n_samples, rate, rng)
