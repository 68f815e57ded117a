"""Fitted classifiers as ONNX graphs, for devices and services that do not run Python."""

from .writing import export_onnx

__all__ = ["export_onnx"]
