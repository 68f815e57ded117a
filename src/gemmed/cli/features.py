"""``gemmed features``: from recordings to a table of acoustic features."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from .._core.optional import require
from .commands import add_jobs_option, add_json_option, add_parser, add_raw_cells_option
from .outputs import note_formulas
from .progress import TargetProgress
from .terminal import complain, say

if TYPE_CHECKING:
    from ..acoustics import FeatureTable, ManifestEntry

SOME_FAILED, ALL_FAILED = 3, 2

EPILOG = """The manifest is a CSV or Parquet table with the columns path, label and perhaps subject,
sensor, start, end (seconds in the file). Paths are relative to its folder. Files are WAV, FLAC or
OGG. They are resampled to one rate and mixed down to one channel. gemmed fit and gemmed audit take
a manifest directly. This command is for several sensors and other tools.

examples:
  gemmed features manifest.csv --out features.parquet --jobs 2
  gemmed features manifest.csv --out features.parquet --components 50 --join
  gemmed features clips.csv --out clips.parquet --segments 1 --window 0.5 --frames 50 --json

Columns: path, label, subject, sensor, segment, start, end, window_start (seconds), the flags
silent, clipped, padded, offset, truncated, then MFCCs (m0000, ...) or components (p00, ...).

A recording that cannot be used is named on standard error with its problem. The others are used.
Exit code: 0 all done, 3 some recordings could not be used, 2 none could, or a wrong call.
Finished recordings are kept in the folder OUT.parts: the same command does only what is missing.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "features",
        run,
        summary="MFCC features of recordings",
        description="Write MFCC features of the segments of recordings; defaults as in the paper.",
        epilog=EPILOG,
    )
    parser.add_argument("manifest", metavar="MANIFEST", help="table of recordings")
    parser.add_argument("--out", required=True, help="file to write (.parquet or .csv)")
    add_jobs_option(parser)
    add_json_option(parser)
    add_raw_cells_option(parser)
    parser.add_argument("--rate", type=float, help="sample rate (default: the most common one)")
    parser.add_argument(
        "--segments",
        type=_count_or_all,
        default=24,
        help="segments a recording, or 'all' that fit (default: 24)",
    )
    parser.add_argument(
        "--segment-seconds", type=float, help="(default: so that they cover the recording)"
    )
    parser.add_argument("--overlap", type=float, default=0.75, help="of segments (default: 0.75)")
    parser.add_argument(
        "--window", type=float, default=1.5, help="seconds of strongest response (default: 1.5)"
    )
    parser.add_argument("--frames", type=int, default=150, help="frames a window (default: 150)")
    parser.add_argument(
        "--frame-seconds", type=float, default=0.05, help="length of a frame (default: 0.05)"
    )
    parser.add_argument("--mfcc", type=int, default=13, help="coefficients (default: 13)")
    parser.add_argument("--mels", type=int, default=40, help="mel filters (default: 40)")
    parser.add_argument("--f-min", type=float, default=0.0, help="lowest frequency (default: 0)")
    parser.add_argument("--f-max", type=float, help="highest frequency (default: rate / 2)")
    parser.add_argument(
        "--components", type=int, help="principal components a sensor instead of MFCCs"
    )
    parser.add_argument(
        "--join", action="store_true", help="sensors side by side, one row a subject and segment"
    )


