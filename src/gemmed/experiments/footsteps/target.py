"""The footstep targets of ``gemmed reproduce``: three tables with the paper's numbers, pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ...datasets.footsteps.simulation import DURATION, FAULT_MIXES, RATE, FaultMix
from ..files import write_text
from ..ring.curves import chosen_rows
from ..runner import Runs, Target, Task
from ..summary import Rows, lead_of_best, markdown_table, mean_and_error, mean_text, summarise
from . import data, plots
from . import runs as one_run
from .data import ALL, FULL_SIZE, PAPER_SEED, SENSORS, SIMULATION_SEED, Size
from .runs import LATE, METHODS, NEWER, ORACLE, PARTS, REFERENCE

Methods = Mapping[str, Mapping[str, float]]


class PaperTable(NamedTuple):
    """One table of the paper."""

    title: str
    measure: str
    further: tuple[str, ...]  # Measures that are written to the files as well
    paper: Mapping[str, Mapping[str, tuple[float, float]]]
    """Mean and standard error by sensors and method, percent."""


_CLASSIFIERS = ("SVM", "MED", "ROD-0.02", "ROD-0.2", "GEM+SVM", REFERENCE)
_DETECTORS = ("ROD-0.02", "ROD-0.2", REFERENCE)
_PAPER_NOMINAL = """
1        71.2 8.2   71.1 5.3   73.7 3.7  76.0 2.5  72.5 4.2  78.4 3.3
2        60.8 12.5  62.3 10.2  71.5 7.3  76.5 5.3  70.3 2.5  82.1 3.1
3        60.5 14.2  60.0 13.1  63.2 5.4  67.6 4.2  56.5 3.5  66.8 4.5
4        59.6 10.1  58.4 8.2   71.8 7.2  73.2 4.2  76.5 2.7  80.1 3.1
1,2,3,4  75.9 7.5   78.6 5.1   79.2 3.7  79.8 2.5  75.2 3.3  84.0 2.3
"""
_PAPER_CORRUPTED = """
1        65.2 10.6  65.8 10.2  68.5 8.3  70.0 6.8  70.2 5.5  72.5 4.8
2        54.9 11.8  55.2 11.0  63.2 9.8  68.1 7.5  68.5 7.8  76.3 3.9
3        50.7 10.0  52.0 10.5  56.8 8.5  56.9 7.3  56.5 3.5  60.1 5.3
4        57.0 12.3  57.5 12.1  69.6 9.2  69.8 5.1  70.2 4.2  75.0 4.0
1,2,3,4  70.8 8.8   71.0 8.5   73.6 7.2  74.8 6.9  75.1 3.3  76.8 2.5
"""
_PAPER_DETECTION = """
1        30.2 1.3  59.0 3.5  70.5 1.3
2        23.5 2.6  63.5 2.8  63.4 2.5
3        5.3 1.4   48.1 3.3  72.8 1.5
4        22.8 3.2  65.2 4.2  88.1 2.1
1,2,3,4  38.5 6.3  63.3 5.5  88.5 4.1
"""


def _columns(methods: Sequence[str], text: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard error by sensors and method."""
    table = {}
    for line in text.strip().splitlines():
        sensors, *numbers = line.split()
        values = [float(number) for number in numbers]
        pairs = zip(values[::2], values[1::2], strict=True)
        table[sensors] = dict(zip(methods, pairs, strict=True))
    return table


TABLES: dict[str, PaperTable] = {
    "nominal": PaperTable(
        "Accuracy on the nominal test set (GEM, 5 % false alarms)",
        "nominal_accuracy",
        (),
        _columns(_CLASSIFIERS, _PAPER_NOMINAL),
    ),
    "corrupted": PaperTable(
        "Accuracy on the whole, corrupted test set",
        "corrupted_accuracy",
        ("healthy_accuracy", "physical_accuracy", "stale_accuracy"),
        _columns(_CLASSIFIERS, _PAPER_CORRUPTED),
    ),
    "detection": PaperTable(
        "Anomalies found (recall) on training and test data",
        "detection_recall",
        ("detection_precision", "detection_accuracy", "detection_false_alarms"),
        _columns(_DETECTORS, _PAPER_DETECTION),
    ),
}


