"""Files that repeat a fact say the same: version, Python versions, dates, commands."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gemmed

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_citation_has_the_version():
    assert f"\nversion: {gemmed.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_releases_in_the_changelog_have_dates_in_order():
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heads[0] == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", head) for head in heads[1:]]
    assert all(found), heads
    versions = [tuple(map(int, one[1].split("."))) for one in found]
    dates = [one[2] for one in found]
    assert versions == sorted(versions, reverse=True) and dates == sorted(dates, reverse=True)


def test_the_workflow_tests_all_pythons_of_the_classifiers():
    """It may test a newer one, too, which becomes a classifier once its tests have passed."""
    prefix = "Programming Language :: Python :: 3."
    named = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(prefix)}
    for listed in re.findall(r"python-version: \[(.*)\]", WORKFLOW):
        assert set(re.findall(r'"(.+?)"', listed)) >= named
    least = PROJECT["requires-python"].removeprefix(">=")
    assert min(named, key=lambda v: int(v.split(".")[1])) == least
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named


def test_the_workflow_pins_actions_and_names_targets_and_extras_that_exist():
    actions = re.findall(r"uses: (\S+)", WORKFLOW)
    assert actions and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one) for one in actions)
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    run = re.findall(r"run: (.*)", WORKFLOW)
    assert run and all(re.fullmatch(r"make [a-z-]+", one) for one in run)
    assert {one.removeprefix("make ") for one in run} <= targets
    extras = {name for one in re.findall(r'"\.\[(.*?)\]"', makefile) for name in one.split(",")}
    assert extras and extras <= set(PROJECT["optional-dependencies"])


def test_no_address_is_empty():
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/release.md"])
def test_make_targets_of_the_pages_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    text = (ROOT / page).read_text()
    named = {
        word for line in re.findall(r"(?:`|    )make ([a-z -]+)", text) for word in line.split()
    }
    assert named <= targets


def test_links_of_the_pages_exist():
    for page in ("README.md", "CONTRIBUTING.md", "docs/release.md"):
        path = ROOT / page
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / link).exists(), (page, link)


def test_actions_are_pinned_by_hash_with_their_version():
    """A tag can be moved to other code, a hash cannot."""
    used = re.findall(r"uses: (.*)", WORKFLOW)
    assert used
    for line in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v[\d.]+", line), line


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([{"name": "a", "skip_reason": "not found"}], 0, "skipped, no package could be checked"),
        ([{"name": "a", "version": "1", "vulns": []}], 0, "0 in 1 packages, 0 unchecked"),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}],
            1,
            "a 1: X-1, mended in 2",
        ),
    ],
)
def test_vulnerabilities_are_an_error_and_no_answer_is_reported(packages, code, said, tmp_path):
    fake = tmp_path / "pip_audit.py"
    fake.write_text(
        "import json, sys\n"
        "[path] = [a[9:] for a in sys.argv if a.startswith('--output=')]\n"
        f"json.dump({{'dependencies': {packages!r}}}, open(path, 'w'))\n"
    )
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "known_vulnerabilities.py"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, said in done.stdout) == (code, True), done.stdout + done.stderr


def test_files_named_in_pages_and_in_the_package_exist():
    """From the root, from the package, from docs or from the folder of the page."""
    named_file = re.compile(r"(?<![\w/.<-])((?:\w[\w-]*/)+[\w-]+\.(?:py|md))\b")
    pages = [*ROOT.glob("[A-Z]*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]
    pages.remove(ROOT / "CHANGELOG.md")  # names files of its time
    found = 0
    for page in pages:
        folders = (ROOT, ROOT / "src" / "gemmed", ROOT / "docs", page.parent)
        for name in named_file.findall(page.read_text()):
            assert any((folder / name).exists() for folder in folders), (page, name)
            found += 1
    assert found > 100
