"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def inline(writer, node):
    writer.body.append(f'<span class="math">{tex2mathml(node.astext(), as_block=False)}</span>')
    raise nodes.SkipNode


def block(writer, node):
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
