"""gemmed completion: the script knows every command and option, and a real bash completes by it."""

import argparse
import shutil
import subprocess
import sys

import pytest

from gemmed.cli.commands import SHELLS
from gemmed.cli.main import build_parser
from patients import call, refusal

pytest.importorskip("shtab")


def parsers(parser=None, path=()):
    """Every command with its parser."""
    parser = parser or build_parser()
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from parsers(below, (*path, name))


@pytest.fixture(scope="module")
def scripts():
    found = {}
    for shell in SHELLS:
        command = [sys.executable, "-m", "gemmed", "completion", shell]
        found[shell] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_have_every_command_and_option(scripts, shell):
    names = set()
    for path, parser in parsers():
        names |= set(path)
        names |= {o for a in parser._actions for o in a.option_strings if o.startswith("--")}
    assert {"fit", "export", "ring", "--target", "--screen"} <= names
    # In tcsh options stand without their hyphens.
    missing = {name for name in names if name.lstrip("-") not in scripts[shell]}
    assert missing == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_accept_their_script(scripts, shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(scripts[shell])
    result = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and result.stderr == ""


def completed(script, folder, *words):
    """What bash offers for the last word, by the function that the script registers."""
    line = " ".join(words)
    lines = [
        f"source {script}",
        "function_name=$(complete -p gemmed | sed 's/.*-F \\([^ ]*\\).*/\\1/')",
        f"COMP_WORDS=({' '.join(repr(word) for word in words)})",
        f"COMP_CWORD={len(words) - 1}",
        f"COMP_LINE={line!r}",
        f"COMP_POINT={len(line)}",
        f"$function_name gemmed {words[-1]!r} {words[-2]!r} 2>/dev/null",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    result = subprocess.run(
        ["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True, cwd=folder
    )
    return set(result.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(scripts, tmp_path):
    script = tmp_path / "script"
    script.write_text(scripts["bash"])
    (tmp_path / "patients.csv").write_text("a\n")
    commands = {path[0] for path, _ in parsers() if path}
    assert commands <= completed(script, tmp_path, "gemmed", "")
    assert completed(script, tmp_path, "gemmed", "ex") == {"export"}
    assert "--target" in completed(script, tmp_path, "gemmed", "fit", "--ta")
    assert {"rbf", "linear", "poly"} <= completed(script, tmp_path, "gemmed", "fit", "--kernel", "")
    assert "footsteps" in completed(script, tmp_path, "gemmed", "simulate", "foot")
    assert "patients.csv" in completed(script, tmp_path, "gemmed", "fit", "pat")
    assert "patients.csv" in completed(script, tmp_path, "gemmed", "fit", "--out", "pat")


def test_refusals(capsys, monkeypatch):
    assert "'csh'" in refusal(capsys, "completion", "csh")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "gemmed[cli]" in refusal(capsys, "completion", "bash")
    assert call(capsys, "completion", "--help")[0] == 0
