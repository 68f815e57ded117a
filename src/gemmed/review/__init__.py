"""Judging suspicious samples one after another in a browser, and the corrected table."""
