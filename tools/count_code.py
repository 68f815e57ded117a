"""Size of the package: lines, files, constants, public names, and files that a default fit enters.

python tools/count_code.py [--rows 300 20000] [--list]

A constant is a name in capitals at the top of a module of evidence, model or estimators whose value
is a number or a collection of numbers. Fields of the three records of settings count too. Numbers
in function bodies are counted apart, without 0, 0.5, 1, 2, whole numbers and bounds below 1e-5.
There are three kinds. *Numerical* ones have a limit to which unlimited time and exact arithmetic
would set them: tolerances, seeds, caps of rows, trees, starts and steps. Those of *reading* say how
cells become columns and what is put into words. All others are *statistical*: they decide what a
fit believes. A fit enters a file when a function of it is called; ``--rows`` without a number
leaves the fits out.
"""

import argparse
import ast
import importlib
import sys
import threading
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gemmed"
COUNTED = ("evidence", "model", "estimators", "io")
READING = {
    "estimators/column_plan.py": "",
    "estimators/column_reasons.py": "",
    "estimators/explanation.py": "",
}
NUMERICAL = {
    "evidence/distances.py": "",
    "estimators/table_blocks.py": "",
    "estimators/validation.py": "",
    "io/": "",
    "model/kernels/": "",
    "estimators/base_member.py": "SUM_TOLERANCE N_FOLDS N_FOLDS_LARGE MIN_ROWS_FOR_FEWER_FOLDS "
    "TREES_PER_CLASS MAX_TREES MAX_TREE_ROWS",
    "estimators/kernel_classifier.py": "MIN_LARGE_SAMPLES",
    "estimators/state_fit.py": "ANSWER_ROUNDS",
    "evidence/groups.py": "N_WRONG_SHARES",
    "evidence/measurements.py": "MAX_REFERENCES BAD_SHARE_GRID",
    "evidence/row_statistics.py": "MAX_REGRESSION_COLUMNS",
    "evidence/scaled_along.py": "TOLERANCE",
    "evidence/screening.py": "TIE_DIGITS",
    "model/decision_step.py": "MAX_SLOPE MAX_MARGINS SUFFICIENT_DECREASE MAX_HALVINGS "
    "MIN_RELATIVE_DECREASE MAX_STALLED",
    "model/med.py": "MAX_SAMPLES GAP MAX_STEPS ROUGH_GAP N_PARTS",
    "model/settings.py": "Selection.max_rows Solver.max_iter Solver.tol",
    "model/states/answers.py": "MAX_ROUNDS MAX_SETTLED_CHANGE N_SWEEPS N_BURN_IN N_CHI N_TURNS",
    "model/states/label_model.py": "MAX_LOG_BAYES_FACTOR MIN_LIKELIHOOD",
    "model/states/posterior.py": "RATE_GRID SINGLE_CLASS_START_INDEX MAX_SINGLE_CLASSES "
    "MAX_THETA_ROWS SEED MIN_STEP_GAIN_NATS MAX_STEPS N_QUANTILES",
    "model/tuning.py": "MAX_FUNCTIONS MIN_SCREENED_ROWS SCREENING_SEED MAX_LOSS_RISE_NATS",
}
"""Files, or beginnings of their names, and which of their constants; all if none is named."""
RECORDS = ("Priors", "Selection", "Solver")
PUBLIC = ("gemmed", "gemmed.acoustics", "gemmed.checks", "gemmed.datasets", "gemmed.inspection")
PUBLIC += ("gemmed.paper", "gemmed.report", "gemmed.rows", "gemmed.sensors")


def is_numeric(node: ast.expr | None) -> bool:
    """Whether an expression is made of numbers only."""
    if node is None:
        return False
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_numeric(node.operand)
    if isinstance(node, ast.BinOp):
        return is_numeric(node.left) and is_numeric(node.right)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts) and all(map(is_numeric, node.elts))
    if isinstance(node, ast.Call):
        return bool(node.args) and all(map(is_numeric, node.args))
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(map(is_numeric, node.values))
    return False


