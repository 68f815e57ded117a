"""Draw the packages and the way of the data from the source tree.

python docs/architecture/draw_packages.py            write packages.svg
python docs/architecture/draw_packages.py --check    exit with 1 if the tree has changed since

A package is a folder of src/gemmed. What it is for is the first line of its ``__init__``. Arrows
are imports: data and code go downwards. Left out are arrows that follow from others, and those of
the package that all use.
"""

import argparse
import ast
import sys
from pathlib import Path
from xml.sax.saxutils import escape

SOURCE = Path(__file__).parents[2] / "src" / "gemmed"
PICTURE = Path(__file__).with_name("packages.svg")
BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 250, 64, 26, 46, 20
LINE_LENGTH = 38
EVERYBODY = "_core"
"""The package that all others use: no arrows start there."""


def packages():
    """Names of the packages, sorted."""
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def purpose(package):
    text = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text())) or ""
    return text.split("\n\n")[0].replace("\n", " ").rstrip(".").replace("``", "")


def imported_modules(path):
    """Dotted names below gemmed that a file imports, of modules or of names in them."""
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            parts = (*base, *((node.module or "").split(".") if node.module else ()))
            yield from (".".join((*parts, alias.name)) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gemmed."):
            name = node.module.removeprefix("gemmed.")
            yield from (f"{name}.{alias.name}" for alias in node.names)


def package_imports():
    """Packages that each package imports from."""
    known = set(packages())
    found = {package: set() for package in known}
    for package in known:
        for path in (SOURCE / package).rglob("*.py"):
            found[package] |= {name.split(".")[0] for name in imported_modules(path)} & known - {
                package
            }
    return found


def module_imports():
    """Modules that each module imports from, by dotted name."""
    paths = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
        for path in SOURCE.rglob("*.py")
    }
    found = {}
    for name, path in paths.items():
        targets = set()
        for imported in imported_modules(path):
            parts = imported.split(".")
            candidates = [".".join(parts[:k]) for k in range(len(parts), 0, -1)]
            targets |= {c for c in candidates[:2] if c in paths} or {
                f"{c}.__init__" for c in candidates[:2] if f"{c}.__init__" in paths
            }
        found[name] = targets - {name}
    return found


def cycle_in(graph):
    """Nodes of a cycle, or an empty list."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph[node]):
            if cycle := visit(other):
                return cycle
        path.pop()
        done.add(node)
        return []

    for node in sorted(graph):
        if cycle := visit(node):
            return cycle
    return []


def levels(graph):
    """Row of each package: below all it imports from, right above the first that needs it."""
    found = {}
    while len(found) < len(graph):
        for package, others in graph.items():
            if package not in found and others <= found.keys():
                found[package] = 1 + max((found[other] for other in others), default=-1)
    for package in sorted(found, key=found.get, reverse=True):
        needed_by = [found[other] for other in graph if package in graph[other]]
        found[package] = min(needed_by, default=found[package] + 1) - 1
    return found


def without_detours(graph):
    """Imports that do not follow from others."""

    def reachable(package):
        return graph[package].union(*(reachable(other) for other in graph[package]))

    return {
        package: {o for o in others if not any(o in reachable(p) for p in others - {o})}
        for package, others in graph.items()
    }


def lines_of(text):
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > LINE_LENGTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines[:2]


def draw():
    graph = package_imports()
    level = levels(graph)
    rows = [sorted(r for r in graph if level[r] == row) for row in range(max(level.values()) + 1)]
    width = max(len(row) for row in rows) * (BOX_WIDTH + GAP_X) - GAP_X + 2 * MARGIN
    height = len(rows) * (BOX_HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN
    place = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (BOX_WIDTH + GAP_X) + GAP_X) / 2
        for index, package in enumerate(row):
            place[package] = (
                left + index * (BOX_WIDTH + GAP_X),
                MARGIN + number * (BOX_HEIGHT + GAP_Y),
            )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="sans-serif" role="img">',
        "<title>Packages of gemmed: imports point downwards</title>",
        '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">'
        '<path d="M0,0 L9,4 L0,8 z" fill="#777"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
    ]
    for package, others in sorted(without_detours(graph).items()):
        x, y = place[package]
        for index, other in enumerate(sorted(others - {EVERYBODY})):
            other_x, other_y = place[other]
            start = x + BOX_WIDTH * (index + 1) / (len(others) + 1)
            parts.append(
                f'<line x1="{other_x + BOX_WIDTH / 2:g}" y1="{other_y + BOX_HEIGHT:g}" '
                f'x2="{start:g}" y2="{y:g}" stroke="#777" marker-end="url(#head)"/>'
            )
    for package, (x, y) in sorted(place.items()):
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
            'fill="#eef3f8" stroke="#446"/>'
            f'<text x="{x + 12:g}" y="{y + 20:g}" font-size="14" font-weight="bold">'
            f"{escape(package)}/</text>"
        )
        for number, line in enumerate(lines_of(purpose(package))):
            parts.append(
                f'<text x="{x + 12:g}" y="{y + 38 + 15 * number:g}" font-size="11.5" fill="#333">'
                f"{escape(line)}</text>"
            )
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    picture = draw()
    if parser.parse_args().check:
        return int(not PICTURE.exists() or PICTURE.read_text() != picture)
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