def table_rows(runs_of_row: Mapping[str, Sequence[Methods]]) -> Rows:
    """One row for each table, sensors, method and measure, with the paper's numbers beside.

    Parameters
    ----------
    runs_of_row : for each row of the tables the measures by method, split by split
    """
    rows: Rows = []
    for name, table in TABLES.items():
        for sensors, runs in runs_of_row.items():
            ordered = [{m: run[m] for m in (*METHODS, ORACLE) if m in run} for run in runs]
            cell = {"table": name, "sensors": sensors}
            for row in summarise(cell, ordered, (table.measure, *table.further), REFERENCE):
                known = table.paper[sensors] if row["measure"] == table.measure else {}
                row["paper"], row["paper_standard_error"] = known.get(row["method"], ("", ""))
                rows.append(row)
    return rows


def markdown(runs_of_row: Mapping[str, Sequence[Methods]]) -> str:
    """The three tables as Markdown, the paper's numbers in brackets."""
    lines: list[str] = []
    rows = table_rows(runs_of_row)
    n_splits = len(next(iter(runs_of_row.values())))
    for name, table in TABLES.items():
        chosen = chosen_rows(rows, table=name, measure=table.measure)
        methods = list(dict.fromkeys(r["method"] for r in chosen))
        lines += [
            f"**{table.title}**, percent, mean ± standard error of {n_splits} splits "
            "[the paper's]; the last column is the mean paired difference of the best method to "
            f"{REFERENCE}.",
            "",
        ]
        held, cells_of_rows = 0, []
        for sensors in runs_of_row:
            by_method = {r["method"]: r for r in chosen if r["sensors"] == sensors}
            lead = lead_of_best([r for m, r in by_method.items() if m != ORACLE], REFERENCE)
            held += lead.holds
            cells = [_cell(by_method[m], lead.best) if m in by_method else "" for m in methods]
            cells_of_rows.append([sensors, *cells, str(lead)])
        lines += [
            markdown_table(["sensors", *methods, f"best minus {REFERENCE}"], cells_of_rows),
            f"{REFERENCE} is the best or within one standard error of the best in {held} of "
            f"{len(runs_of_row)} rows.",
            "",
        ]
    return "\n".join(lines)


DETECTION = {
    "detection_recall": "recall",
    "detection_precision": "precision",
    "detection_accuracy": "accuracy",
}
KINDS = {
    "corrupted_accuracy": "all",
    "healthy_accuracy": "healthy",
    "physical_accuracy": "physically faulty",
    "stale_accuracy": "stale",
}
"""Segments that are counted, by the name of the measure."""


def markdown_by_measure(
    runs_of_row: Mapping[str, Sequence[Methods]], head: str, measures: Mapping[str, str]
) -> str:
    """A line for each row and measure, a column for each method that has them."""
    first, every = next(iter(measures)), runs_of_row.values()
    methods = [m for m in (*METHODS, ORACLE) if any(first in runs[0].get(m, {}) for runs in every)]
    lines = [
        [sensors, name, *(_mean(runs, method, measure) for method in methods)]
        for sensors, runs in runs_of_row.items()
        for measure, name in measures.items()
    ]
    return markdown_table(["sensors", head, *methods], lines)