def _count_or_all(text: str) -> int | None:
    if text == "all":
        return None
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Compute what is missing, write the table, report the problems."""
    for package, extra in (("rich", "cli"), ("soundfile", "audio"), ("pyarrow", "audio")):
        require(package, "the command features needs", extra)
    from ..acoustics import read_manifest, write_table

    begin = time.perf_counter()
    _check_call(options)
    settings = _settings(options)
    entries = read_manifest(options.manifest)
    paths = [entry.located(Path(options.manifest).parent) for entry in entries]
    rates = _file_rates(paths)
    rate = _common_rate(options.rate, rates)
    if rate is not None:
        settings.samples(rate)
    work = _Work(options, entries, paths, rate, settings.as_dict())
    with TargetProgress(enabled=not options.json) as progress:
        parts = work.parts(lambda done, total: progress.update("features", done, total))
    problems = [
        {"path": entry.path, "problem": part["problem"]}
        for entry, part in zip(entries, parts, strict=True)
        if "problem" in part
    ]
    summary: dict[str, Any] = {
        "file": None,
        "recordings": len(entries),
        "failed": len(problems),
        "problems": problems,
        "rate": rate,
        "files_of_lower_rate": sum(n for r, n in rates.items() if rate is not None and r < rate),
        "computed": work.computed,
    }
    if len(problems) < len(entries):
        table = work.table(parts)
        summary["computed"] = work.computed
        summary.update(_facts(table, parts))
        table, reductions = _shape(table, options)
        if options.out.endswith(".csv") and not options.raw_cells:
            table = _with_text(table)
        write_table(options.out, table)
        summary.update(file=options.out, rows=len(table), columns=len(table.names))
        summary["components"] = [vars(reduction) for reduction in reductions]
    summary["seconds"] = round(time.perf_counter() - begin, 3)
    return _report(summary, as_json=options.json)


def _check_call(options: argparse.Namespace) -> None:
    if options.jobs < 1:
        raise ValueError(f"jobs={options.jobs} must be at least 1")
    if options.components is not None and options.components < 1:
        raise ValueError(f"components={options.components} must be at least 1")
    if options.rate is not None and not 1 <= options.rate <= 1e7:
        raise ValueError(f"rate={options.rate:g} must be between 1 and 10,000,000 samples a second")
    if Path(options.out).suffix not in (".parquet", ".csv"):
        raise ValueError(f"--out {options.out!r} must end in .parquet or .csv")
    if Path(options.out).is_dir():
        raise ValueError(f"--out {options.out!r} is a folder: name a file")
    if Path(options.out).resolve() == Path(options.manifest).resolve():
        raise ValueError(f"--out {options.out!r} is the manifest itself: name another file")


def _settings(options: argparse.Namespace) -> Any:
    from ..acoustics import FeatureSettings

    return FeatureSettings(
        n_segments=options.segments,
        overlap=options.overlap,
        segment=options.segment_seconds,
        window=options.window,
        n_windows=options.frames,
        frame=options.frame_seconds,
        n_mfcc=options.mfcc,
        n_mels=options.mels,
        f_min=options.f_min,
        f_max=options.f_max,
    )


def _file_rates(paths: Sequence[Path]) -> Counter[int]:
    """How many files have which sample rate; files that cannot be opened are left out."""
    from .._core.exceptions import AudioFileError
    from ..acoustics import audio_rate

    rates: Counter[int] = Counter()
    for path in dict.fromkeys(paths):
        with suppress(AudioFileError, OSError):  # reported when the file is read
            rates[audio_rate(path)] += 1
    return rates


def _common_rate(wanted: float | None, rates: Counter[int]) -> float | None:
    """The rate asked for, or the most common one: a damaged header does not decide for all."""
    if wanted is not None or not rates:
        return wanted
    return float(max(rates, key=lambda rate: (rates[rate], -rate)))


class _Work:
    """The recordings of a manifest as resumable tasks."""

    def __init__(
        self,
        options: argparse.Namespace,
        entries: Sequence[ManifestEntry],
        paths: Sequence[Path],
        rate: float | None,
        settings: dict[str, Any],
    ) -> None:
        from ..acoustics.feature_table import compute_part, part_arguments, part_name
        from ..experiments.files import prepare_folder
        from ..experiments.runner import Task

        self._jobs = options.jobs
        self._entries = entries
        self._folder = prepare_folder(Path(f"{options.out}.parts"))
        self._tasks = []
        for entry, path in zip(entries, paths, strict=True):
            arguments = part_arguments(entry, path.absolute(), rate=rate, settings=settings)
            name = part_name(arguments)
            # Two levels: a folder of a hundred thousand files is slow.
            name = f"{name[:2]}/{name[2:]}"
            part = os.path.abspath(self._folder / name)
            given = {"arguments": arguments, "version": __version__, "part": part}
            self._tasks.append(Task(name, compute_part, given))
        self.computed = 0

    def parts(self, progress: Any) -> list[dict[str, Any]]:
        """What every recording gave, in the order of the manifest."""
        from ..acoustics.feature_table import facts_of_part, read_part
        from ..experiments.runner import RunStore, Task, run_tasks

        class PartStore(RunStore):
            """The parts that the tasks write; a problem leaves none and is looked at again."""

            saved = 0

            def load(self, task: Task) -> dict[str, Any] | None:
                found = read_part(**task.arguments)
                return None if found is None else facts_of_part(found)

            def save(self, task: Task, result: dict[str, Any]) -> None:
                self.saved += 1

        store = PartStore(self._folder, __version__)
        found = run_tasks(self._tasks, store, jobs=self._jobs, progress=progress)
        self.computed = store.saved
        return [found[task.name] for task in self._tasks]

    def table(self, parts: Sequence[dict[str, Any]]) -> FeatureTable:
        """The table of the recordings without a problem."""
        from ..acoustics.feature_table import assemble_parts, read_part

        good = [i for i, part in enumerate(parts) if "problem" not in part]
        return assemble_parts(
            [self._entries[i] for i in good],
            [parts[i] for i in good],
            [partial(read_part, **self._tasks[i].arguments) for i in good],
        )


def _facts(table: FeatureTable, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from ..acoustics.sound_files import FLAGS

    powers = [part["cepstral_power"] for part in parts if "problem" not in part]
    return {
        "cepstral_power": sum(powers) / len(powers),
        "flagged_segments": {name: int(table.facts[name].sum()) for name in FLAGS},
    }


def _shape(table: FeatureTable, options: argparse.Namespace) -> tuple[FeatureTable, list[Any]]:
    """Principal components and sensors side by side, as asked for."""
    from ..acoustics import join_sensors, reduce_table

    reductions: list[Any] = []
    if options.components is not None:
        table, reductions = reduce_table(table, options.components)
    return (join_sensors(table) if options.join else table), reductions


def _with_text(table: FeatureTable) -> FeatureTable:
    """The table with what a spreadsheet would run as text."""
    from ..acoustics.feature_table import FeatureTable as Made
    from ..rows.cells import as_text, without_formulas

    columns, n_changed = without_formulas(table.facts.values())
    names = [as_text(name) for name in table.names]
    note_formulas(n_changed + sum(new != old for new, old in zip(names, table.names, strict=True)))
    return Made(dict(zip(table.facts, columns, strict=True)), table.features, names)


def _report(summary: dict[str, Any], *, as_json: bool) -> int:
    for problem in summary["problems"]:
        complain(f"{problem['path']}: {problem['problem']}")
    if as_json:
        print(json.dumps(summary, indent=1))
    if summary["file"] is None:
        complain("error: none of the recordings could be used")
        return ALL_FAILED
    if not as_json:
        _print_summary(summary)
    return SOME_FAILED if summary["problems"] else 0


def _print_summary(summary: dict[str, Any]) -> None:
    say(
        f"{summary['rows']} rows of {summary['columns']} features from "
        f"{summary['recordings'] - summary['failed']} of {summary['recordings']} recordings "
        f"({summary['computed']} computed now) at {summary['rate']:g} Hz: {summary['file']}"
    )
    flagged = [f"{n} {name}" for name, n in summary["flagged_segments"].items() if n]
    if flagged:
        say(f"segments with a flag: {', '.join(flagged)}")
    if summary["files_of_lower_rate"]:
        say(
            f"{summary['files_of_lower_rate']} files have a lower sample rate: nothing is in their "
            "upper frequencies (choose a lower --rate)"
        )
    for reduction in summary["components"]:
        say(
            f"sensor {reduction['sensor']}: components hold {reduction['variance_kept']:.1%} of "
            f"the variance, {reduction['power_kept']:.1%} of the power"
        )