def constants_of(path: Path) -> list[tuple[int, str]]:
    """Line and name of every numeric constant of a module."""
    found = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name in RECORDS:
            fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and is_numeric(n.value)]
            found += [(n.lineno, f"{node.name}.{ast.unparse(n.target)}") for n in fields]
            continue
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            values = node.value
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            parts = getattr(values, "elts", []) if isinstance(target, ast.Tuple) else [values]
            for name, value in zip(names, parts, strict=False):
                if isinstance(name, ast.Name) and name.id.isupper() and is_numeric(value):
                    found.append((node.lineno, name.id))
    return found


def literals_of(path: Path) -> list[tuple[int, str]]:
    """Line and text of the numbers in function bodies that may decide something."""
    found = set()
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                value = node.value if isinstance(node, ast.Constant) else 0.0
                if isinstance(value, float) and value not in (0.5, 1.0, 2.0) and value >= 1e-5:
                    found.add((node.lineno, str(value)))
    return sorted(found)


def kind_of(file: str, name: str) -> str:
    """Which kind of constant a name in a file is."""
    for kind, places in (("reading", READING), ("numerical", NUMERICAL)):
        for beginning, names in places.items():
            if file.startswith(beginning) and (not names or name in names.split()):
                return kind
    return "statistical"


def files_of_fit(n_rows: int) -> list[str]:
    """Files of the package whose functions are called by a default fit of two noisy classes."""
    import numpy as np

    from gemmed import GEMMEDClassifier

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 6)) + y[:, None]
    y = np.where(rng.random(n_rows) < 0.1, 1 - y, y)
    entered: set[str] = set()

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            entered.add(frame.f_code.co_filename)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        GEMMEDClassifier(random_state=0).fit(X, y)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    inside = [Path(name) for name in entered if name.startswith(str(SOURCE))]
    return sorted(path.relative_to(SOURCE).as_posix() for path in inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[300, 20_000], help="of the fits")
    parser.add_argument("--list", action="store_true", help="name constants and files")
    options = parser.parse_args()
    sys.path.insert(0, str(SOURCE.parent))
    paths = sorted(SOURCE.rglob("*.py"))
    lines, files = Counter(), Counter()
    constants: list[tuple[str, str, int, str]] = []
    for path in paths:
        file = path.relative_to(SOURCE).as_posix()
        room = file.split("/")[0].removesuffix(".py")
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
        files[room] += 1
        if room in COUNTED:
            constants += [(kind_of(file, own[1]), file, *own) for own in constants_of(path)]
            if kind_of(file, "") == "statistical":
                constants += [("in functions", file, *own) for own in literals_of(path)]
    found = {(file, name) for _, file, _, name in constants}
    stale = [f"{file} {name}" for file, names in NUMERICAL.items() for name in names.split()]
    stale = [one for one in stale if tuple(one.split()) not in found]
    if stale:
        parser.error(f"NUMERICAL names constants that do not exist: {', '.join(stale)}.")
    for room, count in lines.most_common():
        print(f"{room:14s}{count:7,d} lines {files[room]:4d} files")
    print(f"{'all':14s}{sum(lines.values()):7,d} lines {len(paths):4d} files")
    kinds = ("statistical", "in functions", "numerical", "reading")
    if options.list:
        for kind, file, line, name in sorted(constants, key=lambda one: kinds.index(one[0])):
            print(f"  {kind:13s}{file}:{line} {name}")
    counts = Counter(kind for kind, *_ in constants)
    print("constants: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds))
    names = {name: len(importlib.import_module(name).__all__) for name in PUBLIC}
    print(f"public names: {sum(names.values())}, of these in gemmed itself {names['gemmed']}")
    for n_rows in options.rows:
        entered = files_of_fit(n_rows)
        n_used = sum(kind == "statistical" and file in entered for kind, file, *_ in constants)
        print(
            f"a default fit of {n_rows:,} rows enters {len(entered)} files with {n_used} "
            "statistical constants"
        )
        if options.list:
            print("\n".join(f"  {name}" for name in entered))


if __name__ == "__main__":
    main()
