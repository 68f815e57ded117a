"""One warning of a kind for a fit, not one for each of a hundred classes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
