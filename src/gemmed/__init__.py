"""gemmed: large-margin classifiers for training data that contains corrupted samples."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core.exceptions import GemmedError, GemmedWarning
    from ._core.interrupts import stop_on_interrupt
    from ._core.progress import listening
    from .estimators.annotators import AnnotatorGEMMEDClassifier
    from .estimators.detector import GEMDetector
    from .estimators.gemmed import GEMMEDClassifier
    from .estimators.med import MEDClassifier
    from .estimators.table_preparation import TablePreparation
    from .io.model_files import load_model, save_model, trusted_types
    from .io.onnx_export import export_onnx
    from .model.settings import Priors, Selection, Solver
    from .paper import (
        GenerativeMEDClassifier,
        MEDDetector,
        OracleMEDClassifier,
        RampSVC,
        RODClassifier,
        TrimmedSVC,
        TwoStageClassifier,
    )
    from .report.audit import audit
    from .sensors import SensorDetector, SensorGEMMEDClassifier

__version__ = "0.6.0"

__all__ = [
    "AnnotatorGEMMEDClassifier",
    "GEMDetector",
    "GEMMEDClassifier",
    "GemmedError",
    "GemmedWarning",
    "GenerativeMEDClassifier",
    "MEDClassifier",
    "MEDDetector",
    "OracleMEDClassifier",
    "Priors",
    "RODClassifier",
    "RampSVC",
    "Selection",
    "SensorDetector",
    "SensorGEMMEDClassifier",
    "Solver",
    "TablePreparation",
    "TrimmedSVC",
    "TwoStageClassifier",
    "audit",
    "export_onnx",
    "listening",
    "load_model",
    "save_model",
    "stop_on_interrupt",
    "trusted_types",
]

# Everything is imported when it is first used: the command line starts (and can be interrupted)
# before scikit-learn is loaded.
_HOMES = {
    "AnnotatorGEMMEDClassifier": ".estimators.annotators",
    "GEMDetector": ".estimators.detector",
    "GEMMEDClassifier": ".estimators.gemmed",
    "GemmedError": "._core.exceptions",
    "GemmedWarning": "._core.exceptions",
    "GenerativeMEDClassifier": ".paper",
    "MEDClassifier": ".estimators.med",
    "MEDDetector": ".paper",
    "OracleMEDClassifier": ".paper",
    "Priors": ".model.settings",
    "RODClassifier": ".paper",
    "RampSVC": ".paper",
    "Selection": ".model.settings",
    "SensorDetector": ".sensors",
    "SensorGEMMEDClassifier": ".sensors",
    "Solver": ".model.settings",
    "TablePreparation": ".estimators.table_preparation",
    "TrimmedSVC": ".paper",
    "TwoStageClassifier": ".paper",
    "audit": ".report.audit",
    "export_onnx": ".io.onnx_export",
    "listening": "._core.progress",
    "load_model": ".io.model_files",
    "save_model": ".io.model_files",
    "stop_on_interrupt": "._core.interrupts",
    "trusted_types": ".io.model_files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gemmed' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
