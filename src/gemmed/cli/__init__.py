"""The command ``gemmed``: options in ``options`` and ``commands``, a module per kind of work."""

from .main import main

__all__ = ["main"]
