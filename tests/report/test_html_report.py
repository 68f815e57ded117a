"""The report: one file, nothing loaded, small, and nothing in a table can become a part of it."""

import base64
import dataclasses
import hashlib
import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from audits import audited
from gemmed import GEMMEDClassifier
from gemmed.report import audit_report
from gemmed.report.distributions import ColumnCounts
from gemmed.report.findings import Findings
from gemmed.report.html_report import HtmlReport, pairs_of_classes
from gemmed.report.pages import cut

pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")

ATTACK = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def found():
    return audited()


@pytest.fixture(scope="module")
def page(found):
    return HtmlReport(Findings(found)).html()


def test_the_policy_allows_this_style_and_this_script_only(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    policy = policy.replace("&#39;", "'")
    style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "style=" not in page.split("</style>")[1].split("<script")[0]


def test_nothing_is_loaded(page):
    addresses = set(re.findall(r"(?:https?:)?//[\w./-]+", page.split("</style>")[1]))
    assert {a for a in addresses if a.startswith("http")} <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_the_page_says_what_was_found(found, page):
    findings = Findings(found)
    assert findings.sentence() in page.replace("&#39;", "'")
    for text in ("patients.csv", "Wrong labels", "Suspicious labels", "Odd columns", "P1"):
        assert text in page
    assert page.count("<tr data-row=") == len(findings.flagged())


def test_cells_stay_text(found):
    frame = found.frame.rename(columns={"ward": ATTACK})
    labels = np.where(found.labels == "benign", ATTACK, found.labels)
    model = GEMMEDClassifier(random_state=0).fit(found.X, labels)
    hostile = dataclasses.replace(
        found,
        name=ATTACK,
        target=ATTACK,
        frame=frame,
        categories=[ATTACK],
        labels=labels,
        classifier=model,
        identifiers={ATTACK: np.array([ATTACK] * len(labels))},
        cells=frame.assign(diagnosis=labels),
    )
    page = HtmlReport(Findings(hostile)).html()
    assert "<img" not in page and "<script>document" not in page
    assert page.count("<script") == 2


def test_a_large_report_stays_small_and_says_what_it_left_out(found):
    """Every row is to be shown, with two hundred columns."""
    rng = np.random.default_rng(0)
    n = len(found.labels)
    wide = pd.DataFrame(
        rng.normal(size=(n, 200)), columns=[f"c{i} " + "x" * 60 for i in range(200)]
    )
    large = dataclasses.replace(found, frame=wide, categories=[], cells=wide)
    page = HtmlReport(Findings(large), threshold=0.0).html()
    assert len(page.encode()) < 10_000_000
    text = page.replace("&#39;", "'")
    assert "have a page with their values and reasons" in text
    assert "further columns are not in this list" in text


def test_each_in_place_of_a_threshold(found):
    page = HtmlReport(Findings(found), each=5).html()
    assert "The 5 most suspicious labels and the 5 most suspicious measurements" in page
    assert 5 <= page.count("<tr data-row=") <= 10


def test_the_same_page_in_a_notebook_and_in_a_file(found, page, tmp_path):
    report = HtmlReport(Findings(found))
    report.save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == page
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert shown.count("<") == 2  # the page is an attribute


def test_reports_of_models_in_python():
    data = audited()
    X = pd.DataFrame(
        data.X, columns=[f"c{i}" for i in range(10)], index=[f"p{i}" for i in range(569)]
    )
    model = make_pipeline(StandardScaler(), GEMMEDClassifier(random_state=0))
    model.fit(X, data.labels)
    page = audit_report(model, X, data.labels, name="mine").html()
    assert "Audit of mine" in page and ">p1" in page
    plain = GEMMEDClassifier(random_state=0).fit(data.X, data.labels)
    assert "x3" in audit_report(plain, data.X, data.labels).html()


def test_reports_need_what_was_fitted():
    data = audited()
    with pytest.raises(ValueError, match="X has 10 and y 569 samples, the model was fitted to 569"):
        audit_report(data.classifier, data.X[:10], data.labels)
    with pytest.raises(TypeError, match="model=StandardScaler: reports need a GEMMEDClassifier"):
        audit_report(StandardScaler().fit(data.X), data.X, data.labels)


def test_long_names_keep_both_ends(found):
    names = [
        f"a rather long name of a column that is measured in the laboratory {i}" for i in range(10)
    ]
    frame = found.frame.rename(columns=dict(zip(found.frame.columns[:10], names, strict=True)))
    page = HtmlReport(Findings(dataclasses.replace(found, frame=frame))).html()
    shown = re.findall(r"<text [^>]*>([^<]*)<title>(a rather[^<]*)</title>", page)
    assert len(shown) > 2
    for text, name in shown:
        assert len(text) == 58 and text[:10] == name[:10] and text[-10:] == name[-10:]
    assert cut("age", 58) == "age"


def test_pairs_of_many_long_classes_keep_their_arrow():
    names = [f"a class with a very long name in the list {i}" for i in range(13)]
    counts = np.zeros((13, 13))
    counts[3, 12] = 2
    found = SimpleNamespace(classes=names, confusion=counts)
    ((text, count),) = pairs_of_classes(found)
    given, suggested = text.split(" → ")
    assert given.endswith("list 3") and suggested.endswith("list 12") and count == 2
    assert pairs_of_classes(SimpleNamespace(classes=names[:12], confusion=counts)) == []


def test_the_axis_of_a_distribution_ends_with_the_rows_it_compares():
    values = np.append(np.linspace(0.0, 1.0, 50), [5.0, 900.0])
    classes = np.where(values <= 1.0, np.arange(52) % 3, -1)
    counts = ColumnCounts("area", values, classes, 3)
    groups = {"own": [1], "other classes": [0, 2]}
    found = counts.marked(50, groups)
    assert found.values[1] == "5" and found.mark == 1.0
    # The axis of a row inside is that of all rows that count.
    inside = counts.marked(20, groups)
    assert inside.values == ["0.005", "0.995"] and 0.0 < inside.mark < 1.0
    assert max(inside.groups["own"]) == 100 and len(inside.groups["own"]) == 24


def test_a_category_of_a_distribution_shows_the_value_of_the_row():
    values = np.array([*"aabbbccdefgz"], dtype=object)
    counts = ColumnCounts("colour", values, np.array([0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1, -1]), 2)
    found = counts.marked(11, {"own": [0], "other classes": [1]})
    assert found.values == ["b", "a", "c", "d", "e", "z"] and found.mark == 5.0
    assert found.groups == {"own": [0, 100, 50, 50, 50, 0], "other classes": [100, 0, 33, 0, 0, 0]}


def test_copies_with_different_labels_are_listed_with_how_equal_they_are():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 3)) + 3.0 * y[:, None]
    X[1], y = X[0], np.array(["cold", "warm"])[y]  # rows 1 and 2: equal, with different labels
    page = audit_report(GEMMEDClassifier(base=None, random_state=0).fit(X, y), X, y).html()
    assert "Copies with different labels" in page
    assert "<td>equal</td>" in page
    assert "built-in method" not in page
