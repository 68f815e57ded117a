"""Mutation check of the core: do its tests notice small errors in the code?

Mutants are drawn at random: a constant times 0.6 or 1.6, a sign, two arguments swapped, a
comparison flipped. A mutant counts if it changes the states of a fit on one of three small
problems. It is noticed if a test of its own room fails. Everything runs in a copy of the tree.

    python tools/mutate.py --mutants 30 --seed 0
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble  # children inherit what is imported here  # noqa: F401

ROOT = Path(__file__).parents[1]
SOURCES = ("evidence/**/*.py", "model/*.py", "model/states/*.py", "model/annotators/*.py")
SOURCES += tuple(f"estimators/{name}.py" for name in ("state_fit", "base_member", "fit_settings"))
FIRST = ("test_state_models", "test_known_labels", "test_judging", "test_posterior")
"""Tests of whole fits: they notice most, so that they run early."""
FLIPPED = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
KINDS = ("constant", "sign", "arguments", "comparison")
PYTEST = ["-x", "-q", "-m", "not slow", "-p", "no:xdist", "-p", "no:cacheprovider"]
LARGEST_CHANGE = 1e-6
"""Of a probability that counts as none."""
MOST_SECONDS = 600.0


def mutations(tree: ast.Module) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Kind, node and what stands in its place, for every mutant of a module."""
    slices = [part.slice for part in ast.walk(tree) if isinstance(part, ast.Subscript)]
    places = {id(node) for part in slices for node in ast.walk(part)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in places:
            value = node.value
            if isinstance(value, float) and value != 0.0:
                yield from (("constant", node, ast.Constant(value * by)) for by in (0.6, 1.6))
            elif type(value) is int and value > 2:
                yield from (
                    ("constant", node, ast.Constant(round(value * by))) for by in (0.6, 1.6)
                )
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "sign", node, ast.BinOp(node.left, other, node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield "sign", node, node.operand
        elif isinstance(node, ast.Call):
            for place in range(len(node.args) - 1):
                args = list(node.args)
                args[place : place + 2] = reversed(args[place : place + 2])
                yield "arguments", node, ast.Call(node.func, args, node.keywords)
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
            ops = [FLIPPED[type(node.ops[0])](), *node.ops[1:]]
            yield "comparison", node, ast.Compare(node.left, ops, node.comparators)


class Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().generic_visit(node)


def fitted_states() -> np.ndarray:
    """States of three small problems with faults."""
    from gemmed import GEMMEDClassifier

    states, numbers = [], np.arange(150)
    for n_classes, extra in ((2, "none"), (3, "groups"), (2, "known_labels")):
        rng = np.random.default_rng(n_classes)
        y = rng.integers(n_classes, size=150)
        X = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(150, 6))
        X[:, :n_classes] += 3.0 * np.eye(n_classes)[y]
        X[:8] += 3.0 * rng.normal(size=(8, 6))
        X[8:20, 2:] = X[20:21, 2:] + 2.5
        given = np.where(numbers < 135, y, (y + 1) % n_classes)
        known = np.where(numbers % 10 == 0, y.astype(object), None)
        options = {"none": {}, "groups": {"groups": numbers // 2}}.get(extra, {extra: known})
        model = GEMMEDClassifier(random_state=0).fit(X, given, **options)
        states.append(model.state_proba_.ravel())
    return np.concatenate(states)


def in_child(tree: Path, test_files: list[str] | None = None) -> Any:
    """States, or the exit code of tests, by a process that imports the package from a tree."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(tree, test_files, send))
    child.start()
    send.close()
    answer = None
    if receive.poll(MOST_SECONDS):
        with contextlib.suppress(EOFError):
            answer = receive.recv()
    child.kill()
    child.join()
    return answer


def _run(tree: Path, test_files: list[str] | None, send: Any) -> None:
    os.chdir(tree)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.path[:0] = [str(tree / "src")]
    with (
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stdout(nothing),
        contextlib.redirect_stderr(nothing),
    ):
        if test_files is not None:
            send.send(int(pytest.main([*PYTEST, *test_files])))
            return
        warnings.simplefilter("ignore")
        with contextlib.suppress(Exception):  # a mutant that fails has changed its result
            send.send(fitted_states())


def tests_of(tree: Path, path: Path) -> list[str]:
    """Test files of the room of a module, the likeliest first."""
    words = path.with_suffix("").parts[3:]
    files = sorted((tree / "tests" / path.parts[2]).rglob("test_*.py"))
    files.sort(
        key=lambda file: (not any(word in file.stem for word in words), file.stem not in FIRST)
    )
    return [str(file) for file in files]


def verdict_on(tree: Path, path: Path, source: str, mutated: str, right: np.ndarray) -> str:
    (tree / path).write_text(mutated)
    states, verdict = in_child(tree), "no change"
    if states is None or not np.allclose(states, right, rtol=0.0, atol=LARGEST_CHANGE):
        verdict = "missed" if in_child(tree, tests_of(tree, path)) == 0 else "noticed"
    (tree / path).write_text(source)
    return verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    core = ROOT / "src" / "gemmed"
    files = sorted(file.relative_to(ROOT) for pattern in SOURCES for file in core.glob(pattern))
    sources = {path: (ROOT / path).read_text() for path in files}
    sites: dict[str, list[tuple[Path, int]]] = {kind: [] for kind in KINDS}
    for path, source in sources.items():
        for number, (kind, _, _) in enumerate(mutations(ast.parse(source))):
            sites[kind].append((path, number))
    counts = {"no change": 0, "noticed": 0, "missed": 0}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.png"))
        compileall.compile_dir(tree / "src", quiet=1)
        right = in_child(tree)
        for _ in range(options.mutants):
            of_kind = sites[KINDS[rng.integers(len(KINDS))]]
            path, number = of_kind[rng.integers(len(of_kind))]
            parsed = ast.parse(sources[path])
            _, old, new = list(mutations(parsed))[number]
            words = f"{path}:{old.lineno}: {ast.unparse(old)} -> {ast.unparse(new)}"
            mutated = ast.unparse(ast.fix_missing_locations(Replaced(old, new).visit(parsed)))
            verdict = verdict_on(tree, path, sources[path], mutated, right)
            counts[verdict] += 1
            print(f"{verdict:10}{words}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()
