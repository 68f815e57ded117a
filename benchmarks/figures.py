"""Measured tables of the site: docs/figures/NAME.json, shown by docs/_extensions/figures.py.

python benchmarks/figures.py      lists all of them, those of earlier versions first
"""

import datetime
import json
import sys
from pathlib import Path

import gemmed

FOLDER = Path(__file__).parents[1] / "docs" / "figures"


def write_figures(name, title, columns, rows, command):
    """Replace one table; cells are texts as they are shown."""
    assert all(len(row) == len(columns) for row in rows), name
    figures = {
        "title": title,
        "command": command,
        "version": gemmed.__version__,
        "date": datetime.date.today().isoformat(),
        "columns": list(columns),
        "rows": [list(map(str, row)) for row in rows],
    }
    text = json.dumps(figures, ensure_ascii=False, indent=1)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main():
    every = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}
    order = sorted(every, key=lambda name: (every[name]["version"] == gemmed.__version__, name))
    for name in order:
        one = every[name]
        age = "current" if one["version"] == gemmed.__version__ else "EARLIER"
        print(f"{age}  {one['version']}  {one['date']}  {name}: {one['command']}")
    n_old = sum(one["version"] != gemmed.__version__ for one in every.values())
    print(f"{n_old} of {len(every)} tables are of an earlier version than {gemmed.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
