"""``--pred-probs`` and ``--embeddings``: what the user's own models say of the rows."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._core.exceptions import TableError, raised_as
from .commands import add_list_option

if TYPE_CHECKING:
    import numpy as np

    from ..estimators.table_columns import TrainingData
    from ..rows.tables import Table


def add_own_model_options(parser: Any) -> None:
    """Files with probabilities and with embeddings."""
    add_list_option(
        parser,
        "--pred-probs",
        "FILE",
        "out-of-sample probabilities of your own models, one file each: a table with one column "
        "per class, or .npy of shape (rows, classes), classes sorted; rows as in the table",
    )
    parser.add_argument(
        "--embeddings",
        metavar="FILE",
        help=".npy of shape (rows, dimensions): embeddings of texts, images or sounds, learned "
        "from beside the columns of the table",
    )


def with_embeddings(table: Table, path: str | None) -> Table:
    """The table with a column for each dimension of the embeddings."""
    if path is None:
        return table
    import numpy as np
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
    import numpy as np

    with raised_as(TableError, f"cannot read {path!r} as .npy"):
        values = np.load(path, allow_pickle=False)
    if not isinstance(values, np.ndarray):  # an archive of arrays
        values.close()
        raise TableError(f"{path!r} is an archive: save one array with numpy.save")
    if values.dtype.kind not in "fiu":
        raise TableError(f"{path!r} holds {values.dtype}, expected numbers")
    return values


def with_pred_probs(
    data: TrainingData, options: argparse.Namespace, table: Table, reading: dict[str, Any]
) -> TrainingData:
    """The same with the probabilities of the rows that are used.

    Parameters
    ----------
    reading : how tables are read, for ``read_table``
    """
    files = getattr(options, "pred_probs", [])
    if not files:
        return data
    import numpy as np

    kept = np.unique(data.labels)
    labels, present = table.labels(options.target)
    known = np.unique(np.concatenate([kept, labels[present].astype(str)]))
    probs = [
        one[data.rows] for path in files for one in _read(path, kept, known, len(table), reading)
    ]
    return data._replace(options={**data.options, "pred_probs": np.array(probs)})


def _read(
    path: str, kept: np.ndarray, known: np.ndarray, n_rows: int, reading: dict[str, Any]
) -> list[np.ndarray]:
    """Probabilities of one file, a matrix for each model.

    Parameters
    ----------
    kept : classes that are learned
    known : all labels of the table; probabilities of those that are not learned are dropped
    """
    import numpy as np

    from ..estimators.base_member import check_pred_probs

    if path.lower().endswith(".npy"):
        values = _load(path)
        stack = values[None] if values.ndim == 2 else values
        if stack.ndim != 3:
            raise TableError(f"{path!r} has shape {values.shape}, not (rows, classes)")
        classes = known if stack.shape[2] == len(known) else kept
        models: list[Any] = list(stack)
    else:
        frame = _frame(path, known, reading)
        classes = known[np.isin(known, list(frame.columns))]
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

    from ..rows.tables import read_table

    table = read_table(path, **{**reading, "header": "yes"})
    names = [name for name in table.columns if str(name) in set(known)]
    return pd.DataFrame({str(name): table.complete_numbers(name, "pred-probs") for name in names})
