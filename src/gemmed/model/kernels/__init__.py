"""The prior of the decision functions: kernels and the spaces of functions they span."""
