"""The report in a real browser, offline: drawn, silent, usable by mouse and by keyboard, legible in both
themes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levelhead.report.page import write_report
from tests.report.synthetic import HOSTILE, write_audit, write_heads, write_prompts, write_sweep

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


class Seen:
    """A page, and all that it said or asked for."""

    def __init__(self, browser: Any, folder: Path, width: int = 1280, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on(
            "dialog", lambda dialog: (self.said.append(f"dialog {dialog.message}"), dialog.dismiss())
        )
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.address = (folder / "report.html").as_uri()
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def seen(browser: Any, audit: Path) -> Iterator[Seen]:
    opened = Seen(browser, audit)
    yield opened
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith(("data:", "blob:"))] == [opened.address]
    opened.close()


def test_every_chart_is_drawn_without_a_word_or_a_request(seen: Seen) -> None:
    marks = seen.page.eval_on_selector_all(
        "figure.chart .plot",
        "plots => plots.map(p => [p.querySelectorAll('svg path, svg text').length, p.getBoundingClientRect().height])",
    )
    assert len(marks) == 8
    assert all(count > 10 and height > 80 for count, height in marks)


@pytest.mark.parametrize("write", [write_heads, write_prompts, write_sweep])
def test_reports_of_plain_runs_are_drawn_too(browser: Any, tmp_path: Path, write: Any) -> None:
    folder = write(tmp_path / "run")
    write_report(folder)
    opened = Seen(browser, folder)
    charts = opened.page.query_selector_all("figure.chart")
    assert charts
    assert all(chart.query_selector(".plot svg path") for chart in charts)
    assert opened.said == []
    opened.close()


def test_a_click_on_a_head_shows_its_arcs_in_both_versions(seen: Seen, audit: Path) -> None:
    sheets = json.loads((audit / "arcs.json").read_text(encoding="utf-8"))["sentences"]
    for layer, head, pair in ((1, 3, 0), (4, 5, 1)):
        seen.page.select_option("#pair", str(pair))
        button = f"button.head[data-layer='{layer}'][data-head='{head}']"
        seen.page.click(button)
        assert seen.page.get_attribute(button, "aria-pressed") == "true"
        assert seen.page.inner_text("#arcs-title") == f"Attention of head {layer}-{head}"
        told = seen.page.get_attribute("#arcs svg", "aria-label")
        for word, prefix in (("women", ""), ("men", "counter_")):
            weight = sheets[pair][f"{prefix}attention"][layer - 1][head - 1][2]
            assert f"attention to “{word}” {weight:.3f}" in told
        assert seen.page.locator("#arcs svg path").count() == 10  # five words but the target's pieces, twice
        assert (
            seen.page.get_attribute(f"button.head[data-layer='{layer}'][data-head='{head}']", "aria-pressed")
            == "true"
        )
    assert seen.page.locator("button.head[aria-pressed='true']").count() == 1
    assert "<b>x</b>" in seen.page.locator("#arcs svg").text_content()


def test_hovering_a_head_tells_score_error_and_q(seen: Seen) -> None:
    head = seen.page.locator("button.head[data-layer='2'][data-head='1']")
    head.scroll_into_view_if_needed()
    head.hover()
    tip = seen.page.locator("#tip")
    assert tip.is_visible()
    assert all(
        word in tip.inner_text() for word in ("Layer 2, head 1", "score", "standard error", "q 1.0e-05")
    )


def test_k_switches_the_charts(seen: Seen) -> None:
    bars = "figure[data-name='masses-female'] .plot svg path[aria-label*='female']"
    told = {}
    for k in (3, 5, 10):
        seen.page.select_option("select[data-signal='k']", str(k))
        seen.page.wait_for_function(f"document.querySelector('#status').textContent.endsWith('k = {k}')")
        told[k] = seen.page.eval_on_selector_all(bars, "bars => bars.map(b => b.getAttribute('aria-label'))")
    assert all(told.values())
    assert f"{0.03 * 3:.2f}" in told[3][0]
    assert f"{0.03 * 10:.1f}" in told[10][0]


def test_the_model_switches_too_and_its_value_survives_a_change_of_theme(seen: Seen) -> None:
    points = "figure[data-name='margins'] .plot svg path[aria-label*='margin']"
    seen.page.select_option("select[data-signal='who']", index=1)
    seen.page.wait_for_function("document.querySelector('#status').textContent.includes('without heads')")
    before = seen.page.eval_on_selector_all(points, "all => all.map(e => e.getAttribute('aria-label'))")
    seen.page.click("#theme")
    seen.page.wait_for_timeout(1500)
    assert (
        seen.page.eval_on_selector_all(points, "all => all.map(e => e.getAttribute('aria-label'))") == before
    )
    assert any("0.07" in label for label in before)


def test_a_setting_chosen_by_list_or_by_point_shows_its_recipe(seen: Seen) -> None:
    seen.page.select_option("#setting", label="sent: soft")
    assert seen.page.inner_text("#recipe").strip() == "title = 'sent: soft'"
    seen.page.select_option("#setting", label="base")
    assert "no recipe" in seen.page.inner_text("#recipe")
    seen.page.locator("figure[data-name^='frontier'] path[aria-label*='sent-debias']").first.click()
    assert seen.page.inner_text("#recipe").strip() == "title = 'sent-debias'"


def test_the_keyboard_reaches_every_control(seen: Seen) -> None:
    seen.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    wanted = seen.page.evaluate(
        """() => { const all = [...document.querySelectorAll('a, button:not(.head), select, summary, [tabindex="0"]')];
        all.forEach((e, i) => { e.dataset.number = i; }); return all.length; }"""
    )
    reached = set()
    for _ in range(wanted + 40):
        seen.page.keyboard.press("Tab")
        reached.add(seen.page.evaluate("document.activeElement.dataset.number"))
    assert reached >= {str(number) for number in range(wanted)}


def test_arrow_keys_walk_the_head_map_and_enter_chooses(seen: Seen) -> None:
    seen.page.focus("button.head[tabindex='0']")
    for key in ["ArrowUp"] * 4 + ["ArrowLeft"] * 5:
        seen.page.keyboard.press(key)
    place = "[document.activeElement.dataset.layer, document.activeElement.dataset.head]"
    walked = {tuple(seen.page.evaluate(place))}
    for row in range(4):
        for _ in range(4):
            seen.page.keyboard.press("ArrowRight" if row % 2 == 0 else "ArrowLeft")
            walked.add(tuple(seen.page.evaluate(place)))
        seen.page.keyboard.press("ArrowDown")
        walked.add(tuple(seen.page.evaluate(place)))
    assert len(walked) == 20
    seen.page.keyboard.press("Enter")
    layer, head = seen.page.evaluate(place)
    assert seen.page.inner_text("#arcs-title") == f"Attention of head {layer}-{head}"
    assert seen.page.inner_text("#head-info").startswith(f"Layer {layer}, head {head}: score")


def saved(seen: Seen, selector: str) -> bytes:
    with seen.page.expect_download() as waiting:
        seen.page.locator(selector).first.click()
    return Path(waiting.value.path()).read_bytes()


def test_every_chart_is_saved_as_svg_and_png(seen: Seen) -> None:
    names = ["figure.chart button.save", "button.save-map", "button.save-arcs"]
    for name in names:
        assert saved(seen, f"{name}[data-as='png']").startswith(b"\x89PNG")
        svg = saved(seen, f"{name}[data-as='svg']").decode()
        assert svg.startswith("<svg")
        assert "xmlns" in svg


def test_a_table_is_saved_as_csv_with_all_digits(seen: Seen) -> None:
    rows = list(csv.DictReader(io.StringIO(saved(seen, "button.csv[data-name='measures']").decode())))
    assert rows[0]["Name"] == "seat"
    assert rows[0]["Value"] == "1.23456789"
    assert [row["Value"] for row in rows if row["Name"] == "accuracy"] == [""]


def test_code_is_copied(seen: Seen) -> None:
    seen.page.locator("#reproduce button.copy").first.click()
    seen.page.wait_for_function("document.querySelector('#reproduce button.copy').textContent === 'Copied'")


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_every_text_has_contrast(
    browser: Any, audit: Path, width: int, scheme: str
) -> None:
    opened = Seen(browser, audit, width, scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.evaluate(CONTRAST) == []
    opened.close()


def test_the_theme_can_be_switched(seen: Seen) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    before = seen.page.evaluate(background)
    seen.page.click("#theme")
    assert seen.page.get_attribute("#theme", "aria-pressed") == "true"
    assert seen.page.evaluate(background) != before
    seen.page.wait_for_timeout(1500)
