"""Classifiers for samples of several sensors, some of which fail."""

from .classifier import SensorGEMMEDClassifier
from .detector import SensorDetector
from .monitor import MonitorResult, SensorMonitor
from .screens import SensorScreen
from .spans import Span

__all__ = [
    "MonitorResult",
    "SensorDetector",
    "SensorGEMMEDClassifier",
    "SensorMonitor",
    "SensorScreen",
    "Span",
]
