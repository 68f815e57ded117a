"""Judge one method on damaged tables, made data and human label errors; one line a run.

python benchmarks/quality/run.py METHOD --data FOLDER [FOLDER ...] [--made] [--real FILE.npz]
    [--tables a,b] [--cells "flips*,ring"] [--rows 500] [--seeds 2] [--draws 6] [--repeat]
    [--jobs 1] --out FILE.csv

METHOD is a name of methods.py or path/to/file.py:function. The function takes (Z, y, seed,
pred_probs=None) and returns a fitted GEMMEDClassifier or a Judgement of methods.py. Runs that
FILE.csv holds already are not repeated, unless they failed. summary.py compares two such files.
"""

import argparse
import time
import warnings
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cells import REAL_CELLS, TABLE_CELLS, Case, real_cases, table_case, table_names
from joblib import Parallel, delayed
from made import MADE_CELLS, made_cases
from methods import METHODS, Judgement, find_method, judgement_of
from sklearn.metrics import average_precision_score, roc_auc_score

N_BINS = 10


def measures(case: Case, judged: Judgement, seconds: float) -> dict[str, Any]:
    """All measures of one run; NaN or no entry where a measure does not apply."""
    either = case.wrong | case.bad
    fault = -judged.nominal
    found: dict[str, Any] = {
        "rows": len(either),
        "AP wrong": ranking(average_precision_score, case.wrong, judged.state_proba[:, 1]),
        "AP bad": ranking(average_precision_score, case.bad, judged.state_proba[:, 2]),
        "AP either": ranking(average_precision_score, either, fault),
        "AUC bad": ranking(roc_auc_score, case.bad, judged.state_proba[:, 2]),
        "AUC group": ranking(roc_auc_score, case.group, fault),
        "faults": either.sum(),
        "seconds": seconds,
        "detail": case.detail,
    }
    if judged.predict is not None:
        found["accuracy"] = np.mean(judged.predict(case.Z_test) == case.y_test)
    if judged.screen is not None:
        try:
            found["alarms"] = np.mean(judged.screen(case.Z_test))
        except ValueError as error:  # no trusted rows to compare with
            found["screen error"] = str(error)
    if judged.suggested is not None and case.wrong.any():
        found["suggested right"] = np.mean((judged.suggested == case.truth)[case.wrong])
    for kind, flags in judged.flagged.items():
        found[f"{kind} flagged"], found[f"{kind} right"] = flags.sum(), (flags & either).sum()
        found[f"{kind} precision"] = either[flags].mean() if flags.any() else np.nan
        found[f"{kind} recall"] = flags[either].mean() if either.any() else np.nan
        found[f"{kind} good flagged"] = flags[~either].mean()
        if case.minority is not None:
            found[f"{kind} minority flagged"] = flags[case.minority].mean()
        if case.group is not None:
            found[f"{kind} group flagged"] = flags[case.group].mean()
    truths = {"wrong": case.wrong, "bad": case.bad, "either": either}
    for name, (estimate, low, high) in judged.shares.items():
        share = truths[name].mean()
        found[f"share {name}"], found[f"estimate {name}"] = share, estimate
        found[f"covers {name}"] = float(low - 1e-9 <= share <= high + 1e-9)
        found[f"width {name}"] = high - low
    if judged.is_probability:
        states = (judged.nominal, judged.state_proba[:, 1], judged.state_proba[:, 2])
        for name, p, truth in zip(("nominal", "wrong", "bad"), states,
                                  (~either, case.wrong, case.bad), strict=True):  # fmt: skip
            place = np.clip((p * N_BINS).astype(int), 0, N_BINS - 1)
            for kind, counted in (("n", np.ones(len(p))), ("p", p), ("true", truth)):
                for b, total in enumerate(np.bincount(place, counted, N_BINS)):
                    found[f"bin {name} {kind} {b}"] = total
    return found


def ranking(measure: Any, truth: np.ndarray | None, score: np.ndarray) -> float:
    """NaN where there is nothing to find, or nothing else."""
    if truth is None or not truth.any() or truth.all():
        return np.nan
    return float(measure(truth, score))


def one_run(method: Any, case: Case, seed: int, has_repeat: bool) -> dict[str, Any]:
    """Measures of one run; an error of the method is recorded in the column "error"."""

    def judge(seed: int) -> Judgement:
        judged = method(case.Z, case.y, seed, pred_probs=case.pred_probs)
        judged = judged if isinstance(judged, Judgement) else judgement_of(judged)
        shape = (len(case.y), 3)
        if judged.state_proba.shape != shape or not np.all(np.isfinite(judged.state_proba)):
            raise ValueError(f"state_proba must be finite and of shape {shape}.")
        return judged

    try:
        start = time.perf_counter()
        judged = judge(seed)
        found = measures(case, judged, time.perf_counter() - start)
        if has_repeat:
            found |= changes(judged, judge(seed + 1000))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "rows": len(case.y)}
    return found


