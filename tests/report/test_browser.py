"""The report in a real browser, offline: drawn, silent, for mouse and keyboard, legible in both themes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from levelhead.pages.chapters import BASIS, Chapter
from levelhead.pages.glossary import explained, glossary
from levelhead.pages.page import write_report
from levelhead.pages.pdf import write_pdfs
from levelhead.studies.audit import Audit
from tests.report.synthetic import (
    HOSTILE,
    write_audit,
    write_glue_run,
    write_heads,
    write_prompts,
    write_sweep,
)
from tests.report.test_mitigations import written as write_mitigations
from tests.sealing import reseal

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "report.png"
PICTURED = "LEVELHEAD_REPORT"  # a run folder: the picture is made anew of its page
WIDE = (1280, 800)
AT_NIGHT = pytest.mark.nightly
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Debian's chromium is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as runner:
        opened = runner.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_audit(tmp_path_factory.mktemp("runs") / "audit", model=HOSTILE)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of every study, with a certified mitigation."""
    folder = write_audit(tmp_path_factory.mktemp("runs") / "certified")
    shutil.rmtree(folder / Audit.mitigate.folder)
    write_mitigations(folder / Audit.mitigate.folder, certified=True)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def uncertified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One in which a bias stands, and nothing that was tried is shown to help."""
    folder = write_audit(tmp_path_factory.mktemp("runs") / "uncertified")
    shutil.rmtree(folder / Audit.mitigate.folder)
    write_mitigations(folder / Audit.mitigate.folder, certified=False)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def first_look() -> Iterator[Path]:
    """One that was asked little and tried nothing."""
    # its commands hold the path: one as long as pytest's workers have takes one more line of a phone
    with TemporaryDirectory(prefix="lh-") as place:
        folder = write_audit(Path(place) / "first-look")
        rewrite(folder / "settings.json", '"quick": false', '"quick": true')
        write_report(folder)
        yield folder


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    reseal(path.parent)


class OpenPage:
    """A page in the browser, and all that it printed or requested."""

    def __init__(
        self,
        browser: Any,
        folder: Path,
        width: int = 1280,
        scheme: str = "light",
        height: int = 900,
        unfolded: bool = True,
        at: str = "",
        touch: bool = False,
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            offline=True,
            has_touch=touch,
            accept_downloads=True,
        )
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = (folder / "report.html").as_uri() + at
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)
        if unfolded:
            self.page.evaluate(
                "() => document.querySelectorAll('details.study').forEach(study => { study.open = true; })"
            )

    def _dismiss(self, dialog: Any) -> None:
        self.messages.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def check_silent(self) -> None:
        """It has printed nothing, and requested nothing but itself."""
        assert self.messages == []
        assert [url for url in self.requests if not url.startswith(("data:", "blob:"))] == [self.address]

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def report(browser: Any, audit: Path) -> Iterator[OpenPage]:
    opened = OpenPage(browser, audit)
    yield opened
    opened.check_silent()
    opened.close()


@pytest.fixture(scope="module")
def opened_once(browser: Any, audit: Path) -> Iterator[OpenPage]:
    opened = OpenPage(browser, audit)
    yield opened
    opened.close()


@pytest.fixture
def shared(opened_once: OpenPage) -> Iterator[OpenPage]:
    """One page for all tests that change neither its theme nor what its charts show."""
    yield opened_once
    opened_once.check_silent()


def test_every_chart_is_drawn_without_a_word_or_a_request(shared: OpenPage) -> None:
    marks = shared.page.eval_on_selector_all(
        "figure.chart .plot",
        """plots => plots.map(
             p => [p.querySelectorAll('svg path, svg text').length, p.getBoundingClientRect().height])""",
    )
    assert len(marks) == 10
    assert all(count > 10 and height > 80 for count, height in marks)


SMUGGLED = """() => {
  const script = document.createElement('script');
  script.textContent = "document.title = 'script'";
  document.body.append(script);
  setTimeout("document.title = 'eval'");
  const sheet = document.createElement('style');
  sheet.textContent = 'h1 { letter-spacing: 77px; }';
  document.head.append(sheet);
  document.querySelector('h1').setAttribute('style', 'letter-spacing: 78px');
}"""


def test_no_script_and_no_style_but_the_pages_own_is_taken(browser: Any, audit: Path) -> None:
    opened = OpenPage(browser, audit)
    opened.page.evaluate(SMUGGLED)
    opened.page.wait_for_timeout(300)
    assert opened.page.title().startswith("levelhead")
    spacing = opened.page.evaluate("getComputedStyle(document.querySelector('h1')).letterSpacing")
    assert not spacing.startswith("7")
    assert sum("Content Security Policy" in message for message in opened.messages) == 4
    opened.close()


def test_a_mark_under_the_mouse_is_explained(shared: OpenPage) -> None:
    bar = shared.page.locator("figure[data-name='masses-female'] .plot svg path[aria-label*='female']").first
    bar.scroll_into_view_if_needed()
    bar.hover(force=True)
    tip = shared.page.locator("#vg-tooltip-element.visible")
    tip.wait_for(timeout=5_000)
    assert tip.inner_text().strip()


@pytest.mark.parametrize("write", [write_heads, write_prompts, write_sweep, write_glue_run])
def test_reports_of_plain_runs_are_drawn_too(
    browser: Any, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    folder = write(tmp_path / "run")
    write_report(folder)
    opened = OpenPage(browser, folder)
    charts = opened.page.query_selector_all("figure.chart")
    assert charts
    assert all(chart.query_selector(".plot svg path") for chart in charts)
    assert opened.messages == []
    opened.close()


def test_a_click_on_a_head_shows_its_arcs_in_both_versions(shared: OpenPage, audit: Path) -> None:
    pairs = json.loads((audit / "arcs.json").read_text(encoding="utf-8"))["pairs"]
    for layer, head, pair in ((0, 2, 0), (3, 4, 1)):
        shared.page.select_option("#pair", str(pair))
        button = f"button.head[data-layer='{layer}'][data-head='{head}']"
        shared.page.click(button)
        assert shared.page.get_attribute(button, "aria-pressed") == "true"
        assert shared.page.inner_text("#arcs-title") == f"Attention of head {layer + 1}-{head + 1}"
        label = shared.page.get_attribute("#arcs svg", "aria-label")
        for word, version in (("women", "original"), ("men", "counter")):
            weight = pairs[pair][version]["attention"][layer][head][2]
            assert f"attention to “{word}” {weight:.3f}" in label
        assert shared.page.locator("#arcs svg path").count() == 10  # five words but the target's, twice
    assert shared.page.locator("button.head[aria-pressed='true']").count() == 1
    assert "<b>x</b>" in shared.page.locator("#arcs svg").text_content()


def test_hovering_a_head_tells_its_score_what_holds_of_it_and_p(shared: OpenPage) -> None:
    head = shared.page.locator("button.head[data-name='2-1']")
    head.scroll_into_view_if_needed()
    head.hover()
    tip = shared.page.locator("#tip")
    assert tip.is_visible()
    assert all(
        word in tip.inner_text() for word in ("Layer 2, head 1", "score", "holds on other words", "p 0.05")
    )


def test_k_switches_the_charts(report: OpenPage) -> None:
    bars = "figure[data-name='masses-female'] .plot svg path[aria-label*='female']"
    labels = {}
    for k in (3, 5, 10):
        report.page.select_option("select[data-signal='k']", str(k))
        report.page.wait_for_function(
            f"() => document.querySelector('#status').textContent.endsWith('k = {k}')"
        )
        labels[k] = report.page.eval_on_selector_all(
            bars, "bars => bars.map(b => b.getAttribute('aria-label'))"
        )
    assert all(labels.values())
    assert f"{0.03 * 3:.2f}" in labels[3][0]
    assert f"{0.03 * 10:.1f}" in labels[10][0]


def test_the_model_switches_too_and_its_value_survives_a_change_of_theme(report: OpenPage) -> None:
    points = "figure[data-name='margins'] .plot svg path[aria-label*='margin']"
    report.page.select_option("select[data-signal='who']", index=1)
    report.page.wait_for_function(
        "() => document.querySelector('#status').textContent.includes('without heads 4-5, 1-2')"
    )
    before = report.page.eval_on_selector_all(points, "all => all.map(e => e.getAttribute('aria-label'))")
    report.page.click("#theme")
    report.page.wait_for_timeout(1500)
    assert (
        report.page.eval_on_selector_all(points, "all => all.map(e => e.getAttribute('aria-label'))")
        == before
    )
    assert any("0.07" in label for label in before)


def test_a_setting_chosen_by_list_or_by_point_shows_its_recipe(browser: Any, tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "projections")
    write_report(folder)
    opened = OpenPage(browser, folder)
    opened.page.select_option("#setting", label="projection 1: sent: hard")
    assert opened.page.inner_text("#recipe").strip() == 'title = "sent: hard"'
    opened.page.select_option("#setting", label="base")
    assert "no recipe" in opened.page.inner_text("#recipe")
    opened.page.locator("figure[data-name^='frontier'] path[aria-label*='sent: hard']").first.click()
    assert opened.page.inner_text("#recipe").strip() == 'title = "sent: hard"'
    opened.check_silent()
    opened.close()


@pytest.mark.nightly
def test_the_keyboard_reaches_every_control(report: OpenPage) -> None:
    report.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    wanted = report.page.evaluate(
        """() => {
        const controls = 'a, button:not(.head), select, summary, [tabindex="0"]';
        const all = [...document.querySelectorAll(controls)].filter(e => e.getClientRects().length);
        all.forEach((e, i) => { e.dataset.number = i; }); return all.length; }"""
    )
    reached = set()
    for _ in range(wanted + 40):
        report.page.keyboard.press("Tab")
        reached.add(report.page.evaluate("document.activeElement.dataset.number"))
    assert reached >= {str(number) for number in range(wanted)}


def test_arrow_keys_walk_the_head_map_and_enter_chooses(shared: OpenPage) -> None:
    shared.page.focus("button.head[tabindex='0']")
    for key in ["ArrowUp"] * 4 + ["ArrowLeft"] * 5:
        shared.page.keyboard.press(key)
    place = "document.activeElement.dataset.name"
    walked = {shared.page.evaluate(place)}
    for row in range(4):
        for _ in range(4):
            shared.page.keyboard.press("ArrowRight" if row % 2 == 0 else "ArrowLeft")
            walked.add(shared.page.evaluate(place))
        shared.page.keyboard.press("ArrowDown")
        walked.add(shared.page.evaluate(place))
    assert len(walked) == 20
    shared.page.keyboard.press("Enter")
    name = shared.page.evaluate(place)
    assert shared.page.inner_text("#arcs-title") == f"Attention of head {name}"
    layer, head = name.split("-")
    assert shared.page.inner_text("#head-info").startswith(f"Layer {layer}, head {head}: score")


def saved(report: OpenPage, selector: str) -> bytes:
    with report.page.expect_download() as waiting:
        report.page.locator(selector).first.click()
    return Path(waiting.value.path()).read_bytes()


def test_every_chart_is_saved_as_svg_and_png(shared: OpenPage) -> None:
    names = ["figure.chart button.save", "button.save-map", "button.save-arcs"]
    for name in names:
        assert saved(shared, f"{name}[data-as='png']").startswith(b"\x89PNG")
        svg = saved(shared, f"{name}[data-as='svg']").decode()
        assert svg.startswith("<svg")
        assert "xmlns" in svg


def test_a_table_is_saved_as_csv_with_all_digits(shared: OpenPage) -> None:
    text = saved(shared, "button.csv[data-name='measures']").decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert (lines[0]["Name"], lines[0]["Value"], lines[0]["n"]) == ("seat", "1.23456789", "1304")
    assert [line["Value"] for line in lines if line["Name"] == "accuracy"] == [""]


def test_code_is_copied(shared: OpenPage) -> None:
    shared.page.locator("#again button.copy").first.click()
    shared.page.wait_for_function(
        "() => document.querySelector('#again button.copy').textContent === 'Copied'"
    )


CONTRAST = """() => {
  const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0.99) return c; } return [255, 255, 255]; };
  const worst = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || ['SCRIPT', 'STYLE', 'OPTION'].includes(e.tagName) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const front = light(parse(e instanceof SVGElement ? style.fill : style.color)), back = light(ground(e));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) worst.push([e.tagName, e.className.toString(), e.textContent.slice(0, 30), ratio]);
  }
  return worst;
}"""

CUT = """() => [...document.querySelectorAll('.scroll, .tablebox, .now, .plot, figure, pre')]
  .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1)
  .map(e => [e.tagName, e.className, e.textContent.trim().slice(0, 40), e.scrollWidth, e.clientWidth])"""
PALE_LEGENDS = """() => {
  const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const back = light(parse(getComputedStyle(document.querySelector('figure')).backgroundColor));
  const pale = [];
  for (const e of document.querySelectorAll('.role-legend-symbol path')) {
    const style = getComputedStyle(e), shown = style.fill === 'none' ? style.stroke : style.fill;
    const front = light(parse(shown));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 1.7) pale.push([e.closest('figure').dataset.name, style.fill, ratio]);
  }
  return pale;
}"""
ON_PAPER = """() => [...document.querySelectorAll('section')].filter(e => e.getClientRects().length)
  .map(e => e.id)"""
PAPER = 703  # pixels between the margins of A4


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_every_text_has_contrast(
    browser: Any, audit: Path, width: int, scheme: str
) -> None:
    opened = OpenPage(browser, audit, width, scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.evaluate(CUT) == []
    assert opened.page.evaluate(CONTRAST) == []
    assert opened.page.evaluate(PALE_LEGENDS) == []
    opened.close()


def test_on_paper_nothing_is_cut_or_split_and_details_are_open(browser: Any, audit: Path) -> None:
    opened = OpenPage(browser, audit, PAPER, "dark")
    opened.page.emulate_media(media="print")
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.evaluate(CUT) == []
    assert opened.page.locator("details:not([open])").count() == 0
    shown = BASIS | {Chapter.NOW, Chapter.APPENDIX}
    assert set(opened.page.evaluate(ON_PAPER)) == shown
    assert opened.page.evaluate("getComputedStyle(document.querySelector('.findings')).display") == "block"
    split = "c => c.filter(e => getComputedStyle(e).breakInside !== 'avoid').length"
    assert opened.page.eval_on_selector_all(".card, figure, tr", split) == 0
    assert (
        opened.page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 38)"
    )  # ink, not light
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.locator("details:not([open])").count() > 0
    opened.close()


@pytest.mark.nightly
def test_the_report_has_twelve_pages_at_most_and_the_appendix_the_rest(
    certified: Path, tmp_path: Path
) -> None:
    page = Path(shutil.copy(certified / "report.html", tmp_path))
    first, rest = (path.read_bytes() for path in write_pdfs(page))
    for printed in (first, rest):
        assert printed.startswith(b"%PDF-")
        assert b"levelhead" in printed[:4096]  # so that the next one replaces it
    assert 3 < first.count(b"/Type /Page\n") <= 12
    assert first.count(b"/Type /Page\n") < rest.count(b"/Type /Page\n") + 12


def test_the_theme_can_be_switched(report: OpenPage) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    before = report.page.evaluate(background)
    report.page.click("#theme")
    assert report.page.get_attribute("#theme", "aria-pressed") == "true"
    assert report.page.evaluate(background) != before
    report.page.wait_for_timeout(1500)


# ---- folded


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_before_anything_is_unfolded_the_page_has_six_screens_at_most(
    browser: Any, audit: Path, width: int, height: int
) -> None:
    opened = OpenPage(browser, audit, width, height=height, unfolded=False)
    screens = opened.page.evaluate("() => document.documentElement.scrollHeight") / height
    assert screens <= 6
    unfolded = opened.page.eval_on_selector_all("section:has(> .study[open])", "all => all.map(e => e.id)")
    assert unfolded == [Chapter.LIMITS]
    lines = opened.page.eval_on_selector_all(".found-line", "all => all.map(e => e.textContent.trim())")
    assert len(lines) == opened.page.locator("details.study").count() > 5
    assert all(lines)
    opened.close()


SEEN = """name => [...document.querySelectorAll(name)].map(e => e.getBoundingClientRect())
  .map(box => [Math.round(box.top), Math.round(box.bottom), Math.round(box.width)])"""


@pytest.mark.parametrize(
    "run", ["certified", *(pytest.param(name, marks=AT_NIGHT) for name in ("uncertified", "first_look"))]
)
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_first_screen_has_the_answers_and_what_to_do_and_the_picture_beside_or_below_them(
    browser: Any, request: pytest.FixtureRequest, run: str, width: int, height: int
) -> None:
    opened = OpenPage(browser, request.getfixturevalue(run), width, height=height, unfolded=False)
    answers = opened.page.evaluate(SEEN, ".answers > div")
    commands = opened.page.evaluate(SEEN, ".columns .codebox")
    ((top, bottom, wide),) = opened.page.evaluate(SEEN, "#picture")
    last = max(end for _, end, _ in [*answers, *commands])
    assert len(answers) == 5
    assert min(size for _, _, size in answers) > 200
    assert last <= height
    assert wide > 300
    assert bottom <= height if width == 1280 else 0 <= top - last < 40
    assert opened.page.locator("#picture .plot svg path").count() > 5
    assert opened.page.evaluate("document.documentElement.scrollHeight") <= 6 * height
    assert opened.messages == []
    opened.close()


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.nightly), 390])
def test_the_contents_stay_in_sight_and_unfold_what_they_lead_to(
    browser: Any, audit: Path, width: int
) -> None:
    opened = OpenPage(browser, audit, width, unfolded=False)
    opened.page.evaluate("() => scrollTo(0, document.documentElement.scrollHeight)")
    opened.page.click('nav a[href="#glossary"]')  # the last one, which lies beyond the edge of a phone
    opened.page.wait_for_selector("#glossary details.study[open]")
    opened.page.click('nav a[href="#heads"]')
    opened.page.wait_for_selector("#heads details.study[open]")
    opened.page.wait_for_function("() => document.querySelector('#heads').getBoundingClientRect().top < 120")
    ((top, bottom, wide),) = opened.page.evaluate(SEEN, "nav")
    assert (top, bottom <= 900, wide > 150) == (0, True, True)
    widths = "plots => plots.map(plot => plot.querySelector('svg').getBoundingClientRect().width)"
    assert min(opened.page.eval_on_selector_all("#heads .plot", widths)) > 200
    opened.page.click("#heads summary h2")  # folded again, at the same address
    assert opened.page.locator("#heads details.study[open]").count() == 0
    opened.page.click('nav a[href="#heads"]')
    opened.page.wait_for_selector("#heads details.study[open]")
    opened.close()


@pytest.mark.parametrize(("at", "chapter"), [("#heads", "heads"), ("#term-seat", "glossary")])
def test_a_page_that_is_loaded_at_an_anchor_unfolds_it_and_shows_it(
    browser: Any, audit: Path, at: str, chapter: str
) -> None:
    opened = OpenPage(browser, audit, unfolded=False, at=at)
    assert opened.page.locator("details.study[open]").count() == 2  # what numbers do not show is unfolded
    assert opened.page.locator(f"#{chapter} details.study[open]").count() == 1
    opened.page.wait_for_function(
        f"() => {{ const top = document.querySelector('{at}').getBoundingClientRect().top;"
        " return top >= 0 && top < innerHeight - 20; }"
    )
    opened.close()


# ---- technical words


def test_technical_words_are_defined_on_hover_and_in_the_glossary(shared: OpenPage) -> None:
    terms = shared.page.eval_on_selector_all(
        "a.term", "all => all.map(e => [e.textContent, e.dataset.about, e.hash.slice(1), e.title])"
    )
    listed = shared.page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('.definitions div')]"
        ".map(e => [e.id, e.lastChild.textContent]))"
    )
    assert len(listed) == sum(len(group.terms) for group in glossary())
    assert all((listed[to], title) == (meaning, "") for _, meaning, to, title in terms)
    for place in (".found-line", ".lead", ".answers", ".found", "thead", "tbody"):
        assert shared.page.locator(f"{place} a.term").count() > 0, place


def test_a_definition_is_shown_to_mouse_and_keyboard_and_read_once(browser: Any, audit: Path) -> None:
    opened = OpenPage(browser, audit)
    term, tip = opened.page.locator(".answers a.term").first, opened.page.locator("#tip")
    meaning = explained()[term.inner_text()].title
    term.hover()
    assert tip.inner_text() == meaning
    opened.page.mouse.move(0, 0)
    assert tip.is_hidden()
    term.focus()
    assert tip.inner_text() == meaning
    assert term.get_attribute("aria-describedby") == "tip"
    opened.page.keyboard.press("Escape")
    assert tip.is_hidden()
    assert term.get_attribute("aria-describedby") is None
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector(".definitions :target")
    assert opened.messages == []
    opened.close()


def test_a_finger_sees_the_definition_first_and_follows_it_then(browser: Any, audit: Path) -> None:
    opened = OpenPage(browser, audit, 390, touch=True)
    term = opened.page.locator(".found-line a.term").first
    term.tap()
    assert opened.page.inner_text("#tip") == explained()[term.inner_text()].title
    assert opened.page.url == opened.address
    term.tap()
    opened.page.wait_for_selector(".definitions :target")
    opened.close()


# ---- paper


def test_the_appendix_shows_what_paper_leaves_out(browser: Any, audit: Path) -> None:
    opened = OpenPage(browser, audit, PAPER, at="#appendix")
    opened.page.emulate_media(media="print")
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    seen = opened.page.evaluate(ON_PAPER)
    assert {"heads", "counteracts", Chapter.GLOSSARY} <= {*seen}
    assert not {Chapter.NOW, Chapter.LIMITS, Chapter.APPENDIX} & {*seen}
    tables = "tables => tables.filter(e => e.getClientRects().length && !e.closest('details.fold')).length"
    assert opened.page.eval_on_selector_all(".basis table", tables) == 0
    assert opened.page.eval_on_selector_all(".basis details.fold pre", "all => all.length") > 0
    opened.close()


def test_the_picture_of_the_docs_is_a_first_screen(browser: Any) -> None:
    if run := os.environ.get(PICTURED):
        page = browser.new_page(viewport={"width": WIDE[0], "height": WIDE[1]})
        page.goto(write_report(run).resolve().as_uri())
        page.wait_for_timeout(2000)  # until the chart is drawn
        page.screenshot(path=PICTURE)
        page.close()
    size = struct.unpack(">II", PICTURE.read_bytes()[16:24])  # of a PNG file
    assert size == WIDE
    assert "(docs/report.png)" in (PICTURE.parents[1] / "README.md").read_text(encoding="utf-8")
