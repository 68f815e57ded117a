"""From impacts on the ground to the signals of four microphones: sound, propagation, wind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.types import FloatArray
from .gait import FORE_HOOF, HEEL, HIND_HOOF, TOE, Contacts, Walker

SENSOR_POSITIONS = np.array([-6.0, -2.0, 2.0, 6.0])
"""Along the line of sensors, metres."""
SPEED_OF_SOUND = 343.0
ABSORPTION = 0.6
"""Decibels a metre at 1 kHz over ground with low plants, proportional to the frequency."""
NEAREST = 1.0
"""Metres at which an impact of strength 1 has its nominal amplitude."""
IMPACT_SECONDS = 0.22
FULL_SCALE = 0.35
"""Amplitude of a typical heel strike at 1 metre; 1 is the largest value of the recorder."""


class ImpactSound(NamedTuple):
    """A struck surface: three damped modes and a burst of friction noise."""

    frequencies: tuple[float, float, float]
    """Hertz, before the hardness of sole, hoof and ground."""
    decays: tuple[float, float, float]
    """Seconds to 1/e."""
    weights: tuple[float, float, float]
    friction: float
    """Amplitude of the noise burst."""
    friction_decay: float
    """Seconds to 1/e."""


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

    wind: float
    """Amplitude of the wind at the microphones, of full scale."""
    gustiness: float
    """Standard deviation of the logarithm of the wind's strength over time."""
    ambient: float
    """Amplitude of distant sounds, half of them common to all sensors."""


def draw_weather(rng: np.random.Generator) -> Weather:
    """Weather changes from subject to subject."""
    return Weather(
        wind=float(0.0020 * np.exp(0.6 * rng.normal())),
        gustiness=float(rng.uniform(0.3, 0.8)),
        ambient=float(0.0012 * np.exp(0.4 * rng.normal())),
    )


def footstep_sound(
    walker: Walker, contacts: Contacts, n_samples: int, rate: float, rng: np.random.Generator
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
        gain = NEAREST / np.maximum(distance, NEAREST)[:, None] * 10.0 ** (decibels / 20.0)
        heard = np.fft.irfft(waves * gain * shift, length, axis=1)
        inside = first < n_samples
        places = first[inside, None] + np.arange(length)
        np.add.at(sounds[sensor], places, heard[inside])
    return FULL_SCALE * sounds[:, :n_samples]


def background(
    weather: Weather, n_samples: int, rate: float, rng: np.random.Generator
) -> FloatArray:
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


def _impact_waves(
    walker: Walker, contacts: Contacts, rate: float, rng: np.random.Generator
) -> FloatArray:
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
        wave = (
            sound.friction
            * np.exp(-time / sound.friction_decay)
            * rng.normal(size=(len(members), length))
        )
        for frequency, decay, weight in zip(
            sound.frequencies, sound.decays, sound.weights, strict=True
        ):
            oscillation = np.sin(2.0 * np.pi * frequency * struck * time)
            wave += weight * np.exp(-time / decay) * oscillation
        waves[members] = contacts.strength[members, None] * wave
    return waves


def _coloured(
    rows: int, n_samples: int, amplitude: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Gaussian noise of unit variance with a given amplitude spectrum, shape (rows, n_samples)."""
    spectrum = np.fft.rfft(rng.normal(size=(rows, n_samples)), axis=1) * amplitude
    noise: FloatArray = np.fft.irfft(spectrum, n_samples, axis=1)
    return noise / noise.std(axis=1, keepdims=True)
