"""The scikit-learn estimators: check, compose the rooms above, store."""
