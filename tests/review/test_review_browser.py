"""The whole way in a browser: judge by keyboard, undo, fit again, export, come back.

Needs Playwright and Debian's chromium (``apt-get install chromium``; ``.ci/run`` does).
"""

import csv
import os
import shutil
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest

from audits import audited
from gemmed.cli import main
from gemmed.report.findings import Findings
from gemmed.report.html_report import HtmlReport
from gemmed.report.timeline import SensorReadings, ShownSpan, write_timeline
from reviewed import Running, write_clips, write_patients, write_tickets

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: browser tests are skipped"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)"
)
SCREENS = list(product(("light", "dark"), (1280, 390)))


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A tab that notes what it loads and what goes wrong in it."""

    def __init__(self, browser, address=None, context=None):
        self.context = context or browser.new_context(viewport={"width": 1280, "height": 900})
        self.page = self.context.new_page()
        self.requests, self.problems = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "console", lambda m: self.problems.append(m.text) if m.type == "error" else None
        )
        if address is not None:
            self.page.goto(address)

    def expect(self, selector):
        return playwright.expect(self.page.locator(selector))

    def row(self):
        self.expect("#sample[data-row]").to_be_visible()
        return int(self.page.locator("#sample").get_attribute("data-row"))

    def press(self, key):
        """Press a key that leads to another sample, and wait for it."""
        before = self.row()
        self.page.keyboard.press(key)
        self.expect(f'#sample[data-row]:not([data-row="{before}"])').to_be_visible()
        return before

    def check(self, own=()):
        """Nothing was asked of anybody else, and nothing went wrong."""
        hosts = {urlsplit(url).netloc for url in self.requests if url.startswith("http")}
        assert hosts <= set(own), hosts
        assert self.problems == []


def test_the_whole_way_of_a_table(browser, start, tmp_path):
    path = write_patients(tmp_path / "t.csv")
    before = path.read_bytes().decode("latin-1").split("\r\n")
    arguments = (path, "--target", "diagnosis", "--id", "patient", "--encoding", "latin-1")
    running = start(*arguments, "--reviewer", "ann")
    tab = Watched(browser, running.address)
    assert "token" not in tab.page.url
    # Ten samples by keyboard.
    marked = {}
    for key in ("r", "w", "b", "u", "r", "w", "b", "r", "w", "b"):
        marked[tab.press(key)] = key
    assert len(marked) == 10
    tab.expect("#counts").to_contain_text("10 of 120 rows marked")
    # Undo brings the last one back, which is then marked in another way.
    tab.page.keyboard.press("z")
    last = list(marked)[-1]
    tab.expect(f'#sample[data-row="{last}"]').to_be_visible()
    tab.expect("#counts").to_contain_text("9 of 120 rows marked")
    marked[tab.press("r")] = "r"
    # Back and forth without marking.
    here = tab.row()
    tab.press("ArrowLeft")
    assert tab.row() == last
    tab.expect(".marks-before").to_contain_text("right by ann")
    tab.press("ArrowRight")
    assert tab.row() == here
    # Reload: the marks are there, and the same sample.
    tab.page.reload()
    tab.expect("#counts").to_contain_text("10 of 120 rows marked")
    assert tab.row() == here
    # Fit again: new order, without the marked rows.
    tab.page.click("#refit")
    tab.expect("#message").to_contain_text("the list is in its new order", timeout=60_000)
    assert tab.row() not in marked
    # kill -9, another start: nothing is lost.
    tab.check(own={urlsplit(running.address).netloc})
    running.kill()
    tab.page.keyboard.press("r")
    tab.expect("#message").to_contain_text("The server does not answer")
    tab.problems.clear()
    running = start(*arguments)
    tab = Watched(browser, running.address)
    tab.expect("#counts").to_contain_text("10 of 120 rows marked")
    assert tab.row() not in marked
    # Export.
    tab.page.click("#export")
    tab.page.click("#write")
    tab.expect("#written").to_contain_text("3 labels corrected, 2 rows marked as bad")
    corrected = (tmp_path / "t.corrected.csv").read_bytes().decode("latin-1").split("\r\n")
    expected = []
    for number, line in enumerate(before):
        if marked.get(number) == "b":
            continue
        if marked.get(number) == "w":
            cells, _, label = line.rpartition(";")
            line = f"{cells};{'gesund' if label == 'kränk' else 'kränk'}"
        expected.append(line)
    assert corrected == expected
    with open(tmp_path / "t.corrected.csv.changes.csv", newline="", encoding="utf-8") as file:
        log = {int(entry["row"]): entry for entry in csv.DictReader(file)}
    assert set(log) == set(marked) and {entry["reviewer"] for entry in log.values()} == {"ann"}
    tab.check(own={urlsplit(running.address).netloc})


def test_the_whole_way_of_recordings(browser, start, tmp_path):
    path = write_clips(tmp_path)
    # Without --target the column "label" of a manifest has the classes.
    path.write_text(path.read_text().replace("path,word", "path,label", 1))
    running = start(path, "--id", "speaker", "--reviewer", "ann")
    tab = Watched(browser, running.address)
    tab.row()
    picture = tab.page.locator(".spectrogram img")
    playwright.expect(picture).to_be_visible()
    playwright.expect(picture).not_to_have_js_property("naturalWidth", 0)
    # Space plays.
    audio = tab.page.locator("#sample .sound audio")
    with tab.page.expect_response(lambda answer: "/audio/" in answer.url) as answer:
        tab.page.keyboard.press(" ")
    assert answer.value.status in (200, 206)
    playwright.expect(audio).to_have_js_property("error", None)
    # So do the recordings of its neighbours, one at a time.
    near = tab.page.locator("#sample .near-sounds audio")
    playwright.expect(near).to_have_count(6)
    other = near.first.get_attribute("src")
    with tab.page.expect_response(lambda answer: answer.url.endswith(other)) as answer:
        near.first.evaluate("element => element.play()")
    assert answer.value.status in (200, 206)
    playwright.expect(audio).to_have_js_property("paused", True)
    playwright.expect(near.first).to_have_js_property("error", None)
    marked = [tab.press(key) for key in ("b", "w", "r", "b", "u", "r", "r", "r", "w", "r")]
    assert len(set(marked)) == 10
    tab.page.keyboard.press("z")
    tab.expect("#counts").to_contain_text("9 of 36 rows marked")
    tab.press("r")
    tab.page.click("#refit")
    tab.expect("#message").to_contain_text("the list is in its new order", timeout=60_000)
    tab.page.click("#export")
    tab.page.select_option("#bad", "flag")
    tab.page.click("#write")
    tab.expect("#written").to_contain_text("2 labels corrected, 2 rows marked as bad")
    lines = (tmp_path / "clips.corrected.csv").read_text().splitlines()
    assert lines[0] == "path,label,speaker,review" and len(lines) == 37
    assert sum(line.endswith(",bad") for line in lines) == 2
    tab.check(own={urlsplit(running.address).netloc})


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A review of a table whose cells are meant to run scripts."""
    attack = "<img src=x onerror=document.title='taken'>"
    path = write_patients(tmp_path_factory.mktemp("hostile") / "t.csv")
    text = path.read_bytes().replace("kränk".encode("latin-1"), attack.encode())
    path.write_bytes(text.replace(b"south", b"</script><script>document.title='taken'</script>"))
    running = Running(path, "--target", "diagnosis", "--id", "patient", "--encoding", "latin-1")
    yield running
    running.close()


