"""Print the oldest versions that pyproject.toml allows, as requirements of pip.

python tests/attack/oldest_versions.py > oldest.txt
"""

import re
import tomllib
from pathlib import Path

BOUND = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([\w.]+)$")
NOT_TESTED = {"mlflow"}
"""Extras whose tests are skipped without them."""


def oldest_versions(pyproject):
    """Lines ``package==version``, of the dependencies and of all extras."""
    project = tomllib.loads(Path(pyproject).read_text())["project"]
    extras = project["optional-dependencies"].items()
    wanted = [line for name, lines in extras if name not in NOT_TESTED for line in lines]
    bounds = {}
    for line in [*project["dependencies"], *wanted]:
        found = BOUND.match(line)
        if found:
            bounds[found[1].lower()] = found[2]
        elif not line.startswith("gemmed["):
            raise ValueError(f"{line!r} has no lower bound: give it one")
    return [f"{name}=={version}" for name, version in sorted(bounds.items())]


if __name__ == "__main__":
    print("\n".join(oldest_versions(Path(__file__).parents[2] / "pyproject.toml")))
