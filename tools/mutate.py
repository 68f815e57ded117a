"""Mutation check of the core: do its tests notice small errors in the code?

Mutants are drawn at random: a constant times 0.6 or 1.6, a sign, two arguments swapped, a
comparison flipped. A mutant counts if it changes the states of a fit on one of three small
problems. It is noticed if a test of its own room fails. Everything runs in a copy of the tree.
"""

from __future__ import annotations

import argparse
import ast
import copy
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
SOURCES = ("evidence/**/*.py", "model/*.py", "model/[sa]*/*.py", "estimators/state_fit.py")
SOURCES += ("estimators/base_member.py", "estimators/fit_settings.py")
FIRST = ("by_hand", "state_models", "known_labels", "judging", "posterior", "candidates")
"""Tests that notice most run early, after those with the name of the module."""
FLIPPED = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
FLIPPED |= {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.USub: ast.UAdd}
KINDS = ("constant", "sign", "arguments", "comparison")
PYTEST = ["-x", "-q", "-m", "not slow", "-p", "no:xdist", "-p", "no:cacheprovider"]
LARGEST_CHANGE, MAX_SECONDS = 1e-6, 600.0  # no change of a probability; a mutant hangs


def mutations(tree: ast.Module) -> Iterator[tuple[str, Any, str, Any]]:
    """Kind, node, field and its other value, for every mutant of a module."""
    slices = [part.slice for part in ast.walk(tree) if isinstance(part, ast.Subscript)]
    places = {id(node) for part in slices for node in ast.walk(part)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in places:
            value = node.value
            if isinstance(value, float) and value != 0.0:
                yield from (("constant", node, "value", value * by) for by in (0.6, 1.6))
            elif type(value) is int and value > 2:
                yield from (("constant", node, "value", round(value * by)) for by in (0.6, 1.6))
        elif isinstance(node, ast.BinOp | ast.UnaryOp) and type(node.op) in FLIPPED:
            yield "sign", node, "op", FLIPPED[type(node.op)]()
        elif isinstance(node, ast.Call):
            for place in range(len(node.args) - 1):
                args = list(node.args)
                args[place : place + 2] = reversed(args[place : place + 2])
                yield "arguments", node, "args", args
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
            yield "comparison", node, "ops", [FLIPPED[type(node.ops[0])](), *node.ops[1:]]


def fitted_states() -> np.ndarray:
    """States of three small problems with faults."""
    from gemmed import GEMMEDClassifier

    warnings.simplefilter("ignore")
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
        states.append(GEMMEDClassifier(random_state=0).fit(X, given, **options).state_proba_)
    return np.concatenate(states)


def in_child(tree: Path, test_files: list[str] | None = None) -> Any:
    """States, or the exit code of tests, of a tree; None if the process fails or hangs."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(tree, test_files, send))
    child.start()
    send.close()
    try:
        return receive.recv() if receive.poll(MAX_SECONDS) else None
    except EOFError:
        return None
    finally:
        child.kill()
        child.join()


def _run(tree: Path, test_files: list[str] | None, send: Any) -> None:
    os.chdir(tree)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.path.insert(0, str(tree / "src"))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    send.send(int(pytest.main([*PYTEST, *test_files])) if test_files else fitted_states())


def tests_of(tree: Path, path: Path) -> list[str]:
    """Test files of the package of a module, the likeliest first."""
    files = sorted((tree / "tests" / path.parts[2]).rglob("test_*.py"))
    for words in (FIRST, path.with_suffix("").parts[3:]):
        files.sort(key=lambda file: not any(word in file.stem for word in words))
    return [str(file) for file in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("--mutants", 30), ("--seed", 0)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    rng, core = np.random.default_rng(options.seed), ROOT / "src" / "gemmed"
    files = sorted(file.relative_to(ROOT) for pattern in SOURCES for file in core.glob(pattern))
    parsed = {path: ast.parse((ROOT / path).read_text()) for path in files}
    found = [(f, n, m[0]) for f in files for n, m in enumerate(mutations(parsed[f]))]
    counts = {"no change": 0, "noticed": 0, "missed": 0}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "*.png"))
        right, sound = in_child(tree), set()
        for _ in range(options.mutants):
            kind = KINDS[rng.integers(len(KINDS))]
            sites = [(path, number) for path, number, own in found if own == kind]
            path, number = sites[rng.integers(len(sites))]
            mutated = copy.deepcopy(parsed[path])
            _, node, name, value = list(mutations(mutated))[number]
            words = f"{path}:{node.lineno}: {ast.unparse(node)}"
            setattr(node, name, value)
            (tree / path).write_text(ast.unparse(mutated))
            states, tests, verdict = in_child(tree), tests_of(tree, path), "no change"
            if states is None or np.abs(states - right).max() > LARGEST_CHANGE:
                verdict = "missed" if in_child(tree, tests) == 0 else "noticed"
            (tree / path).write_text(ast.unparse(parsed[path]))
            if verdict == "noticed" and path.parts[2] not in sound:
                assert in_child(tree, tests) == 0, "tests fail without a mutant"
                sound.add(path.parts[2])
            counts[verdict] += 1
            print(f"{verdict:10}{words} -> {ast.unparse(node)}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()
