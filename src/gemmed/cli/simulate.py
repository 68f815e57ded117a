"""``gemmed simulate``: write simulated data to a file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .._core.optional import require
from .commands import add_json_option, add_parser
from .progress import TargetProgress
from .terminal import say

EPILOG = """examples:
  gemmed simulate ring --out ring.csv
  gemmed simulate ring --radius 75 --corruption 0.4 --layout separated --seed 3 --out ring.csv

Columns: x1, x2, y (-1 or 1), anomalous (0 or 1), part (train or test). Test samples are clean.
"""

FOOTSTEPS_EPILOG = """examples:
  gemmed simulate footsteps --out footsteps
  gemmed simulate footsteps --out few --humans 6 --animals 6 --seed 3 --json
  gemmed features footsteps/manifest.csv --out features.parquet

Writes audio/*.wav (4 kHz, one file for each subject and sensor), manifest.csv (path, label,
subject, sensor), faults.csv (subject, sensor, kind, start, stop) and segments.csv (how much of each
segment is faulty, and whether it counts as an anomaly).
"""


def add_command(commands: Any) -> None:
    """Register the command and its kinds of data."""
    parser = commands.add_parser(
        "simulate", help="write simulated data", description="Write simulated data with the truth."
    )
    kinds = parser.add_subparsers(
        title="data", metavar="DATA", required=True, parser_class=type(parser)
    )
    ring = add_parser(
        kinds,
        "ring",
        run_ring,
        summary="two Gaussian classes, anomalies on a ring around them",
        description="Two Gaussian classes in the plane, anomalies on a ring around them (CSV).",
        epilog=EPILOG,
    )
    ring.add_argument("--out", required=True, help="file to write")
    ring.add_argument("--per-class", type=int, default=100, help="training samples a class")
    ring.add_argument("--test-per-class", type=int, default=2000, help="test samples a class")
    ring.add_argument("--radius", type=float, default=55.0, help="radius of the ring (default: 55)")
    ring.add_argument("--corruption", type=float, default=0.2, help="share of anomalies")
    ring.add_argument("--layout", choices=["paper", "separated"], default="paper")
    ring.add_argument("--seed", type=int, default=0)
    add_json_option(ring)
    _add_footsteps(kinds)


def _add_footsteps(kinds: Any) -> None:
    footsteps = add_parser(
        kinds,
        "footsteps",
        run_footsteps,
        summary="humans alone or with an animal, recorded by four sensors that fail at times",
        description="Recordings of walkers by four acoustic sensors that fail at times (WAV, CSV).",
        epilog=FOOTSTEPS_EPILOG,
    )
    footsteps.add_argument("--out", required=True, help="folder to write")
    footsteps.add_argument("--humans", type=int, default=84, help="humans alone (default: 84)")
    footsteps.add_argument(
        "--animals", type=int, default=66, help="humans leading an animal (default: 66)"
    )
    footsteps.add_argument(
        "--duration", type=float, default=13.5, help="seconds a recording (default: 13.5)"
    )
    footsteps.add_argument("--healthy", action="store_true", help="the same without faults")
    footsteps.add_argument("--seed", type=int, default=0)
    add_json_option(footsteps)


def run_footsteps(options: argparse.Namespace) -> int:
    """Write recordings, manifest and truth."""
    require("rich", "the command line needs", "cli")
    require("soundfile", "recordings need", "audio")
    from ..experiments.footsteps.data import write_footsteps

    with TargetProgress(enabled=not options.json) as bar:
        summary = write_footsteps(
            options.out,
            n_human=options.humans,
            n_animal=options.animals,
            duration=options.duration,
            faults=not options.healthy,
            seed=options.seed,
            progress=lambda done, total: bar.update("footsteps", done, total),
        )
    if options.json:
        print(json.dumps(summary))
    else:
        say(
            f"{summary['recordings']} recordings of {summary['subjects']} subjects, "
            f"{summary['faults']} faults, {summary['anomalous']} of {summary['segments']} segments "
            f"anomalous: {summary['folder']}"
        )
    return 0


def run_ring(options: argparse.Namespace) -> int:
    """Write the ring data as CSV."""
    import numpy as np

    from ..datasets import make_ring
    from ..experiments.files import write_csv

    if options.seed < 0:
        raise ValueError(f"seed={options.seed} must not be negative")
    data = make_ring(
        options.per_class,
        radius=options.radius,
        corruption=options.corruption,
        layout=options.layout,
        n_test_per_class=options.test_per_class,
        random_state=options.seed,
    )
    rows = [
        {
            "x1": repr(float(x1)),
            "x2": repr(float(x2)),
            "y": int(y),
            "anomalous": int(bad),
            "part": part,
        }
        for X, labels, anomalous, part in (
            (data.X, data.y, data.anomalous, "train"),
            (data.X_test, data.y_test, np.zeros(len(data.y_test), dtype=bool), "test"),
        )
        for (x1, x2), y, bad in zip(X, labels, anomalous, strict=True)
    ]
    path = Path(options.out)
    write_csv(path, rows)
    summary = {"file": str(path), "rows": len(rows), "anomalous": int(data.anomalous.sum())}
    if options.json:
        print(json.dumps(summary))
    else:
        say(f"{summary['rows']} rows, {summary['anomalous']} anomalous: {path}")
    return 0
