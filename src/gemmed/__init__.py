"""gemmed: large-margin classifiers for training data that contains corrupted samples."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .baselines import MEDDetector, RampSVC, RODClassifier, TrimmedSVC, TwoStageClassifier
    from .classifier import GEMMEDClassifier
    from .detector import GEMDetector
    from .med import MEDClassifier

__version__ = "0.5.0"

__all__ = [
    "GEMDetector",
    "GEMMEDClassifier",
    "MEDClassifier",
    "MEDDetector",
    "RODClassifier",
    "RampSVC",
    "TrimmedSVC",
    "TwoStageClassifier",
]

# Estimators are imported when they are first used: the command line starts (and can be
# interrupted) before scikit-learn is loaded.
_HOMES = {
    "GEMDetector": ".detector",
    "GEMMEDClassifier": ".classifier",
    "MEDClassifier": ".med",
    "MEDDetector": ".baselines",
    "RODClassifier": ".baselines",
    "RampSVC": ".baselines",
    "TrimmedSVC": ".baselines",
    "TwoStageClassifier": ".baselines",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gemmed' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
