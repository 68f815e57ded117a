"""The examples of the README and of the overview print what the pages say."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/overview.md")
EXAMPLES = [
    (page, code, shown)
    for page in PAGES
    for code, shown in re.findall(
        r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", (ROOT / page).read_text(), re.DOTALL
    )
]


def test_both_pages_have_an_example():
    assert {page for page, _, _ in EXAMPLES} == set(PAGES)


@pytest.mark.parametrize(("page", "code", "shown"), EXAMPLES, ids=[page for page, _, _ in EXAMPLES])
def test_example_output(page, code, shown):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    printed_lines = [line.strip() for line in printed.getvalue().splitlines()]
    for line in shown.splitlines():
        assert line.strip() in printed_lines


def test_the_readme_is_one_page_and_its_picture_is_there():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 80
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (ROOT / picture).is_file()
