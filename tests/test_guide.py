"""The examples of the guide print what the guide says (python docs/run_guide.py --write)."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    *sorted((DOCS / "guide").glob("*.md")),
    DOCS / "reference" / "messages.md",
    DOCS / "research" / "theorems.md",
]


def runner():
    spec = importlib.util.spec_from_file_location("run_guide", DOCS / "run_guide.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


def assert_same(run, written):
    """The same words; numbers may differ as between versions of numpy, scipy and scikit-learn."""
    assert NUMBER.sub("0", run) == NUMBER.sub("0", written)
    for here, there in zip(NUMBER.findall(run), NUMBER.findall(written), strict=True):
        assert float(here) == pytest.approx(float(there), rel=0.1, abs=0.05), (here, there)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page):
    text = page.read_text(encoding="utf-8")
    assert_same(runner().page_as_run(text), text)


def test_every_page_has_an_example():
    without = {page.stem for page in PAGES if "```python" not in page.read_text(encoding="utf-8")}
    assert without <= {"index", "install", "review"}
