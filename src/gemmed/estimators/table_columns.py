"""A raw table to a classifier: which columns and rows to use, and the pipeline that does it.

The pipeline has the steps "columns" (:class:`~gemmed.TablePreparation`) and "classifier": it works
wherever a pipeline of scikit-learn does and can be saved.
"""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from .._core.exceptions import TableError
from .._core.parameter_checks import check_choice, check_number
from .._core.words import counted, did_you_mean
from ..rows.cells import MERGED, SPELLINGS, Note, in_known_spelling, listed, replaced, variants
from ..rows.table import Table
from .column_plan import ColumnPlan, feature_frame, plan_columns, repeated_rows
from .table_preparation import TablePreparation

KEEP, ONCE = "keep", "once"


class Handling(NamedTuple):
    """What to do with cells and rows that are not as they should be.

    ``spelling`` is "merged" if labels and categories that differ only in case or spaces are one, or
    "as-written". Classes with fewer than ``min_rows`` rows are left out. ``duplicates`` of a row
    are kept ("keep") or learned from "once".
    """

    spelling: str = MERGED
    duplicates: str = KEEP
    min_rows: int = 2

    def check(self) -> None:
        """Raise an error that names a choice that does not exist."""
        check_choice("spelling", self.spelling, SPELLINGS)
        check_choice("duplicates", self.duplicates, (KEEP, ONCE))
        check_number("min_rows", self.min_rows, at_least=1, whole=True)


class TrainingData(NamedTuple):
    """What a fit needs; arrays have one entry per used row.

    ``rows`` are the positions of the used rows in the table: rows without a label, of weight 0, of
    rare classes and repeated ones (if asked for) are left out. ``notes`` say what was done.
    """

    frame: Any
    labels: np.ndarray
    rows: np.ndarray
    plan: ColumnPlan
    options: dict[str, np.ndarray]
    notes: tuple[Note, ...] = ()
    n_unlabelled: int = 0
    repeats: np.ndarray = np.empty(0, dtype=np.intp)
    """Positions of rows left out because they repeat an earlier one."""


class Known(NamedTuple):
    """What the special columns say; arrays have one entry per used row."""

    labels: np.ndarray
    rows: np.ndarray
    options: dict[str, np.ndarray]
    notes: list[Note]
    n_unlabelled: int

    def only(self, kept: np.ndarray) -> "Known":
        """Some of the rows."""
        options = {name: values[kept] for name, values in self.options.items()}
        return self._replace(labels=self.labels[kept], rows=self.rows[kept], options=options)


class Roles(NamedTuple):
    """What the columns of a table are for; those without a role are features.

    ``group``, ``weight``, ``prior`` and ``known`` are ``groups``, ``sample_weight``,
    ``prior_nominal`` and ``known_labels`` of fit. ``categorical`` are features that are categories
    even if they hold numbers. ``numeric`` are numbers even if they hold dates or count the rows.
    """

    target: str
    group: str | None = None
    weight: str | None = None
    prior: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    known: str | None = None

    @property
    def special(self) -> list[str]:
        """Columns that say something of the rows and are not features."""
        names = (self.target, self.group, self.weight, self.prior, self.known)
        return [name for name in names if name is not None]

    @property
    def not_features(self) -> list[str]:
        return [*self.special, *self.drop]

    def check(self, table: Table) -> None:
        """Every column is there and has one role."""
        known: dict[str, str] = {}
        for purpose, given in self._asdict().items():
            names = list(given) if isinstance(given, tuple) else [given] if given else []
            table.require_columns(names, purpose)
            for name in dict.fromkeys(names):
                if name in known:
                    raise TableError(f"column {name!r} cannot be both {known[name]} and {purpose}")
                known[name] = purpose

    def plan(self, table: Table, rows: np.ndarray, spelling: str) -> ColumnPlan:
        """What becomes of the columns, by what the ``rows`` of a table hold."""
        return plan_columns(
            table,
            exclude=self.not_features,
            categorical=self.categorical,
            numeric=self.numeric,
            rows=rows,
            spelling=spelling,
        )

    def what_is_known(self, table: Table, handling: Handling | None = None) -> Known:
        """Labels of the rows to learn from, positions of these rows, and options of fit."""
        handling = handling or Handling()
        labels, present = table.labels(self.target)
        rows = np.flatnonzero(present)
        found, notes = _spelt(labels[rows], self.target, handling.spelling)
        _check_classes(table, self.target, found)
        options: dict[str, np.ndarray] = {}
        if self.group is not None:
            options["groups"] = _groups(table, self.group)[rows]
        for option, purpose in (("sample_weight", "weight"), ("prior_nominal", "prior")):
            if (name := getattr(self, purpose)) is not None:
                options[option] = table.complete_numbers(name, purpose)[rows]
        known = Known(found, rows, options, notes, len(labels) - len(rows))
        known = _without_absent_rows(known, self.weight)
        known = _without_rare_classes(known, self.target, handling.min_rows)
        if self.known is not None:
            merged = handling.spelling == MERGED
            known.options["known_labels"] = _true_labels(table, self.known, known, merged=merged)
        return known


