"""Settings of the site. ``make docs`` builds it into build/site, without a network."""

import inspect
import os
import re
import sys
from pathlib import Path

import matplotlib

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
# Examples share the computer with other programs. Their output must not depend on these.
os.environ.setdefault("OMP_NUM_THREADS", "1")
matplotlib.use("agg")

import gemmed  # noqa: E402
import gemmed.paper  # noqa: E402

project = "gemmed"
author = "The gemmed developers"
copyright = "the gemmed developers, BSD 3-clause licence"
version = release = gemmed.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "command_line_page",
    "figures",
    "mathml",
]
exclude_patterns = ["_templates", "_extensions", "benchmarks", "figures"]
templates_path = ["_templates"]
nitpicky = False
smartquotes = False
toc_object_entries_show_parents = "hide"

# Markdown. Pages are read on code hosts as well: their links are plain, and anchors are made from
# headings by the same rule.
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

# Reference. Members that scikit-learn defines are documented there.
autosummary_generate = True
# Classes that two packages export are indexed once.
autosummary_context = {
    "twice": [
        name
        for name in gemmed.paper.__all__
        if getattr(gemmed, name, None) is getattr(gemmed.paper, name)
    ]
}
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/]plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": os.environ.get("GALLERY", "1").strip() != "0",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "image_scrapers": ("matplotlib",),
    "backreferences_dir": None,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "gemmed"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "gemmed"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out what another package defines: its own documentation has it."""
    if what not in ("class", "exception"):
        return None
    function = getattr(obj, "fget", obj)
    if inspect.ismethoddescriptor(function) or inspect.isbuiltin(function):
        return True  # of tuples and exceptions
    home = getattr(function, "__module__", None)
    if home is not None and not home.startswith("gemmed"):
        return True
    return None


OUTSIDE_MARKUP = re.compile(r"(``.*?``|\*\*.*?\*\*|`[^`]*`_?)")
TRAILING = re.compile(r"(?<![\w\\])([A-Za-z]\w*)_(?!\w)")


def plain_names(app, what, name, obj, options, lines):
    """Names of fitted attributes (``n_iter_``) and absolute values are text, not references."""
    literal_below = None  # indentation of the paragraph that announced a literal block
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal_below is not None and line.strip() and indent <= literal_below:
            literal_below = None
        if literal_below is None and not line.lstrip().startswith((">>>", "...", "..")):
            pieces = OUTSIDE_MARKUP.split(line)
            pieces[::2] = [TRAILING.sub(r"\1\_", p).replace("|", r"\|") for p in pieces[::2]]
            lines[number] = "".join(pieces)
        if line.rstrip().endswith("::"):
            literal_below = indent


LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def links_of_the_site(app, docname, source):
    """Links that mean something on a code host only, to folders and to files above docs."""
    folder = (HERE / docname).parent

    def on_the_site(match):
        label, path, anchor = match[1], match[2], match[3] or ""
        if "://" in path or path.startswith("mailto:"):
            return match[0]
        target = (folder / path).resolve()
        if target.is_dir() and (target / "index.md").exists():
            return f"[{label}]({path.rstrip('/')}/index.md)"
        if target.is_file() and not target.is_relative_to(HERE):
            page = HERE / f"{target.stem.lower()}.md"  # SECURITY.md has a page, most have none
            up = "../" * docname.count("/")
            return f"[{label}]({up}{page.name}{anchor})" if page.exists() else label
        return match[0]

    if app.env.doc2path(docname).suffix == ".md":
        source[0] = LINK.sub(on_the_site, source[0])


def list_other_pages(app, docname, source):
    """Pages of a folder that its index does not name come last there: none is out of reach."""
    if not docname.endswith("/index") or app.env.doc2path(docname).suffix != ".md":
        return
    folder = HERE / Path(docname).parent
    named = set(re.findall(r"^(?:.*<)?([\w-]+)>?$", source[0], re.MULTILINE)) | {"index"}
    others = sorted({page.stem for page in folder.glob("*.md")} - named)
    if others:
        source[0] += "\n\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(others) + "\n```\n"


def setup(app):
    app.connect("source-read", links_of_the_site)
    app.connect("source-read", list_other_pages)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", plain_names, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
