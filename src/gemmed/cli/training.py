"""What the commands that learn share: a labelled table in, a fitted model out, and its summary."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from .._core.exceptions import TableError, raised_as
from .._core.words import counted
from ..estimators.base_member import check_pred_probs
from ..estimators.column_plan import ColumnPlan, feature_frame
from ..estimators.gemmed import GEMMEDClassifier
from ..estimators.table_columns import (
    Handling,
    Known,
    Roles,
    TrainingData,
    fit_pipeline,
    table_pipeline,
    training_data,
)
from ..model.settings import Solver
from ..report.audited import signal_of
from ..rows.cells import Note
from ..rows.tables import Table, read_table
from .options import reading_of
from .terminal import counted_names, fit_progress, note, warnings_as_notes

RESULTS = {
    "row", "label", "anomaly_score", "verdict", "suggested_label", "suggested_proba", "reasons",
    "odd_columns", "conflicting_rows", "prior", "label_term", "measurement_term", "p_value",
    "wrong_label_proba", "bad_measurement_proba", "prediction", "proba", "suspicious", "flags",
}  # fmt: skip
"""Columns of the tables that an audit writes."""


@dataclass
class Training:
    """A fitted pipeline, and what it was fitted to."""

    pipeline: Pipeline
    plan: ColumnPlan
    labels: np.ndarray
    """Of the rows that have one."""
    n_unlabelled: int
    table: Any = None
    """None if it was read in blocks: the fields below are then empty."""
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Numbers of the rows that were used, from 0."""
    target: str = ""
    features: Any = None
    """What the classifier saw of recordings and sensors."""
    others: Callable[[], tuple[np.ndarray, Any]] | None = None
    """Numbers of the rows that were not learned from, and what the classifier sees of them."""
    data: TrainingData | None = None
    """What was fitted of a table, with notes of how it was read; None of recordings, sensors."""
    facts: dict[str, np.ndarray] = field(default_factory=dict)
    """Further columns of a report, one entry per used row: files, times and flags of recordings."""
    problems: list[dict[str, Any]] = field(default_factory=list)
    """Recordings that could not be used: row, path, problem."""
    recordings: int | None = None
    """How many were used."""

    @property
    def classifier(self) -> Any:
        """The fitted classifier at the end of the pipeline."""
        return self.pipeline[-1]

    def named(self, identifiers: Sequence[str]) -> dict[str, Any]:
        """Columns that name the rows: number, identifiers, and what is known of recordings."""
        columns = {column_of(name): self.table.text(name)[0][self.rows] for name in identifiers}
        facts = {name: values for name, values in self.facts.items() if name not in columns}
        return {"row": self.rows + 1, **columns, **facts}


def column_of(name: str) -> str:
    """What a column of the table is called among results, whose names stay what they are."""
    return f"{name}_" if name in RESULTS else name


def read(path: str, options: argparse.Namespace) -> Table:
    """A table, as the options say; how it was read is said on standard error."""
    table = read_table(path, **reading_of(options))
    report_notes(table.notes)
    return table


def train_on_table(
    options: argparse.Namespace, table: Table, *, not_features: tuple[str, ...] = ()
) -> Training:
    """Fit a table; what was left out is said on standard error."""
    classifier = classifier_of(options)
    data = with_pred_probs(labelled(options, table, not_features), options, table)
    pipeline = table_pipeline(classifier, data.frame, data.plan, **preparation_of(options))
    pipeline[0].basis_ = table.basis
    with warnings_as_notes(), fit_progress():
        fit_pipeline(pipeline, data)

    def others() -> tuple[np.ndarray, Any]:
        rest = np.setdiff1d(np.arange(len(table)), [*data.rows, *data.repeats])
        frame = feature_frame(table, data.plan).iloc[rest]
        return rest, pipeline[0].transform_frame(frame) if len(rest) else frame

    known = data.labels, data.n_unlabelled, table, data.rows, options.target
    return Training(pipeline, data.plan, *known, others=others, data=data)


