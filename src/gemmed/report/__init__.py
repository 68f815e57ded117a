"""Findings with reasons, and pages and pictures of them."""

from .audit import audit_report
from .html_report import HtmlReport
from .plots import plot_anomaly_scores, plot_boundaries, save_figure

__all__ = ["HtmlReport", "audit_report", "plot_anomaly_scores", "plot_boundaries", "save_figure"]
