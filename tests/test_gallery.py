"""The examples of the gallery run and draw one picture each: some by default, all if slow."""

import ast
import importlib
import importlib.util
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "gallery"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))
QUICK = ("01_table", "02_dead", "07_groups", "12_annotators")
"""Some five processor seconds together; between them they use most of what users call."""
NEEDS = {"08_many": "pandas", "01_table": "pandas", "13_metadata": "pandas"}


def _parameters():
    for path in EXAMPLES:
        quick = path.stem.removeprefix("plot_").startswith(QUICK)
        yield pytest.param(path, id=path.stem, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_an_example_imports_from_gemmed_exists(path):
    """Slow examples do not run by default; a moved name is seen all the same."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gemmed"):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name), f"{node.module} has no {name.name}"


@pytest.mark.parametrize("path", list(_parameters()))
def test_the_example_runs_and_draws_one_picture(path, monkeypatch, capsys, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for start, package in NEEDS.items():
        if path.stem.removeprefix("plot_").startswith(start):
            pytest.importorskip(package)
    pyplot.switch_backend("agg")
    pyplot.close("all")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    monkeypatch.setenv("GEMMED_EXAMPLE_ROWS", "20000")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    assert len(pyplot.get_fignums()) == 1
    figure = pyplot.gcf()
    figure.savefig(tmp_path / "picture.png", dpi=50)  # labels and legends can be laid out
    assert all(ax.has_data() for ax in figure.axes)
    assert capsys.readouterr().out
    pyplot.close("all")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_text_begins_with_a_question(path):
    text = path.read_text()
    title, line = text.split("\n")[1:3]
    assert set(line) == {"="} and len(line) >= len(title)
    assert "**Question.**" in text.split('"""')[1]
    assert text.rstrip().endswith("plt.show()")


def test_there_are_enough_and_the_site_finds_them():
    assert len(EXAMPLES) >= 11
    assert (FOLDER / "GALLERY_HEADER.rst").read_text().startswith("Examples\n====")


def test_the_picture_of_the_readme_can_be_made_again(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("agg")
    path = FOLDER.parent / "readme_picture.py"
    spec = importlib.util.spec_from_file_location("readme_picture", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(["--out", str(tmp_path / "readme.png")])
    assert (tmp_path / "readme.png").read_bytes().startswith(b"\x89PNG")
