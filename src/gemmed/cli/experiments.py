"""``gemmed reproduce`` and ``gemmed simulate``: figures of the paper, and data with the truth."""

import argparse
from pathlib import Path

import numpy as np

from .. import __version__
from .._core.optional import require
from ..datasets import make_ring
from ..experiments import reproduce as targets
from ..experiments.files import write_csv
from .terminal import print_json, print_table, report, target_progress


def reproduce(options: argparse.Namespace) -> int:
    """Make the targets and print what was written."""
    require("rich", "the command line needs", "cli")
    with target_progress(enabled=not options.json) as update:
        summaries = targets.reproduce(
            options.targets,
            options.out,
            n_runs=options.runs,
            jobs=options.jobs,
            quick=options.quick,
            version=__version__,
            progress=update,
        )
    if options.json:
        print_json(summaries)
        return 0
    cells = [
        [own["target"], own["runs"], f"{own['seconds']:.1f}", Path(own["out"], own["files"][0])]
        for own in summaries
    ]
    print_table(["target", "runs", "seconds", "picture"], cells)
    return 0


def simulate_ring(options: argparse.Namespace) -> int:
    """Write the ring data as CSV."""
    data = make_ring(
        options.per_class,
        radius=options.radius,
        corruption=options.corruption,
        layout=options.layout,
        n_test_per_class=options.test_per_class,
        random_state=options.seed,
    )
    nominal = np.zeros(len(data.y_test), dtype=bool)
    rows = [
        {"x1": repr(float(x1)), "x2": repr(float(x2)), "y": int(y), "anomalous": int(bad),
         "part": part}
        for X, labels, anomalous, part in (
            (data.X, data.y, data.anomalous, "train"),
            (data.X_test, data.y_test, nominal, "test"),
        )
        for (x1, x2), y, bad in zip(X, labels, anomalous, strict=True)
    ]  # fmt: skip
    write_csv(Path(options.out), rows)
    n_bad = int(data.anomalous.sum())
    summary = {"file": str(Path(options.out)), "rows": len(rows), "anomalous": n_bad}
    line = f"{len(rows)} rows, {n_bad} anomalous: {summary['file']}"
    report(summary, [line], as_json=options.json)
    return 0


def simulate_footsteps(options: argparse.Namespace) -> int:
    """Write recordings, manifest and truth."""
    require("rich", "the command line needs", "cli")
    require("soundfile", "recordings need", "audio")
    from ..experiments.footsteps.data import write_footsteps

    with target_progress(enabled=not options.json) as update:
        summary = write_footsteps(
            options.out,
            n_human=options.humans,
            n_animal=options.animals,
            duration=options.duration,
            faults=not options.healthy,
            seed=options.seed,
            progress=lambda done, total: update("footsteps", done, total),
        )
    line = (
        f"{summary['recordings']} recordings of {summary['subjects']} subjects, "
        f"{summary['faults']} faults, {summary['anomalous']} of {summary['segments']} segments "
        f"anomalous: {summary['folder']}"
    )
    report(summary, [line], as_json=options.json)
    return 0
