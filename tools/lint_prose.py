"""Check pages, docstrings and messages: python tools/lint_prose.py [FILE ...]

Three rules: a sentence has at most 30 words, a line outside tables and code has at most 120
characters, and words that only insiders understand are replaced. The text of the gallery is a page,
too. The last rule holds for all comments as well, and in src/ for messages, help texts, templates
and scripts of pages. tools/prose.toml has the limits and the words. Exit code 1 if there is a
finding.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md")
TEMPLATES = ("src/**/*.html", "src/**/*.js")
FOLDERS = ("src", "benchmarks", "examples", "tests", "docs", "tools", ".ci")
MODULES = tuple(f"{folder}/**/*.py" for folder in FOLDERS)
GENERATED = ("build", "docs/gallery", "docs/reference/generated")
ACCEPT = "prose: accept"
# Inline code, formulas and link targets: each counts as one word or none.
INLINE = ((r"``[^`]+``|`[^`]+`|\$[^$]+\$", "CODE"), (r"\]\([^)]*\)", "]"), (r"https?://\S+", "URL"))
SENTENCE_END = re.compile(r"(?<=[.!?])[)*_\"']*\s+(?=[A-Z0-9*_\"'(\[])")
LIST_ITEM = re.compile(r"^\s*([-*+:]|\d+\.)\s+")
NOT_PROSE = re.compile(r"\s*([|#<>!]|\+-|={3}|-{3}|\.\. |:[\w-]+:|```)")


class Finding(NamedTuple):
    path: str
    line: int
    message: str


class Paragraph(NamedTuple):
    line: int
    text: str


class Settings(NamedTuple):
    max_words: int
    max_columns: int
    words: list[tuple[re.Pattern[str], str]]


def read_settings(path: Path = ROOT / "tools" / "prose.toml") -> Settings:
    given = tomllib.loads(path.read_text(encoding="utf-8"))
    words = [(re.compile(rf"\b(?:{k})\b", re.I), v) for k, v in given["words"].items()]
    return Settings(given["max_words"], given["max_columns"], words)


def paragraphs_of_page(lines: list[str]) -> Iterator[Paragraph]:
    """Paragraphs and list items of Markdown, without code, tables, headings and raw HTML."""
    begin, held, fence, accepted = 0, [], "", False
    for number, line in enumerate([*lines, ""], start=1):
        mark = re.match(r"\s*(`{3,}|:{3,})", line)
        if fence:
            fence = "" if mark and line.strip() == fence else fence
            continue
        is_code = not held and line.startswith("    ")
        if held and (mark or not line.strip() or NOT_PROSE.match(line) or is_item(line)):
            if not accepted:
                yield Paragraph(begin, " ".join(held))
            held, accepted = [], False
        if mark:
            fence = mark[1]
        elif ACCEPT in line:
            accepted = True
        elif line.strip() and not is_code and not NOT_PROSE.match(line):
            begin = begin if held else number
            held.append(LIST_ITEM.sub("", line, count=1).strip())


def paragraphs_of_docstring(text: str, first: int) -> Iterator[Paragraph]:
    """Paragraphs of a numpydoc docstring, without examples, literal blocks and parameter names."""
    begin, indent, held = 0, 0, []
    in_example, literal_indent = False, None  # the indentation of what announced a literal block
    for number, line in enumerate([*text.expandtabs().splitlines(), ""], start=first):
        stripped, here = line.strip(), len(line) - len(line.lstrip())
        is_name = re.match(r"\s*[*\w, ]+ : \S", line) or re.fullmatch(r"-{3,}|={3,}.*", stripped)
        in_example = bool(stripped) and (in_example or stripped.startswith(">>>"))
        if held and (not stripped or is_name or in_example or here != indent or is_item(line)):
            yield Paragraph(begin, " ".join(held))
            literal_indent = indent if held[-1].endswith("::") else None
            held = []
        if literal_indent is not None and stripped and here <= literal_indent:
            literal_indent = None
        is_aligned = re.search(r"\S {2,}\S", line) is not None  # a table or a formula
        is_prose = stripped and not (
            NOT_PROSE.match(line) or is_aligned or literal_indent is not None
        )
        if is_prose and not is_name and not in_example:
            begin, indent = (begin if held else number), here
            held.append(LIST_ITEM.sub("", line, count=1).strip())


def text_of_example(lines: list[str]) -> Iterator[str]:
    """Comments behind ``# %%`` of an example of the gallery; other lines are empty."""
    is_text = False
    for line in lines:
        starts = line == "# %%"
        is_text = starts or (is_text and line.startswith("#"))
        yield line[2:] if is_text and not starts else ""


