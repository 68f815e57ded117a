"""A raw table to a classifier: which columns to use, how, and the pipeline that does it.

The pipeline consists of parts of scikit-learn and a classifier, so that it works wherever a
pipeline does and can be saved. It takes the frame that :func:`feature_frame` makes of a table.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import TableError
from .._core.types import FloatArray
from ..rows.tables import MISSING_TEXT, Table, shortened
from .validation import check_number, check_query_data, check_unlabelled_data

MAX_CATEGORIES = 30
"""Columns a text column may become; its rarest values share one."""
MOSTLY_NUMBERS = 0.9
"""A column with this share of numbers was meant to hold numbers."""
IDENTIFIER_SHARE = 0.95
"""A text column in which this share of the values is unique names rows."""
WHOLE = re.compile(r"^(-?\d+)\.0+$")
"""3.0 and 3 are one code: software writes whole numbers as the one or the other."""
FEW_ROWS = 10
"""In shorter tables unique values prove nothing."""


class ColumnPlan(NamedTuple):
    """What becomes of each column; ``left_out`` maps names to reasons."""

    numeric: list[str]
    categories: list[str]
    left_out: dict[str, str]


class TrainingData(NamedTuple):
    """What a fit needs; arrays have one entry per used row.

    ``rows`` are the positions of the used rows in the table: rows without a label are left out.
    """

    frame: Any
    labels: np.ndarray
    rows: np.ndarray
    plan: ColumnPlan
    options: dict[str, np.ndarray]


class Roles(NamedTuple):
    """What the columns of a table are for; those without a role are features.

    ``group``, ``weight`` and ``prior`` are ``groups``, ``sample_weight`` and ``prior_nominal`` of
    fit; ``categorical`` are features that are categories even if they hold numbers.
    """

    target: str
    group: str | None = None
    weight: str | None = None
    prior: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()

    @property
    def special(self) -> list[str]:
        """Columns that say something of the rows and are not features."""
        names = (self.target, self.group, self.weight, self.prior)
        return [name for name in names if name is not None]

    @property
    def not_features(self) -> list[str]:
        return [*self.special, *self.drop]

    def check(self, table: Table) -> None:
        """Every column is there and has one role."""
        special = {
            "target": self.target,
            "group": self.group,
            "weight": self.weight,
            "prior": self.prior,
        }
        for purpose, name in special.items():
            if name is not None:
                table.require_columns([name], purpose)
        table.require_columns(list(self.drop), "drop")
        table.require_columns(list(self.categorical), "categorical")
        _check_roles(special, self.drop, self.categorical)

    def what_is_known(self, table: Table) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Labels of the rows that have one, positions of these rows, and options of fit."""
        labels, present = table.labels(self.target)
        rows = np.flatnonzero(present)
        _check_classes(table, self.target, labels[rows])
        options: dict[str, np.ndarray] = {}
        if self.group is not None:
            options["groups"] = _groups(table, self.group)[rows]
        if self.weight is not None:
            options["sample_weight"] = table.complete_numbers(self.weight, "weight")[rows]
        if self.prior is not None:
            options["prior_nominal"] = table.complete_numbers(self.prior, "prior")[rows]
        return labels[rows], rows, options