def markdown_of_parts(parts: Sequence[Methods], whole: Sequence[Methods]) -> str:
    """The sensor model with all sensors, part by part."""
    runs = [
        {**own, PARTS[-1]: row[NEWER], LATE: row[LATE], ORACLE: row[ORACLE]}
        for own, row in zip(parts, whole, strict=True)
    ]
    methods = [*PARTS, LATE, ORACLE]
    lines = [
        [name, *(_mean(runs, method, measure) for method in methods)]
        for measure, name in KINDS.items()
    ]
    gains = []
    for before, after in pairwise(PARTS):
        differences = [
            r[after]["corrupted_accuracy"] - r[before]["corrupted_accuracy"] for r in runs
        ]
        mean, error = mean_and_error(differences)
        gains.append(f"{after} {mean:+.1f} ± {error:.1f}")
    table = markdown_table(["segments", *methods], lines)
    return f"{table}\nWhat each part brings (all segments, paired): {', '.join(gains)}.\n"


def markdown_of_faults(faults: Sequence[Mapping[str, Any]]) -> str:
    """Physical faults found at single sensors of test segments."""
    names = {
        "auc": "AUC",
        "recall_at_2": "found at 2 % false alarms, %",
        "recall": "found at P > 0.5, %",
        "false_alarms": "false alarms at P > 0.5, %",
    }
    sensors = range(len(faults[0]["auc"]))
    lines = [
        [name, *(mean_text([f[key][n] for f in faults], 3 if key == "auc" else 1) for n in sensors)]
        for key, name in names.items()
    ]
    found, close = (
        mean_text([f[key] for f in faults]) for key in ("bursts_found", "spans_within_one")
    )
    return (
        f"{markdown_table(['', *(f'sensor {n + 1}' for n in sensors)], lines)}\n"
        f"Of the bursts {found} % are found; of these {close} % begin and end within one segment "
        "of the truth.\n"
    )


def markdown_of_scan(runs_of_row: Mapping[str, Sequence[Methods]]) -> str:
    """ROD over its fraction rho, in the splits in which it was scanned."""
    first = next(iter(runs_of_row.values()))
    scanned = [n for n, run in enumerate(first) if "ROD-0.9" in run]
    if not scanned:
        return ""
    names = sorted(
        (name for name in first[scanned[0]] if name.startswith("ROD-")),
        key=lambda name: float(name.removeprefix("ROD-")),
    )
    lines = []
    for sensors, runs in runs_of_row.items():
        chosen = [runs[n] for n in scanned]
        lines.append([sensors, *(_mean(chosen, name, "corrupted_accuracy") for name in names)])
    return markdown_table(["sensors", *names], lines)


def _mean(runs: Sequence[Methods], method: str, measure: str) -> str:
    return mean_text([run[method][measure] for run in runs if measure in run.get(method, {})])


def _cell(row: Mapping[str, Any], best: str) -> str:
    text = f"{row['mean']:.1f} ± {row['standard_error']:.1f}"
    text = f"**{text}**" if row["method"] == best else text
    return text if row["paper"] == "" else f"{text} [{row['paper']:.1f}]"


FOOTSTEPS = "footsteps"


def footsteps_target(quick: bool, size: Size = FULL_SIZE) -> Target:
    """The three tables of the paper with pictures of the data and of what was found."""
    return _target(
        "humans alone or with an animal, four sensors that fail: accuracy and detection",
        lambda split: one_run.footsteps_task(split, size, scan=not quick),
        partial(_write_all, size),
        _parameters(size, FAULT_MIXES["realistic"], SIMULATION_SEED),
    )


def paper_target(quick: bool, size: Size = FULL_SIZE, mix: str = "realistic") -> Target:
    """The three tables with the methods of the paper and the sensor model, one mix of faults."""

    def write(results: list[Any], folder: Path) -> list[str]:
        found, name = _by_row(results), f"{FOOTSTEPS}-{mix}-tables.md"
        title = "**Alarms on training and test segments**, percent\n"
        write_text(
            folder / name,
            "\n".join([markdown(found), title, markdown_by_measure(found, "measure", DETECTION)]),
        )
        return [name]

    return _target(
        f"the three footstep tables with the methods of the paper, faults: {mix}",
        lambda split: one_run.paper_task(split, mix, size),
        write,
        _parameters(size, FAULT_MIXES[mix], PAPER_SEED),
    )


