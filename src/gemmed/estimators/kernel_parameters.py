"""The kernel that the parameters of an estimator describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._core.types import FloatArray
from ..model.kernels.kernel import KERNELS, RADIAL, Kernel
from ..model.tuning import ToTune
from .validation import (
    check_choice,
    check_number,
    check_precomputed,
    check_varying_features,
)

TUNED = "tuned"
"""Value of kernel, gamma and the variances that has them chosen from the data."""


class KernelOptions(NamedTuple):
    """What belongs to a kernel beside its name and gamma."""

    degree: Any = 3
    coef0: Any = 0.0
    function_variance: Any = 1.0
    bias_variance: Any = 1.0


def kernel_options(estimator: Any, *, tunable: bool) -> KernelOptions:
    """The entries of ``kernel_params``, or single parameters of the same names; else defaults.

    ``tunable`` says that variances are tuned where nothing is given.
    """
    options = KernelOptions()
    if not hasattr(estimator, "kernel_params"):
        # Not every classifier has an amplitude: for an SVM it is the same as C.
        names = (name for name in options._fields if hasattr(estimator, name))
        return options._replace(**{name: getattr(estimator, name) for name in names})
    if tunable:
        options = options._replace(function_variance=TUNED, bias_variance=TUNED)
    given = estimator.kernel_params
    if given is None:
        return options
    if not isinstance(given, Mapping) or not set(given) <= set(options._fields):
        raise ValueError(
            f"kernel_params={given!r} must be None or a dict with some of the keys "
            f"{', '.join(map(repr, options._fields))}."
        )
    return options._replace(**given)


def make_kernel(
    estimator: Any, X: FloatArray, *, tunable: bool = False, variance: float | None = None
) -> Kernel:
    """The kernel described by an estimator's parameters, with gamma resolved on X.

    Where parameters are to be tuned, gamma is that of "scale" and variances are 1. ``variance`` is
    that of all training data where X is a part of them.
    """
    name = estimator.kernel
    if not callable(name):
        check_choice("kernel", name, (*((TUNED,) if tunable else ()), *KERNELS))
        name = kernel_name(name)
    degree, coef0, function_variance, bias_variance = kernel_options(estimator, tunable=tunable)
    check_number("degree", degree, at_least=1, whole=True)
    check_number("coef0", coef0)
    if name == "precomputed":
        check_precomputed(X)
    else:
        check_varying_features(X)
    hint = f"{TUNED!r} is allowed too." if tunable else ""
    if not (tunable and bias_variance == TUNED):
        check_number("bias_variance", bias_variance, at_least=0, hint=hint)
    if not (tunable and function_variance == TUNED):
        check_number("function_variance", function_variance, above=0, hint=hint)
    return Kernel(
        name,
        _resolve_gamma(estimator.gamma, X, tunable, variance),
        degree,
        coef0,
        1.0 if bias_variance == TUNED else float(bias_variance),
        1.0 if function_variance == TUNED else float(function_variance),
    )


def kernel_name(name: str) -> str:
    """The kernel that is tuned by default, or the given one."""
    return RADIAL[0] if name == TUNED else name


def what_is_tuned(estimator: Any) -> ToTune:
    """What of the kernel is chosen from the data."""
    options = kernel_options(estimator, tunable=True)
    gamma, variance, bias = (
        isinstance(value, str) and value == TUNED
        for value in (estimator.gamma, options.function_variance, options.bias_variance)
    )
    return ToTune(gamma, variance, bias)


def _resolve_gamma(gamma: Any, X: FloatArray, tunable: bool, variance: float | None) -> float:
    choices = ("scale", "auto", *((TUNED,) if tunable else ()))
    if isinstance(gamma, str):
        check_choice("gamma", gamma, choices)
        if gamma == "auto":
            return 1.0 / X.shape[1]
        variance = float(X.var()) if variance is None else variance
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    check_number("gamma", gamma, above=0, hint=f"{', '.join(choices)} are allowed too.")
    return float(gamma)
