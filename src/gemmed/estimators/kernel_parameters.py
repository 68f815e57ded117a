"""The kernel that the parameters of an estimator describe."""

from __future__ import annotations

from typing import Any

from .._core.types import FloatArray
from ..model.kernels.kernel import KERNELS, Kernel
from ..model.kernels.radial import RADIAL
from ..model.tuning import ToTune
from .validation import (
    check_choice,
    check_number,
    check_precomputed,
    check_varying_features,
)

TUNED = "tuned"
"""Value of kernel, gamma and the variances that has them chosen from the data."""


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
    check_number("degree", estimator.degree, at_least=1, whole=True)
    check_number("coef0", estimator.coef0)
    if name == "precomputed":
        check_precomputed(X)
    else:
        check_varying_features(X)
    # Not every classifier has an amplitude: for an SVM it is the same as C.
    function_variance = getattr(estimator, "function_variance", 1.0)
    hint = f"{TUNED!r} is allowed too." if tunable else ""
    if not (tunable and estimator.bias_variance == TUNED):
        check_number("bias_variance", estimator.bias_variance, at_least=0, hint=hint)
    if not (tunable and function_variance == TUNED):
        check_number("function_variance", function_variance, above=0, hint=hint)
    return Kernel(
        name,
        _resolve_gamma(estimator.gamma, X, tunable, variance),
        estimator.degree,
        estimator.coef0,
        1.0 if estimator.bias_variance == TUNED else float(estimator.bias_variance),
        1.0 if function_variance == TUNED else float(function_variance),
    )


def kernel_name(name: str) -> str:
    """The kernel that is tuned by default, or the given one."""
    return RADIAL[0] if name == TUNED else name


def what_is_tuned(estimator: Any) -> ToTune:
    """What of the kernel is chosen from the data."""
    return ToTune(
        *(
            isinstance(value, str) and value == TUNED
            for value in (estimator.gamma, estimator.function_variance, estimator.bias_variance)
        )
    )


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
