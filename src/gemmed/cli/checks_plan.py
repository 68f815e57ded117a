"""``gemmed audit --plan FILE``: rows to check by hand, drawn with known probabilities."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .outputs import check_not_an_input, check_output
from .terminal import say

N_CHECKS = 120


def add_plan_option(parser: Any) -> None:
    """Register the option."""
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help=f"write a plan of {N_CHECKS} rows to check by hand as JSON (gemmed.checks.load_plan); "
        "--seed fixes the draws",
    )


def write_plan(options: argparse.Namespace, findings: Any) -> None:
    """Draw the rows and write the plan, if the option was given."""
    if options.plan is None:
        return
    import numpy as np

    from ..checks import plan_checks, save_plan
    from ..review.attached import file_digest

    check_output(options.plan, "--plan")
    check_not_an_input(options.plan, options.table, name="--plan")
    scores = findings.scores
    proba = np.nan_to_num(np.column_stack([scores["label"], scores["measurement"]]))
    digest = file_digest(Path(options.table)) if options.table != "-" else ""
    plan = plan_checks(proba, min(N_CHECKS, len(proba)), seed=options.seed, digest=digest)
    save_plan(plan, options.plan)
    if not options.json and options.out != "-":
        say(f"plan of {plan.n} rows to check in {options.plan}")
