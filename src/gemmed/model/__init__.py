"""The maximum-entropy problem, the kernels in it, and its steps (docs/research/model.md)."""
