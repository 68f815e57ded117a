"""The page of all commands and options, written from the parser of the command line."""

import argparse
import os
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).parents[1] / "reference" / "generated" / "command-line.rst"
WIDTH = 84


def escaped(text):
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def heading(text, line):
    return [text, line * len(text), ""]


def literal(text):
    return [".. code-block:: text", "", *textwrap.indent(text.rstrip(), "    ").splitlines(), ""]


def invocation(action):
    """How an option is written, e.g. ``--out FILE``."""
    formatter = argparse.HelpFormatter("gemmed")
    return formatter._format_action_invocation(action)


def described(parser, action):
    formatter = parser._get_formatter()
    return escaped(" ".join(formatter._expand_help(action).split())) if action.help else ""


def usage(parser):
    """How a command is called, without the word "usage: " and the room it takes below."""
    first, *others = parser.format_usage().removeprefix("usage: ").splitlines()
    return "\n".join([first, *(line.removeprefix(" " * len("usage: ")) for line in others)])


def command_lines(name, parser):
    """Sections of one command."""
    yield f".. _command-{name}:"
    yield ""
    yield from heading(f"gemmed {name}", "-")
    if parser.description:
        for paragraph in re.split(r"\n\s*\n", parser.description.strip()):
            yield from [escaped(" ".join(paragraph.split())), ""]
    yield from literal(usage(parser))
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if a.help is not argparse.SUPPRESS]
        if not actions:
            continue
        yield f".. rubric:: {(group.title or 'options').capitalize()}"
        yield ""
        for action in actions:
            yield f"``{invocation(action)}``"
            yield f"    {described(parser, action) or '(no description)'}"
            yield ""
    if parser.epilog:
        yield from literal(textwrap.dedent(parser.epilog))


def page():
    """The whole page as text."""
    os.environ["COLUMNS"] = str(WIDTH)
    os.environ["NO_COLOR"] = "1"
    from gemmed.cli.main import build_parser

    parser = build_parser()
    commands = next(
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    lines = heading("Commands and options", "=")
    lines += ["This page is written from the parser: it is what ``--help`` says.", ""]
    lines += ["What the commands do with a table is in :doc:`/guide/command-line`.", ""]
    for name, command in commands.choices.items():
        lines += command_lines(name, command)
    return "\n".join(lines) + "\n"


def write_page(app):
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    text = page()
    # An unchanged page is left alone: Sphinx reads again what is newer than its last build.
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write_page, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
