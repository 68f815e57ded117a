"""What GEM-MED is compared with, behind the same interface."""

from .med_detector import MEDDetector
from .ramp import RampSVC
from .rod import RODClassifier
from .trimmed import TrimmedSVC
from .two_stage import TwoStageClassifier

__all__ = ["MEDDetector", "RODClassifier", "RampSVC", "TrimmedSVC", "TwoStageClassifier"]
