"""What a long fit is doing: to listeners, and to the logger "gemmed".

Code that takes long says ``report("solver", 3, 200, gap=1e-4)``. Whoever wants to know listens:

    with listening(print):
        model.fit(X, y)

Listeners are called in the thread of the fit, between two steps. One that raises (for example a
KeyboardInterrupt) ends the fit. One that returns True ends the solver after this iteration. They
receive events of their own ``with`` block only, not those of other threads.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

STAGES = ("distances", "kernel", "features", "probabilities", "solver")
"""Stages of a fit, in order; "kernel" is there only where something is tuned. In ``gemmed.paper``
the solver comes before the probabilities."""

_log = logging.getLogger("gemmed")
_Item = TypeVar("_Item")


class Event(NamedTuple):
    """A step of a stage that is done; step 0 says that the stage has begun."""

    stage: str
    done: int
    total: int | None
    """Steps of the stage, at most; None where nobody knows."""
    facts: dict[str, float]
    """What else is known: "gap" and "mean_change" of the solver, "loss" of a candidate kernel."""


Listener = Callable[[Event], object]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("gemmed_listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call the listener with every event inside the block.

    Parameters
    ----------
    listener : callable
        Takes an event with ``stage``, ``done``, ``total`` and ``facts``; returning True ends the
        solver after this iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import GEMMEDClassifier, listening
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> stages = []
    >>> with listening(lambda event: stages.append(event.stage)):
    ...     model = GEMMEDClassifier(random_state=0).fit(X, X[:, 0] > 0)
    >>> list(dict.fromkeys(stages))
    ['distances', 'kernel', 'features', 'probabilities', 'solver']
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def report(stage: str, done: int = 0, total: int | None = None, **facts: float) -> bool:
    """Tell listeners and the log; True if a listener wants the stage to stop."""
    level = logging.DEBUG if done else logging.INFO
    if _log.isEnabledFor(level):
        of = "" if total is None else f" of {total}"
        known = "".join(f", {name} {value:.3g}" for name, value in facts.items())
        _log.log(level, "%s", f"{stage}: {done}{of}{known}" if done else stage)
    event = Event(stage, done, total, facts)
    answers = [listener(event) for listener in _listeners.get()]
    return any(answer is True for answer in answers)


class Stopwatch:
    """Seconds of each part of a fit: ``begin`` a part, which ends the one before."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._part, self._since = "", time.perf_counter()

    def begin(self, part: str = "") -> None:
        """End the present part; "" begins none."""
        now = time.perf_counter()
        if self._part:
            self.seconds[self._part] = self.seconds.get(self._part, 0.0) + now - self._since
        self._part, self._since = part, now


def reported(stage: str, items: Iterable[_Item], total: int) -> Iterator[_Item]:
    """The items, each reported as a step of the stage when the next one is asked for."""
    for done, item in enumerate(items, 1):
        yield item
        report(stage, done, total)
