"""The house: imports go one way, the public surface is what __all__ says, modules stay small."""

import ast
import subprocess
import sys
from pathlib import Path

import gemmed

SOURCE = Path(gemmed.__file__).parent

# A module may import from modules of its own level or below; docs/architecture.md draws it.
LEVELS = [
    {"_typing", "exceptions", "atomic", "extras", "progress"},
    {
        "margin_loss",
        "packed_features",
        "box_newton",
        "threads",
        "block_sources",
        "blocks",
        "newton_systems",
    },
    {"function_space", "rough_gram", "iterative_gram"},
    {"kernels", "dual", "entropy", "decision_step", "calibration", "screening", "contamination"},
    {"datasets", "acoustics", "persistence", "tables", "table_batches"},
    {"nominal_step", "tuning", "landmarks", "nystroem", "block_passes", "held_out_groups"},
    {"block_space", "distributed", "training_rows"},
    {"engines", "support", "group_support", "explanation", "preparation"},
    {"_validation", "kernel_classifier", "fit_method"},
    {"med", "detector", "judging"},
    {"joint_fit"},
    {"classifier"},
    {"baselines", "metrics", "table_model", "table_blocks"},
    {"report"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]


def level_of(module):
    return next(i for i, names in enumerate(LEVELS) if module in names)


def imports_of(path):
    """Top-level parts of the package that a file imports."""
    package = ["gemmed", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            parts = [*base, *(node.module or "").split(".")][1:]
            if parts and parts[0]:
                yield parts[0]
            else:
                yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gemmed."):
            yield node.module.split(".")[1]


def test_imports_point_downwards():
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for imported in imports_of(path):
            if imported != own and not imported.startswith("__"):
                assert level_of(imported) <= level_of(own), f"{path} imports {imported}"


def test_public_surface():
    assert gemmed.__all__ == sorted(gemmed.__all__)
    assert set(gemmed.__all__) <= set(dir(gemmed))
    assert not hasattr(gemmed, "nonsense")
    for name in gemmed.__all__:
        assert getattr(gemmed, name).__doc__


def test_modules_stay_short():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 420, path


OPTIONAL = {"matplotlib", "cvxpy", "rich", "pandas", "dask", "pyarrow", "skops"}
OPTIONAL |= {"soundfile", "soxr"}


def test_optional_packages_are_imported_inside_functions():
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in getattr(node, "names", [])]
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif not isinstance(node, ast.Import):
                continue
            assert not OPTIONAL & {name.split(".")[0] for name in names}, path


def test_import_is_light():
    """scikit-learn may import pandas and rich by itself; these two it does not."""
    code = "import sys, gemmed; print(sorted({'matplotlib', 'cvxpy'} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
