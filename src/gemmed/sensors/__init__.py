"""Classifiers for samples of several sensors, some of which fail."""

from .classifier import SensorGEMMEDClassifier
from .detector import SensorDetector
from .judging import MonitorResult
from .monitor import SensorMonitor
from .results import SensorScreen, Span
from .stream import FaultEvent, FaultSpan, SensorStream

__all__ = [
    "FaultEvent",
    "FaultSpan",
    "MonitorResult",
    "SensorDetector",
    "SensorGEMMEDClassifier",
    "SensorMonitor",
    "SensorScreen",
    "SensorStream",
    "Span",
]
