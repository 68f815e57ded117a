"""The scikit-learn estimators: they check, compose what the rooms above offer, and store."""
