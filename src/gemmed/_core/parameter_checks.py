"""Checks of single parameters: the error names the parameter, its value and what is allowed."""

from __future__ import annotations

import numbers
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
    wanted = ["a whole number" if whole else "a number"]
    if above is not None:
        wanted.append(f"above {above:g}")
    if at_least is not None:
        wanted.append(f"at least {at_least:g}")
    if at_most is not None:
        wanted.append(f"at most {at_most:g}")
    if below is not None:
        wanted.append(f"below {below:g}")
    message = f"{name}={value!r} must be " + " and ".join(wanted) + "."
    if hint:
        message += " " + hint
    if not isinstance(value, kind) or isinstance(value, (bool, np.bool_)):
        raise ValueError(message)
    number = float(value)
    if (
        np.isnan(number)
        or (np.isinf(number) and not infinite)
        or (above is not None and not number > above)
        or (at_least is not None and not number >= at_least)
        or (at_most is not None and not number <= at_most)
        or (below is not None and not number < below)
    ):
        raise ValueError(message)


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
