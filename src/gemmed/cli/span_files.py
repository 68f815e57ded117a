"""Faults as stretches of time: on the terminal, and as CSV, Parquet or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .outputs import check_not_an_input, check_output, check_table_output, emit_table
from .sensor_tables import Clock, plain
from .terminal import note

MOST_TOLD = 20
"""Number of faults that are listed on standard error."""
FIELDS = ("sensor", "recording", "start", "stop", "rows", "probability")


def add_spans_option(parser: Any) -> None:
    """``--spans``: a file for them."""
    parser.add_argument(
        "--spans",
        metavar="FILE",
        help="when which sensor is broken, as CSV, Parquet or JSON by its name; of several sensors",
    )


def check_spans_output(path: str, name: str, *inputs: str) -> None:
    """Raise an error now if the file could not be written after the work."""
    (check_output if path.endswith(".json") else check_table_output)(path, name)
    check_not_an_input(path, *inputs, name=name)


def write_spans(
    records: list[dict[str, Any]], fields: Sequence[str], path: str, *, raw_cells: bool = False
) -> None:
    """Write spans, one a row or a JSON object."""
    if path.endswith(".json"):
        from .._core.whole_files import replacing

        with replacing(path) as temporary:
            temporary.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        return
    import pandas as pd

    emit_table(pd.DataFrame(records, columns=list(fields)), path, raw_cells=raw_cells)


def span_records(spans: list[Any], clock: Clock | None = None) -> list[dict[str, Any]]:
    """Faults with times as they are shown."""
    show = plain if clock is None else clock.shown
    return [
        dict(
            zip(
                FIELDS,
                (
                    span.sensor,
                    None if span.group is None else str(span.group),
                    show(span.start),
                    show(span.stop),
                    span.n_samples,
                    round(span.probability, 3),
                ),
                strict=True,
            )
        )
        for span in spans
    ]


def report_spans(spans: list[Any], path: str | None, clock: Clock | None = None) -> None:
    """Say which sensors are broken when, and write all of it to a file if there is one."""
    records = span_records(spans, clock)
    for record in records[:MOST_TOLD]:
        where = "" if record["recording"] is None else f" in {record['recording']}"
        note(f"broken: sensor {record['sensor']}{where}, {record['start']} to {record['stop']}")
    if len(records) > MOST_TOLD:
        note(f"{len(records) - MOST_TOLD} more broken stretches: --spans FILE has all of them")
    if path is not None:
        write_spans(records, FIELDS, path)