def changes(first: Judgement, second: Judgement) -> dict[str, float]:
    """What another seed of the method changes on the same rows."""
    found = {"repeat largest change": np.abs(first.nominal - second.nominal).max()}
    if "plain" in first.flagged:
        a, b = first.flagged["plain"], second.flagged["plain"]
        found["repeat changed flags"] = (a ^ b).sum() / (a | b).sum() if (a | b).any() else 0.0
    return found


def task_cases(source: tuple, cell: str, seed: int, n_rows: int) -> Any:
    """Names and cases; source is ("table", folder, name), ("made",) or ("real", file)."""
    kind, *where = source
    if kind == "made":
        yield from made_cases(cell, seed)
    elif kind == "real":
        yield from real_cases(*where, cell, seed)
    else:
        case = table_case(*where, cell, seed, n_rows)
        if case is not None:
            yield where[1], case


def run_task(
    name: str, source: tuple, cell: str, seed: int, n_rows: int, has_repeat: bool
) -> list[dict]:
    """Runs of one cell of one source."""
    method = find_method(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            {"table": table, "cell": cell, "seed": seed, **one_run(method, case, seed, has_repeat)}
            for table, case in task_cases(source, cell, seed, n_rows)
        ]


def tasks_of(options: argparse.Namespace) -> list[tuple]:
    """(source, cell, seed) of all runs that the options ask for, seed by seed."""
    patterns = options.cells.split(",")
    tables = options.tables.split(",") if options.tables else None
    left_out = options.without.split(",")

    def wanted(cells: Any) -> list[str]:
        return [cell for cell in cells if any(fnmatch(cell, pattern) for pattern in patterns)]

    found: list[tuple] = []
    if options.made:
        found += [(("made",), c, draw) for draw in range(options.draws) for c in wanted(MADE_CELLS)]
    if options.real:
        for draw in range(options.draws):
            found += [(("real", options.real), c, draw) for c in wanted(REAL_CELLS)]
    for seed in range(options.seeds):
        for folder in options.data:
            for name in table_names(folder):
                if (tables is None or name in tables) and name not in left_out:
                    found += [(("table", folder, name), c, seed) for c in wanted(TABLE_CELLS)]
    return found


def is_done(task: tuple, done: set) -> bool:
    """Whether the runs of a task are in the file; a draw of made data is written as a whole."""
    source, cell, seed = task
    return (source[2] if source[0] == "table" else None, cell, seed) in done


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("method", help=f"{', '.join(METHODS)}, or path/to/file.py:function")
    parser.add_argument("--data", nargs="*", default=[], help="folders of .tsv.gz tables")
    parser.add_argument("--made", action="store_true", help="the cells of made data as well")
    parser.add_argument("--real", help="cifar10n.npz")
    parser.add_argument("--tables", default="", help="only these, separated by commas")
    parser.add_argument("--without", default="krkopt,shuttle", help="tables that are left out")
    parser.add_argument("--cells", default="*", help="patterns separated by commas")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=2, help="of each table and cell")
    parser.add_argument("--draws", type=int, default=6, help="of made data and human errors")
    parser.add_argument("--repeat", action="store_true", help="fit again with another seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    find_method(options.method)
    out = Path(options.out)
    results = pd.read_csv(out).to_dict("records") if out.exists() else []
    results = [run for run in results if not isinstance(run.get("error"), str)]
    done = {(row["table"], row["cell"], row["seed"]) for row in results}
    done |= {(None, cell, seed) for _, cell, seed in done}
    tasks = [task for task in tasks_of(options) if not is_done(task, done)]
    runs = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(run_task)(options.method, *task, options.rows, options.repeat) for task in tasks
    )
    written = time.perf_counter()
    for number, (task, found) in enumerate(zip(tasks, runs, strict=True), 1):
        results += found
        for run in found:
            if "error" in run:
                print(f"{run['table']}, {run['cell']}: {run['error']}", flush=True)
        if number == len(tasks) or time.perf_counter() - written > 20:
            pd.DataFrame(results).to_csv(out, index=False)
            written = time.perf_counter()
            print(f"{number} of {len(tasks)} done, last {task[0][-1]}, {task[1]}", flush=True)


if __name__ == "__main__":
    main()
