"""All errors and warnings of the package: in one module, drawn in its tree, each once."""

import ast
import inspect
import re
from pathlib import Path

import gemmed
from gemmed._core import exceptions

SOURCE = Path(gemmed.__file__).parent
CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(exceptions, inspect.isclass)
    if kind.__module__ == exceptions.__name__ and issubclass(kind, Exception)
}


def test_errors_and_warnings_are_defined_nowhere_else():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and re.search(r"(Error|Warning)$", node.name):
                assert path == Path(exceptions.__file__), f"{node.name} in {path}"


def test_the_tree_draws_every_class_once_below_its_base():
    drawn, bases = [], {}
    for line in exceptions.__doc__.splitlines():
        found = re.match(r"([ |]*)\+-- (\w+)", line)
        if found:
            depth = len(found[1])
            bases[depth] = found[2]
            drawn.append(found[2])
            parent = bases.get(depth - 4)
            if parent:
                assert CLASSES[parent] in CLASSES[found[2]].__bases__, line
            for other in re.findall(r"also (\w+)", line):
                assert other in {base.__name__ for base in CLASSES[found[2]].__bases__}, line
    assert sorted(drawn) == sorted(CLASSES)
