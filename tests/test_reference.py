"""Every public object has a page in the reference and an example that does what it says."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PACKAGES = (
    "gemmed",
    "gemmed.acoustics",
    "gemmed.datasets",
    "gemmed.paper",
    "gemmed.rows",
)
PUBLIC = [(home, name) for home in PACKAGES for name in importlib.import_module(home).__all__]


def examples_of(home, name):
    """The object's own examples; those of its package for names that cannot have a docstring."""
    package = importlib.import_module(home)
    value = getattr(package, name)
    documented = inspect.isclass(value) or inspect.isroutine(value)
    text = (vars(value) if inspect.isclass(value) else {}).get("__doc__") or inspect.getdoc(value)
    if not documented:
        text = package.__doc__ if re.search(rf">>>.*\b{name}\b", package.__doc__ or "") else ""
    test = doctest.DocTestParser().get_doctest(
        inspect.cleandoc(text or ""), {}, f"{home}.{name}", None, 0
    )
    return test if test.examples else None


@pytest.mark.parametrize(("home", "name"), PUBLIC, ids=lambda part: part)
def test_example(home, name, tmp_path, monkeypatch):
    test = examples_of(home, name)
    assert test is not None, f"{home}.{name} has no example: add a section Examples"
    monkeypatch.chdir(tmp_path)
    said = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)


def test_every_public_object_has_a_page():
    shown = set()
    for page in REFERENCE.glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        home = re.search(r"currentmodule:: (\S+)", text)
        if home:
            names = re.findall(r"^ {3}(\w+)$|^\.\. data:: (\w+)$", text, re.MULTILINE)
            shown |= {(home[1], first or second) for first, second in names}
    assert set(PUBLIC) - shown == set(), "add these to a page of docs/reference"
    assert shown - set(PUBLIC) == set(), "the reference names what is not public"
