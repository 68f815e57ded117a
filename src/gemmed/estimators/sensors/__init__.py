"""Classifiers for samples of several sensors, some of which fail."""

from .classifier import SensorGEMMEDClassifier, SensorScreen
from .spans import Span

__all__ = ["SensorGEMMEDClassifier", "SensorScreen", "Span"]
