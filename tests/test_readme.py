"""The README's examples print what the README says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_example_output(number):
    code, shown = EXAMPLES[number]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    printed_lines = [line.strip() for line in printed.getvalue().splitlines()]
    for line in shown.splitlines():
        assert line.strip() in printed_lines
