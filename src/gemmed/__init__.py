"""gemmed: large-margin classifiers for training data that contains corrupted samples."""

from .baselines import (
    MEDDetector,
    RampSVC,
    RODClassifier,
    TrimmedSVC,
    TwoStageClassifier,
)
from .classifier import GEMMEDClassifier
from .detector import GEMDetector
from .med import MEDClassifier

__version__ = "0.1.0"

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
