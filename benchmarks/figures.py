"""Measured tables of the site: docs/figures/NAME.json, shown by docs/_extensions/figures.py.

python benchmarks/figures.py              lists all of them, those of earlier versions first
python benchmarks/figures.py NAME FILE    replaces the rows of one by what its command has printed

FILE (- for standard input) has the rows as a Markdown table; other lines are left out:

    python benchmarks/sensors/rates.py fresh | python benchmarks/figures.py sensors-rates-fresh -
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


def replace_rows(name, text):
    """Rows of a printed Markdown table, in place of those of a figure with the same columns."""
    before = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines()]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line[:1] == "|"]
    is_rule = [set("".join(row)) <= set("-: ") for row in rows]
    if any(is_rule):  # the heading stands above it
        rows = rows[is_rule.index(True) + 1 :]
    if not rows:
        sys.exit(f"no row of a Markdown table, such as '| a | b |', is in the output for {name}")
    write_figures(name, before["title"], before["columns"], rows, before["command"])


def main(arguments):
    if arguments:
        name, file = arguments
        replace_rows(name, sys.stdin.read() if file == "-" else Path(file).read_text("utf-8"))
        return 0
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
    sys.exit(main(sys.argv[1:]))
