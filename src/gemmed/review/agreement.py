"""How far reviewers agree on the rows that both have judged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from sklearn.metrics import cohen_kappa_score

from .marks import BULK, Mark, last_of_each

FEWEST_ROWS = 10
"""Common rows below which no rate of errors is derived."""


class Agreement(NamedTuple):
    """Of two reviewers on the rows that both judged, "unsure" apart."""

    reviewers: tuple[str, str]
    n_rows: int
    n_same: int
    kappa: float | None
    """Cohen's kappa: agreement beyond chance; None if both said one and the same of all rows."""

    def sentence(self) -> str:
        """The same in words."""
        one, other = self.reviewers
        kappa = "" if self.kappa is None else f" (Cohen's kappa {self.kappa:.2f})"
        text = f"{one} and {other} agree on {self.n_same} of {self.n_rows} rows{kappa}."
        if self.n_rows < FEWEST_ROWS or self.n_same == self.n_rows:
            return text
        # Two reviewers who err independently at a small rate differ at about twice that rate.
        rate = (1.0 - self.n_same / self.n_rows) / 2.0
        return (
            f"{text} Each then errs in about {rate:.0%} of the checks. The shares can be off by "
            "as much: intervals do not count errors of reviewers."
        )


def agreements(marks: Sequence[Mark]) -> list[Agreement]:
    """Of all pairs of reviewers with common rows, the pair with the most rows first."""
    said: dict[str, dict[int, str]] = {}
    for mark in last_of_each(iter(marks)):
        if mark.kind != "unsure" and mark.how != BULK:
            said.setdefault(mark.reviewer, {})[mark.row] = repr((mark.kind, mark.label))
    found = []
    for one, other in combinations(sorted(said), 2):
        if rows := said[one].keys() & said[other].keys():
            first, second = [said[one][row] for row in rows], [said[other][row] for row in rows]
            n_same = sum(a == b for a, b in zip(first, second, strict=True))
            has_kappa = len({*first, *second}) > 1
            kappa = float(cohen_kappa_score(first, second)) if has_kappa else None
            found.append(Agreement((one, other), len(rows), n_same, kappa))
    return sorted(found, key=lambda pair: -pair.n_rows)
