"""The README's example prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_example_output():
    text = README.read_text()
    code = re.search(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.group(1), {})
    expected = [line.strip() for line in code.group(2).splitlines()]
    assert [line.strip() for line in printed.getvalue().splitlines()] == expected