def labelled(
    options: argparse.Namespace, table: Table, not_features: tuple[str, ...] = ()
) -> TrainingData:
    """What is learned from a table, by the options; notes are said on standard error."""
    table.require_columns(list(not_features), "id")
    roles = roles_of(options, not_features=not_features)
    data = training_data(table, **roles._asdict(), handling=handling_of(options))
    report_notes(data.notes)
    report_left_out(data.plan, data.n_unlabelled)
    return data


def names_of_rows(options: argparse.Namespace) -> tuple[str, ...]:
    """Columns that name the rows, each once: identifiers, and the group."""
    group = () if options.group is None else (options.group,)
    return tuple(dict.fromkeys((*options.id, *group)))


def roles_of(options: argparse.Namespace, *, not_features: tuple[str, ...] = ()) -> Roles:
    """What the columns are for, by the options."""
    if options.target is None:
        raise ValueError("--target COLUMN is needed (or --annotators or --answers, of an audit)")
    own = (options.group, options.weight, options.prior, options.known)
    return Roles(
        options.target,
        *own[:3],
        drop=(*options.drop, *(name for name in not_features if name not in own)),
        categorical=tuple(options.categorical),
        numeric=tuple(options.numeric),
        known=options.known,
    )


def preparation_of(options: argparse.Namespace) -> dict[str, Any]:
    """Options of TablePreparation: how numbers are scaled, and how later tables are read."""
    read = {"missing": tuple(options.missing), "decimal": options.decimal}
    return {"scaling": options.scaling, **read}


def handling_of(options: argparse.Namespace) -> Handling:
    """What to do with spellings, duplicates and rare classes, by the options."""
    return Handling(options.spelling, options.duplicates, options.min_class_rows)


def known_of(options: argparse.Namespace, table: Table) -> Known:
    """Labels and what else the special columns say; notes are said on standard error."""
    roles = roles_of(options)
    roles.check(table)
    known = roles.what_is_known(table, handling_of(options))
    report_notes([*table.notes, *known.notes])
    return known


def classifier_of(options: argparse.Namespace) -> GEMMEDClassifier:
    """The classifier that the options ask for, not fitted."""
    # 3.0 of the command line is 3; other numbers are refused by the classifier.
    m: Any = options.components
    return GEMMEDClassifier(
        options.kernel,
        gamma=options.gamma,
        kernel_params={"degree": options.degree},
        C=options.C,
        base=None if options.base == "none" else options.base,
        n_neighbors=options.neighbors,
        solver=Solver(
            options.max_iter, n_components=int(m) if m != "auto" and m.is_integer() else m
        ),
        random_state=options.seed,
    )


def other_classifier(kind: Any, options: argparse.Namespace, **further: Any) -> Any:
    """The same of another class, such as SensorGEMMEDClassifier."""
    names = ("kernel", "gamma", "degree", "C", "max_iter")
    chosen = {name: getattr(options, name) for name in names}
    return kind(**chosen, random_state=options.seed, **further)


