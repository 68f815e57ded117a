"""An audit as one HTML file: nothing is loaded from anywhere, and it stays below ten megabytes."""

import os
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from ..estimators.reasons import MAX_RARE_SHARE, MIN_ODD_DEVIATIONS
from .findings import MAX_COUNTED, MAX_SHOWN_COLUMNS, Findings
from .pages import cut, json_for_page, render, save_page
from .patterns import Patterns

MAX_ROWS = 1000
"""Suspicious rows in the table of a report."""
MAX_CELLS = 30
"""Columns of the file that this table shows."""
MAX_CELL_LENGTH = 200
"""Characters of a cell."""
MAX_COLUMNS = 1000
DETAIL_BYTES = 4_000_000
"""Of samples with their reasons; those that do not fit have a row in the table only."""
SOUND_BYTES = 3_500_000
"""Of recordings and their spectrograms."""
ROW_BYTES = 1_500_000
"""Of the table."""
MAX_WORTH_A_LOOK = 100
"""Rows below the line."""
MAX_CONFLICTS = 50
"""Sets of copies that are listed."""
MAX_CLASSES = 12
"""Beyond, pairs of classes are drawn as bars in place of a matrix."""
MAX_CLASS_NAME_LENGTH = 27
"""Characters of a class in such a pair."""


class HtmlReport:
    """An audit to look at: shown by notebooks, written by :meth:`save`.

    Parameters
    ----------
    findings : what the audit found
    threshold : fault probability above which a row is listed; None lists the flagged rows
    each : so many of the most suspicious labels and as many of the most suspicious measurements
        are listed; with a threshold, those above it
    sound : recording of a row as data for the page; see ``gemmed.report.sounds``
    """

    def __init__(
        self,
        findings: Findings,
        *,
        threshold: float | None = None,
        each: int | None = None,
        sound: Callable[[int], dict[str, Any]] | None = None,
    ) -> None:
        self.findings = findings
        self.patterns = Patterns(findings)
        self.threshold = threshold
        self.each = each
        self.sound = sound

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, as a whole or not at all."""
        save_page(self.html(), path)

    def _repr_html_(self) -> str:
        """The same page in a frame of its own, so that notebook and report do not mix."""
        return (
            '<iframe sandbox="allow-scripts" title="Audit" style="width:100%;height:720px;'
            f'border:1px solid #ccc" srcdoc="{escape(self.html(), quote=True)}"></iframe>'
        )

    def html(self) -> str:
        """The page as text."""
        findings = self.findings
        whole = findings.whole or findings
        chosen = findings.mixed(findings.flagged(self.threshold, self.each))
        rows = chosen[:MAX_ROWS]
        samples, n_silent = self._samples(rows)
        table_rows, header, n_further = self._table(rows, {sample["index"] for sample in samples})
        largest = max((share.high for share in findings.shares.values()), default=1.0)
        joint = np.clip(whole.scores["joint"][whole.fitted], 0.0, 1.0)
        odd = [(c["name"], c["odd"]) for c in findings.columns if c["odd"]]
        return render(
            "report.html",
            ("look.css", "report.css"),
            ("sample.js", "report.js"),
            samples,
            report=self,
            findings=findings,
            whole=whole,
            patterns=self.patterns,
            axis_end=next(end for end in (0.1, 0.2, 0.5, 1.0) if largest <= end or end == 1.0),
            worth=self.patterns.worth_a_look(MAX_WORTH_A_LOOK),
            fault_counts=np.histogram(joint, np.linspace(0.0, 1.0, 21))[0].tolist(),
            pairs=pairs_of_classes(findings),
            odd_columns=sorted(odd, key=lambda pair: -pair[1]),
            n_counted=min(len(findings.flagged()), MAX_COUNTED),
            header=header,
            rows=table_rows,
            n_chosen=len(chosen),
            n_samples=len(samples),
            n_silent=n_silent,
            n_further=n_further,
            class_counts=[int(np.sum(whole.class_index == z)) for z in range(len(whole.classes))],
            n_repeated=int(findings.audited.frame.duplicated().sum()) if findings.columns else 0,
            most_conflicts=MAX_CONFLICTS,
            most_columns=MAX_COLUMNS,
            most_shown=MAX_SHOWN_COLUMNS,
            odd=MIN_ODD_DEVIATIONS,
            rare=MAX_RARE_SHARE,
        )

    def _samples(self, rows: np.ndarray) -> tuple[list[dict[str, Any]], int]:
        """Samples with reasons while there is room, and how many recordings had none."""
        samples: list[dict[str, Any]] = []
        size, sound_size, n_silent = 0, 0, 0
        for row in map(int, rows):
            sample = self.findings.sample(row)
            size += len(json_for_page(sample).encode())
            if size > DETAIL_BYTES:
                break
            if self.sound is not None and sound_size <= SOUND_BYTES:
                sound = self.sound(row)
                sound_size += len(json_for_page(sound))
                if sound_size <= SOUND_BYTES:
                    sample["sound"] = sound
            n_silent += self.sound is not None and "sound" not in sample
            samples.append(sample)
        return samples, n_silent

    def _table(
        self, rows: np.ndarray, with_detail: set[int]
    ) -> tuple[list[dict[str, Any]], list[tuple[str, str]], int]:
        """Rows with their texts, names and kinds of the columns, and how many are left out."""
        findings, cells = self.findings, self.findings.audited.cells
        ids = findings.audited.identifiers
        names = [] if cells is None else [str(name) for name in cells.columns]
        names = [name for name in names if name != findings.audited.target and name not in ids]
        shown = names[:MAX_CELLS]
        numbers = {c["name"] for c in findings.columns if c["kind"] == "numbers"}
        header = [("row", "num"), *((name, "") for name in (*ids, "label", "suggested"))]
        header += [(name, "num") for name in ("any fault", "wrong label", "bad")]
        header += [("verdict", "verdict"), ("why", "why")]
        header += [(name, "num" if name in numbers else "") for name in shown]
        table, size = [], 0
        for row in map(int, rows):
            verdict, number = findings.verdict_of(row), findings.row_number(row)
            texts = [str(number), *findings.identifiers_of(row).values()]
            texts += [verdict.label, verdict.suggested or ""]
            texts += [f"{scores[row]:.3f}" for scores in findings.scores.values()]
            texts += [verdict.verdict, " ".join(findings.reasons_of(row).sentences[:2])]
            texts += [_cell(cells[name].iloc[row]) for name in shown]
            size += sum(len(text.encode()) + 24 for text in texts)
            if size > ROW_BYTES:
                break
            found = {"row": number, "verdict": verdict.verdict, "texts": texts}
            table.append(found | {"has_detail": row in with_detail})
        return table, header, len(names) - len(shown)


def pairs_of_classes(findings: Findings) -> list[tuple[str, int]]:
    """The most frequent pairs of given and suggested label; none if a matrix has room for them."""
    if len(findings.classes) <= MAX_CLASSES:
        return []
    short = [cut(name, MAX_CLASS_NAME_LENGTH) for name in findings.classes]
    counts = findings.confusion.astype(int)
    pairs = [(f"{short[i]} → {short[j]}", int(counts[i, j])) for i, j in np.argwhere(counts)]
    return sorted(pairs, key=lambda pair: -pair[1])[:10]


def _cell(value: Any) -> str:
    text = "" if value is None or value != value else str(value)
    return text if len(text) <= MAX_CELL_LENGTH else text[: MAX_CELL_LENGTH - 1] + "…"
