"""SensIT: vehicles recorded by acoustic and seismic sensors, failures of one of them injected."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np

from gemmed._core.exceptions import ExperimentDataError
from gemmed._core.types import BoolArray, FloatArray
from gemmed.experiments.runner import Result, Task

from .comparison import Samples, compare

FOLDER, FILE = "sensit_vehicle_subset", "vehicle_train.json"
N_TRAIN, MAX_TEST_ROWS = 500, 1000
FAILURE_KINDS = ("none", "stuck", "missing", "noisy")
FAILING = 0.3
"""Share of the samples in which one of the two types fails."""
NOISE = 2.0
"""Deviation of the noise of a noisy type, in deviations of its columns."""


@lru_cache(maxsize=1)
def vehicles(folder: str) -> tuple[FloatArray, np.ndarray]:
    """Rows of all nodes: 50 features of each of the two types, and the class."""
    path = Path(folder) / FOLDER / FILE
    try:
        content = json.loads(path.read_text())["user_data"]
        X = np.concatenate([np.asarray(node["x"], dtype=float) for node in content.values()])
        y = np.concatenate([np.asarray(node["y"]) for node in content.values()])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExperimentDataError(f"cannot read {str(path)!r} ({error!r})") from error
    return X, (y.reshape(-1) > 0).astype(int)


def fail(X: FloatArray, kind: str, rng: np.random.Generator) -> tuple[list[FloatArray], BoolArray]:
    """Blocks of both types with failures, and the truth."""
    blocks = [part.copy() for part in np.split(X, 2, axis=1)]
    broken = np.zeros((len(X), 2), dtype=bool)
    if kind == "none":
        return blocks, broken
    failing = np.flatnonzero(rng.random(len(X)) < FAILING)
    broken[failing, rng.integers(0, 2, len(failing))] = True
    for sensor, block in enumerate(blocks):
        rows = np.flatnonzero(broken[:, sensor])
        if kind == "stuck":  # at what it read last
            block[rows] = block[rng.integers(len(block))]
        elif kind == "missing":
            block[rows] = np.nan
        else:
            noise = rng.normal(size=(len(rows), block.shape[1]))
            block[rows] += NOISE * block.std(axis=0) * noise
    return blocks, broken


def evaluate_vehicles(folder: str, kind: str, split: int) -> Result:
    """All methods on one split with failures of one kind in training and test."""
    X, y = vehicles(folder)
    rng = np.random.default_rng([split, FAILURE_KINDS.index(kind)])
    order = np.random.default_rng(split).permutation(len(X))
    parts = []
    for rows in (order[:N_TRAIN], order[N_TRAIN : N_TRAIN + MAX_TEST_ROWS]):
        blocks, broken = fail(X[rows], kind, rng)
        parts.append(Samples(blocks, blocks, y[rows], broken))
    return {"methods": compare(parts[0], parts[1], split)}


def vehicles_task(folder: str, kind: str, split: int) -> Task:
    return Task(
        f"sensors/vehicles/{kind}/split-{split:03d}",
        evaluate_vehicles,
        {"folder": folder, "kind": kind, "split": split},
    )
