"""Errors and warnings of gemmed.

    Exception
    +-- GemmedError
        +-- EngineError (also ValueError)       an engine cannot solve the problem it was given
        +-- DegenerateDataError (also ValueError)  data without the variation a method needs
        +-- UnscaledDataError (also ValueError)    numbers too far apart for floating point
        +-- AudioFileError (also ValueError)       a recording cannot be used
        +-- ManifestError (also ValueError)        a table of recordings cannot be used

    Warning
    +-- GemmedWarning (UserWarning)
        +-- NeighborsReducedWarning      n_neighbors was larger than a class allows
        +-- EntropyDisabledWarning       the k-NN distances of a class rank nothing
        +-- IndefiniteKernelWarning      a kernel with negative eigenvalues was clipped
        +-- ConstraintWarning            a class-wise constraint cannot be met
        +-- CalibrationWarning           too few samples for the false-alarm rate
        +-- UnscaledDataWarning          a kernel so large that margins mean nothing

Wrong parameters and malformed arrays raise scikit-learn's own ValueError / TypeError, and a solver
that stops early warns with ``sklearn.exceptions.ConvergenceWarning``, as users of scikit-learn
expect.
"""


class GemmedError(Exception):
    """Base of all errors raised by gemmed itself."""


class EngineError(GemmedError, ValueError):
    """An engine cannot solve the problem it was given; the message names one that can."""


class DegenerateDataError(GemmedError, ValueError):
    """The data lack the variation a method needs (a class of identical points, constant X)."""


class UnscaledDataError(GemmedError, ValueError):
    """Numbers in X or in the kernel lie too far apart (or overflow) for floating point."""


class AudioFileError(GemmedError, ValueError):
    """A recording is missing, unreadable, empty or not finite."""


class ManifestError(GemmedError, ValueError):
    """A table of recordings cannot be read or lacks a column."""


class GemmedWarning(UserWarning):
    """Base of all warnings issued by gemmed itself."""


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


class CalibrationWarning(GemmedWarning):
    """A class has too few samples to raise alarms at the wanted false-alarm rate."""