def _target(
    description: str,
    task_of: Callable[[int], Task],
    write: Callable[[list[Any], Path], list[str]],
    parameters: dict[str, Any],
) -> Target:
    """The tables of some splits; ``write`` makes further files from their results."""

    def results(runs: Runs, n_runs: int) -> list[Any]:
        return [runs[task_of(split).name] for split in range(n_runs)]

    return Target(
        description,
        lambda n_runs: [task_of(split) for split in range(n_runs)],
        lambda runs, n_runs: table_rows(_by_row(results(runs, n_runs))),
        _draw,
        parameters,
        details=_details,
        more_files=lambda runs, n_runs, folder: write(results(runs, n_runs), folder),
    )


def strong_target(quick: bool) -> Target:
    """The same under the stronger mix."""
    return paper_target(quick, mix="strong")


def _by_row(results: list[Any]) -> dict[str, list[Methods]]:
    return {row: [result["rows"][row] for result in results] for row in SENSORS}


def _draw(rows: Rows, path: Path) -> None:
    tables = {
        table.title: chosen_rows(rows, table=name, measure=table.measure)
        for name, table in TABLES.items()
    }
    plots.draw_tables(tables, path, hollow=ORACLE)


def _write_all(size: Size, results: list[Any], folder: Path) -> list[str]:
    names = [
        f"{FOOTSTEPS}-{part}"
        for part in ("tables.md", "waves.png", "spectrograms.png", "timelines.png")
    ]
    by_row = _by_row(results)
    pieces = [
        markdown(by_row),
        "**Percent right by kind of segment**\n",
        markdown_by_measure(by_row, "segments", KINDS),
        "**Alarms on training and test segments**, percent\n",
        markdown_by_measure(by_row, "measure", DETECTION),
        "**The sensor model with all sensors, part by part**, percent right\n",
        markdown_of_parts([r["parts"] for r in results], by_row[ALL]),
        "**Physical faults at single sensors of test segments**, all sensors\n",
        markdown_of_faults([r["faults"] for r in results]),
    ]
    scanned = markdown_of_scan(by_row)
    if scanned:
        pieces += ["**ROD over rho**, percent right in the first split, all segments\n", scanned]
    write_text(folder / names[0], "\n".join(pieces))
    plots.show_waves(folder / names[1])
    plots.show_spectrograms(folder / names[2])
    plots.show_timelines(results[0]["detected"], size, folder / names[3])
    return names


def _parameters(size: Size, mix: FaultMix, seed: int) -> dict[str, Any]:
    return {
        "subjects": size._asdict(),
        "samples_per_class": 24 * size.n_train,
        "seconds_a_recording": DURATION,
        "sample_rate": RATE,
        "simulation_seed": seed,
        "faults": [
            {"share": m.share, "mean_burst": m.mean_burst, "kinds": dict(m.kinds)}
            for m in (*mix.sensors, mix.recorder, mix.stale)
        ],
        "window": data.WINDOW,
        "anomalous_share": data.ANOMALOUS_SHARE,
        "components": data.N_COMPONENTS,
        "neighbors": one_run.N_NEIGHBORS,
        "false_alarm_rate": one_run.FALSE_ALARM_RATE,
        "parameters": f"C and gamma: SVM, {one_run.FOLDS}-fold cross-validation, subjects together",
        "C": list(one_run.COSTS),
        "gamma_steps": list(one_run.GAMMA_STEPS),
    }


def _details(runs: Runs) -> dict[str, Any]:
    """Times by method, what the data were like, and warnings, over all runs."""
    results = list(runs.values())
    if not results:
        return {}
    names = dict.fromkeys(name for r in results for name in r["seconds"])
    seconds = {name: round(sum(r["seconds"].get(name, 0.0) for r in results), 1) for name in names}
    caught = sorted({w for r in results for w in r["warnings"]})
    return {"seconds_by_method": seconds, "data": results[0]["data"], "warnings": caught}
