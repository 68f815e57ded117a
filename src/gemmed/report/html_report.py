"""An audit as one HTML file: nothing is loaded from anywhere, and it stays below ten megabytes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from .._core.optional import require
from .._core.whole_files import replacing
from .._core.words import counted
from ..estimators.reasons import ODD, RARE, percent
from .findings import FLAGGED, MOST_COUNTED, MOST_SHOWN_COLUMNS, Findings
from .patterns import Patterns
from .svg_pictures import (
    MOST_BARS,
    MOST_CLASSES,
    bars,
    confusion,
    histogram,
    interval,
    round_share,
)

MOST_ROWS = 1000
"""Suspicious rows in the table of a report."""
MOST_CELLS = 30
"""Columns of the file that this table shows."""
MOST_CELL = 200
"""Characters of a cell."""
MOST_COLUMNS = 1000
DETAIL_BYTES = 4_000_000
"""Of samples with their reasons; those that do not fit have a row in the table only."""
SOUND_BYTES = 3_500_000
"""Of recordings and their spectrograms."""
ROW_BYTES = 1_500_000
"""Of the table."""
MOST_WORTH_A_LOOK = 100
"""Rows below the line."""
MOST_CONFLICTS = 50
"""Sets of copies that are listed."""


def page_file(name: str) -> str:
    """A file of the folder ``page``: style, script or template."""
    return resources.files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def template(text: str) -> Any:
    """A Jinja template that escapes what it is given."""
    require("jinja2", "reports need", "cli")
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(text)


def json_for_page(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


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
        text = self.html()
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str:
        """The same page in a frame of its own, so that notebook and report do not mix."""
        return (
            '<iframe sandbox="allow-scripts" title="Audit" style="width:100%;height:720px;'
            f'border:1px solid #ccc" srcdoc="{escape(self.html(), quote=True)}"></iframe>'
        )

    def html(self) -> str:
        """The page as text."""
        from markupsafe import Markup

        from .. import __version__

        findings = self.findings
        chosen = findings.mixed(findings.suspicious(self.threshold, self.each))
        rows = chosen[:MOST_ROWS]
        samples, sounds_left = self._samples(rows)
        table_rows, header, cells_left = self._table(rows, {sample["index"] for sample in samples})
        style = page_file("look.css") + page_file("report.css")
        script = page_file("sample.js") + page_file("report.js")
        return str(
            template(page_file("report.html")).render(
                policy=policy(style, script),
                name=findings.audited.name,
                target=findings.audited.target,
                version=__version__,
                signal=findings.signal_sentence,
                is_judged=findings.judges_labels,
                sentence=(findings.whole or findings).sentence(self.threshold),
                shares=self._shares(),
                actions=self.patterns.actions(),
                slices=[one.text() for one in self.patterns.slices],
                groups=self._groups(),
                conflicts=self._conflicts(),
                further_conflicts=max(0, len(self.patterns.conflicts) - MOST_CONFLICTS),
                worth=self.patterns.worth_a_look(MOST_WORTH_A_LOOK),
                worth_text=self._worth_text(),
                pictures=self._pictures(),
                verdicts=sorted({row["verdict"] for row in table_rows}),
                caption=self._caption(len(table_rows), len(chosen)),
                header=header,
                rows=table_rows,
                caps=_caps(len(chosen), len(table_rows), len(samples), sounds_left, cells_left),
                facts=self._facts(),
                columns=findings.columns[:MOST_COLUMNS],
                further_columns=max(0, len(findings.columns) - MOST_COLUMNS),
                odd=f"{ODD:g} deviations",
                rare=percent(RARE),
                style=Markup(style),
                script=Markup(script),
                samples=Markup(json_for_page(samples)),
            )
        )

    def _samples(self, rows: np.ndarray) -> tuple[list[dict[str, Any]], int]:
        """Samples with reasons while there is room, and how many recordings had none."""
        samples: list[dict[str, Any]] = []
        size, sound_size, left = 0, 0, 0
        for row in rows:
            sample = self.findings.sample(int(row))
            size += len(json_for_page(sample).encode())
            if size > DETAIL_BYTES:
                break
            if self.sound is not None and sound_size <= SOUND_BYTES:
                own = self.sound(int(row))
                length = len(json_for_page(own))
                if sound_size + length <= SOUND_BYTES:
                    sample["sound"] = own
                else:
                    left += 1
                sound_size += length
            elif self.sound is not None:
                left += 1
            samples.append(sample)
        return samples, left

    def _table(
        self, rows: np.ndarray, with_detail: set[int]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
        findings, cells = self.findings, self.findings.audited.cells
        names = [] if cells is None else [str(name) for name in cells.columns]
        known = {findings.audited.target, *findings.audited.identifiers}
        names = [name for name in names if name not in known]
        shown = names[:MOST_CELLS]
        ids = list(findings.audited.identifiers)
        numbers = {str(c["name"]) for c in findings.columns if c["kind"] == "numbers"}
        header: list[dict[str, Any]] = [{"name": "row", "num": True}]
        header += [{"name": name, "num": False} for name in (*ids, "label", "suggested")]
        header += [{"name": text, "num": True} for text in ("any fault", "wrong label", "bad")]
        header += [{"name": name, "num": False} for name in ("verdict", "why")]
        header += [{"name": name, "num": name in numbers} for name in shown]
        table, size = [], 0
        for row in map(int, rows):
            verdict = findings.verdict_of(row)
            own = findings.identifiers_of(row)
            scores = [findings.scores[name][row] for name in ("joint", "label", "measurement")]
            texts = [str(findings.row_number(row)), *(own[name] for name in ids)]
            texts += [verdict.label, verdict.suggested or ""]
            texts += [f"{score:.3f}" for score in scores]
            texts += [verdict.verdict, " ".join(findings.reasons_of(row).sentences[:2])]
            texts += [_cell(cells[name].iloc[row]) for name in shown] if cells is not None else []
            size += sum(len(text.encode()) + 24 for text in texts)
            if size > ROW_BYTES:
                break
            table.append(
                {
                    "row": findings.row_number(row),
                    "verdict": verdict.verdict,
                    "has_detail": row in with_detail,
                    "cells": [
                        {"text": text, "kind": "num" if column["num"] else _kind(column["name"])}
                        for text, column in zip(texts, header, strict=True)
                    ],
                }
            )
        return table, header, len(names) - len(shown)

    def _caption(self, n_rows: int, n_all: int) -> str:
        if self.each is not None:
            what = (
                f"The {self.each} most suspicious labels and the {self.each} most suspicious "
                "measurements"
            )
        else:
            what = "Flagged rows"
        if self.threshold is not None:
            what += f" with a fault probability above {self.threshold:g}"
        part = "" if n_rows == n_all else f", the first {n_rows} of {n_all}"
        return f"{what}{part}. Click a row number for details, a heading to sort."

    def _shares(self) -> list[dict[str, Any]]:
        from markupsafe import Markup

        names = {"joint": "Any fault", "label": "Wrong labels", "measurement": "Bad measurements"}
        end = round_share(max((share.high for share in self.findings.shares.values()), default=1.0))
        return [
            {
                "name": names[ranking],
                "text": share.text(),
                "picture": Markup(interval(*share, end, label=f"{names[ranking]}: {share.text()}")),
            }
            for ranking, share in self.findings.shares.items()
        ]

    def _groups(self) -> list[dict[str, Any]]:
        number = self.findings.row_number
        return [
            {
                "text": f"{group.text[0].upper()}{group.text[1:]}.",
                "rows": [number(int(row)) for row in group.rows[:20]],
                "further": max(0, len(group.rows) - 20),
            }
            for group in self.patterns.groups
        ]

    def _conflicts(self) -> list[dict[str, Any]]:
        number = self.findings.row_number
        return [
            {
                "rows": ", ".join(str(number(int(row))) for row in one.rows[:20])
                + (f" and {len(one.rows) - 20} more" if len(one.rows) > 20 else ""),
                "labels": ", ".join(f"{label}: {n}" for label, n in one.labels.items()),
                "values": "equal" if one.is_exact else "nearly equal",
                "majority": one.majority or "",
            }
            for one in self.patterns.conflicts[:MOST_CONFLICTS]
        ]

    def _worth_text(self) -> str:
        n = len(self.findings.worth_a_look)
        shown = f" The first {MOST_WORTH_A_LOOK} are listed." if n > MOST_WORTH_A_LOOK else ""
        return (
            f"{counted(n, 'more row')} below the line: not flagged, but more likely faulty than "
            f"the average row. With them the list has the estimated number of faulty rows.{shown}"
        )

    def _pictures(self) -> list[dict[str, Any]]:
        from markupsafe import Markup

        findings = self.findings
        whole = findings.whole or findings
        joint = whole.scores["joint"][whole.fitted]
        pictures = [
            {
                "title": "Probability of a fault",
                "svg": Markup(histogram(joint, FLAGGED, "Rows by probability of a fault")),
                "text": "Number of rows by fault probability. Square-root scale.",
            }
        ]
        if findings.confusion.any():
            pairs = "given label → suggested label, the most frequent"
            if len(findings.classes) <= MOST_CLASSES:
                pairs = "given label (rows), suggested label (columns)"
            text = f"Flagged rows with a suspicious label: {pairs}"
            pictures.append(
                {
                    "title": "Labels in doubt",
                    "svg": Markup(confusion(findings.confusion, findings.classes, text)),
                    "text": f"{text}.",
                }
            )
        odd = sorted((c for c in findings.columns if c["odd"]), key=lambda c: -c["odd"])
        if odd:
            counted = min(len(findings.flagged()), MOST_COUNTED)
            names, counts = [c["name"] for c in odd], [c["odd"] for c in odd]
            more = f", the first {MOST_BARS} of {len(odd)}" if len(odd) > MOST_BARS else ""
            pictures.append(
                {
                    "title": "Columns in doubt",
                    "svg": Markup(bars(names, counts, "Flagged rows in which a column is odd")),
                    "text": f"In how many of {counted} flagged rows each column is odd{more}.",
                }
            )
        return pictures

    def _facts(self) -> list[tuple[str, str]]:
        findings = self.findings
        whole = findings.whole or findings
        counts = [
            f"{name}: {int(np.sum(whole.class_index == z))}" for z, name in enumerate(whole.classes)
        ]
        shown = ", ".join(counts[:20]) + (f" and {len(counts) - 20} more" * (len(counts) > 20))
        repeated = int(findings.audited.frame.duplicated().sum()) if findings.columns else 0
        kinds = [column["kind"] for column in findings.columns]
        missing = sum(column["missing"] for column in findings.columns)
        held = [
            ("cells without a value", str(missing)),
            ("repeated rows", str(repeated)),
        ]
        return [
            ("rows", str(len(whole.audited.labels))),
            ("classes", shown),
            (
                "columns",
                f"{kinds.count('numbers')} of numbers, {kinds.count('categories')} of categories",
            ),
            *(held if findings.whole is None else []),
            *findings.audited.facts,
        ]


def _caps(
    n_chosen: int, n_rows: int, n_samples: int, sounds_left: int, cells_left: int
) -> list[str]:
    """What was left out to keep the file small, in sentences."""
    caps = []
    if n_rows < n_chosen:
        caps.append(
            f"To keep this file small it lists {n_rows} of {n_chosen} rows; gemmed audit --out "
            "writes all."
        )
    if n_samples < n_rows:
        caps.append(f"The first {n_samples} of them have a page with their values and reasons.")
    if cells_left > 0:
        caps.append(
            f"{cells_left} further columns are not in this list; a sample's page shows its "
            f"{MOST_SHOWN_COLUMNS} oddest columns."
        )
    if sounds_left > 0:
        caps.append(f"{sounds_left} recordings are left out: there is no room for their sound.")
    return caps


def _kind(name: str) -> str:
    return name if name in ("why", "verdict") else ""


def _cell(value: Any) -> str:
    text = "" if value is None or value != value else str(value)
    return text if len(text) <= MOST_CELL else text[: MOST_CELL - 1] + "…"


def policy(style: str, script: str) -> str:
    """Only this style and this script, pictures and sounds inside the file, nothing else."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; media-src data:"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