def training_data(
    table: Table,
    target: str,
    *,
    handling: Handling | None = None,
    **further: Any,
) -> TrainingData:
    """Features, labels and what is known of the rows, out of a table.

    ``target``: column of the class labels. ``handling``: of spellings, duplicates and rare classes.
    ``further``: other fields of :class:`Roles`.
    """
    handling = handling or Handling()
    handling.check()
    roles = Roles(target, **further)
    roles.check(table)
    said = roles.what_is_known(table, handling)
    plan = roles.plan(table, said.rows, handling.spelling)
    frame = feature_frame(table, plan).iloc[said.rows].reset_index(drop=True)
    repeats, notes = repeated_rows(
        frame, said.labels, said.options.get("groups"), keep=handling.duplicates == KEEP
    )
    left_out = said.rows[:0]
    if handling.duplicates == ONCE and repeats.any():
        left_out = said.rows[repeats]
        said, frame = said.only(~repeats), frame[~repeats].reset_index(drop=True)
    notes = [*table.notes, *said.notes, *plan.notes, *notes]
    rest = said.options, tuple(notes), said.n_unlabelled, left_out
    return TrainingData(frame, said.labels, said.rows, plan, *rest)


def table_pipeline(classifier: Any, frame: Any, plan: ColumnPlan, **options: Any) -> Pipeline:
    """Pipeline of the steps "columns", fitted to the frame, and "classifier", not fitted.

    Further options of TablePreparation: ``scaling``; ``missing`` and ``decimal`` say how the table
    was read, so that later ones are read alike.
    """
    columns = TablePreparation(categorical=plan.categories, numeric=plan.numeric, **options)
    return Pipeline([("columns", columns.fit_frame(frame, plan)), ("classifier", classifier)])


def fit_pipeline(pipeline: Pipeline, data: TrainingData) -> Pipeline:
    """Fit the classifier of a pipeline with the groups, weights and priors of the table."""
    features = pipeline[0].transform_frame(data.frame)
    pipeline[-1].fit(features, data.labels, **data.options)
    return pipeline


def plan_of(model: Any) -> ColumnPlan:
    """The columns a fitted model needs, by kind; all numeric unless it says otherwise."""
    columns = plan_source(model)
    if columns is not None:
        return columns.plan_._replace(left_out={})
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "the model was fitted without column names: fit it on a DataFrame or with gemmed fit"
        )
    return ColumnPlan([str(name) for name in names], [], {})


