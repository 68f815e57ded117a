"""The audit command on messy tables, random labels and planted slices, and its time.

python benchmarks/audit_command.py [--parts tables random slices time] [--draws 20]
    [--data FOLDER ...] [--base auto|forest|boosting|none]

tables  Six tables with the traits of real files: decimal commas, semicolons, identifiers, dates,
        free text, "-" for missing values, 18 classes, codes, units. One label in twelve is wrong,
        one row in thirty is broken. Three of them are tables of scikit-learn, three are read from
        folders (.tsv.gz files, last column "target": german, ann-thyroid, krkopt).
random  Labels of chance: 2 to 8 classes, 5 to 60 columns, 400 rows; once with numbers, once with
        a category and rounded numbers.
slices  Wrong labels three times as frequent for one value, range, period or annotator, in DRAWS
        draws each, and DRAWS draws without a slice.
time    Seconds from the command to the report, beside a forest of five folds and, where cleanlab is
        installed, its Datalab with the probabilities of that forest.

Every audit is the command itself in a process of its own. Seconds are CPU time of all of it, with
the start of Python.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

WRONG, BROKEN = 12, 30
"""One label in so many is wrong, one row in so many is broken."""
FREE_TEXT = ("seen by", "repeat next week", "sample was late", "ok", "phone call", "see letter")


class Messy(NamedTuple):
    """A table as text, and its faults."""

    name: str
    frame: pd.DataFrame
    options: list[str]
    wrong: np.ndarray
    broken: np.ndarray
    separator: str = ","


def audit(path: Path, options: list[str], base: str) -> tuple[dict, float]:
    """The answer of the command as JSON, and its CPU seconds."""
    command = [sys.executable, "-m", "gemmed", "audit", str(path), *options, "--json"]
    start = children_seconds()
    done = subprocess.run(
        [*command, "--base", base, "--html", str(path.with_suffix(".html"))],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout), children_seconds() - start


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def with_faults(
    X: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns and labels with faults; numbers of the wrong labels and of the broken rows."""
    X, labels, n = X.astype(float).copy(), labels.astype(object).copy(), len(X)
    order, classes = rng.permutation(n), np.unique(labels)
    wrong, broken = order[: n // WRONG], order[n // WRONG : n // WRONG + n // BROKEN]
    for row in wrong:
        labels[row] = rng.choice(classes[classes != labels[row]])
    high = X.max(axis=0)
    for number, row in enumerate(broken):
        columns = rng.permutation(X.shape[1])[: max(2, X.shape[1] // 2)]
        X[row, columns] = 0.0 if number % 2 else 10.0 * high[columns]
    return X, labels, np.sort(wrong), np.sort(broken)


def text_of(values: np.ndarray, decimal: str = ".", digits: int = 4) -> list[str]:
    return [f"{value:.{digits}g}".replace(".", decimal) for value in values]


def messy_tables(folders: list[Path]) -> Iterator[Messy]:
    """Six tables; three if there are no folders."""
    rng = np.random.default_rng(0)
    cancer = load_breast_cancer()
    names = np.array(["malignant", "benign"])
    X, y, wrong, broken = with_faults(cancer.data[:, :20], names[cancer.target], rng)
    days = pd.Timestamp("2024-01-03") + pd.to_timedelta(np.arange(len(X)) // 3, "D")
    frame = pd.DataFrame({"patient": [f"P-{100000 + 7 * i}" for i in range(len(X))]})
    frame["taken"] = days.strftime("%d.%m.%Y")
    for j, name in enumerate(cancer.feature_names[:20]):
        frame[name] = text_of(X[:, j], ",")
    frame["remark"] = [f"{rng.choice(FREE_TEXT)} {rng.integers(9999)}" for _ in X]
    frame["diagnosis"] = [rng.choice([s, s.upper(), f" {s}"], p=[0.9, 0.05, 0.05]) for s in y]
    options = ["--target", "diagnosis", "--id", "patient"]
    yield Messy("cells: decimal commas, dates, text", frame, options, wrong, broken, ";")

    wine = load_wine()
    X, y, wrong, broken = with_faults(wine.data, np.array(["A", "B", "C"])[wine.target], rng)
    frame = pd.DataFrame(
        {
            name: [c if rng.random() > 0.04 else "-" for c in text_of(X[:, j])]
            for j, name in enumerate(wine.feature_names)
        }
    )
    frame["alcohol"] = [f"{cell} %" if cell != "-" else cell for cell in frame["alcohol"]]
    frame.insert(0, "bottle", np.arange(5001, 5001 + len(X)))
    frame["cultivar"] = y
    options = ["--target", "cultivar", "--missing", "-"]
    yield Messy("wine: - for missing, units, counter", frame, options, wrong, broken)

    digits = load_digits()
    X, y, wrong, broken = with_faults(digits.data, np.char.mod("digit %d", digits.target), rng)
    frame = pd.DataFrame(X, columns=[f"p{j}" for j in range(64)]).astype(str)
    frame.insert(0, "file", [f"scans/{i % 40:02d}/{i:05d}.png" for i in range(len(X))])
    frame["label"] = y
    yield Messy("digits: 64 codes, file names", frame, ["--target", "label"], wrong, broken)

    if not folders:
        return
    table = read(folders, "german")
    X, y, wrong, broken = with_faults(
        table.drop(columns="target").to_numpy(), np.where(table["target"] > 0, "good", "bad"), rng
    )
    frame = pd.DataFrame({f"attribute {j + 1}": text_of(X[:, j]) for j in range(X.shape[1])})
    for name in frame.columns[[0, 2, 3, 5, 6]]:
        frame[name] = [f"A{cell}" for cell in frame[name]]
    frame["advisor"] = rng.choice(["Lee", "Ortiz", "Haas", "-"], len(X))
    frame["risk"] = y
    options = ["--target", "risk", "--missing", "-"]
    yield Messy("credit: codes such as A12", frame, options, wrong, broken)

    table = read(folders, "ann-thyroid").sample(1500, random_state=0)
    X, y, wrong, broken = with_faults(
        table.drop(columns="target").to_numpy(), np.char.mod("%d", table["target"].astype(int)), rng
    )
    frame = pd.DataFrame({f"v{j}": text_of(X[:, j], ",") for j in range(X.shape[1])})
    frame["lab"] = rng.choice(["North", "north", "South "], len(X))
    frame["class"] = y
    options = ["--target", "class"]
    yield Messy("thyroid: rare classes, semicolons", frame, options, wrong, broken, ";")

    table = read(folders, "krkopt")
    table = table[table["target"] < 18].groupby("target").head(120)
    X, y, wrong, broken = with_faults(
        table.drop(columns="target").to_numpy(), np.char.mod("in %d", table["target"]), rng
    )
    frame = pd.DataFrame({f"piece {j}": text_of(X[:, j]) for j in range(X.shape[1])})
    frame["game"] = [f"{i:08x}" for i in rng.permutation(len(X))]
    frame["moves"] = y
    yield Messy("chess: 18 classes, codes", frame, ["--target", "moves"], wrong, broken)


def read(folders: list[Path], name: str) -> pd.DataFrame:
    path = next(p for folder in folders if (p := folder / f"{name}.tsv.gz").exists())
    return pd.read_csv(path, sep="\t")


def judge_tables(folders: list[Path], base: str, scratch: Path) -> None:
    print("| table | rows | wrong labels | found | broken rows | found | false flags | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for number, table in enumerate(messy_tables(folders)):
        path = scratch / f"table{number}.csv"
        table.frame.to_csv(path, index=False, sep=table.separator)
        found, seconds = audit(path, table.options, base)
        flagged = {row["row"] - 1 for row in found["suspicious"]}
        wrong, broken = set(table.wrong.tolist()), set(table.broken.tolist())
        print(
            f"| {table.name} | {len(table.frame)} | {len(wrong)} | {len(flagged & wrong)} "
            f"| {len(broken)} | {len(flagged & broken)} | {len(flagged - wrong - broken)} "
            f"| {seconds:.1f} |",
            flush=True,
        )


def judge_random_labels(draws: int, base: str, scratch: Path) -> None:
    print("| classes | columns | audits | largest share flagged | says so |")
    print("|---|---|---|---|---|")
    path, n = scratch / "random.csv", 400
    for n_classes in (2, 4, 8):
        for n_columns in (5, 20, 60):
            shares, said = [], 0
            for draw in range(draws):
                rng = np.random.default_rng([n_classes, n_columns, draw])
                frame = pd.DataFrame(rng.normal(size=(n, n_columns))).add_prefix("x")
                if draw % 2:
                    frame = frame.round(1).assign(site=rng.choice(list("abcdefghijkl"), n))
                frame["y"] = np.char.add("class ", rng.integers(n_classes, size=n).astype(str))
                frame.to_csv(path, index=False)
                found, _ = audit(path, ["--target", "y"], base)
                shares.append(found["suspicious_rows"] / n)
                said += found["signal"][0].startswith("These columns do not tell the classes")
            print(
                f"| {n_classes} | {n_columns} | {draws} | {max(shares):.1%} | {said} |", flush=True
            )


KINDS = ("value", "range", "period", "annotator", "none")


def planted(kind: str, rng: np.random.Generator, n: int = 1500) -> tuple[pd.DataFrame, list[str]]:
    """A table whose labels are wrong in 5 % of the rows, 15 % in the slice; its columns."""
    X, y = make_classification(
        n, 8, n_informative=5, class_sep=1.5, flip_y=0.0, random_state=int(rng.integers(2**31))
    )
    frame = pd.DataFrame(X.round(3)).add_prefix("x")
    frame["ward"] = rng.choice(["north", "south", "east", "west", "centre"], n)
    frame["age"] = rng.integers(18, 90, n)
    days = np.sort(rng.integers(0, 365, n))
    frame["seen"] = (pd.Timestamp("2025-01-01") + pd.to_timedelta(days, "D")).strftime("%Y-%m-%d")
    frame["labelled by"] = rng.choice(["ann", "bob", "cy", "dee", "eve", "flo"], n)
    slices = {
        "value": frame["ward"] == "west",
        "range": frame["age"].between(40, 52),
        "period": pd.Series((days >= 120) & (days < 190)),
        "annotator": frame["labelled by"] == "cy",
        "none": pd.Series(np.zeros(n, dtype=bool)),
    }
    columns = {"value": ["ward"], "range": ["age"], "annotator": ["labelled by"], "none": []}
    rate = np.where(slices[kind], 0.15, 0.05)
    frame["class"] = np.where((rng.random(n) < rate) ^ (y == 1), "yes", "no")
    return frame, columns.get(kind, ["seen", "row order"])


def judge_slices(draws: int, base: str, scratch: Path) -> None:
    print("| slice | draws | first finding | other findings | no finding |")
    print("|---|---|---|---|---|")
    path = scratch / "slices.csv"
    for kind in KINDS:
        right = false = none = 0
        for draw in range(draws):
            frame, columns = planted(kind, np.random.default_rng([KINDS.index(kind), draw]))
            frame.to_csv(path, index=False)
            found, _ = audit(path, ["--target", "class", "--id", "labelled by"], base)
            slices = found["slices"]
            none += not slices
            right += bool(slices) and slices[0]["columns"][0] in columns
            false += sum(one["columns"][0] not in columns for one in slices)
        print(f"| {kind} | {draws} | {right} | {false} | {none} |", flush=True)


def judge_time(base: str, scratch: Path) -> None:
    print("| rows | columns | audit with report, s | forest, five folds, s | Datalab, s |")
    print("|---|---|---|---|---|")
    for n in (1500, 20_000):
        X, y = make_classification(n, 20, n_informative=10, n_classes=3, random_state=0)
        rng = np.random.default_rng(0)
        wrong = rng.random(n) < 0.05
        y[wrong] = (y[wrong] + 1) % 3
        path = scratch / f"time{n}.csv"
        frame = pd.DataFrame(X.round(4)).add_prefix("x").assign(y=np.char.add("c", y.astype(str)))
        frame.to_csv(path, index=False)
        _, seconds = audit(path, ["--target", "y"], base)
        start = time.process_time()
        proba = cross_val_predict(
            RandomForestClassifier(100, random_state=0), X, y, cv=5, method="predict_proba"
        )
        forest = time.process_time() - start
        print(
            f"| {n} | 20 | {seconds:.1f} | {forest:.1f} | {datalab_seconds(X, y, proba, forest)} |"
        )


def datalab_seconds(X: np.ndarray, y: np.ndarray, proba: np.ndarray, forest: float) -> str:
    try:
        from cleanlab import Datalab
    except ImportError:
        return "not installed"
    start = time.process_time()
    lab = Datalab({"X": X, "y": y}, label_name="y", verbosity=0)
    lab.find_issues(pred_probs=proba, features=X)
    return f"{forest + time.process_time() - start:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = ("tables", "random", "slices", "time")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--data", type=Path, nargs="+", default=[])
    parser.add_argument("--base", default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for part in options.parts:
            if part == "tables":
                judge_tables(options.data, options.base, scratch)
            elif part == "random":
                judge_random_labels(min(options.draws, 4), options.base, scratch)
            elif part == "slices":
                judge_slices(options.draws, options.base, scratch)
            else:
                judge_time(options.base, scratch)
            print()


if __name__ == "__main__":
    main()