class FarLimit(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Moves scaled values beyond +-``limit`` to that limit.

    One reading of 1e12 beside readings around 1 is anomalous at any distance, but leaves no digits
    for the differences between the others.

    Parameters
    ----------
    limit : float, default=100.0
    """

    def __init__(self, limit: float = 100.0) -> None:
        self.limit = limit

    def fit(self, X: Any, y: Any = None) -> FarLimit:
        """Check the parameter and the shape of X, (n_samples, n_features)."""
        check_number("limit", self.limit, above=0)
        check_unlabelled_data(self, X)
        return self

    def transform(self, X: Any) -> FloatArray:
        """X with its entries limited."""
        check_is_fitted(self)
        values: FloatArray = np.clip(check_query_data(self, X), -self.limit, self.limit)
        return values


def plan_columns(
    table: Table, *, exclude: list[str], categorical: list[str], rows: np.ndarray
) -> ColumnPlan:
    """Decide which columns are numbers, which categories, and which to leave out.

    Parameters
    ----------
    exclude : columns that are not features
    categorical : columns to treat as categories even if they hold numbers
    rows : positions of the rows that count
    """
    plan = ColumnPlan([], [], {})
    for name in table.columns:
        if name in exclude:
            continue
        present = table.present(name)[rows]
        if not present.any():
            plan.left_out[name] = "no values"
        elif name in categorical:
            plan.categories.append(name)
        elif _holds_numbers(table, name, present.sum(), rows):
            plan.numeric.append(name)
        elif _names_rows(table.text(name)[0][rows][present]):
            plan.left_out[name] = "text that differs from row to row"
        else:
            plan.categories.append(name)
    if not plan.numeric and not plan.categories:
        reasons = "; ".join(f"{name!r}: {reason}" for name, reason in plan.left_out.items())
        raise TableError(f"{table.name} has no column to learn from ({reasons or 'none is left'})")
    return plan


def feature_frame(table: Table, plan: ColumnPlan) -> Any:
    """The used columns as a DataFrame: floats with NaN, and strings."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in plan.numeric:
        columns[name] = table.only_numbers(name, "a column of numbers")
    for name in plan.categories:
        cells, present = table.text(name)
        values = [
            WHOLE.sub(r"\1", cell) if there else MISSING_TEXT
            for cell, there in zip(cells, present, strict=True)
        ]
        columns[name] = pd.Series(values, dtype=object)
    return pd.DataFrame(columns)


def training_data(
    table: Table,
    target: str,
    *,
    group: str | None = None,
    weight: str | None = None,
    prior: str | None = None,
    drop: tuple[str, ...] = (),
    categorical: tuple[str, ...] = (),
) -> TrainingData:
    """Features, labels and what is known of the rows, out of a table.

    Parameters
    ----------
    target : column of the class labels
    group, weight, prior : columns for ``groups``, ``sample_weight`` and ``prior_nominal`` of fit
    drop : further columns that are not features
    categorical : columns to treat as categories even if they hold numbers
    """
    roles = Roles(target, group, weight, prior, drop, categorical)
    roles.check(table)
    labels, rows, options = roles.what_is_known(table)
    plan = plan_columns(table, exclude=roles.not_features, categorical=list(categorical), rows=rows)
    frame = feature_frame(table, plan).iloc[rows].reset_index(drop=True)
    return TrainingData(frame, labels, rows, plan, options)


def table_pipeline(classifier: Any, frame: Any, plan: ColumnPlan, *, scaling: str) -> Pipeline:
    """Unfitted pipeline of the steps "columns" and "classifier".

    Missing numbers become the median, with a column that says where they were missing. Numbers are
    scaled by median and quartiles ("robust") or by mean and standard deviation ("standard");
    robust scaling leaves anomalies far out instead of squeezing the rest together. A column whose
    quartiles agree is always scaled by its standard deviation. What is still further out than
    ``FarLimit`` allows is moved there.
    """
    if scaling not in ("robust", "standard"):
        raise ValueError(f"scaling={scaling!r} is unknown: use 'robust' or 'standard'.")
    robust = [
        name for name in plan.numeric if scaling == "robust" and _quartiles_differ(frame[name])
    ]
    standard = [name for name in plan.numeric if name not in robust]
    incomplete = [name for name in plan.numeric if frame[name].isna().any()]
    parts: list[tuple[str, Any, list[str]]] = []
    for kind, names, scaler in (
        ("robust", robust, RobustScaler(unit_variance=True)),
        ("standard", standard, StandardScaler()),
    ):
        if names:
            numbers = make_pipeline(SimpleImputer(strategy="median"), scaler, FarLimit())
            parts.append((kind, numbers, names))
    if incomplete:
        parts.append(("missing", MissingIndicator(error_on_new=False), incomplete))
    if plan.categories:
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=MAX_CATEGORIES,
            sparse_output=False,
        )
        parts.append(("categories", encoder, plan.categories))
    columns = ColumnTransformer(parts, verbose_feature_names_out=True)
    return Pipeline([("columns", columns), ("classifier", classifier)])


