"""Known vulnerabilities of what is installed, by pip-audit.

python .ci/known_vulnerabilities.py      (pip-audit must be installed)

Ends with 1 if a package has one. Where the database cannot be reached, the check is skipped: the
reason is printed, and the end is 0.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_SECONDS = 30
"""Of a question to the database."""


def audit(report, *arguments):
    """Run pip-audit; the error it ends with if it could not ask the database, else None."""
    command = [
        sys.executable, "-m", "pip_audit", "--progress-spinner=off", "--skip-editable",
        f"--timeout={TIMEOUT_SECONDS}", "--format=json", f"--output={report}", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if report.exists() and report.stat().st_size:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"pip-audit ended with {done.returncode}"


def found_in(report):
    """Packages that were checked, reasons why others were not, a line for each vulnerability."""
    packages = json.loads(report.read_text())["dependencies"]
    reasons = [package["skip_reason"] for package in packages if "skip_reason" in package]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, mended in "
        f"{', '.join(found['fix_versions']) or 'no version'}"
        for package in packages
        for found in package.get("vulns", ())
    ]
    return len(packages) - len(reasons), reasons, lines


def main(arguments=()):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        problem = audit(report, *arguments)
        n_checked, reasons, lines = (0, [problem], []) if problem else found_in(report)
    if not n_checked:
        print(f"known vulnerabilities: skipped, no package could be checked ({reasons[0]})")
        return 0
    print(f"known vulnerabilities: {len(lines)} in {n_checked} packages, {len(reasons)} unchecked")
    print("\n".join([*lines, *reasons]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
