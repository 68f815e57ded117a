"""All errors and warnings of gemmed.

Wrong parameters and malformed arrays raise scikit-learn's own ValueError / TypeError, and a solver
that stops early warns with ``sklearn.exceptions.ConvergenceWarning``, as users of scikit-learn
expect.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


def reason(error: BaseException) -> str:
    """What an exception of another package says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


class GemmedError(Exception):
    """Base of all errors raised by gemmed itself.

    Wrong parameters and malformed arrays raise scikit-learn's own ValueError and TypeError.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gemmed import GemmedError, load_model
    >>> _ = Path("notes.txt").write_text("not a model")
    >>> try:
    ...     load_model("notes.txt")
    ... except GemmedError as error:
    ...     print(type(error).__name__)
    ModelFileError
    """


class EngineError(GemmedError, ValueError):
    """An engine cannot solve the problem it was given; the message names one that can."""


class GridTooLargeError(EngineError):
    """The mass of the integral is spread over more cells than can be visited."""


class DegenerateDataError(GemmedError, ValueError):
    """The data lack the variation a method needs (a class of identical points, constant X)."""


class UnscaledDataError(GemmedError, ValueError):
    """Numbers in X or in the kernel lie too far apart (or overflow) for floating point."""


class TableError(GemmedError, ValueError):
    """A file is not a table, or a column is not what it is needed for."""


class ModelFileError(GemmedError, ValueError):
    """A file is not a model that can be loaded, or a model cannot be saved."""


class PayloadError(ModelFileError):
    """The model in a file asks for more than its size justifies, or is not as skops writes it."""


class ModelExportError(GemmedError, ValueError):
    """A model, or a step of it, has no form in the format it is to be written in."""


class AudioFileError(GemmedError, ValueError):
    """A recording is missing, unreadable, empty or not finite."""


class ManifestError(GemmedError, ValueError):
    """A table of recordings cannot be read or lacks a column."""


class ReviewError(GemmedError, ValueError):
    """Marks of reviewers cannot be read, stored or applied to this table."""


class OutputError(GemmedError, OSError):
    """A file or folder cannot be written."""


class UnknownTargetError(GemmedError, ValueError):
    """A target of ``gemmed reproduce`` that does not exist was asked for."""


class ExperimentDataError(GemmedError, ValueError):
    """Tables or recordings of an experiment are not where they should be, or cannot be used."""


class StoredRunError(GemmedError):
    """A file of an earlier run does not hold what a target needs."""


class WorkerDiedError(GemmedError):
    """A worker process was killed."""


class GemmedWarning(UserWarning):
    """Base of all warnings issued by gemmed itself.

    Examples
    --------
    >>> import warnings
    >>> from gemmed import GEMDetector, GemmedWarning
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", GemmedWarning)
    ...     detector = GEMDetector(n_neighbors=10).fit([[0.0], [1.0], [2.0], [5.0]])
    >>> print(caught[0].category.__name__)
    NeighborsReducedWarning
    """


class NeighborsReducedWarning(GemmedWarning):
    """``n_neighbors`` was larger than a class allows and has been reduced."""


class EntropyDisabledWarning(GemmedWarning):
    """The entropy constraint of a class is off because its k-NN distances rank nothing."""


class IndefiniteKernelWarning(GemmedWarning):
    """The kernel matrix has negative eigenvalues; they are set to zero."""


class ConstraintWarning(GemmedWarning):
    """The entropy or coverage constraint of a class contradicts what else is asked."""


class UnscaledDataWarning(GemmedWarning):
    """The kernel is so large at the samples that any margin is reached by chance."""


class NoSignalWarning(GemmedWarning):
    """Held-out predictions are no better than the shares of the classes: no label can be judged."""


class CalibrationWarning(GemmedWarning):
    """A class has too few samples to raise alarms at the wanted false-alarm rate."""


class ModelVersionWarning(GemmedWarning):
    """A model was saved by another major version of gemmed."""


@contextmanager
def raised_as(kind: type[GemmedError], what: str) -> Iterator[None]:
    """Any error of the block but gemmed's own becomes ``kind("what (why)")``.

    A reader of damaged files fails in any way: pyarrow raises errors of its own, OSError,
    ValueError, KeyError and those of json and of codecs.
    """
    try:
        yield
    except (GemmedError, MemoryError):
        raise
    except Exception as error:
        raise kind(f"{what} ({reason(error)})") from error


Kept = dict[type[Warning], list[str]]
_kept: ContextVar[Kept | None] = ContextVar("kept_warnings", default=None)
"""Not a filter of the module warnings: those are of the whole process, and not safe in threads."""


def warn_of_class(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """A warning about one class, kept until the fit ends; issued at once outside a fit."""
    kept = _kept.get()
    if kept is None:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    else:
        kept.setdefault(category, []).append(message)


@contextmanager
def class_warnings_kept() -> Iterator[Kept]:
    """Keep the warnings of the block about classes; an inner block leaves them to the outer one."""
    outer = _kept.get()
    if outer is not None:
        yield {}
        return
    kept: Kept = {}
    token = _kept.set(kept)
    try:
        yield kept
    finally:
        _kept.reset(token)


def issue(kept: Kept, stacklevel: int) -> None:
    """Issue what was kept: the first of each kind, and how many there were."""
    for category, messages in kept.items():
        distinct = list(dict.fromkeys(messages))
        more = f" (and {len(distinct) - 1} more warnings like this)" if len(distinct) > 1 else ""
        warnings.warn(distinct[0] + more, category, stacklevel=stacklevel + 1)
