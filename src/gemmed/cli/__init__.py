"""The command ``gemmed``: one file a command, errors in one line."""

from .main import main

__all__ = ["main"]
