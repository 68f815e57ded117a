"""Checks of single parameters: the error names the parameter, its value and what is allowed."""

import numbers
from operator import ge, gt, le, lt
from typing import Any

import numpy as np


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    whole: bool = False,
    infinite: bool = False,
    hint: str = "",
) -> None:
    """Raise a ValueError that names the parameter, its value and what is allowed."""
    kind = numbers.Integral if whole else numbers.Real
    ends: list[Any] = [("above", above, gt), ("at least", at_least, ge), ("at most", at_most, le)]
    given = [end for end in (*ends, ("below", below, lt)) if end[1] is not None]
    number = float("nan")
    if isinstance(value, kind) and not isinstance(value, (bool, np.bool_)):
        number = float(value)
    is_finite = np.isfinite(number) or (infinite and np.isinf(number))
    if not (is_finite and all(holds(number, limit) for _, limit, holds in given)):
        wanted = ["a whole number" if whole else "a number"]
        wanted += [f"{word} {limit:g}" for word, limit, _ in given]
        message = f"{name}={value!r} must be {' and '.join(wanted)}."
        raise ValueError(f"{message} {hint}" if hint else message)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise a ValueError unless the value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"{name}={value!r} is unknown: use one of {', '.join(map(repr, choices))}."
        )


def check_number_or_auto(name: str, value: Any, **limits: Any) -> None:
    """As check_number, with the string "auto" allowed."""
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    else:
        check_number(name, value, hint="'auto' is allowed too.", **limits)
