"""Fitted models as files: to be loaded again without running code, or as ONNX graphs."""
