"""Sentences that the terminal, the report and the review page share."""

from __future__ import annotations

from .._core.words import counted
from ..estimators.reasons import percent
from .audited import Share
from .verdict_facts import Signal

NO_SIGNAL = "These columns do not tell the classes apart; no label can be judged"


def signal_sentence(signal: Signal) -> str:
    """Held-out accuracy against the largest class."""
    text = (
        f"eld-out accuracy {percent(signal.accuracy)} (90 % interval {percent(signal.lower)} to "
        f"{percent(signal.upper)}); always predicting the largest class has "
        f"{percent(signal.majority)}"
    )
    return f"H{text}." if signal.is_informative else f"{NO_SIGNAL} (h{text})."


def flag_sentence(
    n_rows: int,
    n_flagged: int,
    threshold: float | None,
    share: Share | None,
    kind: str,
    n_checked: int,
) -> str:
    """Rows flagged, rows estimated, and whether anybody has checked.

    Parameters
    ----------
    threshold : above which rows are flagged; None if a fault must be more likely than none
    share : estimated share of faulty rows; None if the model has none
    kind : what is estimated, "faulty rows"
    n_checked : rows that a person has judged
    """
    meaning = "a wrong label or a bad measurement is more likely than no fault"
    if threshold is not None:
        meaning = f"the fault probability is above {threshold:g}"
    verb = "is" if n_flagged == 1 else "are"
    text = f"{n_flagged:,} of {counted(n_rows, 'row')} {verb} flagged: {meaning}."
    if not n_flagged:
        text = f"No row of {n_rows:,} is flagged."
    if share is not None:
        mean, low, high = (round(value * n_rows) for value in share)
        text += (
            f" Estimated number of {kind}, flagged or not: {mean:,} (90 % interval {low:,} to "
            f"{high:,})."
        )
    if n_checked:
        verb = "was" if n_checked == 1 else "were"
        return (
            f"{text} {counted(n_checked, 'row')} {verb} checked by a person and no longer counted; "
            "the rest is the model's estimate."
        )
    return f"{text} These are estimates of the model; no row has been checked."
