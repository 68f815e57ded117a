"""Tables of measured figures: ```{figures} NAME``` shows docs/figures/NAME.json.

The file is written by the command that it names (``benchmarks/figures.py``), so no figure is typed
into a page. Below the table stand command, version and date; an older version is marked as such.
``:collapsed:`` shows the title only, until a reader opens it.
"""

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive, directives

FOLDER = Path(__file__).parents[1] / "figures"


def read_figures(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def origin(figures, version):
    """What was run, when and with which version; a version that is not the present one is named."""
    old = "" if figures["version"] == version else f", an earlier version than {version}"
    return f"version {figures['version']}{old}, {figures['date']}"


class Figures(Directive):
    """One table."""

    required_arguments = 1
    option_spec = {"collapsed": directives.flag}  # noqa: RUF012

    def run(self):
        name = self.arguments[0]
        environment = self.state.document.settings.env
        environment.note_dependency(str(FOLDER / f"{name}.json"))
        figures = read_figures(name)
        lines = [
            "| " + " | ".join(figures["columns"]) + " |",
            "|---" * len(figures["columns"]) + "|",
        ]
        lines += ["| " + " | ".join(row) + " |" for row in figures["rows"]]
        lines += ["", f"`{figures['command']}`", f"({origin(figures, environment.config.version)})"]
        holder = nodes.container(classes=["figures"])
        self.state.nested_parse(lines, self.content_offset, holder)
        if "collapsed" not in self.options:
            return [holder]
        opened = nodes.raw("", f"<details><summary>{figures['title']}</summary>", format="html")
        return [opened, holder, nodes.raw("", "</details>", format="html")]


def setup(app):
    app.add_directive("figures", Figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