def summary_of(training: Training) -> dict[str, Any]:
    """Facts of a fit, ready for JSON."""
    classifier, plan = training.classifier, training.plan
    labels, counts = np.unique(training.labels, return_counts=True)
    signal = signal_of(classifier, training.labels)
    summary: dict[str, Any] = {
        "rows": len(training.labels),
        "rows_without_label": training.n_unlabelled,
        "classes": {str(k): int(n) for k, n in zip(labels, counts, strict=True)},
        "numeric_columns": plan.numeric,
        "categorical_columns": plan.categories,
        "left_out_columns": plan.left_out,
        "held_out_accuracy": None if signal is None else signal.accuracy,
        "held_out_interval": None if signal is None else [signal.lower, signal.upper],
        "majority_share": None if signal is None else signal.majority,
        "signal": [] if signal is None else [signal.sentence()],
        "suspicious_rows": int(np.sum(classifier.anomaly_scores_ > 0.5)),
    }
    if hasattr(classifier, "contamination_"):
        summary["contamination"] = float(classifier.contamination_)
    if hasattr(classifier, "contamination_interval_"):
        summary["contamination_interval"] = [float(v) for v in classifier.contamination_interval_]
    if training.recordings is not None:
        summary["recordings"] = training.recordings
    if training.problems:
        summary["problems"] = training.problems
    summary |= {
        "converged": bool(np.all(classifier.converged_)),
        "iterations": int(np.max(classifier.n_iter_)),
        "duality_gap": float(np.max(classifier.duality_gap_)),
    }
    if hasattr(classifier, "fault_rates_"):
        summary["sensors"] = classifier.fault_rates_
    return summary


def table_lines(summary: dict[str, Any]) -> list[str]:
    """What was learned from, for people."""
    classes = counted_names(summary["classes"])
    n_columns = len(summary["numeric_columns"]), len(summary["categorical_columns"])
    lines = [
        f"rows           {summary['rows']} ({classes})",
        f"columns        {n_columns[0]} of numbers, {n_columns[1]} of categories",
    ]
    if not summary["converged"]:
        lines.append(f"solver         NOT converged after {summary['iterations']} iterations")
    return lines


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """The facts of a fit for people."""
    text = f"{counted(summary['suspicious_rows'], 'row')} more likely faulty than not"
    if "contamination" in summary:
        low, high = (summary["rows"] * v for v in summary.get("contamination_interval", (0, 1)))
        text += (
            "; estimated number of faulty rows, flagged or not: "
            f"{summary['rows'] * summary['contamination']:.0f} (90 % interval {low:.0f} to "
            f"{high:.0f})"
        )
    shown = [*summary["signal"], *table_lines(summary), f"suspicious     {text}"]
    return [*shown, *sensor_lines(summary)]


def sensor_lines(summary: dict[str, Any]) -> list[str]:
    """How often sensors fail, for people."""
    return [
        f"sensor {name:7s} broken {100 * rates['share']:.1f} % of the time, "
        f"{rates['mean_burst']:.1f} samples at a time"
        for name, rates in summary.get("sensors", {}).items()
    ]


def report_notes(notes: Sequence[Note]) -> None:
    """Say what was read how."""
    for one in notes:
        note(one.text)


def report_left_out(plan: ColumnPlan, n_unlabelled: int) -> None:
    """Say which columns and how many rows are not learned from."""
    for name, reason in plan.left_out.items():
        note(f"column {name!r} is left out: {reason}")
    if n_unlabelled:
        verb = "is" if n_unlabelled == 1 else "are"
        note(f"{counted(n_unlabelled, 'row')} without a label {verb} left out")


def score_unlabelled(training: Training, identifiers: Sequence[str] = ()) -> Any:
    """A DataFrame of one row for each row that was not learned from.

    proba is that of the predicted class. p_value is the share of trusted training rows that lie as
    far out. Suspicious rows are those at a false-alarm rate of 5 %.
    """
    import pandas as pd

    assert training.others is not None
    rows, features = training.others()
    table, classifier = training.table, training.classifier
    columns: dict[str, Any] = {"row": rows + 1}
    columns |= {column_of(name): table.text(name)[0][rows] for name in identifiers}
    columns["label"] = table.text(training.target)[0][rows]
    if not len(rows):
        return pd.DataFrame({**columns, "prediction": [], "proba": [], "p_value": []})
    columns["prediction"] = classifier.predict(features)
    if hasattr(classifier, "predict_proba"):
        columns["proba"] = np.max(classifier.predict_proba(features), axis=1)
    if hasattr(classifier, "p_values"):
        columns["p_value"] = classifier.p_values(features)
        columns["suspicious"] = classifier.screen(features, false_alarm_rate=0.05)
    return pd.DataFrame(columns)


