"""Indicators over time: two-state chains, one for each sensor and one for what they share."""