def test_two_tabs_and_two_people(browser, hostile):
    running = hostile
    one = Watched(browser, running.address)
    two = Watched(browser, running.address, context=one.context)
    first = one.row()
    assert two.row() == first
    for tab, name in ((one, "ann"), (two, "bob")):
        tab.page.fill("#reviewer", name)
        tab.page.keyboard.press("Enter")
    one.press("r")
    two.press("b")  # the same row: two opinions
    two.expect("#counts").to_contain_text("1 of 120 rows marked")
    two.expect("#counts").to_contain_text("1 disputed")
    two.expect("#agreement").to_have_text("ann and bob agree on 0 of 1 rows (Cohen's kappa 0.00).")
    # Two people are not given the same sample; what one marks the other is not asked again.
    second = one.row()
    assert two.row() not in (first, second)
    one.press("r")
    two.press("ArrowRight")
    assert two.row() not in (first, second)
    # Undo takes back the own mark only.
    two.page.keyboard.press("z")
    two.expect(f'#sample[data-row="{first}"]').to_be_visible()
    two.expect(".marks-before").to_contain_text("right by ann")
    two.expect(".marks-before").not_to_contain_text("bob")
    # Without a name nothing is marked.
    two.page.fill("#reviewer", "")
    two.page.keyboard.press("Enter")
    two.page.keyboard.press("r")
    two.expect("#message").to_contain_text("Who are you?")
    one.check(own={urlsplit(running.address).netloc})