def is_item(line: str) -> bool:
    return LIST_ITEM.match(line) is not None


def docstrings(source: str) -> Iterator[tuple[str, int]]:
    """Docstrings of a module and their first lines; a comment behind the quotes accepts one."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            value = node.value.value
            if isinstance(value, str) and ACCEPT not in lines[node.value.end_lineno - 1]:
                yield value, node.lineno


def messages(source: str) -> Iterator[tuple[str, int]]:
    """Texts of four words or more that are no docstrings: messages and help texts."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    skipped |= {id(p) for node in nodes if isinstance(node, ast.JoinedStr) for p in node.values}
    for node in nodes:
        if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(
            str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "CODE"
            for part in parts
        )
        if len(text.split()) >= 4:
            yield " ".join(text.split()), node.lineno


def comments(source: str) -> Iterator[tuple[str, int]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and ACCEPT not in token.string:
            yield token.string, token.start[0]


def check_words(paragraph: Paragraph, settings: Settings) -> Iterator[tuple[int, str]]:
    for pattern, better in settings.words:
        for match in pattern.finditer(paragraph.text):
            yield paragraph.line, f"{match[0]!r}: write {better}"


def check_paragraph(paragraph: Paragraph, settings: Settings) -> Iterator[tuple[int, str]]:
    text = paragraph.text
    for pattern, replacement in INLINE:
        text = re.sub(pattern, replacement, text)
    for sentence in SENTENCE_END.split(text):
        words = re.findall(r"[^\W\d_][\w'.-]*|\d[\w.,%]*", sentence)
        if len(words) > settings.max_words:
            start = " ".join(words[:6])
            yield paragraph.line, f"sentence of {len(words)} words: {start} ..."
    yield from check_words(Paragraph(paragraph.line, text), settings)


def lines_too_long(name: str, lines: list[str], settings: Settings) -> Iterator[Finding]:
    fenced = False
    for number, line in enumerate(lines, start=1):
        fenced ^= line.lstrip().startswith("```")
        excused = fenced or line.startswith(("    ", "|", "![")) or ACCEPT in line
        if len(line) > settings.max_columns and not excused:
            yield Finding(name, number, f"line of {len(line)} characters")


def check_file(path: Path, settings: Settings) -> list[Finding]:
    source = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    found, parts = [], []
    if path.suffix == ".py":
        parts = [
            p for text, line in docstrings(source) for p in paragraphs_of_docstring(text, line)
        ]
        if "gallery" in Path(name).parts:
            text = list(text_of_example(source.splitlines()))
            parts += paragraphs_of_page(text)
            found += lines_too_long(name, text, settings)
        others = list(comments(source))
        if "src" in Path(name).parts:
            others += messages(source)
        for text, line in others:
            found += [Finding(name, *f) for f in check_words(Paragraph(line, text), settings)]
    elif path.suffix in (".html", ".js"):
        for line, text in enumerate(source.splitlines(), start=1):
            found += [Finding(name, *f) for f in check_words(Paragraph(line, text), settings)]
    else:
        lines = source.splitlines()
        parts = list(paragraphs_of_page(lines))
        found += lines_too_long(name, lines, settings)
    for part in parts:
        found += [Finding(name, *said) for said in check_paragraph(part, settings)]
    return sorted(found)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="these only")
    options = parser.parse_args(arguments)
    settings = read_settings()
    every = {path for pattern in (*PAGES, *MODULES, *TEMPLATES) for path in ROOT.glob(pattern)}
    skipped = [ROOT / folder for folder in GENERATED]
    every = {path for path in every if not any(path.is_relative_to(one) for one in skipped)}
    files = [path.resolve() for path in options.files] or sorted(every)
    found = [finding for path in files for finding in check_file(path, settings)]
    for path, line, message in found:
        print(f"{path}:{line}: {message}")
    print(f"{len(found)} findings in {len(files)} files")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
