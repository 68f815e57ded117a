"""Who walks, how, and where: subjects and the moments their feet and hooves meet the ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.types import FloatArray

HEEL, TOE, FORE_HOOF, HIND_HOOF = range(4)
HOOF_PHASES = ((HIND_HOOF, 0.0), (FORE_HOOF, 0.22), (HIND_HOOF, 0.5), (FORE_HOOF, 0.72))
"""Lateral sequence of a walking quadruped: left hind, left fore, right hind, right fore."""
HOOF_SEPARATION = 1.0
"""Metres between hind and fore feet."""


@dataclass(frozen=True)
class Animal:
    """A quadruped led on a rope."""

    mass: float
    """Kilograms."""
    stride_length: float
    """Metres from one contact of a hoof to the next of the same hoof."""
    behind: float
    """Metres behind the human."""
    beside: float
    """Metres to the side of the human, away from the sensors."""
    phase_jitter: float
    """Standard deviation of a hoof beat, as a share of the stride."""
    hardness: float
    """Scale of the frequencies of an impact."""


@dataclass(frozen=True)
class Walker:
    """A human on a straight path past the sensors, alone or leading an animal."""

    mass: float
    """Kilograms."""
    cadence: float
    """Steps a minute."""
    step_length: float
    """Metres."""
    step_jitter: float
    """Standard deviation of a step interval, as a share of the interval."""
    asymmetry: float
    """Left steps come later by this share of the interval, and are weaker by as much."""
    toe_delay: float
    """Seconds from heel strike to toe strike."""
    toe_strength: float
    """Strength of the toe strike relative to the heel strike."""
    hardness: float
    """Scale of the frequencies of an impact: sole and ground."""
    offset: float
    """Closest distance of the path to the line of sensors, metres."""
    heading: float
    """Angle between the path and the line of sensors, radians."""
    direction: int
    """+1 or -1: which way along the line of sensors."""
    passing_time: float
    """When the middle of the line of sensors is passed, seconds."""
    animal: Animal | None

    @property
    def speed(self) -> float:
        """Metres a second."""
        return self.cadence / 60.0 * self.step_length


class Contacts(NamedTuple):
    """Impacts on the ground, each array of shape (n_contacts,)."""

    times: FloatArray
    along: FloatArray
    """Position along the path, metres; 0 is where the middle of the sensors is passed."""
    beside: FloatArray
    """Metres to the side of the human's path."""
    strength: FloatArray
    kind: npt.NDArray[np.int64]
    """HEEL, TOE, FORE_HOOF or HIND_HOOF."""


def draw_walker(with_animal: bool, duration: float, rng: np.random.Generator) -> Walker:
    """A random subject; leading an animal slows a human down a little."""
    animal = None
    if with_animal:
        animal = Animal(
            mass=float(np.clip(rng.normal(280.0, 60.0), 140.0, 460.0)),
            stride_length=float(np.clip(rng.normal(1.5, 0.13), 1.1, 1.9)),
            behind=float(rng.uniform(0.8, 2.2)),
            beside=float(rng.uniform(-0.8, 0.8)),
            phase_jitter=float(rng.uniform(0.015, 0.04)),
            hardness=float(np.exp(rng.normal(0.0, 0.18))),
        )
    return Walker(
        mass=float(np.clip(rng.normal(76.0, 13.0), 45.0, 125.0)),
        cadence=float(np.clip(rng.normal(104.0 if with_animal else 110.0, 8.0), 80.0, 135.0)),
        step_length=float(np.clip(rng.normal(0.72, 0.06), 0.55, 0.9)),
        step_jitter=float(rng.uniform(0.015, 0.04)),
        asymmetry=float(abs(rng.normal(0.0, 0.03))),
        toe_delay=float(rng.uniform(0.09, 0.17)),
        toe_strength=float(rng.uniform(0.25, 0.6)),
        hardness=float(np.exp(rng.normal(0.0, 0.15))),
        offset=float(rng.uniform(3.0, 6.0)),
        heading=float(rng.normal(0.0, 0.06)),
        direction=int(rng.choice([-1, 1])),
        passing_time=float(duration / 2.0 + rng.normal(0.0, 1.5)),
        animal=animal,
    )


def contacts_of(walker: Walker, duration: float, rng: np.random.Generator) -> Contacts:
    """Every heel, toe and hoof that meets the ground during a recording."""
    contacts = _human_contacts(walker, duration, rng)
    if walker.animal is not None:
        hooves = _animal_contacts(walker, walker.animal, duration, rng)
        contacts = Contacts(
            np.concatenate([contacts.times, hooves.times]),
            np.concatenate([contacts.along, hooves.along]),
            np.concatenate([contacts.beside, hooves.beside]),
            np.concatenate([contacts.strength, hooves.strength]),
            np.concatenate([contacts.kind, hooves.kind]),
        )
    inside = (contacts.times >= 0.0) & (contacts.times < duration)
    return Contacts(
        contacts.times[inside],
        contacts.along[inside],
        contacts.beside[inside],
        contacts.strength[inside],
        contacts.kind[inside],
    )


def _human_contacts(walker: Walker, duration: float, rng: np.random.Generator) -> Contacts:
    interval = 60.0 / walker.cadence
    n_steps = int(np.ceil(duration / interval)) + 4
    left = np.arange(n_steps) % 2 == 0
    heel = np.cumsum(interval * (1.0 + walker.step_jitter * rng.normal(size=n_steps)))
    heel += rng.uniform(-3.0, 0.0) * interval + walker.asymmetry * interval * left
    # The force of a strike grows with the mass and a little with the speed.
    strength = walker.mass / 76.0 * (walker.speed / 1.3) ** 0.5
    strengths = strength * np.exp(0.15 * rng.normal(size=n_steps)) * (1 - walker.asymmetry * left)
    toe = heel + walker.toe_delay * (1.0 + 0.08 * rng.normal(size=n_steps))
    toe_strengths = walker.toe_strength * strengths * np.exp(0.2 * rng.normal(size=n_steps))
    times = np.concatenate([heel, toe])
    return Contacts(
        times,
        walker.speed * (times - walker.passing_time),
        np.zeros(2 * n_steps),
        np.concatenate([strengths, toe_strengths]),
        np.repeat([HEEL, TOE], n_steps),
    )


def _animal_contacts(
    walker: Walker, animal: Animal, duration: float, rng: np.random.Generator
) -> Contacts:
    stride = animal.stride_length / walker.speed
    n_strides = int(np.ceil(duration / stride)) + 3
    start = rng.uniform(-2.0, -1.0) * stride
    beats = start + stride * np.cumsum(1.0 + 0.02 * rng.normal(size=n_strides))
    times, strengths, kinds, ahead = [], [], [], []
    for kind, phase in HOOF_PHASES:
        jitter = animal.phase_jitter * rng.normal(size=n_strides)
        times.append(beats + stride * (phase + jitter))
        # Fore legs carry more of the weight; a hoof carries a quarter of the animal and is small.
        share = 0.85 if kind == FORE_HOOF else 0.65
        strengths.append(share * animal.mass / 240.0 * np.exp(0.2 * rng.normal(size=n_strides)))
        kinds.append(np.full(n_strides, kind))
        ahead.append(np.full(n_strides, 0.0 if kind == FORE_HOOF else -HOOF_SEPARATION))
    moments = np.concatenate(times)
    along = walker.speed * (moments - walker.passing_time) - animal.behind + np.concatenate(ahead)
    return Contacts(
        moments,
        along,
        np.full(len(moments), animal.beside),
        np.concatenate(strengths),
        np.concatenate(kinds),
    )
