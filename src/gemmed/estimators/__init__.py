"""The scikit-learn estimators: check arguments, call the other packages, store."""
