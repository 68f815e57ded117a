"""Pictures of data, classifiers and anomaly scores (extra ``plot``)."""

from .plots import plot_anomaly_scores, plot_boundaries, save_figure

__all__ = ["plot_anomaly_scores", "plot_boundaries", "save_figure"]
