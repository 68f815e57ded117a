"""Who walks, how, and the sound of it at four microphones: impacts on the ground, wind, noise."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from ..._core.types import FloatArray

HEEL, TOE, FORE_HOOF, HIND_HOOF = range(4)
HOOF_PHASES = ((HIND_HOOF, 0.0), (FORE_HOOF, 0.22), (HIND_HOOF, 0.5), (FORE_HOOF, 0.72))
"""Lateral sequence of a walking quadruped: left hind, left fore, right hind, right fore."""
HOOF_SEPARATION = 1.0  # Metres between hind and fore feet
SENSOR_POSITIONS = np.array([-6.0, -2.0, 2.0, 6.0])  # Along the line of sensors, metres
SPEED_OF_SOUND = 343.0
ABSORPTION = 0.6
"""Decibels a metre at 1 kHz over ground with low plants, proportional to the frequency."""
REFERENCE_METRES = 1.0
"""Metres at which an impact of strength 1 has its nominal amplitude."""
IMPACT_SECONDS = 0.22
FULL_SCALE = 0.35
"""Amplitude of a typical heel strike at 1 metre; 1 is the largest value of the recorder."""


@dataclass(frozen=True)
class Animal:
    """A quadruped led on a rope."""

    mass: float  # Kilograms
    stride_length: float  # Metres from one contact of a hoof to the next of the same hoof
    behind: float  # Metres behind the human
    beside: float  # Metres to the side of the human, away from the sensors
    phase_jitter: float  # Standard deviation of a hoof beat, as a share of the stride
    hardness: float  # Scale of the frequencies of an impact


@dataclass(frozen=True)
class Walker:
    """A human on a straight path past the sensors, alone or leading an animal."""

    mass: float  # Kilograms
    cadence: float  # Steps a minute
    step_length: float  # Metres
    step_jitter: float  # Standard deviation of a step interval, as a share of the interval
    asymmetry: float
    """Left steps come later by this share of the interval, and are weaker by as much."""
    toe_delay: float  # Seconds from heel strike to toe strike
    toe_strength: float  # Strength of the toe strike relative to the heel strike
    hardness: float  # Scale of the frequencies of an impact: sole and ground
    offset: float  # Closest distance of the path to the line of sensors, metres
    heading: float  # Angle between the path and the line of sensors, radians
    direction: int  # +1 or -1: which way along the line of sensors
    passing_time: float  # When the middle of the line of sensors is passed, seconds
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
    beside: FloatArray  # Metres to the side of the human's path
    strength: FloatArray
    kind: npt.NDArray[np.int64]  # HEEL, TOE, FORE_HOOF or HIND_HOOF


def draw_walker(with_animal: bool, duration: float, rng: Generator) -> Walker:
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


def contacts_of(walker: Walker, duration: float, rng: Generator) -> Contacts:
    """Every heel, toe and hoof that meets the ground during a recording."""
    contacts: Any = _human_contacts(walker, duration, rng)
    if walker.animal is not None:
        hooves = _animal_contacts(walker, walker.animal, duration, rng)
        contacts = Contacts(*map(np.concatenate, zip(contacts, hooves, strict=True)))
    inside = (contacts.times >= 0.0) & (contacts.times < duration)
    return Contacts(*(values[inside] for values in contacts))


def _human_contacts(walker: Walker, duration: float, rng: Generator) -> Contacts:
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


def _animal_contacts(walker: Walker, animal: Animal, duration: float, rng: Generator) -> Contacts:
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


class ImpactSound(NamedTuple):
    """A struck surface: three damped modes and a burst of friction noise."""

    frequencies: tuple[float, float, float]  # Hertz, before the hardness of sole, hoof and ground
    decays: tuple[float, float, float]  # Seconds to 1/e
    weights: tuple[float, float, float]
    friction: float  # Amplitude of the noise burst
    friction_decay: float  # Seconds to 1/e


IMPACT_SOUNDS = {
    HEEL: ImpactSound((70.0, 160.0, 420.0), (0.030, 0.018, 0.008), (1.0, 0.55, 0.22), 0.20, 0.030),
    TOE: ImpactSound((95.0, 230.0, 560.0), (0.022, 0.014, 0.006), (0.6, 0.5, 0.25), 0.35, 0.050),
    FORE_HOOF: ImpactSound(
        (120.0, 380.0, 950.0), (0.016, 0.010, 0.006), (0.8, 0.9, 0.7), 0.30, 0.016
    ),
    HIND_HOOF: ImpactSound(
        (110.0, 340.0, 850.0), (0.018, 0.011, 0.006), (0.8, 0.85, 0.65), 0.30, 0.018
    ),
}


class Weather(NamedTuple):
    """Noise that is there without any fault."""

    wind: float  # Amplitude of the wind at the microphones, of full scale
    gustiness: float  # Standard deviation of the logarithm of the wind's strength over time
    ambient: float  # Amplitude of distant sounds, half of them common to all sensors


def draw_weather(rng: Generator) -> Weather:
    """Weather changes from subject to subject."""
    return Weather(
        wind=float(0.0020 * np.exp(0.6 * rng.normal())),
        gustiness=float(rng.uniform(0.3, 0.8)),
        ambient=float(0.0012 * np.exp(0.4 * rng.normal())),
    )


def footstep_sound(
    walker: Walker, contacts: Contacts, n_samples: int, rate: float, rng: Generator
) -> FloatArray:
    """Sound of the contacts at every sensor, shape (n_sensors, n_samples)."""
    waves = np.fft.rfft(_impact_waves(walker, contacts, rate, rng), axis=1)
    length = 2 * (waves.shape[1] - 1)
    frequencies = np.fft.rfftfreq(length, 1.0 / rate)
    sounds = np.zeros((len(SENSOR_POSITIONS), n_samples + length))
    x, y = _place(walker, contacts)
    for sensor, position in enumerate(SENSOR_POSITIONS):
        distance = np.hypot(x - position, y)
        arrival = (contacts.times + distance / SPEED_OF_SOUND) * rate
        first = np.floor(arrival).astype(int)
        decibels = -ABSORPTION * frequencies / 1000.0 * distance[:, None]
        # The shift by a fraction of a sample keeps the time differences between sensors exact.
        shift = np.exp(-2j * np.pi * frequencies / rate * (arrival - first)[:, None])
        nearness = REFERENCE_METRES / np.maximum(distance, REFERENCE_METRES)[:, None]
        gain = nearness * 10.0 ** (decibels / 20.0)
        heard = np.fft.irfft(waves * gain * shift, length, axis=1)
        inside = first < n_samples
        places = first[inside, None] + np.arange(length)
        np.add.at(sounds[sensor], places, heard[inside])
    return FULL_SCALE * sounds[:, :n_samples]


def background(weather: Weather, n_samples: int, rate: float, rng: Generator) -> FloatArray:
    """Wind, distant sounds and the noise of the microphones, shape (n_sensors, n_samples)."""
    n_sensors = len(SENSOR_POSITIONS)
    frequencies = np.fft.rfftfreq(n_samples, 1.0 / rate)
    # Turbulence is stronger the slower it is, and local to each microphone.
    turbulence = 1.0 / (1.0 + (frequencies / 25.0) ** 2) ** (5.0 / 6.0)
    wind = _coloured(n_sensors, n_samples, turbulence, rng)
    gusts = _coloured(1, n_samples, np.exp(-((frequencies / 0.3) ** 2)), rng)
    wind *= np.exp(weather.gustiness * gusts)
    distant = _coloured(n_sensors + 1, n_samples, 1.0 / (1.0 + frequencies / 150.0), rng)
    ambient = np.sqrt(0.5) * (distant[:n_sensors] + distant[n_sensors])
    self_noise = rng.normal(size=(n_sensors, n_samples))
    return weather.wind * wind + weather.ambient * ambient + 0.0002 * self_noise


def _place(walker: Walker, contacts: Contacts) -> tuple[FloatArray, FloatArray]:
    """Where contacts happen: along the line of sensors, and distance from it."""
    along = walker.direction * contacts.along
    x = along * np.cos(walker.heading)
    y = walker.offset + contacts.beside + along * np.sin(walker.heading)
    return x, y


def _impact_waves(walker: Walker, contacts: Contacts, rate: float, rng: Generator) -> FloatArray:
    """Sound of every contact at the source; each strike differs a little from the others."""
    length = 2 * int(np.ceil(IMPACT_SECONDS * rate / 2.0))
    time = np.arange(length) / rate
    waves = np.zeros((len(contacts.times), length))
    for kind, sound in IMPACT_SOUNDS.items():
        members = np.flatnonzero(contacts.kind == kind)
        if not len(members):
            continue
        animal = walker.animal if kind in (FORE_HOOF, HIND_HOOF) else None
        hardness = walker.hardness if animal is None else animal.hardness
        struck = hardness * np.exp(0.08 * rng.normal(size=(len(members), 1)))
        friction = sound.friction * np.exp(-time / sound.friction_decay)
        wave = friction * rng.normal(size=(len(members), length))
        modes = zip(sound.frequencies, sound.decays, sound.weights, strict=True)
        for frequency, decay, weight in modes:
            oscillation = np.sin(2.0 * np.pi * frequency * struck * time)
            wave += weight * np.exp(-time / decay) * oscillation
        waves[members] = contacts.strength[members, None] * wave
    return waves


def _coloured(rows: int, n_samples: int, amplitude: FloatArray, rng: Generator) -> FloatArray:
    """Gaussian noise of unit variance with a given amplitude spectrum, shape (rows, n_samples)."""
    spectrum = np.fft.rfft(rng.normal(size=(rows, n_samples)), axis=1) * amplitude
    noise: FloatArray = np.fft.irfft(spectrum, n_samples, axis=1)
    return noise / noise.std(axis=1, keepdims=True)
