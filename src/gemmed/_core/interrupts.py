"""Keep Ctrl-C away from processes that are started for a job: their parent ends them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C reaches neither this block nor, ever, the processes that it starts.

    A terminal sends it to all processes of a command at once; what ignores it when a process
    starts is ignored for good. Only the main thread may say so: elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
