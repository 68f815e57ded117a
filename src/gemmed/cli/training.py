"""What ``gemmed fit`` and ``gemmed audit`` share: a table in, a fitted model out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.words import counted
from .commands import add_list_option
from .own_models import with_pred_probs
from .progress import FitProgress
from .reading_options import add_reading_options, reading_of
from .terminal import counted_names, note, warnings_as_notes

if TYPE_CHECKING:
    import numpy as np
    from sklearn.pipeline import Pipeline

    from ..estimators.column_plan import ColumnPlan
    from ..estimators.table_columns import Handling, Roles, TrainingData
    from ..rows.notes import Note
    from ..rows.tables import Table


class Learned(NamedTuple):
    """A fitted pipeline and what a summary says of it."""

    pipeline: Pipeline
    plan: ColumnPlan
    labels: np.ndarray
    """Of the rows that have one."""
    n_unlabelled: int
    frame: Any
    """Rows on which predictions are compared with labels: all, or a sample of many."""
    frame_labels: np.ndarray
    recordings: int | None = None
    """How many were used; the rows of ``frame`` are then what the classifier sees."""

    @property
    def classifier(self) -> Any:
        """The fitted classifier at the end of the pipeline."""
        return self.pipeline[-1]


class Training(NamedTuple):
    """A whole table in memory, and what was learned from it."""

    table: Table
    rows: np.ndarray
    """Numbers of the rows that were used, from 0."""
    learned: Learned
    facts: dict[str, np.ndarray]
    """Further columns of a report, one entry per used row: files, times and flags of recordings."""
    problems: list[dict[str, Any]]
    """Recordings that could not be used: row, path, problem."""
    others: Callable[[], tuple[np.ndarray, Any]]
    """Numbers of the rows that were not learned from, and what the classifier sees of them."""
    target: str
    data: TrainingData | None = None
    """What was fitted of a table, with notes of how it was read; None of recordings."""


def add_training_options(parser: Any) -> None:
    """Options that say what to learn from and how."""
    parser.add_argument(
        "table", metavar="TABLE", help="CSV, Parquet or Excel file, - for standard input"
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="the class of each row (of recordings: label)"
    )
    add_column_options(parser.add_argument_group("columns"))
    _add_handling_options(parser.add_argument_group("rows and words"))
    _add_classifier_options(parser.add_argument_group("classifier"))
    add_reading_options(parser)


def _add_handling_options(group: Any) -> None:
    group.add_argument(
        "--spelling",
        choices=["merged", "as-written"],
        default="merged",
        help="labels and categories that differ only in case or spaces: one (default), or several",
    )
    group.add_argument(
        "--duplicates",
        choices=["keep", "once"],
        default="keep",
        help="rows that repeat an earlier one with the same label: keep them (default), or learn "
        "from the first only",
    )
    group.add_argument(
        "--min-class-rows",
        type=int,
        default=2,
        metavar="N",
        help="classes with fewer rows are left out (default: 2)",
    )


def _add_classifier_options(group: Any) -> None:
    group.add_argument(
        "--base",
        choices=["auto", "forest", "boosting", "none"],
        default="auto",
        help="a classifier whose held-out predictions count beside those of the kernel; auto "
        "(default): a random forest where the rows are in memory",
    )
    group.add_argument(
        "--kernel",
        choices=["tuned", "rbf", "rational_quadratic", "linear", "poly"],
        default="tuned",
        help="tuned (default) is rbf",
    )
    group.add_argument(
        "--gamma",
        type=_number_or("tuned", "auto", "scale"),
        default="tuned",
        help="width of rbf and rational_quadratic, scale of poly: a number, tuned (default: by "
        "leave-one-out predictions), auto (1 / number of features) or scale (also divided by their "
        "variance)",
    )
    group.add_argument("--degree", type=int, default=3, help="of poly (default: 3)")
    group.add_argument(
        "--C", type=float, default=3.0, help="above 1; larger allows less margin error (default: 3)"
    )
    group.add_argument(
        "--neighbors", type=int, default=10, metavar="K", help="neighbours (default: 10)"
    )
    group.add_argument(
        "--components",
        type=_number_or("auto"),
        default="auto",
        metavar="M",
        help="landmarks that stand for the rows of a large table (default: auto, none up to 2,000 "
        "rows of two classes, above chosen by held-out loss)",
    )
    group.add_argument("--max-iter", type=int, default=200, metavar="N")
    group.add_argument("--seed", type=int, default=0, help="of the random splits (default: 0)")


def train_on_table(
    options: argparse.Namespace, table: Table, *, not_features: tuple[str, ...] = ()
) -> Training:
    """Fit a table; what was left out is said on standard error."""
    from ..estimators.column_plan import feature_frame
    from ..estimators.table_columns import fit_pipeline, table_pipeline, training_data

    classifier = classifier_of(options)
    roles = roles_of(options, not_features=not_features)
    table.require_columns(list(not_features), "id")
    data = training_data(table, **roles._asdict(), handling=handling_of(options))
    data = with_pred_probs(data, options, table, reading_of(options))
    report_notes(data.notes)
    report_left_out(data.plan, data.n_unlabelled)
    pipeline = table_pipeline(
        classifier,
        data.frame,
        data.plan,
        scaling=options.scaling,
        missing=tuple(options.missing),
        decimal=options.decimal,
    )
    pipeline[0].basis_ = table.basis
    with warnings_as_notes(), FitProgress():
        fit_pipeline(pipeline, data)
    learned = Learned(pipeline, data.plan, data.labels, data.n_unlabelled, data.frame, data.labels)

    def others() -> tuple[np.ndarray, Any]:
        import numpy as np

        rest = np.setdiff1d(np.arange(len(table)), [*data.rows, *data.repeats])
        frame = feature_frame(table, data.plan).iloc[rest]
        return rest, pipeline[0].transform_frame(frame) if len(rest) else frame

    return Training(table, data.rows, learned, {}, [], others, roles.target, data)


def roles_of(options: argparse.Namespace, *, not_features: tuple[str, ...] = ()) -> Roles:
    """What the columns are for, by the options."""
    if options.target is None:
        raise ValueError("--target COLUMN is needed (or --annotators or --answers, of an audit)")
    from ..estimators.table_columns import Roles

    own = (options.group, options.weight, options.prior, options.known)
    return Roles(
        options.target,
        options.group,
        options.weight,
        options.prior,
        (*options.drop, *(n for n in not_features if n not in own)),
        tuple(options.categorical),
        tuple(options.numeric),
        options.known,
    )


def handling_of(options: argparse.Namespace) -> Handling:
    """What to do with spellings, duplicates and rare classes, by the options."""
    from ..estimators.table_columns import Handling

    return Handling(options.spelling, options.duplicates, options.min_class_rows)


def classifier_of(options: argparse.Namespace) -> Any:
    """The classifier that the options ask for, not fitted."""
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"seed={options.seed} must be between 0 and {2**32 - 1}")
    from ..estimators.gemmed import GEMMEDClassifier
    from ..model.settings import Solver

    return GEMMEDClassifier(
        options.kernel,
        gamma=options.gamma,
        kernel_params={"degree": options.degree},
        C=options.C,
        base=None if options.base == "none" else options.base,
        n_neighbors=options.neighbors,
        solver=Solver(options.max_iter, n_components=_whole(options.components)),
        random_state=options.seed,
    )


def summary_of(learned: Learned) -> dict[str, Any]:
    """Facts of a fit, ready for JSON."""
    import numpy as np

    classifier, plan = learned.classifier, learned.plan
    labels, counts = np.unique(learned.labels, return_counts=True)
    from ..report.signal import signal_of

    signal = signal_of(classifier, learned.labels)
    summary: dict[str, Any] = {
        "rows": len(learned.labels),
        "rows_without_label": learned.n_unlabelled,
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
    if learned.recordings is not None:
        summary["recordings"] = learned.recordings
    summary["converged"] = bool(np.all(classifier.converged_))
    summary["iterations"] = int(np.max(classifier.n_iter_))
    summary["duality_gap"] = _finite(float(np.max(classifier.duality_gap_)))
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
        mean = summary["rows"] * summary["contamination"]
        text += (
            f"; estimated number of faulty rows, flagged or not: {mean:.0f} (90 % interval "
            f"{low:.0f} to {high:.0f})"
        )
    return [*summary["signal"], *table_lines(summary), f"suspicious     {text}"]


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


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if abs(value) < float("inf") else None


def _whole(value: float | str) -> Any:
    """3.0 of the command line as 3; other numbers are refused by the classifier."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number_or(*words: str) -> Any:
    def parse(text: str) -> float | str:
        if text in words:
            return text
        try:
            return float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is neither a number nor {' nor '.join(words)}"
            ) from None

    return parse


def add_column_options(group: Any) -> None:
    """Options of commands that learn from a table."""
    group.add_argument(
        "--group",
        metavar="COLUMN",
        help="rows of one group (a person, a recording) are held out together",
    )
    group.add_argument("--weight", metavar="COLUMN", help="how often each row counts")
    group.add_argument(
        "--prior",
        metavar="COLUMN",
        help="probability that each row is correct, before the fit; 0 and 1 are certainties",
    )
    group.add_argument(
        "--known",
        metavar="COLUMN",
        help="true label of rows that were checked by hand, empty elsewhere; leave --target as it "
        "was given: both are used",
    )
    add_list_option(group, "--drop", "COLUMN", "columns not to learn from")
    add_list_option(
        group,
        "--categorical",
        "COLUMN",
        "columns of numbers that are codes (a postcode, a machine)",
    )
    add_list_option(
        group,
        "--numeric",
        "COLUMN",
        "columns to learn from as numbers although they hold dates or count the rows",
    )
    group.add_argument(
        "--scaling",
        choices=["robust", "standard"],
        default="robust",
        help="numbers by median and quartiles (default), or by mean and standard deviation",
    )
