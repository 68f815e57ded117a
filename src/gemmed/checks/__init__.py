"""Checks by a person: which rows to look at, what follows for all rows, and when to stop."""

from .calibration import Calibration, recalibrate
from .estimates import Estimate, compare_slices, estimate, missed_share
from .flags import Flags, flag_fdr
from .plan import (
    CheckPlan,
    fault_probabilities,
    load_plan,
    next_rows,
    plan_checks,
    plan_for_model,
    save_plan,
)
from .sequences import CheckSequence, confidence_sequence
from .stopping import StoppingState, check_flags, check_stopping

__all__ = [
    "Calibration",
    "CheckPlan",
    "CheckSequence",
    "Estimate",
    "Flags",
    "StoppingState",
    "check_flags",
    "check_stopping",
    "compare_slices",
    "confidence_sequence",
    "estimate",
    "fault_probabilities",
    "flag_fdr",
    "load_plan",
    "missed_share",
    "next_rows",
    "plan_checks",
    "plan_for_model",
    "recalibrate",
    "save_plan",
]
