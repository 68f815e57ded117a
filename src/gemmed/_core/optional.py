"""Optional packages: asked for only when needed, with the command that installs them."""

import importlib.util
import sys


def require(package: str, purpose: str, extra: str) -> None:
    """Raise an ImportError that names the extra unless the package is installed."""
    # None in sys.modules is how Python marks a module that must not be imported.
    missing = package in sys.modules and sys.modules[package] is None
    if missing or (package not in sys.modules and importlib.util.find_spec(package) is None):
        raise ImportError(f'{purpose} {package}: install it with  pip install "gemmed[{extra}]"')
