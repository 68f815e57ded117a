"""``gemmed features``: from recordings to a table of acoustic features."""

import argparse
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from .. import __version__
from .._core.exceptions import AudioFileError
from .._core.optional import require
from ..acoustics import (
    FeatureSettings,
    FeatureTable,
    audio_rate,
    join_sensors,
    read_manifest,
    reduce_table,
    write_table,
)
from ..acoustics.feature_table import (
    assemble_parts,
    compute_part,
    facts_of_part,
    part_arguments,
    part_name,
    read_part,
)
from ..acoustics.sound_files import FLAGS
from ..experiments.files import prepare_folder
from ..experiments.runner import RunStore, Task, run_tasks
from ..rows.cells import as_text, without_formulas
from .options import SOME_FAILED
from .outputs import note_formulas
from .terminal import complain, report, target_progress

ALL_FAILED = 2
OPTION_OF_SETTING = {
    "n_segments": "segments", "overlap": "overlap", "segment": "segment_seconds",
    "window": "window", "n_windows": "frames", "frame": "frame_seconds", "n_mfcc": "mfcc",
    "n_mels": "mels", "f_min": "f_min", "f_max": "f_max",
}  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Compute what is missing, write the table, report the problems."""
    for package, extra in (("rich", "cli"), ("soundfile", "audio"), ("pyarrow", "audio")):
        require(package, "the command features needs", extra)
    begin = time.perf_counter()
    _check_call(options)
    settings = FeatureSettings(
        **{field: getattr(options, option) for field, option in OPTION_OF_SETTING.items()}
    )
    entries = read_manifest(options.manifest)
    paths = [entry.located(Path(options.manifest).parent) for entry in entries]
    rates = _file_rates(paths)
    rate = options.rate
    if rate is None and rates:  # the most common one: a damaged header does not decide for all
        rate = float(max(rates, key=lambda rate: (rates[rate], -rate)))
    if rate is not None:
        settings.samples(rate)
    folder = prepare_folder(Path(f"{options.out}.parts"))
    tasks = []
    for entry, path in zip(entries, paths, strict=True):
        own = part_arguments(entry, path.absolute(), rate=rate, settings=settings.as_dict())
        name = part_name(own)
        name = f"{name[:2]}/{name[2:]}"  # a folder of a hundred thousand files is slow
        part = os.path.abspath(folder / name)
        given = {"arguments": own, "version": __version__, "part": part}
        tasks.append(Task(name, compute_part, given))
    store = _PartStore(folder, __version__)
    with target_progress(enabled=not options.json) as update:
        found = run_tasks(
            tasks,
            store,
            jobs=options.jobs,
            progress=lambda done, total: update("features", done, total),
        )
    parts = [found[task.name] for task in tasks]
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
        "computed": store.n_saved,
    }
    if len(problems) < len(entries):
        good = [i for i, part in enumerate(parts) if "problem" not in part]
        table = assemble_parts(
            [entries[i] for i in good],
            [parts[i] for i in good],
            [partial(read_part, **tasks[i].arguments) for i in good],
        )
        powers = [parts[i]["cepstral_power"] for i in good]
        summary["cepstral_power"] = sum(powers) / len(powers)
        summary["flagged_segments"] = {name: int(table.facts[name].sum()) for name in FLAGS}
        reductions: list[Any] = []
        if options.components is not None:
            table, reductions = reduce_table(table, options.components)
        if options.join:
            table = join_sensors(table)
        if options.out.endswith(".csv") and not options.raw_cells:
            table = _with_text(table)
        write_table(options.out, table)
        summary.update(file=options.out, rows=len(table), columns=len(table.names))
        summary["components"] = [vars(reduction) for reduction in reductions]
    summary["seconds"] = round(time.perf_counter() - begin, 3)
    return _report(summary, as_json=options.json)


def _check_call(options: argparse.Namespace) -> None:
    if Path(options.out).suffix not in (".parquet", ".csv"):
        raise ValueError(f"--out {options.out!r} must end in .parquet or .csv")
    if Path(options.out).is_dir():
        raise ValueError(f"--out {options.out!r} is a folder: name a file")
    if Path(options.out).resolve() == Path(options.manifest).resolve():
        raise ValueError(f"--out {options.out!r} is the manifest itself: name another file")


def _file_rates(paths: Sequence[Path]) -> Counter[int]:
    """How many files have which sample rate; files that cannot be opened are left out."""
    rates: Counter[int] = Counter()
    for path in dict.fromkeys(paths):
        with suppress(AudioFileError, OSError):  # reported when the file is read
            rates[audio_rate(path)] += 1
    return rates


class _PartStore(RunStore):
    """The parts that the tasks write; a problem leaves none and is looked at again."""

    n_saved = 0

    def load(self, task: Task) -> dict[str, Any] | None:
        found = read_part(**task.arguments)
        return None if found is None else facts_of_part(found)

    def save(self, task: Task, result: dict[str, Any]) -> None:
        self.n_saved += 1


def _with_text(table: FeatureTable) -> FeatureTable:
    """The table with what a spreadsheet would run as text."""
    columns, n_changed = without_formulas(table.facts.values())
    names = [as_text(name) for name in table.names]
    note_formulas(n_changed + sum(new != old for new, old in zip(names, table.names, strict=True)))
    return FeatureTable(dict(zip(table.facts, columns, strict=True)), table.features, names)


def _report(summary: dict[str, Any], *, as_json: bool) -> int:
    for problem in summary["problems"]:
        complain(f"{problem['path']}: {problem['problem']}")
    report(summary, _lines(summary), as_json=as_json)
    if summary["file"] is None:
        complain("error: none of the recordings could be used")
        return ALL_FAILED
    return SOME_FAILED if summary["problems"] else 0


def _lines(summary: dict[str, Any]) -> list[str]:
    """The same for people."""
    if summary["file"] is None:
        return []
    lines = [
        f"{summary['rows']} rows of {summary['columns']} features from "
        f"{summary['recordings'] - summary['failed']} of {summary['recordings']} recordings "
        f"({summary['computed']} computed now) at {summary['rate']:g} Hz: {summary['file']}"
    ]
    flagged = [f"{n} {name}" for name, n in summary["flagged_segments"].items() if n]
    if flagged:
        lines.append(f"segments with a flag: {', '.join(flagged)}")
    if summary["files_of_lower_rate"]:
        lines.append(
            f"{summary['files_of_lower_rate']} files have a lower sample rate: nothing is in their "
            "upper frequencies (choose a lower --rate)"
        )
    return lines + [
        f"sensor {own['sensor']}: components hold {100 * own['variance_kept']:.1f} % of the "
        f"variance, {100 * own['power_kept']:.1f} % of the power"
        for own in summary["components"]
    ]