def fit_pipeline(pipeline: Pipeline, data: TrainingData) -> Pipeline:
    """Fit with the groups, weights and priors of the table."""
    return pipeline.fit(
        data.frame,
        data.labels,
        **{f"classifier__{name}": values for name, values in data.options.items()},
    )


def plan_of(model: Any) -> ColumnPlan:
    """The columns a fitted model needs, by kind; all numeric unless it says otherwise."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "the model was fitted without column names: fit it on a DataFrame or with gemmed fit"
        )
    columns = model.named_steps.get("columns") if isinstance(model, Pipeline) else None
    categories: list[str] = []
    if isinstance(columns, ColumnTransformer):
        for kind, _, chosen in columns.transformers_:
            if kind == "categories":
                categories = [str(name) for name in chosen]
    numeric = [str(name) for name in names if name not in categories]
    return ColumnPlan(numeric, categories, {})


def query_frame(table: Table, model: Any) -> Any:
    """The columns of a table that a fitted model needs, in its order."""
    plan = plan_of(model)
    table.require_columns([*plan.numeric, *plan.categories], "used by the model")
    return feature_frame(table, plan)[list(model.feature_names_in_)]


def unseen_categories(frame: Any, model: Any) -> dict[str, list[str]]:
    """Values of the category columns that did not occur in training, by column."""
    columns = model.named_steps.get("columns") if isinstance(model, Pipeline) else None
    categories = plan_of(model).categories
    if not categories or columns is None:
        return {}
    known = columns.named_transformers_["categories"].categories_
    unseen = {
        name: sorted(set(frame[name]) - set(values))
        for name, values in zip(categories, known, strict=True)
    }
    return {name: values for name, values in unseen.items() if values}


def _holds_numbers(table: Table, name: str, n_present: int, rows: np.ndarray) -> bool:
    unreadable = np.intersect1d(table.numbers(name)[1], rows)
    if 0 < len(unreadable) <= (1 - MOSTLY_NUMBERS) * n_present:
        cell = shortened(table.text(name)[0][unreadable[0]])
        raise TableError(
            f"column {name!r} of {table.name} holds numbers, but {cell!r} in row "
            f"{table.row_number(unreadable[0])} is none (such cells: {len(unreadable)}): correct "
            f"it, treat it as missing (--missing {cell!r}), or take the column for text "
            f"(--categorical {name!r})"
        )
    return not len(unreadable)


def _names_rows(cells: np.ndarray) -> bool:
    return len(cells) >= FEW_ROWS and len(set(cells)) > IDENTIFIER_SHARE * len(cells)


def _quartiles_differ(values: Any) -> bool:
    low, high = np.nanpercentile(values, [25, 75])
    return bool(high > low)


def _check_roles(
    special: dict[str, str | None], drop: tuple[str, ...], categorical: tuple[str, ...]
) -> None:
    roles: dict[str, str] = {}
    named = [(purpose, name) for purpose, name in special.items() if name is not None]
    named += [("drop", name) for name in set(drop)]
    named += [("categorical", name) for name in set(categorical)]
    for purpose, name in named:
        if name in roles:
            raise TableError(f"column {name!r} cannot be both {roles[name]} and {purpose}")
        roles[name] = purpose


def _groups(table: Table, name: str) -> np.ndarray:
    cells, present = table.text(name)
    if not present.all():
        row = int(np.flatnonzero(~present)[0])
        raise TableError(
            f"column {name!r} of {table.name} (group) has no value in row "
            f"{table.row_number(row)}: fill it in"
        )
    return cells.astype(str)


def _check_classes(table: Table, target: str, labels: np.ndarray) -> None:
    n_classes = len(np.unique(labels))
    where = f"column {target!r} of {table.name} (target)"
    if not len(labels):
        raise TableError(f"{where} has no values")
    if n_classes == 1:
        raise TableError(
            f"{where} has one class only, {str(labels[0])!r}, in {len(labels)} rows: two are needed"
        )
    if n_classes > max(2, len(labels) // 2):
        raise TableError(
            f"{where} has {n_classes} different values in {len(labels)} rows: that is not a class"
        )
