"""Columns of a table to rows of numbers, as a transformer of scikit-learn."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import TableError
from .._core.types import FloatArray
from ..rows.cells import MERGED, SPELLINGS
from ..rows.foreign_frames import in_pandas
from ..rows.number_formats import NumberFormat
from ..rows.table import Table, missing_marks
from .column_plan import MAX_CATEGORIES, ColumnPlan, feature_frame, plan_columns
from .validation import (
    check_choice,
    check_input_features,
    check_number,
    check_query_data,
    check_table_data,
    check_unlabelled_data,
)

SCALINGS = ("robust", "standard")


class FarLimit(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Moves scaled values beyond +-``limit`` to that limit.

    One reading of 1e12 beside readings around 1 leaves no digits for the differences between the
    others. At the limit it is still far enough out to be called bad beside heavy tails.

    Parameters
    ----------
    limit : float, default=10,000
    """

    def __init__(self, limit: float = 1e4) -> None:
        self.limit = limit

    def fit(self, X: Any, y: Any = None) -> "FarLimit":
        """Check the parameter and the shape of X, (n_samples, n_features)."""
        check_number("limit", self.limit, above=0)
        check_unlabelled_data(self, X)
        return self

    def transform(self, X: Any) -> FloatArray:
        """X with its entries limited."""
        check_is_fitted(self)
        return np.clip(check_query_data(self, X), -self.limit, self.limit)


