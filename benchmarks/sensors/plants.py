"""Two simulated plants with lagged dynamics, and sensor faults of known kind.

Every number of a plant is drawn from a range by its seed: no plant is the same as another.

- ``linear_plant``: autoregressive hidden factors (time constants 3 to 60 rows), mixed into the
  sensors with delays of 0 to 6 rows, sensor lag and noise.
- ``tank_plant``: a chain of tanks with square-root outflow, valves under PI control that follow
  changing set points, temperatures, and measured flows, levels and temperatures with delays.
"""

from __future__ import annotations

import numpy as np

KINDS = (
    "stuck",
    "stuck_noise",
    "drift",
    "spikes",
    "scale",
    "swapped",
    "missing",
    "noisy",
    "offset",
)


def linear_plant(n, n_sensors, seed, *, run=0, slow=1.0):
    """Readings of shape (n, n_sensors).

    Parameters
    ----------
    run : draws another stretch of the same plant
    slow : factor of all time constants
    """
    plant, rng = np.random.default_rng(seed), np.random.default_rng((seed, run))
    n_factors = int(plant.integers(2, max(3, n_sensors // 3) + 1))
    constants = slow * np.exp(plant.uniform(np.log(3), np.log(60), n_factors))
    mixing = plant.normal(size=(n_factors, n_sensors)) * (
        plant.random((n_factors, n_sensors)) < plant.uniform(0.4, 0.9)
    )
    mixing[plant.integers(n_factors, size=n_sensors), np.arange(n_sensors)] += 1.0
    delays = plant.integers(0, 7, n_sensors)
    lag = plant.uniform(0.0, 0.6, n_sensors)
    noise = plant.uniform(0.05, 0.3, n_sensors)
    scale, level = np.exp(plant.normal(0, 2, n_sensors)), plant.normal(0, 20, n_sensors)
    warm = int(300 * slow)
    factors = np.zeros((n + warm, n_factors))
    kept = np.exp(-1.0 / constants)
    shocks = rng.normal(size=factors.shape) * np.sqrt(1 - kept**2)
    for t in range(1, len(factors)):
        factors[t] = kept * factors[t - 1] + shocks[t]
    clean = factors @ mixing
    clean /= np.sqrt((mixing**2).sum(axis=0))  # factors have variance 1
    moved = np.column_stack([np.roll(clean[:, i], delays[i]) for i in range(n_sensors)])
    for t in range(1, len(moved)):
        moved[t] = lag * moved[t - 1] + (1 - lag) * moved[t]
    measured = moved + noise * rng.normal(size=moved.shape)
    return (level + scale * measured)[warm:]


def tank_plant(n, n_sensors, seed, *, run=0, slow=1.0):
    """As :func:`linear_plant`, non-linear and under control."""
    plant, rng = np.random.default_rng(seed + 10_000), np.random.default_rng((seed, run, 1))
    n_tanks = max(2, -(-n_sensors // 3))
    area, outlet = plant.uniform(2, 12, n_tanks), plant.uniform(0.6, 1.4, n_tanks)
    gain, reset = plant.uniform(0.3, 1.0, n_tanks), plant.uniform(10, 60, n_tanks)
    heat, loss = plant.uniform(0.2, 1.0, n_tanks), plant.uniform(0.01, 0.05, n_tanks)
    delays, noise = plant.integers(0, 6, 3 * n_tanks), plant.uniform(0.03, 0.2, 3 * n_tanks)
    warm = int(500 * slow)
    level, temperature = np.full(n_tanks, 1.0), np.full(n_tanks, 40.0)
    integral, setpoint = np.zeros(n_tanks), np.ones(n_tanks)
    feed, inlet, hold = 1.0, 40.0, slow * plant.uniform(15, 50)
    rows = np.empty((n + warm, 3 * n_tanks))
    for t in range(n + warm):
        feed += -0.03 / slow * (feed - 1.0) + 0.03 / np.sqrt(slow) * rng.normal()
        inlet += -0.02 / slow * (inlet - 40.0) + 0.3 / np.sqrt(slow) * rng.normal()
        if rng.random() < 1.0 / hold:
            setpoint[rng.integers(n_tanks)] = rng.uniform(0.7, 1.4)
        flow_in, temperature_in = max(feed, 0.0), inlet
        for i in range(n_tanks):
            error = level[i] - setpoint[i]
            integral[i] = np.clip(integral[i] + error / reset[i], -1.0, 1.0)
            valve = np.clip(0.5 + gain[i] * error + 0.3 * integral[i], 0.02, 1.0)
            flow = 2 * valve * outlet[i] * np.sqrt(max(level[i], 0.0))
            level[i] = max(level[i] + (flow_in - flow) / area[i], 0.01)
            mixed = flow_in * (temperature_in - temperature[i]) / (area[i] * level[i])
            temperature[i] += mixed + heat[i] - loss[i] * (temperature[i] - 20.0)
            rows[t, 3 * i : 3 * i + 3] = level[i], flow, temperature[i]
            flow_in, temperature_in = flow, temperature[i]
    moved = np.column_stack([np.roll(rows[:, i], delays[i]) for i in range(rows.shape[1])])
    moved += noise * np.tile([0.2, 0.3, 5.0], n_tanks) * rng.normal(size=moved.shape)
    return moved[warm:, :n_sensors]


PLANTS = {"linear": linear_plant, "tanks": tank_plant}


def with_faults(X, deviation, seed, *, n_faults=18, kinds=KINDS):
    """Copies of the rows with faults of single sensors, one after another.

    Sizes are drawn from ranges, in deviations of the sensor. Drift: 2 to 5 at its end. Noise: 1 to
    3. Offset: 2 to 5. Scale: by 0.3 to 0.6 or 1.7 to 4. Spikes: 4 to 10. A fault has 60 to 200
    rows.

    Returns
    -------
    readings, kind of every cell ("" if good), list of (sensor, kind, start, stop)
    """
    rng = np.random.default_rng((seed, 7))
    X, n, d = X.copy(), len(X), X.shape[1]
    kind_of = np.full(X.shape, "", dtype=object)
    places, faults = np.linspace(40, n - 40, n_faults + 1).astype(int), []
    room = int(np.diff(places).min())
    for i in range(n_faults):
        kind, sensor = kinds[i % len(kinds)], int(rng.integers(d))
        length = int(rng.integers(60, min(200, room - 60)))
        start = int(places[i] + rng.integers(0, max(1, room - length - 50)))
        rows, s = slice(start, start + length), deviation[sensor]
        own = X[rows, sensor]
        if kind == "stuck":
            X[rows, sensor] = own[0]
        elif kind == "stuck_noise":
            X[rows, sensor] = own[0] + 0.02 * s * rng.normal(size=length)
        elif kind == "drift":
            X[rows, sensor] += (
                rng.choice([-1, 1]) * rng.uniform(2, 5) * s * np.linspace(0, 1, length)
            )
        elif kind == "spikes":
            hit = rng.random(length) < 0.1
            hit[0] = True
            X[rows, sensor] += hit * rng.choice([-1, 1], length) * rng.uniform(4, 10, length) * s
        elif kind == "scale":
            factor = rng.choice([rng.uniform(0.3, 0.6), rng.uniform(1.7, 4.0)])
            middle = np.mean(X[:, sensor])
            X[rows, sensor] = middle + factor * (own - middle)
        elif kind == "swapped":
            other = int((sensor + rng.integers(1, d)) % d)
            X[rows, sensor], X[rows, other] = X[rows, other].copy(), own.copy()
            kind_of[rows, other] = kind
            faults.append((other, kind, start, start + length))
        elif kind == "missing":
            X[rows, sensor] = np.nan
        elif kind == "noisy":
            X[rows, sensor] += rng.uniform(1, 3) * s * rng.normal(size=length)
        elif kind == "offset":
            X[rows, sensor] += rng.choice([-1, 1]) * rng.uniform(2, 5) * s
        kind_of[rows, sensor] = kind
        faults.append((sensor, kind, start, start + length))
    return X, kind_of, faults