def test_random_checks_go_on_after_a_kill(browser, start, tmp_path):
    path = write_patients(tmp_path / "t.csv")
    arguments = (path, "--target", "diagnosis", "--encoding", "latin-1", "--reviewer", "ann")
    running = start(*arguments, "--checks", "40")
    tab = Watched(browser, running.address)
    tab.expect("#answered").to_have_text("0 of 40")
    first = [tab.press("r") for _ in range(3)]
    tab.expect("#answered").to_have_text("3 of 40")
    tab.expect("#goal").to_contain_text("more checks are expected to be needed")
    drawn = tab.row()
    tab.expect(".origin").to_contain_text("random draw 4")
    # A draw without a mark is drawn again after kill -9; none is repeated.
    running.kill()
    running = start(*arguments)
    tab = Watched(browser, running.address)
    tab.expect("#answered").to_have_text("3 of 40")
    assert tab.row() == drawn and drawn not in first
    tab.check(own={urlsplit(running.address).netloc})


def test_flags_are_checked_until_enough_are_right(browser, start, tmp_path):
    path = write_patients(tmp_path / "t.csv")
    arguments = (path, "--target", "diagnosis", "--encoding", "latin-1", "--reviewer", "ann")
    running = start(*arguments, "--until-precision", "0.5", "--strata", "ward")
    tab = Watched(browser, running.address)
    tab.expect("#figures").to_contain_text("wrong labels, of flagged rows")
    tab.expect("#goal").to_contain_text("more checks of flagged rows")
    for _ in range(15):
        if tab.page.locator("#checks.reached").count():
            break
        tab.expect(".origin").to_contain_text("random draw")
        tab.press("b")
    tab.expect("#checks.reached #goal").to_contain_text("The goal of 50.0 % is reached")
    tab.check(own={urlsplit(running.address).netloc})


def test_two_reviewers_draw_at_once(browser, start, tmp_path):
    path = write_patients(tmp_path / "t.csv")
    arguments = (path, "--target", "diagnosis", "--id", "patient", "--encoding", "latin-1")
    running = start(*arguments, "--checks", "30", "--until", "0.05")
    tabs = []
    for name in ("ann", "bob"):
        tab = Watched(browser)
        tab.context.add_init_script(f"localStorage.setItem('gemmed-reviewer', '{name}')")
        tab.page.goto(running.address)
        tabs.append(tab)
    marked = {}
    for turn in range(12):
        tab = tabs[turn % 2]
        how = tab.page.locator(".origin").get_attribute("data-how")
        row = tab.press("r" if turn % 3 else "b")
        assert row not in marked, "two people were given the same row"
        marked[row] = how
    assert {"draw"} <= set(marked.values()) <= {"draw", "pick"}
    # A pick from the list: shown as such, quietly, and in the change log.
    ann = tabs[0]
    ann.page.keyboard.press("l")
    ann.page.fill("#search", "P119")
    ann.expect("#found").to_have_text("1 row")
    ann.page.click("#rows button")
    ann.expect('#sample[data-row="120"]').to_be_visible()
    if 120 not in marked:
        ann.expect(".origin").to_contain_text("not a draw")
        ann.press("r")
    # A second opinion on a row of bob's: a dispute, and how far they agree.
    ann.page.select_option("#ranking", "again")
    ann.expect(".marks-before").to_contain_text("by bob")
    key = "b" if "right" in ann.page.locator(".marks-before").inner_text() else "r"
    ann.press(key)
    ann.expect("#counts").to_contain_text("1 disputed")
    ann.expect("#agreement").to_contain_text("ann and bob agree on 0 of 1 rows")
    ann.page.click("#export")
    ann.page.click("#write")
    ann.expect("#written").to_contain_text("Figures of the checks")
    with open(tmp_path / "t.corrected.csv.changes.csv", newline="", encoding="utf-8") as file:
        log = list(csv.DictReader(file))
    assert {entry["reviewer"] for entry in log} == {"ann", "bob"}
    assert {"random draw", "picked"} == {entry["how"] for entry in log}
    assert all(entry["patient"] == f"P{int(entry['row']) - 1:03d}" for entry in log)
    for tab in tabs:
        tab.check(own={urlsplit(running.address).netloc})


