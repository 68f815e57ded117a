"""The paper: Definition 1 with its engines, MED and its kin, and what GEM-MED is compared with."""

from ..estimators.detector import GEMDetector
from ..estimators.med import MEDClassifier
from .baselines import MEDDetector, RampSVC, RODClassifier, TrimmedSVC, TwoStageClassifier
from .classifier import GEMMEDClassifier
from .engines import (
    Engine,
    Exact,
    Gibbs,
    MeanField,
    PaperAlgorithm,
    resolve_engine,
)
from .generative_med import GenerativeMEDClassifier
from .oracle_med import OracleMEDClassifier

__all__ = [
    "Engine",
    "Exact",
    "GEMDetector",
    "GEMMEDClassifier",
    "GenerativeMEDClassifier",
    "Gibbs",
    "MEDClassifier",
    "MEDDetector",
    "MeanField",
    "OracleMEDClassifier",
    "PaperAlgorithm",
    "RODClassifier",
    "RampSVC",
    "TrimmedSVC",
    "TwoStageClassifier",
    "resolve_engine",
]
