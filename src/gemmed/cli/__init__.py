"""The command line ``gemmed``: one file per command group, errors in one line."""

from .main import main

__all__ = ["main"]