def test_many_classes_texts_search_and_bulk(browser, start, tmp_path):
    path = write_tickets(tmp_path / "t.csv")
    running = start(path, "--target", "topic", "--id", "ticket", "--reviewer", "ann")
    tab = Watched(browser, running.address)
    row = tab.row()
    tab.expect("#signal").to_contain_text("Held-out accuracy")
    # Texts that nothing is learned from are shown.
    tab.expect(".texts").to_contain_text(f"Customer {row - 1} writes about")
    # Few buttons; other classes are typed.
    assert tab.page.locator("#classes button").count() == 2
    assert tab.page.locator(".actions").bounding_box()["height"] < 80
    tab.page.keyboard.press("c")
    tab.page.keyboard.type("topic")
    tab.page.keyboard.press("Enter")
    tab.expect("#message").to_contain_text("Which class: topic 00, topic 01")
    given = tab.page.locator(".given b").first.inner_text()
    label = "topic 11" if given != "topic 11" else "topic 10"
    tab.page.fill("#class-name", label[-2:])
    tab.page.keyboard.press("Enter")
    tab.expect(f'#sample[data-row]:not([data-row="{row}"])').to_be_visible()
    tab.expect("#counts").to_contain_text("1 of 144 rows marked (1 wrong)")
    # A digit goes into the field; Escape leaves it.
    tab.page.keyboard.press("1")
    tab.expect("#class-name").to_have_value("1")
    tab.page.keyboard.press("Escape")
    tab.expect("#class-name").not_to_be_focused()
    # The list: label, verdict, mark; search; Escape closes it.
    tab.page.keyboard.press("l")
    tab.page.fill("#search", f"customer {row - 1} writes")
    tab.expect("#found").to_have_text("1 row")
    tab.expect("#rows tr").to_contain_text(f"wrong: {label}")
    tab.expect("#rows tr").to_contain_text(f"T{row - 1:03d}")
    _keep_picture(tab.page, "review-list")
    tab.page.keyboard.press("Escape")
    tab.expect("#list").to_be_hidden()
    # Bulk acceptance says what it would do before it does it.
    tab.page.click("#bulk")
    tab.page.fill("#confidence", "50")
    tab.page.keyboard.press("Enter")
    tab.expect("#accept").to_be_enabled()  # the answer for this confidence has come
    tab.expect("#offer").to_contain_text("expected to be errors (by the model, not checked)")
    n = int(tab.page.locator("#accept").inner_text().split()[1])
    assert n >= 1
    _keep_picture(tab.page, "review-bulk")
    tab.page.click("#accept")
    tab.expect("#message").to_contain_text(f"{n} labels accepted without a look")
    tab.expect("#counts").to_contain_text(f"{n} of these accepted without a look")
    tab.page.keyboard.press("Escape")
    tab.expect("#bulk-box").to_be_hidden()
    tab.page.keyboard.press("z")
    tab.expect("#counts").to_contain_text("1 of 144 rows marked (1 wrong)")
    tab.check(own={urlsplit(running.address).netloc})


def test_the_page_of_checks_fits_the_screen(browser, start, tmp_path):
    path = write_tickets(tmp_path / "t.csv")
    running = start(path, "--target", "topic", "--checks", "40", "--until", "0.05")
    tab = Watched(browser, running.address)
    for _ in range(12):
        tab.press("r")
    for scheme, width in SCREENS:
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.set_viewport_size({"width": width, "height": 800})
        assert tab.page.evaluate("document.documentElement.scrollWidth") == width
        height = tab.page.locator(".actions").bounding_box()["height"]
        assert height < (80 if width == 1280 else 180)
        _keep_picture(tab.page, f"review-checks-{scheme}-{width}")


