"""Run the examples of the guide: python docs/run_guide.py [--write] [PAGE ...]

The blocks ``python`` of a page are run one after the other, in one process and an empty folder. A
block ``text`` directly below holds what it prints. A block ``console`` has commands of gemmed after
``$`` and what they print. ``--write`` puts the output into the pages. Without it differences are
shown, and the exit code is 1 if there are any. The tests do the same.
"""

import argparse
import contextlib
import difflib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

GUIDE = Path(__file__).parent / "guide"
MESSAGES = Path(__file__).parent / "reference" / "messages.md"
PYTHON = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<shown>.*?)```\n)?", re.DOTALL)
CONSOLE = re.compile(r"```console\n(?P<lines>.*?)```\n", re.DOTALL)
BLOCK = re.compile(f"(?:{PYTHON.pattern})|(?:{CONSOLE.pattern})", re.DOTALL)
COMMANDS = {"gemmed": [sys.executable, "-m", "gemmed"], "head": ["head"]}


def tidy(text):
    """Without spaces at the ends of lines, which editors take away."""
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


def printed_by(code, names):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "<guide>", "exec"), names)
    return tidy(output.getvalue())


def console_output(lines):
    """The commands of a block, each with what it printed."""
    said = []
    for line in lines.splitlines():
        if line.startswith("$ "):
            name, *arguments = shlex.split(line[2:])
            run = subprocess.run(
                [*COMMANDS[name], *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "COLUMNS": "100"},
            )
            said.append(f"{line}\n{tidy(run.stdout)}")
    return "".join(said)


def page_as_run(text):
    """The page with the output that its examples have here and now."""
    names = {"__name__": "__main__"}

    def rerun(match):
        if match["lines"] is not None:
            return f"```console\n{console_output(match['lines'])}```\n"
        output = printed_by(match["code"], names)
        shown = f"\n```text\n{output}```\n" if output else ""
        return f"```python\n{match['code']}```\n{shown}"

    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return BLOCK.sub(rerun, text)
        finally:
            os.chdir(home)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "pages", nargs="*", type=Path, default=[*sorted(GUIDE.glob("*.md")), MESSAGES]
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "held-out predictions are no better")  # an example shows it
    different = False
    for page in options.pages:
        before = page.read_text(encoding="utf-8")
        after = page_as_run(before)
        if options.write:
            page.write_text(after, encoding="utf-8")
        elif after != before:
            different = True
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), f"{page.name} as written", "as run"
            )
            print("\n".join(lines))
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