def plan_source(model: Any) -> TablePreparation | None:
    """The step of a fitted model that knows how its table was read; None if there is none."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    return next((step for step in steps if isinstance(step, TablePreparation)), None)


def query_frame(table: Table, model: Any) -> Any:
    """The columns of a table that a fitted model needs, in its order."""
    plan = plan_of(model)
    needed = [*plan.numeric, *plan.categories]
    table.require_columns(needed, "used by the model")
    order = [str(name) for name in getattr(model, "feature_names_in_", needed) if name in needed]
    return feature_frame(table, plan)[order]


def unseen_categories(frame: Any, model: Any) -> dict[str, list[str]]:
    """Values of the category columns that did not occur in training, by column."""
    columns, categories = plan_source(model), plan_of(model).categories
    if not categories or columns is None:
        return {}
    known = columns.columns_.named_transformers_["categories"].categories_
    unseen = {
        name: sorted(set(frame[name]) - set(values))
        for name, values in zip(categories, known, strict=True)
    }
    return {name: values for name, values in unseen.items() if values}


def _spelt(labels: np.ndarray, target: str, spelling: str) -> tuple[np.ndarray, list[Note]]:
    """Labels of one spelling a class, and what was done."""
    if spelling != MERGED or labels.dtype.kind != "U":
        return labels, []
    other = variants(labels.tolist())
    if not other:
        return labels, []
    n_rows = int(np.isin(labels, list(other)).sum())
    text = (
        f"labels in column {target!r} that differ only in case or spaces are taken for one class "
        f"({n_rows} rows: {listed(other)}; --spelling as-written keeps them apart)"
    )
    return replaced(labels, other).astype(str), [Note("labels", text, target)]


def _without_absent_rows(known: Known, column: str | None) -> Known:
    """Without rows of weight 0: they count as if they were not there."""
    kept = known.options.get("sample_weight", np.ones(len(known.rows))) != 0.0
    if kept.all() or not kept.any():  # no weight at all is refused by fit
        return known
    text = f"left out: {counted(int((~kept).sum()), 'row')} of weight 0 in column {column!r}"
    return known.only(kept)._replace(notes=[*known.notes, Note("weights", text, column)])


def _without_rare_classes(known: Known, target: str, min_rows: int) -> Known:
    """Without classes of fewer rows than ``min_rows``, as long as two others are left."""
    counts = Counter(known.labels.tolist())
    rare = {label: n for label, n in counts.items() if n < min_rows}
    if not rare or len(counts) - len(rare) < 2:
        return known
    shown = ", ".join(f"{label!r}: {n}" for label, n in list(rare.items())[:5])
    more = f" and {len(rare) - 5} more" * (len(rare) > 5)
    text = (
        f"left out: {counted(sum(rare.values()), 'row')} of classes with fewer than {min_rows} "
        f"rows in column {target!r} ({shown}{more}; --min-class-rows N changes the limit)"
    )
    kept = ~np.isin(known.labels, list(rare))
    return known.only(kept)._replace(notes=[*known.notes, Note("rare classes", text, target)])


def _groups(table: Table, name: str) -> np.ndarray:
    cells, present = table.text(name)
    if not present.all():
        row = table.row_number(int(np.argmin(present)))
        raise TableError(
            f"column {name!r} of {table.name} (group) has no value in row {row}: fill it in"
        )
    return cells.astype(str)


def _true_labels(table: Table, name: str, known: Known, *, merged: bool) -> np.ndarray:
    """True labels of the rows that have one, None elsewhere."""
    cells, present = table.text(name)
    if known.labels.dtype.kind == "i":  # 3, 3.0 and 03 are one label there
        cells = table.labels(name)[0].astype(str)
    elif merged:
        cells = in_known_spelling(cells, known.labels.tolist())
    labels = {str(label): label for label in np.unique(known.labels).tolist()}
    found = np.full(len(known.rows), None, dtype=object)
    for i, row in enumerate(known.rows):
        cell = str(cells[row])
        if present[row] and cell not in labels:
            raise TableError(
                f"column {name!r} of {table.name} (known) has {cell!r} in row "
                f"{table.row_number(row)}, which is not a class of the target"
                f"{did_you_mean(cell, labels)}: use one of its labels, "
                "or leave the cell empty where the true label is not known"
            )
        found[i] = labels[cell] if present[row] else None
    return found


def _check_classes(table: Table, target: str, labels: np.ndarray) -> None:
    n_classes = len(np.unique(labels))
    where = f"column {target!r} of {table.name} (target)"
    rows = f"in {len(labels)} rows"
    if not len(labels):
        raise TableError(f"{where} has no values")
    if n_classes == 1:
        raise TableError(f"{where} has one class only, {str(labels[0])!r}, {rows}: two are needed")
    if n_classes > max(2, len(labels) // 2):
        raise TableError(f"{where} has {n_classes} different values {rows}: that is not a class")
