"""Classifiers for samples of several sensors, some of which fail."""

from .classifier import SensorGEMMEDClassifier
from .detector import SensorDetector
from .screens import SensorScreen
from .spans import Span

__all__ = ["SensorDetector", "SensorGEMMEDClassifier", "SensorScreen", "Span"]