def test_without_the_token(browser, hostile):
    tab = Watched(browser)
    answer = tab.page.goto(hostile.address.split("?")[0])
    assert answer.status == 403 and "P00" not in tab.page.content()


def test_a_table_cannot_become_a_part_of_the_page(browser, hostile):
    tab = Watched(browser, hostile.address)
    for _ in range(3):
        tab.press("ArrowRight")
    assert tab.page.title() == "Review of t.csv"
    assert tab.page.locator("#sample img").count() == 0
    tab.check(own={urlsplit(hostile.address).netloc})


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_hangs_over_the_edge(browser, hostile, width):
    tab = Watched(browser, hostile.address)
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.row()
    assert tab.page.evaluate("document.documentElement.scrollWidth") == width
    _keep_picture(tab.page, f"review-{width}")


def test_the_suggested_class_comes_first_on_a_narrow_screen(browser, start, tmp_path):
    path = tmp_path / "t.csv"
    rng = np.random.default_rng(0)
    names = np.array(["brick", "cement", "grass", "leaf", "path", "window"])
    y = np.arange(180) % 6
    given = names[y]
    given[:30:6] = "window"
    centres = 6.0 * np.vstack([np.eye(3), -np.eye(3)])
    frame = pd.DataFrame(rng.normal(size=(180, 3)) + centres[y])
    frame.add_prefix("x").assign(label=given).to_csv(path, index=False)
    tab = Watched(browser, start(path, "--target", "label").address)
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.row()
    box = tab.page.locator("#classes").bounding_box()
    buttons = tab.page.locator("#classes button")
    assert buttons.count() == 5
    places = [buttons.nth(i).bounding_box() for i in range(5)]
    assert all(p["x"] >= 0 and p["x"] + p["width"] <= 390 for p in places)
    assert all(p["y"] + p["height"] <= box["y"] + box["height"] + 1 for p in places)
    first = min(range(5), key=lambda i: (places[i]["y"], places[i]["x"]))
    assert "suggested" in buttons.nth(first).get_attribute("class")
    assert tab.page.get_by_role("button", name="Wrong: ").count() == 5


# -- the report ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_the_timeline_of_sensors_fits_the_screen(browser, tmp_path, scheme, width):
    values = np.random.default_rng(0).normal(size=(400, 7))
    sensors = [
        SensorReadings("pump", tuple(f"pump_{i}" for i in range(6)), values[:, :6]),
        SensorReadings("valve", ("valve_a",), values[:, 6:]),
    ]
    spans = [
        ShownSpan("pump", "broken", 50, 90, "50", "90", 0.9),
        ShownSpan("label", "suspicious label", 200, 202, "200", "202", 0.8, "idle → run"),
        ShownSpan("label", "suspicious label", 300, 300, "300", "300", 0.8, "run → idle"),
    ]
    shown = lambda row: f"2026-03-01T00:{row:05d}"  # noqa: E731
    page = tmp_path / "t.html"
    write_timeline(page, "Sensors", [], sensors, spans, shown, last_lane="label")
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    tab = Watched(browser, page.as_uri(), context)
    assert tab.page.evaluate("document.documentElement.scrollWidth") == width
    tab.expect(".lead").to_have_text("1 fault in 1 sensor: pump. 4 suspicious labels.")
    assert tab.page.locator(".key span").all_inner_texts() == ["broken", "suspicious label"]
    curves = tab.page.locator("figure path").evaluate_all(
        "all => all.map((path) => getComputedStyle(path).stroke)"
    )
    assert len(set(curves)) == 5
    # Text of a picture can be read on a phone: pictures scroll instead of shrinking.
    assert tab.page.locator("svg").first.bounding_box()["width"] >= 700
    tab.check()
    context.close()