class TablePreparation(TransformerMixin, BaseEstimator):
    """Turns a table of numbers, units, categories and missing values into scaled numbers.

    It does for a DataFrame what ``gemmed fit`` does for a file. It finds the columns of numbers,
    also with units, thousands separators or decimal commas, and those of categories. Names of rows,
    dates, free text and columns that count the rows are left out. ``notes_`` states every decision.
    Later tables are read in the same way.

    Parameters
    ----------
    categorical : sequence of column names, default=()
        Columns to take for categories even if they hold numbers.
    numeric : sequence of column names, default=()
        Columns to take for numbers even if they hold dates (then days since 1970) or count the
        rows.
    drop : sequence of column names, default=()
        Columns not to use.
    scaling : {"robust", "standard"}, default="robust"
        Numbers are scaled by median and quartiles, or by mean and standard deviation. A column
        whose quartiles agree is scaled by its standard deviation in both cases.
    missing : sequence of str, default=()
        Cells that mean "no value" besides empty ones, NA, NaN, null, None and ?.
    decimal : {None, ".", ","}, default=None
        Decimal mark of numbers in text; None leaves it to each column.
    spelling : {"merged", "as-written"}, default="merged"
        Whether values that differ only in case or spaces are one category.

    Attributes
    ----------
    numeric_, categories_ : lists of column names
    left_out_ : dict, names of columns not used and why
    formats_ : dict, how numbers are written in the columns where they are not plain
    notes_ : list of str, what was decided and how to change it
    columns_ : fitted ColumnTransformer
    feature_names_in_ : ndarray of str, if X had names
    n_features_in_ : int

    Notes
    -----
    Missing numbers become the median, and a further column says where they were missing. Categories
    become one column per value; beyond 30 the rarest share one. Scaled values beyond 10,000 are
    moved to 10,000. Later tables are matched by name: the order of their columns does not matter,
    further columns are ignored.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from gemmed import GEMMEDClassifier, TablePreparation
    >>> model = make_pipeline(TablePreparation(drop=["comment"]), GEMMEDClassifier())

    With named columns, ``explain`` of the classifier names them too:

    >>> model = model.set_output(transform="pandas")
    """

    def __init__(
        self,
        *,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        drop: Sequence[str] = (),
        scaling: str = "robust",
        missing: Sequence[str] = (),
        decimal: str | None = None,
        spelling: str = MERGED,
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.drop = drop
        self.scaling = scaling
        self.missing = missing
        self.decimal = decimal
        self.spelling = spelling

    def fit(self, X: Any, y: Any = None) -> "TablePreparation":
        """Decide what becomes of the columns of X, and learn scales and categories.

        Parameters
        ----------
        X : DataFrame of pandas or polars, or array-like of shape (n_samples, n_features)
        y : ignored
        """
        self._check_parameters()
        table = self._table(X, fitting=True)
        for name in ("categorical", "numeric", "drop"):
            table.require_columns(list(getattr(self, name)), name)
        kinds = {name: list(getattr(self, name)) for name in ("categorical", "numeric")}
        rows = np.arange(len(table))
        with _errors_for_python():
            plan = plan_columns(
                table, exclude=list(self.drop), rows=rows, spelling=self.spelling, **kinds
            )
            frame = feature_frame(table, plan)
        return self.fit_frame(frame, plan)

    def fit_frame(self, frame: Any, plan: ColumnPlan) -> "TablePreparation":
        """Learn scales and categories of a frame that :func:`feature_frame` made as planned.

        This is the second half of :meth:`fit`, for tables that are planned elsewhere (from files,
        from a sample of rows).
        """
        check_choice("scaling", self.scaling, SCALINGS)
        self.numeric_, self.categories_ = list(plan.numeric), list(plan.categories)
        self.left_out_ = dict(plan.left_out)
        # As dictionaries, which model files hold.
        self.formats_ = {name: form._asdict() for name, form in plan.formats.items()}
        self.words_ = {name: list(words) for name, words in plan.words.items()}
        notes = [note.text for note in plan.notes]
        notes += [f"column {n!r} is left out: {why}" for n, why in self.left_out_.items()]
        self.notes_ = [_for_python(text) for text in notes]
        self.columns_ = _column_transformer(frame, plan, self.scaling).fit(frame)
        if not hasattr(self, "n_features_in_"):
            self.feature_names_in_ = np.array(frame.columns, dtype=object)
            self.n_features_in_ = len(frame.columns)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Rows of numbers, shape (n_samples, n_features_out)."""
        return self.transform_frame(self.read(X))

    def read(self, X: Any) -> Any:
        """The used columns of X as a DataFrame: numbers as floats, categories as text."""
        check_is_fitted(self, "columns_")
        with _errors_for_python():
            return feature_frame(self._table(X, fitting=False), self.plan_)

    def transform_frame(self, frame: Any) -> FloatArray:
        """Rows of numbers of a frame that :func:`feature_frame` made as planned."""
        return np.asarray(self.columns_.transform(frame), dtype=np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the numbers: what was done, two underscores, the column and perhaps a value."""
        check_is_fitted(self, "columns_")
        check_input_features(self, input_features)
        return self.columns_.get_feature_names_out()

    @property
    def plan_(self) -> ColumnPlan:
        """What becomes of each column."""
        formats = {name: NumberFormat(**form) for name, form in self.formats_.items()}
        return ColumnPlan(self.numeric_, self.categories_, self.left_out_, formats, self.words_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _check_parameters(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("spelling", self.spelling, SPELLINGS)
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal={self.decimal!r} must be None, '.' or ','.")
        for name in ("categorical", "numeric", "drop", "missing"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name}={getattr(self, name)!r} must be a list of texts.")

    def _table(self, X: Any, *, fitting: bool) -> Table:
        """X as a table; at transform the used columns must be there, by name or by number."""
        frame = check_table_data(self, in_pandas(X), fitting=fitting)
        table = Table(
            "X",
            frame,
            self.decimal == ",",
            missing_marks(tuple(self.missing)),
            decimal=self.decimal,
        )
        if not fitting:
            used = [*self.numeric_, *self.categories_]
            absent = [name for name in used if name not in frame.columns]
            if absent:
                raise TableError(
                    "The feature names should match those that were passed during fit.\nFeature "
                    "names seen at fit time, yet now missing:\n"
                    + "\n".join(f"- {name}" for name in sorted(absent))
                )
        return table


@contextmanager
def _errors_for_python() -> Iterator[None]:
    """What is wrong with a table, with parameters in place of options."""
    try:
        yield
    except TableError as error:
        raise TableError(_for_python(str(error))) from None


def _for_python(note: str) -> str:
    """A note with parameters in place of the options of the command line."""
    # Not in words, and not where a cell or a name in quotes begins.
    named = re.sub(r"(?<![\w'])--(\w+) ('[^']*')", r"\1=[\2]", note)
    named = re.sub(r"(?<![\w'])--(spelling|decimal) (as-written|,)", r"\1='\2'", named)
    return re.sub(r"(?<![\w'])--(\w+)", r"\1", named)


def _column_transformer(frame: Any, plan: ColumnPlan, scaling: str) -> ColumnTransformer:
    """Unfitted steps for the columns of a plan."""
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
    return ColumnTransformer(parts, verbose_feature_names_out=True)


def _quartiles_differ(values: Any) -> bool:
    low, high = np.nanpercentile(values, [25, 75])
    return bool(high > low)
