"""The example of the README prints what the page says."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", re.DOTALL)


def test_example_output():
    ((code, shown),) = EXAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
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