def proba_columns(classifier: Any, probabilities: np.ndarray) -> dict[str, Any]:
    """A column of each class."""
    columns = zip(classifier.classes_, probabilities.T, strict=True)
    return {f"proba_{label}": column for label, column in columns}


def with_embeddings(table: Table, path: str | None) -> Table:
    """The table with a column for each dimension of the embeddings."""
    if path is None:
        return table
    import pandas as pd

    values = _load(path)
    if values.ndim != 2 or len(values) != len(table):
        raise TableError(
            f"--embeddings {path!r} holds {values.dtype} of shape {values.shape}, expected numbers "
            f"of shape ({len(table)}, dimensions): one row per row of {table.name}"
        )
    names = [f"embedding {i + 1}" for i in range(values.shape[1])]
    taken = [name for name in names if name in table.columns]
    if taken:
        raise TableError(f"{table.name} has a column {taken[0]!r} already: rename it")
    further = pd.DataFrame(values.astype(np.float64), columns=names, index=table.frame.index)
    return replace(table, frame=pd.concat([table.frame, further], axis=1), _converted={})


def _load(path: str) -> np.ndarray:
    """A .npy file."""
    with raised_as(TableError, f"cannot read {path!r} as .npy"):
        values = np.load(path, allow_pickle=False)
    if not isinstance(values, np.ndarray):  # an archive of arrays
        values.close()
        raise TableError(f"{path!r} is an archive: save one array with numpy.save")
    if values.dtype.kind not in "fiu":
        raise TableError(f"{path!r} holds {values.dtype}, expected numbers")
    return values


def with_pred_probs(data: TrainingData, options: argparse.Namespace, table: Table) -> TrainingData:
    """The same with the probabilities of the rows that are used."""
    files = getattr(options, "pred_probs", [])
    if not files:
        return data
    kept = np.unique(data.labels)
    labels, present = table.labels(options.target)
    known = np.union1d(kept, labels[present])  # whole numbers in the order of numbers
    reading, n = reading_of(options), len(table)
    probs = [one[data.rows] for path in files for one in _probs_in(path, kept, known, n, reading)]
    return data._replace(options={**data.options, "pred_probs": np.array(probs)})


def _probs_in(
    path: str, kept: np.ndarray, known: np.ndarray, n_rows: int, reading: dict[str, Any]
) -> list[np.ndarray]:
    """Probabilities of one file, a matrix for each model.

    Columns may be those of the classes that are kept, or of all known labels.
    """
    if path.lower().endswith(".npy"):
        values = _load(path)
        stack = values[None] if values.ndim == 2 else values
        if stack.ndim != 3:
            raise TableError(f"{path!r} has shape {values.shape}, not (rows, classes)")
        classes = known if stack.shape[2] == len(known) else kept
        models: list[Any] = list(stack)
    else:
        frame = _frame(path, known, reading)
        classes = known[np.isin(known.astype(str), list(frame.columns))]
        classes = classes if np.isin(kept, classes).all() else kept
        models = [frame]
    try:
        checked = check_pred_probs(models, classes, n_rows)
    except ValueError as error:
        raise TableError(f"--pred-probs {path!r}: {error}") from None
    assert checked is not None
    found = [one[:, np.searchsorted(classes, kept)] for one in checked]
    return [one / np.maximum(one.sum(axis=1, keepdims=True), 1e-12) for one in found]


def _frame(path: str, known: np.ndarray, reading: dict[str, Any]) -> Any:
    """Columns of a table that are named like classes, as numbers."""
    import pandas as pd

    table = read_table(path, **{**reading, "header": "yes"})
    names = [name for name in table.columns if str(name) in set(known.astype(str))]
    return pd.DataFrame({str(name): table.complete_numbers(name, "pred-probs") for name in names})
