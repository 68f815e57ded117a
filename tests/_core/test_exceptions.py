"""All errors and warnings of the package are in one module and have one base each."""

import ast
import inspect
import re
from pathlib import Path

import gemmed
from gemmed._core import exceptions

SOURCE = Path(gemmed.__file__).parent


def test_errors_and_warnings_are_defined_nowhere_else():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and re.search(r"(Error|Warning)$", node.name):
                assert path == Path(exceptions.__file__), f"{node.name} in {path}"


def test_whoever_catches_the_base_catches_all():
    own = [
        kind
        for _, kind in inspect.getmembers(exceptions, inspect.isclass)
        if kind.__module__ == exceptions.__name__ and issubclass(kind, Exception)
    ]
    assert len(own) > 20
    for kind in own:
        base = exceptions.GemmedWarning if issubclass(kind, Warning) else exceptions.GemmedError
        assert issubclass(kind, base)
        assert kind.__doc__
