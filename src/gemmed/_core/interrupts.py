"""Ctrl-C: kept away from processes that are started for a job, or a wish to end a fit early."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .progress import listening


@contextmanager
def without_interrupts(*more: signal.Signals) -> Iterator[None]:
    """Ctrl-C reaches neither this block nor, ever, the processes that it starts.

    A terminal sends it to all processes of a command at once; what ignores it when a process
    starts is ignored for good. Only the main thread may say so: elsewhere this does nothing.

    ``more``: further signals that are ignored, such as SIGTERM to all processes of a service.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, *more)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_on_interrupt() -> Iterator[None]:
    """Ctrl-C ends the fit inside the block at the next step that can end, with what it has.

    The solver ends after its iteration: the model is usable, and ``converged_`` says that it was
    not finished. A second Ctrl-C raises
    KeyboardInterrupt, which leaves the estimator as it was. Only the main thread receives Ctrl-C:
    elsewhere this does nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import GEMMEDClassifier, stop_on_interrupt
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> with stop_on_interrupt():
    ...     model = GEMMEDClassifier(random_state=0).fit(X, X[:, 0] > 0)
    >>> model.converged_  # nobody pressed Ctrl-C
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        with listening(lambda event: asked):
            yield
    finally:
        signal.signal(signal.SIGINT, before)
