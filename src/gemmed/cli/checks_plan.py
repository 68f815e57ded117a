"""``gemmed audit --plan FILE``: rows to check by hand, drawn with known probabilities."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .terminal import say
from .training import Training

N_CHECKS = 120


def add_plan_option(parser: Any) -> None:
    """Register the option."""
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help=f"write a plan of {N_CHECKS} rows to check by hand as JSON, for gemmed review --plan "
        "and gemmed.checks.load_plan; --seed fixes the draws",
    )
    add_strata_option(parser, "--plan")


def add_strata_option(parser: Any, needs: str) -> None:
    """Register the option that gives small groups more draws."""
    parser.add_argument(
        "--strata",
        metavar="COLUMN",
        help=f"with {needs}: draw small groups more often; a column, or class, or verdict",
    )


def planned_digest(options: argparse.Namespace) -> str:
    """Digest of the table that a plan is for, or an empty text; checks the options of a plan."""
    if options.plan is None:
        if options.strata is not None:
            raise ValueError("--strata needs --plan FILE")
        return ""
    if options.plan == "-":
        raise ValueError("--plan - is not possible: a plan needs a file")
    if Path(options.table).is_dir():
        raise ValueError("--plan is for a table in one file, which gemmed review can read")
    from ..review.attached import file_digest

    return file_digest(options.table) if Path(options.table).is_file() else ""


def write_plan(
    options: argparse.Namespace, findings: Any, digest: str, training: Training | None = None
) -> None:
    """Draw the rows and write the plan, if the option was given; ``--strata`` needs the table.

    Parameters
    ----------
    digest : of the table before it was read
    """
    if options.plan is None:
        return
    from ..checks import save_plan
    from ..review.planned_checks import PlannedChecks, strata_of

    if planned_digest(options) != digest:
        raise ValueError(f"{options.table!r} has changed since it was read: run the command again")
    n, strata = min(N_CHECKS, len(findings.is_flagged)), None
    if options.strata is not None and training is not None:
        strata = strata_of(options.strata, training.table, findings, training.target, n)
    plan = PlannedChecks.drawn(findings, n, strata=strata, seed=options.seed, digest=digest).plan
    save_plan(plan, options.plan)
    if not options.json and options.out != "-":
        say(f"plan of {plan.n} rows to check in {options.plan} (gemmed review --plan)")
