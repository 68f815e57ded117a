"""Build the sdist and the wheel, check them, and try the wheel in an empty environment.

python .ci/check_dist.py [--out dist]      (build and twine must be installed)

Prints sizes, what pip installs besides, and how long the import takes. Ends with 1 if anything is
not as it should be.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRY = """
import gemmed, numpy as np
from gemmed import GEMMEDClassifier
X = np.random.default_rng(0).normal(size=(40, 2)); y = np.arange(40) % 2
model = GEMMEDClassifier(random_state=0).fit(X + 3 * y[:, None], y)
assert model.score(X + 3 * y[:, None], y) > 0.9
print(gemmed.__version__)
"""
IMPORT = "import time; t = time.process_time(); {}; print(time.process_time() - t)"
PEERS = "import numpy, scipy.linalg, scipy.optimize, sklearn.base, sklearn.pipeline"
ESTIMATOR = "from gemmed import GEMMEDClassifier"


def run(*command, cwd=None):
    """Output of a command; its errors end the check."""
    # What is installed must be found, not the source tree.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=environment
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_names(wheel, sdist, version):
    """Version, type marker and page templates are in; tests and caches are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    tops = {name.split("/")[0] for name in names}
    expected = {"gemmed", f"gemmed-{version}.dist-info"}
    assert tops == expected, f"the wheel holds {sorted(tops)}"
    sources = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src/gemmed").rglob("*")}
    files = {n for n in sources if (ROOT / "src" / n).is_file() and "__pycache__" not in n}
    assert files == {n for n in names if n.startswith("gemmed/")}, "files are missing in the wheel"
    assert f"Version: {version}\n" in metadata
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(re.findall(r"^Provides-Extra: (.+)$", metadata, re.M))
    assert extras == set(project["optional-dependencies"]), f"the wheel has extras {sorted(extras)}"
    assert version in sdist.name


def seconds(python, code, times=5):
    """CPU time that a fresh interpreter measures, median."""
    return statistics.median(float(run(python, "-c", IMPORT.format(code))) for _ in range(times))


def size_of(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def try_wheel(wheel, version):
    """Install in an empty environment, import, fit, and ask for the version."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        python = Path(folder, "bin", "python")
        site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
        before = {one["name"] for one in listed(python)}
        empty = size_of(site)
        run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)
        assert run(python, "-c", TRY, cwd=folder).strip() == version
        said = run(Path(folder, "bin", "gemmed"), "--version", cwd=folder).strip()
        assert said == f"gemmed {version}", said
        help_text = run(Path(folder, "bin", "gemmed"), "--help", cwd=folder)
        assert "export" in help_text
        new = [one for one in listed(python) if one["name"] not in before]
        print("pip install gemmed brings", ", ".join(f"{o['name']} {o['version']}" for o in new))
        for one in sorted(site.iterdir(), key=size_of, reverse=True)[:8]:
            if size_of(one) > 1e6:
                print(f"    {one.name:24} {size_of(one) / 1e6:7.1f} MB")
        print(f"installed size {(size_of(site) - empty) / 1e6:.1f} MB, with caches of the import")
        peers = seconds(python, PEERS)
        both = seconds(python, f"{PEERS}; {ESTIMATOR}")
        print(f"import gemmed                       {seconds(python, 'import gemmed'):.3f} s")
        print(f"{ESTIMATOR} {seconds(python, ESTIMATOR):.3f} s")
        print(f"numpy, scipy, scikit-learn alone    {peers:.3f} s, and with it {both:.3f} s")


def listed(python):
    return json.loads(run(python, "-m", "pip", "list", "--format", "json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=ROOT / "dist", type=Path)
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    wheel, sdist = next(out.glob("*.whl")), next(out.glob("*.tar.gz"))
    print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist).strip())
    text = (ROOT / "src/gemmed/__init__.py").read_text()
    version = re.search(r'__version__ = "(.+)"', text)[1]
    check_names(wheel, sdist, version)
    for path in (wheel, sdist):
        print(f"{path.name:40} {path.stat().st_size / 1e3:8.0f} kB")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print("extras:", ", ".join(extras["optional-dependencies"]))
    try_wheel(wheel, version)


if __name__ == "__main__":
    main()
