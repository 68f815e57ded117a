"""Pictures of data, classifiers and scores; how good scores are."""

from .plots import plot_anomaly_scores, plot_boundaries, save_figure

__all__ = ["plot_anomaly_scores", "plot_boundaries", "save_figure"]
