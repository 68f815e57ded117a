"""``gemmed audit`` of several sensors: suspicious labels, and which sensor was broken when."""

import argparse
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..report.timeline import SensorReadings, ShownSpan, write_timeline
from .options import SOME_FAILED
from .outputs import emit_found, emit_table
from .sensor_tables import clock_in, shown_by, span_records
from .terminal import counted_names, print_json, print_table, say
from .training import Training, score_unlabelled, sensor_lines, summary_of, table_lines

LABEL = "label"
"""Lane of the timeline for suspicious labels."""
SHOWN = ("row", "label", "anomaly_score", "verdict", "sensors", "suggested_label")
"""Columns that are printed, without those that name the rows."""


def audit_sensors(
    training: Training, options: argparse.Namespace, identifiers: tuple[str, ...]
) -> int:
    """Report what was found by a fit of several sensors."""
    ranked = rank_samples(training, identifiers)
    is_found = (
        ranked["verdict"] != "ok"
        if options.threshold is None
        else ranked["anomaly_score"] > options.threshold
    )
    found = ranked[is_found].sort_values("anomaly_score", ascending=False, kind="stable")
    if options.unlabelled is not None:
        rest = score_unlabelled(training, identifiers)
        emit_table(rest, options.unlabelled, raw_cells=options.raw_cells)
    emit_found(found, options)
    if options.html is not None:
        _write_page(training, ranked, options)
    summary = {
        **summary_of(training),
        "threshold": options.threshold,
        "suspicious_rows": len(found),
        "verdicts": dict(Counter(ranked["verdict"])),
    }
    if training.problems:
        summary["problems"] = training.problems
    if options.json:
        records = found.to_dict(orient="records")
        faults = span_records(training.classifier.spans(), clock_in(training.classifier))
        print_json({**summary, "suspicious": records, "faults": faults})
    elif options.out != "-":
        _show(summary, found, options)
    return SOME_FAILED if training.problems else 0


def rank_samples(training: Training, identifiers: Sequence[str] = ()) -> Any:
    """A DataFrame of one row per sample, in the order of the fit.

    The anomaly score is the larger one of two: P(the label is wrong or no sensor is good), and the
    largest P(broken).
    """
    import pandas as pd

    classifier, columns = training.classifier, training.named(identifiers)
    explained, clock = classifier.explain("dict"), clock_in(classifier)
    if "time" in training.facts and clock is not None:
        columns["time"] = [shown_by(clock)(time) for time in training.facts["time"]]
    columns["label"] = explained["label"]
    broken = classifier.broken_proba_.max(axis=1)
    columns["anomaly_score"] = np.maximum(1.0 - explained["nominal_proba"], broken)
    rest = ("verdict", "sensors", "suggested_label")
    columns |= {name: explained[name] for name in rest}
    columns |= {name: v for name, v in explained.items() if name.startswith("broken_")}
    return pd.DataFrame(columns)


def _show(summary: dict[str, Any], found: Any, options: argparse.Namespace) -> None:
    import pandas as pd

    for line in [*table_lines(summary), *sensor_lines(summary)]:
        say(line)
    say("verdicts       " + counted_names(summary["verdicts"]))
    # Broken sensors have been listed as stretches of time.
    is_label = (found["verdict"] != "broken sensor").to_numpy()
    shown = pd.concat([found[is_label], found[~is_label]]).head(options.top)
    if len(shown):
        say()
        more = [name for name in (*options.id, "recording", "time") if name in found]
        names = [SHOWN[0], *more, *SHOWN[1:]]
        print_table(names, shown[names].to_numpy().tolist())
    if len(found) > len(shown):
        where = f"all are in {options.out}" if options.out else "--out FILE writes all"
        say(f"... and {len(found) - len(shown)} more; {where}")
    for name, path in (("rows", options.out), ("spans", options.spans), ("report", options.html)):
        if path is not None:
            say(f"{name:14s} {path}")


def _write_page(training: Training, ranked: Any, options: argparse.Namespace) -> None:
    """A timeline with a lane per sensor, and one of suspicious labels."""
    classifier, n = training.classifier, len(ranked)
    times = np.asarray(training.facts.get("time", np.arange(n)), dtype=float)
    groups, number = training.facts.get("recording"), np.zeros(n, dtype=int)
    if groups is not None:
        number = np.unique(groups, return_inverse=True)[1]
    order = np.lexsort((times, number))
    show = shown_by(clock_in(classifier))

    def shown_time(row: int) -> str:
        sample = order[row]
        where = "" if groups is None else f"{groups[sample]} "
        return f"{where}{show(times[sample])}"

    spans = []
    for span in classifier.spans():
        own = (times[order] >= span.start) & (times[order] <= span.stop)
        if groups is not None:
            own &= groups[order] == span.group
        rows = np.flatnonzero(own)
        first, last = int(rows[0]), int(rows[-1])
        start, stop = shown_time(first), shown_time(last)
        spans.append(ShownSpan(span.sensor, "broken", first, last, start, stop, span.probability))
    labels = _label_spans(ranked.iloc[order], shown_time)
    write_timeline(
        options.html,
        f"Sensors and labels in {options.table}",
        [
            ("table", str(options.table)),
            ("samples", f"{n}, {shown_time(0)} to {shown_time(n - 1)}"),
            ("verdicts", counted_names(dict(Counter(ranked["verdict"])))),
        ],
        _readings(training, order),
        sorted([*spans, *labels], key=lambda span: span.first),
        shown_time,
        last_lane=LABEL,
    )


def _label_spans(ranked: Any, shown_time: Callable[[int], str]) -> list[ShownSpan]:
    """Neighbours whose label is suspicious in the same way, as stretches."""
    found, first = [], 0
    said = [
        f"{own.label} → {own.suggested_label}"
        if own.verdict in ("suspicious label", "both")
        else ""
        for own in ranked.itertuples()
    ]
    scores = ranked["anomaly_score"].to_numpy()
    for text, rows in itertools.groupby(said):
        end = first + len(list(rows))
        if text:
            start, stop = shown_time(first), shown_time(end - 1)
            score = float(scores[first:end].mean())
            kind = "suspicious label"
            found.append(ShownSpan(LABEL, kind, first, end - 1, start, stop, score, text))
        first = end
    return found


def _readings(training: Training, order: np.ndarray) -> list[SensorReadings]:
    """Columns of each sensor; of recordings the mean of the first MFCC, which is their loudness."""
    classifier, frame = training.classifier, training.features
    if training.recordings is None:
        return [
            SensorReadings(name, tuple(classifier.views[name]), frame[own].to_numpy()[order])
            for name, own in classifier.views.items()
        ]
    values = np.asarray(frame, dtype=float)[order]
    return [
        SensorReadings(name, (f"{name}: first MFCC",), values[:, own.start : own.start + 1])
        for name, own in classifier.screen_views.items()
    ]
