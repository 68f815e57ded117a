"""What a command learns from: a table of measurements, or a manifest of recordings."""

from __future__ import annotations

import argparse

from .own_models import with_embeddings
from .reading_options import reading_of
from .recordings import lists_recordings, train_on_recordings
from .sensor_classes import has_sensor_columns, train_on_sensor_table
from .sensors import are_together, train_on_sensors
from .training import Training, train_on_table


def train(
    options: argparse.Namespace, *, not_features: tuple[str, ...] = (), sensors: str = "apart"
) -> Training:
    """Read the table and fit; what was left out is said on standard error.

    Parameters
    ----------
    sensors : whether recordings of several sensors at the same time are one sample
    """
    from ..rows.tables import read_table

    table = read_table(options.table, **reading_of(options))
    table = with_embeddings(table, getattr(options, "embeddings", None))
    of_sensors = has_sensor_columns(options)
    of_recordings = lists_recordings(table, options.recordings)
    if of_recordings and of_sensors:
        raise ValueError("--sensor and --prefix name columns of a table, not of recordings")
    if of_recordings and are_together(table, sensors):
        return train_on_sensors(options, table)
    if sensors == "together" and not of_recordings:
        raise ValueError(
            "--sensors together is for recordings: say which columns of a table are a sensor with "
            "--sensor NAME=COLUMN,COLUMN or --prefix MARK"
        )
    if of_sensors:
        return train_on_sensor_table(options, table)
    if getattr(options, "spans", None) is not None:
        raise ValueError("--spans needs sensors: name their columns with --sensor or --prefix")
    if of_recordings:
        return train_on_recordings(options, table)
    return train_on_table(options, table, not_features=not_features)
