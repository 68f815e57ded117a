"""Settings that few fits need to change, in three records: priors, selection, solver.

Estimators take a record or None, which stands for the defaults. A record is immutable, checks its
values when it is made, and is a whole value for ``clone``, grid search and model files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from .._core.parameter_checks import check_choice, check_number, check_number_or_auto

_Record = TypeVar("_Record", "Priors", "Selection", "Solver")


@dataclass(frozen=True)
class Priors:
    """Prior beliefs of :class:`GEMMEDClassifier` about faults and predictions.

    Parameters
    ----------
    bad_rate, bad_spread : float, default=0.02, 1.5
        Median share of bad measurements, and standard deviation of the log-odds of that share.
    rate_shape : tuple of two floats, default=(0.3, 4.0)
        Beta distribution of the share of wrong labels, over the largest share at which labels still
        mean something, 1 - 1 / n_classes. (1, 1) is uniform.
    deviation_spread : float, default=1.5
        How far the log-odds of a wrong label may differ between classes (standard deviation).
    slope_spread, bias_spread : float, default=5.0, 1.5
        Standard deviations of the slopes of the members (for scores of unit spread) and of the
        class biases that turn held-out scores into probabilities. One-sided errors move biases.
    power : float in (0, 1], default=0.5
        Power of the likelihood of the labels: held-out predictions depend on each other.
    sample_error : float, default=0.1
        Least size of label errors that depend on the sample. Let the given label have probability
        p and the likeliest one q. The label is wrong with odds of sample_error * q / p, or more if
        there is a gap between the classes. 0: there are no such errors.

    Examples
    --------
    >>> from gemmed import GEMMEDClassifier, Priors
    >>> model = GEMMEDClassifier(priors=Priors(bad_rate=0.1))
    >>> model.priors.bad_rate
    0.1
    """

    slope_spread: float = 5.0
    bias_spread: float = 1.5
    deviation_spread: float = 1.5
    bad_rate: float = 0.02
    bad_spread: float = 1.5
    rate_shape: tuple[float, float] = (0.3, 4.0)
    power: float = 0.5
    sample_error: float = 0.1

    def __post_init__(self) -> None:
        spreads = ("slope_spread", "bias_spread", "deviation_spread", "bad_spread")
        for name in spreads:
            check_number(name, getattr(self, name), above=0)
        check_number("bad_rate", self.bad_rate, above=0, at_most=0.5)
        _check_numbers("rate_shape", self.rate_shape, length=2)
        check_number("power", self.power, above=0, at_most=1)
        check_number("sample_error", self.sample_error, at_least=0)


@dataclass(frozen=True)
class Selection:
    """What :class:`GEMMEDClassifier` compares to choose a kernel, and how it picks neighbours.

    Parameters
    ----------
    widths : tuple of floats, default=(0.3, 1.0, 3.0)
        Candidates for gamma="tuned", in units of gamma="scale".
    variances : tuple of floats, default=(0.1, 0.3, 1.0, 3.0)
        Candidates for the mean prior variance of the decision function, in ascending order.
        Kernels without a width have a smaller one, 0.03, in addition.
    max_rows : int, default=1000
        Rows by which candidates are compared; half as many with more than two classes.
    neighbor_graph : {"bipartite", "leave_one_out"}, default="bipartite"
        References of the k-NN distances: a random half of the class, averaged over splits, or all
        its other samples. Distances are Euclidean distances of X, or those of a precomputed kernel.

    Examples
    --------
    >>> from gemmed import GEMMEDClassifier, Selection
    >>> model = GEMMEDClassifier(selection=Selection(widths=(0.1, 0.3, 1.0, 3.0, 10.0)))
    >>> len(model.selection.widths)
    5
    """

    widths: tuple[float, ...] = (0.3, 1.0, 3.0)
    variances: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    max_rows: int = 1000
    neighbor_graph: Literal["bipartite", "leave_one_out"] = "bipartite"

    def __post_init__(self) -> None:
        _check_numbers("widths", self.widths)
        _check_numbers("variances", self.variances)
        if list(self.variances) != sorted(self.variances):
            raise ValueError(f"variances={self.variances!r} must be in ascending order.")
        check_number("max_rows", self.max_rows, at_least=20, whole=True)
        check_choice("neighbor_graph", self.neighbor_graph, ("bipartite", "leave_one_out"))


@dataclass(frozen=True)
class Solver:
    """How :class:`GEMMEDClassifier` and :class:`MEDClassifier` are solved, and when they stop.

    Parameters
    ----------
    max_iter : int, default=200
        Newton steps at most.
    tol : float, default=1e-6
        Duality gap at which the solver stops, relative to the objective. With landmarks a Newton
        step that brings no more than 1e-4 is the last.
    n_components : "auto", int or None, default="auto"
        Landmarks (Nystroem features) in place of the exact kernel: memory and time then grow as
        n_samples only. "auto" keeps the exact kernel for small samples and takes landmarks in
        proportion to the root of their number above (guide/large.md). None keeps the exact kernel.

    Examples
    --------
    >>> from gemmed import MEDClassifier, Solver
    >>> MEDClassifier(solver=Solver(tol=1e-10))
    MEDClassifier(solver=Solver(max_iter=200, tol=1e-10, n_components='auto'))
    """

    max_iter: int = 200
    tol: float = 1e-6
    n_components: Any = "auto"

    def __post_init__(self) -> None:
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)
        if self.n_components is not None:
            check_number_or_auto("n_components", self.n_components, at_least=1, whole=True)


def record_of(name: str, value: Any, kind: type[_Record]) -> _Record:
    """The record that a parameter stands for; None is the default one."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ValueError(
            f"{name}={value!r} must be None or a record: {name}={kind.__name__}(...), of gemmed."
        )
    value.__post_init__()  # one that was read from a file has not been checked
    return value


def _check_numbers(name: str, value: Any, length: int | None = None) -> None:
    """Refuse what is no tuple of numbers above 0."""
    is_tuple = isinstance(value, tuple) and len(value) == (length or max(1, len(value)))
    if not is_tuple:
        count = "some" if length is None else length
        raise ValueError(f"{name}={value!r} must be a tuple of {count} numbers above 0.")
    for place, number in enumerate(value):
        check_number(f"{name}[{place}]", number, above=0)
