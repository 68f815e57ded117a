"""The paper: Definition 1 with its engines, MED and its kin, and what GEM-MED is compared with."""

from ..estimators.detector import GEMDetector
from ..estimators.med import MEDClassifier
from .baselines import MEDDetector, RampSVC, RODClassifier, TrimmedSVC, TwoStageClassifier
from .classifier import GEMMEDClassifier
from .engines import (
    Engine,
    Enumeration,
    Exact,
    Gibbs,
    MeanField,
    PaperAlgorithm,
    Quadrature,
    resolve_engine,
)
from .generative_med import GenerativeMEDClassifier
from .oracle_med import OracleMEDClassifier

__all__ = [
    "Engine",
    "Enumeration",
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
    "Quadrature",
    "RODClassifier",
    "RampSVC",
    "TrimmedSVC",
    "TwoStageClassifier",
    "resolve_engine",
]
