"""Tables of features: one row a segment; written as Parquet or CSV, joined over sensors."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core.exceptions import ManifestError
from .._core.optional import require
from .._core.types import FloatArray
from .._core.whole_files import replacing
from ..rows.parquet_files import read_parquet
from ..rows.tables import BASIS
from .manifest import REQUIRED
from .recordings import FLAGS
from .transformers import SegmentPCA, component_names

TIMES = ("start", "end", "window_start")
"""Seconds of a segment in its recording."""
FACTS = (*REQUIRED, "segment", *TIMES, *FLAGS)
"""Columns that are not features."""


@dataclass(frozen=True)
class FeatureTable:
    """Rows of features with what they belong to.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> len(table), table.names
    (4, ['a', 'b'])
    """

    facts: dict[str, Any]
    """Arrays of shape (n_rows,): path, label, subject, sensor, segment, start, ..., flags."""
    features: FloatArray
    """Shape (n_rows, n_features)."""
    names: list[str]
    """Names of the features."""
    basis: str | None = None
    """Which principal components they are scores of: the same text for the same components."""

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class Reduction:
    """What the principal components of one sensor hold.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, reduce_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> _, kept = reduce_table(table, 1)
    >>> [(of.sensor, round(of.variance_kept, 3)) for of in kept]
    [('1', 1.0), ('2', 1.0)]
    """

    sensor: str
    """Name of the sensor."""
    variance_kept: float
    """Share of the variance that the components hold."""
    power_kept: float
    """Share of the power (mean included) that the components and the mean hold."""


def reduce_table(table: FeatureTable, n_components: int) -> tuple[FeatureTable, list[Reduction]]:
    """Principal components of the features, for each sensor on its own.

    Parameters
    ----------
    table : FeatureTable
        With the fact ``sensor``.
    n_components : int
        Components of each sensor.

    Returns
    -------
    FeatureTable, list of Reduction

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, reduce_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> reduced, kept = reduce_table(table, 1)
    >>> reduced.features.shape, reduced.names
    ((4, 1), ['p00'])
    """
    scores = np.empty((len(table), n_components))
    reductions = []
    basis = hashlib.blake2b(digest_size=16)
    for sensor in _ordered(table.facts["sensor"]):
        rows = table.facts["sensor"] == sensor
        limit = min(int(rows.sum()), table.features.shape[1])
        if not 1 <= n_components <= limit or rows.sum() < 2:
            raise ManifestError(
                f"{n_components} components of sensor {sensor!r} cannot be had from "
                f"{int(rows.sum())} segments of {table.features.shape[1]} numbers: choose fewer "
                "components, or give more recordings"
            )
        pca = SegmentPCA(n_components)
        scores[rows] = pca.fit_transform(table.features[rows])
        basis.update(str(sensor).encode() + pca.means_.tobytes() + pca.components_.tobytes())
        kept = float(pca.variance_kept_[0]), float(pca.power_kept_[0])
        reductions.append(Reduction(str(sensor), *kept))
    names = component_names(n_components)
    return FeatureTable(table.facts, scores, names, basis.hexdigest()), reductions


def join_sensors(table: FeatureTable) -> FeatureTable:
    """One row a subject and segment, with the features of all sensors side by side.

    Segments that some sensor lacks are left out. Flags are true if they are for some sensor.
    Features are named ``SENSOR_NAME``; sensors are in the order of their names (numbers by value).

    Parameters
    ----------
    table : FeatureTable
        With the facts ``subject``, ``segment``, ``sensor`` and ``label``.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, join_sensors
    >>> facts = {
    ...     "subject": np.array(["ann", "ann", "bob", "bob"]),
    ...     "sensor": np.array(["1", "2", "1", "2"]),
    ...     "segment": np.zeros(4, dtype=int),
    ...     "label": np.array(["walk", "walk", "run", "run"]),
    ... }
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> joined = join_sensors(table)
    >>> joined.names, joined.facts["label"].tolist()
    (['1_a', '1_b', '2_a', '2_b'], ['walk', 'run'])
    """
    facts = table.facts
    sensors = _ordered(facts["sensor"])
    places: dict[tuple[str, int], dict[str, int]] = {}
    for row, key in enumerate(zip(facts["subject"], facts["segment"], strict=True)):
        found = places.setdefault((str(key[0]), int(key[1])), {})
        sensor = facts["sensor"][row]
        if sensor in found:
            raise ManifestError(
                f"subject {key[0]!r} has two recordings of sensor {sensor!r}: sensors can only be "
                "joined if a subject has one recording of each"
            )
        found[sensor] = row
    complete = [
        [found[s] for s in sensors] for found in places.values() if len(found) == len(sensors)
    ]
    if not complete:
        raise ManifestError("no segment has features of every sensor: there is nothing to join")
    rows = np.array(complete)
    for first, *others in facts["label"][rows]:
        if any(other != first for other in others):
            raise ManifestError(
                f"the sensors of a subject have different labels ({first!r}, {others[0]!r})"
            )
    kept = {name: facts[name][rows[:, 0]] for name in ("label", "subject", "segment")}
    flags = {name: facts[name][rows].any(axis=1) for name in FLAGS if name in facts}
    names = [f"{sensor}_{name}" for sensor in sensors for name in table.names]
    features = table.features[rows].reshape(len(rows), -1)
    return FeatureTable({**kept, **flags}, features, names, table.basis)


def write_table(path: str | os.PathLike[str], table: FeatureTable) -> None:
    """Write a table, as Parquet or (if the name ends in ``.csv``) as CSV.

    A Parquet file says which basis its components are of, so that ``gemmed predict`` can refuse
    those of another one.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, read_table, write_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> write_table("features.parquet", table)
    >>> read_table("features.parquet").names
    ['a', 'b']
    """
    require("pyarrow", "tables of features need", "audio")
    import pyarrow
    from pyarrow import csv, parquet

    columns = [pyarrow.array(values) for values in table.facts.values()]
    columns += [pyarrow.array(column) for column in np.ascontiguousarray(table.features.T)]
    arrow = pyarrow.table(columns, [*table.facts, *table.names])
    if table.basis is not None:
        arrow = arrow.replace_schema_metadata({BASIS: table.basis})
    with replacing(path) as temporary:
        if Path(path).suffix == ".csv":
            csv.write_csv(arrow, temporary)
        else:
            # Dictionaries and compression gain nothing on measured numbers.
            parquet.write_table(arrow, temporary, use_dictionary=False, compression="none")


def read_table(path: str | os.PathLike[str]) -> FeatureTable:
    """Read what :func:`write_table` wrote as Parquet.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, read_table, write_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> write_table("features.parquet", table)
    >>> read_table("features.parquet").features.shape
    (4, 2)
    """
    require("pyarrow", "tables of features need", "audio")
    arrow = read_parquet(path, repr(os.fspath(path)))
    known = [name for name in arrow.column_names if name in FACTS]
    names = [name for name in arrow.column_names if name not in FACTS]
    values = {name: arrow[name].to_numpy() for name in known}
    features = np.stack([arrow[name].to_numpy() for name in names], axis=1)
    basis = (arrow.schema.metadata or {}).get(BASIS.encode())
    return FeatureTable(values, features, names, None if basis is None else basis.decode())


def _ordered(sensors: Any) -> list[Any]:
    """Names in order; numbers by value, before words."""
    numbers = {name: (0, int(name), "") for name in set(sensors) if str(name).isdecimal()}
    return sorted(set(sensors), key=lambda name: numbers.get(name, (1, 0, str(name))))
