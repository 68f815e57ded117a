"""Pages from the templates in ``page``: one file each, which loads nothing from anywhere."""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._core.optional import require
from .._core.whole_files import replacing
from .._core.words import counted
from ..estimators.reasons import percent

PAGE = Path(__file__).with_name("page")


def page_file(name: str) -> str:
    """A file of the folder ``page``: style, script or template."""
    return PAGE.joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=4)
def templates(folder: Path = PAGE) -> Any:
    """The Jinja templates of a folder, which escape what they are given."""
    require("jinja2", "reports need", "cli")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"percent": percent, "counted": counted, "cut": cut}
    return environment


def render(
    template: str,
    styles: Sequence[str],
    scripts: Sequence[str] = (),
    data: Any = None,
    **values: Any,
) -> str:
    """A page of its template, with files of style and script, and data for the script."""
    from markupsafe import Markup

    from .. import __version__

    style, script = ("".join(map(page_file, names)) for names in (styles, scripts))
    shared = {
        "policy": policy(style, script),
        "style": Markup(style),
        "script": Markup(script),
        "data": Markup(json_for_page(data)),
        "version": __version__,
    }
    return str(templates().get_template(template).render(**shared, **values))


def save_page(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page, as a whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_for_page(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def cut(text: str, length: int) -> str:
    """Names that are too long lose their middle: the ends tell them apart."""
    half = (length - 1) // 2
    return (
        text if len(text) <= length else f"{text[: length - 1 - half]}…{text[len(text) - half :]}"
    )


def policy(style: str, script: str) -> str:
    """Only this style and this script, pictures and sounds inside the file, nothing else."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; media-src data:"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
