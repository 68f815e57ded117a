"""``gemmed audit --stream``: a table that is never in memory as a whole.

All rows are judged. Cells are kept of the rows that are listed, and of a random sample that stands
for the others where rows are compared.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .audited_rows import review_arguments
from .streaming import train_in_blocks
from .terminal import busy, note
from .training import Learned

if TYPE_CHECKING:
    from ..estimators.table_blocks import Scan
    from ..report.findings import Audited, Findings
    from .streaming import Batches

MOST_LISTED = 100_000
"""Rows that get reasons, the most suspicious ones."""
SAMPLE_ROWS = 20_000
"""Random rows that are kept."""
WHOLE_TABLE = (
    "known", "unlabelled", "embeddings", "pred_probs", "strata", "annotators", "answers", "sensor",
    "prefix", "order", "spans",
)  # fmt: skip
"""Options that need the table in memory."""


class StreamedAudit(NamedTuple):
    """What was learned, and findings of the rows that are kept."""

    learned: Learned
    findings: Findings
    identifiers: dict[str, np.ndarray]


def check_streamed(options: argparse.Namespace) -> None:
    """Refuse options that need the table in memory."""
    for name in WHOLE_TABLE:
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} needs the whole table: leave out --stream")


def streamed_audit(options: argparse.Namespace) -> StreamedAudit:
    """Fit in blocks, judge all rows, and read once more those that are shown."""
    from ..estimators.whole_fit import only_samples
    from ..report.findings import Findings

    check_streamed(options)
    learned, scan, batches = train_in_blocks(options, not_features=tuple(options.id))
    model, n = learned.classifier, len(scan.labels)
    class_index = np.searchsorted(model.classes_, scan.labels)
    judged = only_samples(model, slice(None), np.empty((n, 0)), class_index)
    whole = Findings(_of_all(options, scan, judged))
    kept, sampled = _kept_rows(options, whole)
    with busy("reading"):
        frame, named = _read(options, batches, scan, np.flatnonzero(scan.used)[kept])
    X = np.asarray(learned.pipeline[0].transform_frame(frame), dtype=float)
    audited = replace(
        whole.audited,
        table_rows=whole.audited.table_rows[kept],
        labels=whole.audited.labels[kept],
        frame=frame,
        categories=list(scan.plan.categories),
        X=X,
        classifier=only_samples(model, kept, X, class_index[kept]),
        fitted=np.arange(len(kept)),
        identifiers=named,
        cells=frame,
        sampled=sampled,
        facts=[*whole.audited.facts, _shown_fact(len(kept), len(sampled))],
    )
    findings = Findings(audited, whole)
    findings.worth_a_look = np.searchsorted(kept, whole.worth_a_look)
    return StreamedAudit(learned, findings, named)


def _of_all(options: argparse.Namespace, scan: Scan, model: Any) -> Audited:
    """All rows without their cells."""
    import pandas as pd

    from ..report.findings import Audited

    n = len(scan.labels)
    facts = [("note", one.text) for one in scan.notes]
    facts += [(f"column {name}", f"left out: {why}") for name, why in scan.plan.left_out.items()]
    if scan.n_unlabelled:
        facts.append(("rows without a label", f"{scan.n_unlabelled}, left out"))
    return Audited(
        name=str(options.table),
        target=options.target,
        table_rows=np.flatnonzero(scan.used),
        labels=scan.labels.astype(str),
        frame=pd.DataFrame(index=range(n)),
        categories=[],
        X=np.empty((n, 0)),
        classifier=model,
        fitted=np.arange(n),
        facts=facts,
        arguments=review_arguments(options),
    )


def _shown_fact(n_kept: int, n_sampled: int) -> tuple[str, str]:
    return (
        "read in blocks",
        f"all rows are judged; columns, slices and copies are those of {n_kept} rows, which are "
        f"the listed ones and {n_sampled} random ones",
    )


def _kept_rows(options: argparse.Namespace, whole: Findings) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose cells are kept, in their order, and the places of the random ones among them."""
    listed = whole.suspicious(options.threshold, options.each)
    if len(listed) > MOST_LISTED:
        note(
            f"{len(listed)} rows are suspicious: the first {MOST_LISTED} are listed; a higher "
            "--threshold lists fewer"
        )
        listed = listed[:MOST_LISTED]
    n = len(whole.fitted)
    rng = np.random.default_rng(options.seed)
    sample = np.sort(rng.choice(n, min(n, SAMPLE_ROWS), replace=False))
    kept = np.unique(np.concatenate([listed, whole.worth_a_look, sample]))
    return kept, np.searchsorted(kept, sample)


def _read(
    options: argparse.Namespace, batches: Batches, scan: Scan, wanted: np.ndarray
) -> tuple[Any, dict[str, np.ndarray]]:
    """Columns that were learned from, and what names the rows, of some rows of the table."""
    import pandas as pd

    from ..estimators.column_plan import feature_frame

    frames: list[Any] = []
    cells: dict[str, list[np.ndarray]] = {}
    for table in batches.batches():
        assert table.row_numbers is not None
        chosen = np.isin(table.row_numbers, wanted, assume_unique=True)
        if not chosen.any():
            continue
        part = replace(
            table,
            frame=table.frame[chosen].reset_index(drop=True),
            row_numbers=table.row_numbers[chosen],
            _converted={},
        )
        frames.append(feature_frame(part, scan.plan))
        names = [part.index, *options.id, options.group]
        for name in dict.fromkeys(name for name in names if name is not None):
            cells.setdefault(name, []).append(part.text(name)[0])
    named = {name: np.concatenate(parts) for name, parts in cells.items()}
    return pd.concat(frames, ignore_index=True), named
