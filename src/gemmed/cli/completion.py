"""``gemmed completion``: a script that makes a shell complete commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

from .._core.optional import require
from .commands import add_parser

SHELLS = ("bash", "zsh", "tcsh", "fish")
FILES = {"FILE", "MANIFEST", "MODEL", "TABLE"}
"""What options and arguments that name files are called in the help."""
FOLDERS = {"DIR", "FOLDER"}
EPILOG = """examples:
  eval "$(gemmed completion bash)"                 (in ~/.bashrc)
  gemmed completion zsh > ~/.zfunc/_gemmed         (with ~/.zfunc in fpath, before compinit)
  gemmed completion tcsh > ~/gemmed.csh            (source it in ~/.tcshrc)
  gemmed completion fish > ~/.config/fish/completions/gemmed.fish
"""


def add_command(commands: Any, parser: argparse.ArgumentParser) -> None:
    """Register the command; ``parser`` is that of all commands."""
    own = add_parser(
        commands,
        "completion",
        partial(run, parser),
        summary="print a script for completion in a shell",
        description="Print a script that completes commands, options and files of gemmed.",
        epilog=EPILOG,
    )
    own.add_argument("shell", choices=SHELLS, help="bash, zsh, tcsh or fish")


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Print the script."""
    require("shtab", "gemmed completion needs", "cli")
    import shtab

    for action in actions_of(parser):
        shown = action.metavar or action.dest.upper()
        if shown in FILES or action.dest == "out":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif shown in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Options and arguments of a parser and of all parsers below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from actions_of(below)
        else:
            yield action
