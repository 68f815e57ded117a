"""Tables of polars: read as pandas has them, and made of columns."""

from importlib.util import find_spec
from typing import Any

import numpy as np

from .._core.exceptions import TableError
from .._core.optional import require

OUTPUTS = ("pandas", "polars", "dict")


def in_pandas(X: Any) -> Any:
    """A polars DataFrame as one of pandas, column by column; anything else as it is.

    Whole numbers with gaps become floats with NaN, other gaps None. pyarrow is not needed.
    """
    kind = type(X)
    if kind.__module__.partition(".")[0] != "polars":
        return X
    if kind.__name__ == "LazyFrame":
        raise TableError("X is a LazyFrame of polars, which has no rows yet: give X.collect()")
    if kind.__name__ != "DataFrame":
        return X
    import pandas as pd

    return pd.DataFrame({name: X[name].to_numpy() for name in X.columns})


def frame_of(
    columns: dict[str, Any],
    output: str | None,
    index: np.ndarray | None = None,
    lists: dict[str, type] | None = None,
) -> Any:
    """Columns of equal length as a table.

    ``output``: "pandas", "polars", "dict", or None for pandas where it is installed, else a dict.
    ``index``: names of rows; polars has no index and gets them as the first column, ``index``.
    ``lists``: columns whose cells are lists, and of what; polars cannot tell if all are empty.
    """
    if output not in (None, *OUTPUTS):
        raise ValueError(
            f"output={output!r} is unknown: use one of {', '.join(map(repr, OUTPUTS))}, or None."
        )
    if output == "dict":
        return columns
    if output == "polars":
        require("polars", "output='polars' needs", "polars")
        import polars as pl

        named = columns if index is None else {"index": index, **columns}
        # Lists and words in arrays of objects: polars finds their types in plain lists.
        plain = {
            name: values.tolist() if np.asarray(values).dtype == object else np.asarray(values)
            for name, values in named.items()
        }
        types = {
            name: pl.List(pl.Int64 if of is int else pl.String)
            for name, of in (lists or {}).items()
        }
        return pl.DataFrame(plain, schema_overrides={n: t for n, t in types.items() if n in plain})
    if output is None and find_spec("pandas") is None:
        return columns
    require("pandas", "output='pandas' needs", "cli")
    import pandas as pd

    return pd.DataFrame(columns, index=index)
