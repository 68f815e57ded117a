"""tools/lint_prose.py finds what it should, and the pages it checks have no finding."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEWLINE = "\n"
SHORT = "\n".join(["word"] * 20)
LONG = "\n".join(["word"] * 31)


@pytest.fixture(scope="module")
def linter():
    spec = importlib.util.spec_from_file_location("lint_prose", ROOT / "tools" / "lint_prose.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def messages(linter, folder, text, name="page.md"):
    page = folder / name
    page.write_text(text, encoding="utf-8")
    return [found.message for found in linter.check_file(page, linter.read_settings())]


def test_a_long_sentence_is_found_and_two_short_ones_are_not(linter, tmp_path):
    assert "sentence of 31 words" in messages(linter, tmp_path, LONG)[-1]
    assert messages(linter, tmp_path, f"{SHORT}. {SHORT.capitalize()}.\n") == []


def test_a_sentence_in_bold_ends_there(linter, tmp_path):
    assert messages(linter, tmp_path, f"**{SHORT}.** {SHORT.capitalize()}: word.\n") == []


def test_a_long_line_and_an_insider_word_are_found(linter, tmp_path):
    assert messages(linter, tmp_path, "a" * 121) == ["line of 121 characters"]
    (message,) = messages(linter, tmp_path, "Rows of one patient do not vouch for each other.")
    assert message.startswith("'vouch'")


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{LONG} vouch\n```\n",
        f"    {LONG.replace(NEWLINE, ' ')} vouch\n",
        f"| {LONG.replace(NEWLINE, ' ')} vouch |\n",
        f"<!-- prose: accept -->\n{LONG} vouch\n",
        f"`{LONG} vouch`\n",
        "[here](vouch.md)\n",
    ],
    ids=["fence", "indented", "table", "accepted", "inline", "link"],
)
def test_code_tables_and_accepted_paragraphs_are_left_alone(linter, tmp_path, text):
    assert messages(linter, tmp_path, text) == []


def test_the_text_of_an_example_of_the_gallery_is_a_page(linter, tmp_path):
    (tmp_path / "gallery").mkdir()
    words = " ".join(["a"] * 31)
    code = f"# {words}\n# %%\n# {words}.\n#\n# {'a' * 121}\nx = 1  # {words}\n# {words}\n"
    found = messages(linter, tmp_path / "gallery", code, "plot_1.py")
    assert len(found) == 2 and found[0].startswith("sentence of 31 words")
    assert found[1] == "line of 121 characters"


def test_comments_and_templates_are_checked_for_insider_words(linter, tmp_path):
    code = "x = 'vouch'  # rows vouch\ny = 1  # vouch  # prose: accept\n"
    assert len(messages(linter, tmp_path, code, "module.py")) == 1
    assert len(messages(linter, tmp_path, "<p>rows that vouch</p>\n", "page.html")) == 1


def test_the_paragraph_after_an_accepted_one_is_checked(linter, tmp_path):
    text = f"<!-- prose: accept -->\n{LONG}\n\nThey vouch.\n"
    assert len(messages(linter, tmp_path, text)) == 1


def test_docstrings_are_checked_without_their_examples(linter, tmp_path):
    source = '''
def f():
    """Do a thing. They vouch.

    Parameters
    ----------
    x : a parameter that is named and typed here
        What it means.

    Examples
    --------
    >>> f()
    vouch

    They vouch again::

        vouch
    """


def g():
    """They vouch."""  # prose: accept
'''
    assert len(messages(linter, tmp_path, source, "module.py")) == 2


def test_messages_of_the_package_and_aligned_docstrings(linter, tmp_path):
    folder = tmp_path / "src"
    folder.mkdir()
    aligned = f"    rate  {LONG.replace(NEWLINE, ' ')}"
    source = f'"""Do a thing.\n\n{aligned}\n"""\nx = f"{{y}} rows do not vouch"\n'
    (message,) = messages(linter, folder, source, "module.py")
    assert message.startswith("'vouch'")
    assert messages(linter, tmp_path, source, "module.py") == []


@pytest.mark.slow  # a part of `make lint`
def test_listed_files_have_no_finding(linter, capsys):
    assert linter.main([]) == 0, capsys.readouterr().out