def test_the_report(browser, tmp_path):
    findings = Findings(audited())
    HtmlReport(findings).save(tmp_path / "r.html")
    tab = Watched(browser, (tmp_path / "r.html").as_uri())
    n = len(findings.flagged())
    tab.expect("#count").to_have_text(f"1 to {min(n, 25)} of {n} rows")
    # Order by a column, both ways.
    tab.page.click("#rows th >> text=label")
    labels = tab.page.locator("#rows tbody tr td:nth-child(3)").all_inner_texts()
    assert labels == sorted(labels)
    tab.page.click("#rows th >> text=label")
    labels = tab.page.locator("#rows tbody tr td:nth-child(3)").all_inner_texts()
    assert labels == sorted(labels, reverse=True)
    # Filter.
    name = findings.identifiers_of(int(findings.flagged()[0]))["patient"]
    tab.page.fill("#filter", f"{name} ")
    assert tab.page.locator("#rows tbody tr:visible").count() >= 1
    tab.page.fill("#filter", "no such text")
    tab.expect("#count").to_have_text(f"0 to 0 of 0 rows ({n} listed)")
    tab.page.fill("#filter", "")
    # The page of a sample.
    link = tab.page.locator("#rows tbody a:visible").first
    row = link.inner_text()
    link.click()
    tab.expect("#detail h2").to_have_text(f"Row {row}")
    # Distributions with the value marked; the next row and back.
    assert tab.page.locator("#detail .distributions svg").count() >= 1
    tab.page.click(f"#{'next' if tab.page.locator('#next-row').is_enabled() else 'previous'}-row")
    tab.expect("#detail h2").not_to_have_text(f"Row {row}")
    tab.page.keyboard.press("Escape")
    tab.expect("#detail").to_be_hidden()
    tab.page.click(f'a[href="#row-{row}"]')
    for scheme, width in SCREENS:
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.page.evaluate("document.documentElement.scrollWidth") == width
        _keep_picture(tab.page, f"report-{scheme}-{width}")
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    assert tab.problems == []


def test_the_list_of_a_report_has_pages(browser, tmp_path):
    HtmlReport(Findings(audited()), each=40).save(tmp_path / "r.html")
    tab = Watched(browser, (tmp_path / "r.html").as_uri())
    first = tab.page.locator("#rows tbody tr:visible").first.get_attribute("data-row")
    tab.expect("#previous-page").to_be_disabled()
    tab.page.click("#next-page")
    tab.expect("#count").to_contain_text("26 to ")
    assert tab.page.locator("#rows tbody tr:visible").first.get_attribute("data-row") != first
    tab.page.click("#previous-page")
    tab.expect("#count").to_contain_text("1 to 25 of ")
    assert tab.problems == []


def test_a_report_of_recordings_plays_them(browser, tmp_path):
    path = write_clips(tmp_path)
    report = tmp_path / "r.html"
    arguments = ["audit", str(path), "--target", "word", "--each", "3"]
    assert main([*arguments, "--html", str(report)]) == 0
    assert report.stat().st_size < 10_000_000
    tab = Watched(browser, report.as_uri())
    tab.page.locator("#rows tbody a").first.click()
    picture, audio = tab.page.locator(".spectrogram img"), tab.page.locator("#detail audio")
    playwright.expect(picture).not_to_have_js_property("naturalWidth", 0)
    audio.evaluate("element => element.play()")
    playwright.expect(audio).to_have_js_property("error", None)
    playwright.expect(audio).not_to_have_js_property("duration", 0)
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    assert tab.problems == []


def test_the_report_in_a_notebook(browser, tmp_path):
    """The frame of a notebook has no rights but scripts; the page works in it."""
    page = HtmlReport(Findings(audited()))._repr_html_()
    (tmp_path / "n.html").write_text(f"<!doctype html><body>{page}</body>", encoding="utf-8")
    tab = Watched(browser, (tmp_path / "n.html").as_uri())
    frame = tab.page.frame_locator("iframe")
    playwright.expect(frame.locator("#count")).to_contain_text("rows")
    assert tab.problems == []


def _keep_picture(page, name):
    """For people: with GEMMED_SCREENSHOTS=FOLDER the pages are kept as pictures."""
    folder = os.environ.get("GEMMED_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")
