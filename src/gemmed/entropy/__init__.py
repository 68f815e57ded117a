"""Geometric entropy: k-NN statistics, minimal-entropy sets and their p-values."""
