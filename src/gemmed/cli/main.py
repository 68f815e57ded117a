"""Entry point: parse, run a command, turn errors into one line and an exit code."""

import argparse
import os
import pkgutil
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from .. import __version__
from .._core.exceptions import GemmedError
from .._core.optional import require
from .._core.words import did_you_mean
from .commands import add_commands
from .terminal import complain, printable

USAGE_ERROR, INTERRUPTED = 2, 130
UNKNOWN = re.compile(r"unrecognized arguments: (\S+)|invalid choice: '([^']*)'")
RESUMED = "what was finished is kept, the same command continues"
PAPER_OPTIONS = ("--model", "--engine", "--coverage", "--entropy-slack")
OTHER_NAMES = {
    "train": "fit",
    "screen": "predict --screen RATE",
    "apply": "review --export FILE",
    "report": "audit --html FILE",
}
"""What people call a step, and the command for it."""
OF_PAPER = ": the model of the paper is gemmed.paper.GEMMEDClassifier, in Python only"
KEPT_AFTER_INTERRUPT = {
    "features:run": RESUMED,
    "experiments:reproduce": RESUMED,
    "review:run": "all marks are kept",
    "watch:run": "the state is kept if there is --state",
}
"""What is true after an interrupt, of commands that keep something."""
NOT_KEPT = "the same command starts again from the beginning"
FILES = {"FILE", "MANIFEST", "MODEL", "TABLE"}
"""What options and arguments that name files are called in the help."""
FOLDERS = {"DIR", "FOLDER"}


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line that says where to find help."""

    def error(self, message: str) -> NoReturn:
        unknown = UNKNOWN.search(message)
        if unknown is not None:
            known = [name for action in self._actions for name in action.option_strings]
            known += [str(c) for a in self._actions for c in a.choices or ()]
            given = unknown[1] or unknown[2]
            if given in OTHER_NAMES:
                message = f"{given!r} is no command: use gemmed {OTHER_NAMES[given]}"
            else:
                message += OF_PAPER if given in PAPER_OPTIONS else did_you_mean(given, known)
        self.exit(
            USAGE_ERROR, printable(f"gemmed: error: {message} (see {self.prog} --help)") + "\n"
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Unknown options are refused by the command that they were given to."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and hasattr(found, "run"):
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = OneLineParser(
        prog="gemmed",
        description="Find wrong labels and bad measurements in a table, and train a classifier "
        "that they do not mislead.",
        epilog="gemmed COMMAND --help explains a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"gemmed {__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=OneLineParser
    )
    add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 2 for errors, 130 after an interrupt."""
    options = build_parser().parse_args(arguments)
    if threading.current_thread() is threading.main_thread():
        # An end from outside is handled as an interrupt is: workers stop, finished runs are kept.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
    try:
        run = pkgutil.resolve_name(f"{__package__}.{options.run}")
        return run(options)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        complain(f"interrupted; {KEPT_AFTER_INTERRUPT.get(options.run, NOT_KEPT)}")
        return INTERRUPTED
    except MemoryError as error:
        said = f" ({error})" if str(error) else ""
        complain(f"error: there is not enough memory{said}: fit --stream reads a table in blocks")
        return USAGE_ERROR
    except (GemmedError, ImportError, OSError, ValueError, ArithmeticError) as error:
        complain(f"error: {str(error) or type(error).__name__}")
        return USAGE_ERROR


def complete(options: argparse.Namespace) -> int:
    """``gemmed completion``: a script that makes a shell complete commands, options and files."""
    require("shtab", "gemmed completion needs", "cli")
    import shtab

    parser = build_parser()
    for action in _actions_of(parser):
        shown = action.metavar or action.dest.upper()
        if shown in FILES or action.dest == "out":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif shown in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Options and arguments of a parser and of all parsers below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions_of(below)
        else:
            yield action
