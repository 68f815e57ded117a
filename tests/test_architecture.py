"""Few packages, imports in one direction, and the public names are those of __all__."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import gemmed

SOURCE = Path(gemmed.__file__).parent
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "architecture"))

from draw_packages import cycle_in, module_imports, package_imports, packages  # noqa: E402


def test_a_newcomer_sees_few_entries():
    entries = [path for path in SOURCE.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 20


def test_imports_go_one_way_between_packages_and_between_modules():
    """What is above is decided by the imports themselves: there must be no way back."""
    assert cycle_in(package_imports()) == []
    assert cycle_in(module_imports()) == []


def test_a_way_back_is_found():
    assert sorted(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == ["b", "c"]


def test_the_picture_shows_the_tree():
    script = ROOT / "docs" / "architecture" / "draw_packages.py"
    result = subprocess.run([sys.executable, script, "--check"], check=False)
    assert result.returncode == 0, f"run {script.relative_to(ROOT)}"


def test_the_page_names_files_that_exist():
    page = (ROOT / "docs" / "architecture" / "README.md").read_text()
    named = set(re.findall(r"`([\w/]+/(?:\w+\.\w+)?)`", page))
    assert len(named) > 30
    assert [name for name in named if not any((at / name).exists() for at in (SOURCE, ROOT))] == []


def test_tests_have_the_same_packages():
    folders = {
        path.name
        for path in (ROOT / "tests").iterdir()
        if path.is_dir() and any(path.glob("test_*.py"))
    }
    assert folders == set(packages())


def test_public_surface():
    assert gemmed.__all__ == sorted(gemmed.__all__)
    assert set(gemmed.__all__) <= set(dir(gemmed))
    assert not hasattr(gemmed, "nonsense")
    for name in gemmed.__all__:
        assert getattr(gemmed, name).__doc__


def test_modules_stay_short():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 600, path


OPTIONAL = {"matplotlib", "cvxpy", "rich", "pandas", "dask", "pyarrow", "skops"}
OPTIONAL |= {"soundfile", "soxr", "jinja2", "markupsafe", "starlette", "uvicorn"}
OPTIONAL |= {"mlflow", "onnx", "onnxruntime", "polars", "shtab"}


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
