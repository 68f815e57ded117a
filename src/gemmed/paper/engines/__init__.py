"""Solvers of the dual problem of Definition 1, behind one interface."""

from __future__ import annotations

from .algorithm_one import PaperAlgorithm
from .base import Engine
from .exact import Exact
from .gibbs import Gibbs
from .mean_field import MeanField

__all__ = [
    "Engine",
    "Exact",
    "Gibbs",
    "MeanField",
    "PaperAlgorithm",
    "resolve_engine",
]

_BY_NAME: dict[str, type[Engine]] = {
    "mean_field": MeanField,
    "gibbs": Gibbs,
    "exact": Exact,
    "paper": PaperAlgorithm,
}


def resolve_engine(engine: str | Engine) -> Engine:
    """The engine of that name, or the object itself if it is one.

    Parameters
    ----------
    engine : {"mean_field", "gibbs", "exact", "paper"} or engine object

    Examples
    --------
    >>> from gemmed.paper import resolve_engine
    >>> resolve_engine("mean_field").form
    'collapsed'
    """
    if isinstance(engine, str):
        if engine in _BY_NAME:
            return _BY_NAME[engine]()
    elif isinstance(engine, Engine) and not isinstance(engine, type):
        return engine
    raise ValueError(
        f"engine={engine!r} is unknown: use one of {sorted(_BY_NAME)} or an object with a method "
        "solve(problem, rng, *, max_iter, tol)."
    )
