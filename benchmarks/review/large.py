"""A review and a report of 100,000 rows: size of the file, first page, marks.

python benchmarks/review/large.py [--rows 100000]

CPU seconds of this process (time.process_time) unless said otherwise.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from gemmed import GEMMEDClassifier
from gemmed.estimators.table_columns import training_data
from gemmed.report.html_report import HtmlReport
from gemmed.review.marks import MarkStore, attach
from gemmed.review.session import ReviewSession
from gemmed.review.subjects import table_subject
from gemmed.rows.tables import read_table

N_COLUMNS = 12


def write_table(path, n_rows, rng):
    """Correlated columns of three classes; 5 % wrong labels, 5 % rows with a broken value."""
    label = rng.integers(3, size=n_rows)
    hidden = rng.normal(size=(n_rows, 4)) + label[:, None]
    X = hidden @ rng.normal(size=(4, N_COLUMNS)) + 0.3 * rng.normal(size=(n_rows, N_COLUMNS))
    broken = rng.permutation(n_rows)[: n_rows // 20]
    X[broken, rng.integers(N_COLUMNS, size=len(broken))] += 15.0
    given = label.copy()
    wrong = rng.permutation(n_rows)[: n_rows // 20]
    given[wrong] = (given[wrong] + 1) % 3
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(N_COLUMNS)]).round(4)
    frame.insert(0, "id", [f"R{i}" for i in range(n_rows)])
    frame["label"] = np.array(["a", "b", "c"])[given]
    frame.to_csv(path, index=False)


def timed(text, work):
    begin = time.process_time()
    result = work()
    print(f"{text:<44}{time.process_time() - begin:9.3f} s", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    n_rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        write_table(path, n_rows, np.random.default_rng(0))
        table = timed("read", lambda: read_table(path))
        store = MarkStore(f"{path}.review.sqlite")
        attach(store, table, path, "label", match=False)
        subject = timed(
            "columns",
            lambda: table_subject(
                table,
                training_data(table, "label", drop=("id",)),
                GEMMEDClassifier(random_state=0),
                target="label",
                identifiers=("id",),
            ),
        )
        session = ReviewSession(subject, store, path)
        timed("fit", session.fit)
        first = timed(
            "first page: counts and first sample",
            lambda: (session.state(), session.sample(session.next_row("joint", None)))[1],
        )
        timed("second sample", lambda: session.sample(session.next_row("label", None)))
        begin = time.perf_counter()
        for row in range(1, 101):
            session.mark(row, "right", None, "ann")
        wall = (time.perf_counter() - begin) / 100
        print(f"{'mark on disk, wall clock, mean of 100':<44}{wall:9.4f} s")
        timed(
            "state and next behind 100 marks",
            lambda: (session.state(), session.next_row("joint", first["row"])),
        )
        findings = session.fitted.findings
        print(f"{'rows flagged':<44}{len(findings.flagged()):9d}")
        report = timed("report", lambda: HtmlReport(findings).html())
        print(f"{'size of the report':<44}{len(report.encode()) / 1e6:9.2f} MB")
        store.close()


if __name__ == "__main__":
    main()
