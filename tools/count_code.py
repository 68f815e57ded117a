"""Size of the package: lines, files, constants, public names, and files that a default fit enters.

python tools/count_code.py [--rows 300 20000] [--list]

A constant is a name in capitals at the top of a module of evidence, model, fit or estimators whose
value is a number or a collection of numbers. Fields of the three records of settings count too.
Those of NUMERICAL decide about precision, memory and files, not about statistics. A fit enters a
file when a function of it is called; ``--rows`` without a number leaves the fits out.
"""

import argparse
import ast
import importlib
import sys
import threading
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gemmed"
STATISTICAL = ("evidence", "model", "fit", "estimators", "io")
NUMERICAL = ("model/kernels/", "io/", "estimators/validation.py", "evidence/distances.py")
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
    constants: dict[str, list[tuple[int, str]]] = {}
    for path in paths:
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
        files[room] += 1
        if room in STATISTICAL:
            constants[path.relative_to(SOURCE).as_posix()] = constants_of(path)
    for room, count in lines.most_common():
        print(f"{room:14s}{count:7,d} lines {files[room]:4d} files")
    print(f"{'all':14s}{sum(lines.values()):7,d} lines {len(paths):4d} files")
    statistical = {name: own for name, own in constants.items() if not name.startswith(NUMERICAL)}
    if options.list:
        for name, own in statistical.items():
            print("".join(f"  {name}:{line} {constant}\n" for line, constant in own), end="")
    n_all, n_statistical = (sum(map(len, part.values())) for part in (constants, statistical))
    print(f"constants: {n_statistical} statistical, {n_all - n_statistical} numerical")
    names = {name: len(importlib.import_module(name).__all__) for name in PUBLIC}
    print(f"public names: {sum(names.values())}, of these in gemmed itself {names['gemmed']}")
    for n_rows in options.rows:
        entered = files_of_fit(n_rows)
        n_used = sum(len(statistical.get(name, ())) for name in entered)
        print(
            f"a default fit of {n_rows:,} rows enters {len(entered)} files with {n_used} "
            "statistical constants"
        )
        if options.list:
            print("\n".join(f"  {name}" for name in entered))


if __name__ == "__main__":
    main()
