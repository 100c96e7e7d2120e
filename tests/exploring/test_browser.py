"""The page of `levelhead explore` in a real browser: typed, switched, by keyboard, in two tabs, without its
server, with hostile sentences; and every number is that of the API."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.gates import gates
from levelhead.edits.sites import Head, Neuron, Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.exploring.answers import Odds, WrittenText
from levelhead.exploring.explorer import Answer, Explorer
from levelhead.exploring.sentences import question
from levelhead.exploring.serving import Served
from levelhead.exploring.state import PageState
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model, load
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.runs.study import open_run
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import PREFERENCE, NaturalItems, natural_bias
from tests.exploring.mitigated_runs import mitigated_run
from tests.exploring.served import TOKEN, serving
from tests.report.test_browser import CHROMIUM, SMUGGLED
from tests.tiny import tiny
from tests.typed import Typed

pytest.importorskip("starlette", reason="pip install 'levelhead[explore]'")
pytest.importorskip("uvicorn", reason="pip install 'levelhead[explore]'")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Debian's chromium is not installed"),
]
DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURES = "LEVELHEAD_SCREENSHOTS"  # set: the pictures of docs/ are made anew
SENTENCE = "My mother said that ___ was tired."
COUNTERFACTUAL = "My father said that ___ was tired."
NEUTRAL = "The nurse said that ___ was tired."
WAIT = 120_000  # ms; a machine may be slow


@pytest.fixture(scope="module", autouse=True)
def _few_triples() -> Iterator[None]:
    """Steering is fitted on few triples, none of which is too long for a tiny model."""
    few = load_triples().at_most(12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("levelhead.mitigation.fitting.load_triples", lambda: few)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as a user has it: a folder."""
    made, path = tiny("bert"), tmp_path_factory.mktemp("models") / "tiny"
    made.hf.save_pretrained(path)
    made.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(str(folder))


@pytest.fixture(scope="module")
def served(model: Model) -> Iterator[Served]:
    with serving(model) as one:
        yield one


class Tab:
    """A tab of the browser on a served page, and all that it printed or requested."""

    def __init__(self, browser: Any, address: str, width: int = 1280, height: int = 900) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, color_scheme="light"
        )
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", timeout=WAIT)

    def _dismiss(self, dialog: Any) -> None:
        self.messages.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def type(self, sentence: str, into: str = "#sentence") -> None:
        self.page.fill(into, sentence)

    def settled(self, sides: int, sentence: str = SENTENCE) -> list[list[float]]:
        """Log-odds [row, side] once the page shows this sentence on so many sides."""
        self.page.wait_for_function(
            """([sides, sentence]) => {
              const hash = location.hash.length > 1 && JSON.parse(decodeURIComponent(location.hash.slice(1)));
              const points = document.querySelectorAll('#odds [data-row="sentence"] .point');
              return hash && hash.sentence === sentence && points.length === sides;
            }""",
            arg=[sides, sentence],
            timeout=WAIT,
        )
        rows = """rows => rows.map(
            row => [...row.querySelectorAll('.point')].map(point => Number(point.dataset.logOdds)))"""
        found: list[list[float]] = self.page.eval_on_selector_all("#odds .odd", rows)
        return found

    def switch_neuron(self) -> str:
        """Switch the first neuron of the list off."""
        first = self.page.wait_for_selector("html[data-settled] #neurons li", timeout=WAIT)
        name = str(first.get_attribute("data-neuron"))
        self.page.click(f'[data-neuron="{name}"] button')
        self.page.wait_for_function("() => location.hash.includes('neurons')", timeout=WAIT)
        return name

    def steer(self, strength: str) -> None:
        """Move the slider of steering; it is fitted where it was not."""
        self.page.fill("#steering", strength)
        self.page.wait_for_function("() => location.hash.includes('steering')", timeout=WAIT)

    def check_silent(self, address: str) -> None:
        """It has printed refusals alone, and requested nothing of others."""
        assert [text for text in self.messages if "422" not in text] == []
        assert [url for url in self.requests if not url.startswith((address, "data:", "blob:"))] == []

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def tab(browser: Any, served: Served) -> Iterator[Tab]:
    opened = Tab(browser, served.address)
    yield opened
    opened.check_silent(served.address)
    opened.close()


def log_odds(
    model: Model, variants: list[Variant], sentences: tuple[str, str] = (SENTENCE, COUNTERFACTUAL)
) -> Any:
    """[text, variant], as the API gives them."""
    asked = [question(model, sentence, ("she", "he")) for sentence in sentences]
    logs = read_one(model, TokenLogProbs([each.text for each in asked], asked[0].tokens), variants)
    return (logs[..., 0].astype(np.float64) - logs[..., 1]).T


# ---- typing and switching


def test_a_typed_sentence_its_counterfactual_and_a_head_switched_off_show_the_odds_of_the_api(
    tab: Tab, model: Model
) -> None:
    tab.type(SENTENCE)
    np.testing.assert_allclose(tab.settled(1)[:2], log_odds(model, [()]), atol=1e-6)
    assert tab.page.input_value("#counterfactual") == COUNTERFACTUAL
    tab.page.click('[data-head="1-2"]')
    expected = log_odds(model, [(), gates(model, {Head(0, 1): 0.0})])
    shown = tab.settled(2)
    np.testing.assert_allclose(shown[:2], expected, atol=1e-6)
    np.testing.assert_allclose(shown[2], expected[0] - expected[1], atol=1e-6)
    assert abs(expected[:, 0] - expected[:, 1]).max() > 1e-3
    tab.page.click('[data-head="1-2"]')
    np.testing.assert_allclose(tab.settled(1)[:2], log_odds(model, [()]), atol=1e-6)


def test_everything_can_be_done_by_keyboard(tab: Tab, model: Model) -> None:
    keys = tab.page.keyboard
    tab.page.focus("#theme")
    keys.press("Tab")
    assert tab.page.evaluate("document.activeElement.id") == "sentence"
    keys.press("Control+A")
    keys.type(SENTENCE)
    tab.settled(1)
    for _ in range(30):
        keys.press("Tab")
        if tab.page.evaluate("document.activeElement.dataset.head || ''"):
            break
    assert tab.page.evaluate("document.activeElement.dataset.head") == "1-1"
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Space", "ArrowUp", "-", "-", "ArrowLeft", "+"):
        keys.press(key)
    expected = {Head(1, 2): 0.0, Head(0, 2): 0.5, Head(0, 1): 1.25}
    tab.page.wait_for_function(
        "() => location.hash.includes(encodeURIComponent('\"1-2\":1.25'))", timeout=WAIT
    )
    shown = tab.settled(2)
    np.testing.assert_allclose(shown[:2], log_odds(model, [(), gates(model, expected)]), atol=1e-6)
    assert "Head 1-2: gate 1.25" in tab.page.inner_text("#info")
    assert "she" in tab.page.inner_text("#odds-pair")


def test_what_could_not_be_swapped_is_underlined_with_its_reason_and_the_counterfactual_can_be_edited(
    tab: Tab, model: Model
) -> None:
    sentence = "My mother has a maiden name, ___ said."
    tab.type(sentence)
    tab.settled(1, sentence)
    assert tab.page.inner_text("#marked u") == "maiden"
    reason = tab.page.get_attribute("#marked u", "title")
    assert reason
    assert reason in tab.page.inner_text("#problems")
    tab.type("The engineer has a name, ___ said.", "#counterfactual")
    tab.page.wait_for_function("() => location.hash.includes('engineer')", timeout=WAIT)
    both = (sentence, "The engineer has a name, ___ said.")
    np.testing.assert_allclose(tab.settled(1, sentence)[:2], log_odds(model, [()], both), atol=1e-6)
    tab.page.click("#swap")
    tab.page.wait_for_function("() => !location.hash.includes('engineer')", timeout=WAIT)
    assert tab.page.input_value("#counterfactual").startswith("My father")


def test_what_a_text_states_is_agreement_and_what_it_does_not_a_finding(tab: Tab, served: Served) -> None:
    row = '#odds [data-row="{}"] '
    tab.type(SENTENCE)
    tab.settled(1)
    tab.page.wait_for_selector("html[data-settled]", timeout=WAIT)
    agreement = tab.page.inner_text(row.format("sentence"))
    assert "the text says “mother”, so “she” is expected" in agreement
    assert "null" not in tab.page.inner_text("#odds")
    assert tab.page.query_selector("#odds .band, #odds .other, #odds .finding") is None
    tab.type(NEUTRAL)
    tab.settled(1, NEUTRAL)
    tab.page.wait_for_selector("html[data-settled] #odds .band", state="attached", timeout=WAIT)
    finding = tab.page.inner_text(row.format("sentence")).replace("\u00a0", " ")
    state = PageState(NEUTRAL)
    band, (beside, _) = served.explorer.bands(state).bands[0], served.explorer.beside(state).references
    assert band is not None
    assert beside is not None
    own = served.explorer.answer(state).texts[0].odds[0].log_odds
    assert "nothing states a gender" in finding
    assert f"a person: {odds_said(beside.person[0])}" in finding
    assert f"range from {odds_said(min(beside.odds[0]))} to {odds_said(max(beside.odds[0]))}" in finding
    below = sum(x < own for x in beside.odds[0])
    assert (
        f"“nurse” is {'above all' if below == 30 else f'above {below}' if below else 'below all'}" in finding
    )
    assert re.search(r"significantly different from null models \(p [<=] [\d.]+, 9 null models\)", finding)
    assert tab.page.eval_on_selector_all("#odds .other", "all => all.length") == 30
    assert "so “he” is expected" in tab.page.inner_text(row.format("counterfactual"))
    assert tab.page.eval_on_selector_all("#odds .band", "bands => bands.length") == 1


def odds_said(x: float) -> str:
    """Log-odds as the page says them."""
    ratio = np.exp(abs(x))
    said = f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"
    return "even" if abs(x) < 0.005 else f"{'she' if x > 0 else 'he'} {said} : 1"


@pytest.mark.nightly
def test_the_axis_is_the_same_for_every_sentence_and_marks_what_lies_beyond_it(
    browser: Any, model: Model
) -> None:
    explorer = Explorer(model, load_words("gender"))
    answer, shift = explorer.answer, [0.0]

    def shifted(state: PageState) -> Answer:
        """The answer with odds that a tiny model does not have."""
        found = answer(state)
        odds = Odds(shift[0], 0.5, 0.5)
        first = replace(found.texts[0], odds=(odds,))
        return replace(found, texts=(first, found.texts[1]))

    explorer.answer = shifted  # type: ignore[method-assign]
    served = Served(explorer, 0, TOKEN).start()
    opened = Tab(browser, served.address)
    ticks = "ticks => ticks.map(tick => [tick.textContent, tick.style.left])"
    axes, places = [], []
    for number, value in enumerate((0.0, np.log(10), np.log(100), 9.0, -9.0)):
        shift[0], sentence = float(value), f"The nurse said {number} times that ___ was tired."
        opened.type(sentence)
        opened.settled(1, sentence)
        axes.append(opened.page.eval_on_selector_all(".ticks span", ticks))
        point = opened.page.query_selector('#odds [data-row="sentence"] .point')
        places.append((float(point.evaluate("p => parseFloat(p.style.left)")), point.get_attribute("class")))
    assert all(axis == axes[0] for axis in axes)
    (even, _), (ten, _), (hundred, inside), (most, above), (least, below) = places
    found = (even, ten, hundred, most, least)  # percent; 1000 : 1 is where the axis ends
    assert found == pytest.approx((50, 66, 82, 98, 2), abs=0.01)
    assert "beyond" not in inside
    assert "beyond" in above
    assert "below" in below
    opened.close()
    served.close()


def test_names_are_exchanged_by_a_switch_that_a_link_holds(browser: Any, tab: Tab) -> None:
    sentence = "Mary said that ___ was tired."
    tab.type(sentence)
    tab.settled(1, sentence)
    assert tab.page.input_value("#counterfactual") == "John said that ___ was tired."
    assert "“Mary”" in tab.page.inner_text("#odds")
    tab.page.uncheck("#names")
    tab.page.wait_for_function("() => location.hash.includes('names')", timeout=WAIT)
    assert tab.page.input_value("#counterfactual") == sentence
    assert tab.page.eval_on_selector_all("#odds .odd", "rows => rows.length") == 1  # there is no other text
    again = Tab(browser, tab.page.url)
    again.settled(1, sentence)
    assert not again.page.is_checked("#names")
    again.close()


def test_an_error_clears_the_odds_of_the_sentence_before(tab: Tab) -> None:
    tab.type(SENTENCE)
    tab.settled(1)
    tab.page.wait_for_selector("html[data-settled]", timeout=WAIT)
    assert tab.page.inner_text("#as-python")
    tab.type("A ___ and a ___.")
    tab.page.wait_for_selector("#line:not([hidden])", timeout=WAIT)
    tab.page.wait_for_selector("html[data-settled]", timeout=WAIT)
    for name in ("odds", "bars", "effect", "spoken", "moves", "arcs", "neurons", "as-python"):
        assert tab.page.eval_on_selector(f"#{name}", "box => box.childNodes.length") == 0, name
    assert tab.page.input_value("#counterfactual") == ""
    tab.type(SENTENCE)
    tab.settled(1)
    assert tab.page.input_value("#counterfactual") == COUNTERFACTUAL


def test_a_null_band_the_reasons_and_attention_follow_the_answer(tab: Tab) -> None:
    tab.type(NEUTRAL)
    tab.settled(1, NEUTRAL)
    tab.page.wait_for_selector("#odds .band", state="attached", timeout=WAIT)
    tab.page.wait_for_selector("#arcs path", state="attached", timeout=WAIT)
    assert "Heads that move these odds most" in tab.page.inner_text("#moves")
    tab.page.click("#words button:has-text('said')")
    tab.page.wait_for_selector("#words button[aria-pressed=true]:has-text('said')", timeout=WAIT)
    tab.page.select_option("#colors", "why")
    assert tab.page.eval_on_selector_all(
        "#map .head", "heads => heads.some(head => Number(head.style.getPropertyValue('--s')) === 1)"
    )


def test_scores_of_all_heads_arrive_in_the_background(tab: Tab, served: Served) -> None:
    scored = "() => document.querySelector('#scoring').textContent.includes('|SEAT|')"
    tab.page.wait_for_function(scored, timeout=WAIT)
    found = served.explorer.jobs().scores
    assert found is not None
    tab.page.focus('[data-head="2-3"]')
    assert f"{abs(found.scores[1][2]):.3f}" in tab.page.inner_text("#info")


@pytest.mark.nightly
def test_a_change_is_measured_on_the_chosen_benchmark_too(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, model = load_triples().at_most(6), tiny("gpt2")
    monkeypatch.setattr("levelhead.exploring.benchmarks.load_triples", lambda: few)
    with serving(model) as own:
        opened = Tab(browser, own.address)
        menu = opened.page.eval_on_selector_all("#benchmark option", "all => all.map(each => each.value)")
        assert menu == [each.name for each in own.explorer.facts.benchmarks]
        opened.page.click('[data-head="2-2"]')
        opened.page.select_option("#benchmark", PREFERENCE)
        opened.page.wait_for_function("() => location.hash.includes('preference')", timeout=WAIT)
        opened.page.wait_for_selector("#measured[data-change]", state="attached", timeout=WAIT)
        text = opened.page.inner_text("#measured")
        variants = [(), gates(model, {Head(1, 1): 0.0})]
        own_items = NaturalItems(Battery(load_words("gender"), (), few))
        expected = natural_bias(model, own_items, PREFERENCE, variants).paired(1).change
        shown = float(opened.page.get_attribute("#measured", "data-change"))
        assert shown == pytest.approx(expected, abs=1e-6)
        assert re.search(r"6 items: .* before, .* after. Change .*\[.*\] nats", text)
        opened.page.click("#reset")
        opened.settled(1, own.explorer.facts.start)
        assert opened.page.inner_text("#measured") == ""  # nothing is changed: no numbers of another change
        opened.close()


def test_neurons_and_steering_are_switched_by_keyboard_and_show_the_odds_of_the_api(
    tab: Tab, model: Model
) -> None:
    keys, page = tab.page.keyboard, tab.page
    tab.type(SENTENCE)
    tab.settled(1)
    page.wait_for_selector("html[data-settled] #neurons li", timeout=WAIT)
    names = page.eval_on_selector_all("#neurons li", "all => all.map(each => each.dataset.neuron)")
    page.focus('[data-head="1-1"]')
    for _ in range(5):
        keys.press("Tab")
        if page.evaluate("document.activeElement.closest('#neurons') !== null"):
            break
    for key in ("Space", "Tab", "Tab", "Tab", "ArrowRight", "ArrowRight"):
        keys.press(key)
    off, turned = (Neuron(*Head.parse(name)) for name in names[:2])
    page.wait_for_function("() => location.hash.includes('1.1')", timeout=WAIT)
    assert page.get_attribute(f'[data-neuron="{names[0]}"] button', "aria-pressed") == "true"
    expected = Recipe(neurons={off: 0.0, turned: 1.1})
    both = log_odds(model, [(), edits_of(model, expected)])
    np.testing.assert_allclose(tab.settled(2)[:2], both, atol=1e-6)
    page.focus("#steering")
    keys.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('steering')", timeout=WAIT)
    steered = log_odds(model, [(), edits_of(model, replace(expected, steering=2.0))])
    np.testing.assert_allclose(tab.settled(2)[:2], steered, atol=1e-6)
    assert abs(steered[:, 1] - both[:, 1]).max() > 1e-4
    assert page.inner_text("#effect b:first-child").count(" → ") == 1
    page.click("#reset")
    tab.settled(1)
    assert page.input_value("#steering") == "0"


def test_a_symmetrized_model_is_one_click(tab: Tab) -> None:
    tab.type(SENTENCE)
    tab.settled(1)
    tab.page.click("#symmetrized")
    sentence, counterfactual, _ = tab.settled(2)
    assert sentence[1] == pytest.approx(-counterfactual[1], abs=1e-4)
    tab.page.click("#reset")
    tab.settled(1)


def test_a_certified_recipe_is_one_click_its_strength_a_slider_and_a_second_model_stands_beside(
    browser: Any, model: Model, tmp_path: Path
) -> None:
    run, second = open_run(mitigated_run(tmp_path / "run", model)), tiny("bert", seed=3)
    with serving(model, run=run, second=second) as own:
        opened = Tab(browser, own.address)
        opened.type(SENTENCE)
        beside = [row[1] for row in opened.settled(2)[:2]]
        np.testing.assert_allclose(beside, log_odds(second, [()])[:, 0], atol=1e-6)
        assert opened.page.inner_text(".presets li:first-child .certified") == "certified on our items only"
        opened.page.click("text=two heads")
        opened.settled(3)
        opened.page.fill("#strength", "0.5")
        opened.page.wait_for_function("() => location.hash.includes('strength')", timeout=WAIT)
        half = gates(model, {Head(0, 0): 0.5, Head(1, 1): 0.75})
        expected = np.hstack([log_odds(model, [(), half]), log_odds(second, [()])])
        np.testing.assert_allclose(opened.settled(3)[:2], expected, atol=1e-6)
        opened.close()


# ---- taking it along


@pytest.mark.nightly
def test_the_link_holds_the_state(browser: Any, tab: Tab) -> None:
    tab.type(SENTENCE)
    tab.page.click('[data-head="2-1"]')
    neuron = tab.switch_neuron()
    tab.steer("4")
    tab.page.select_option("#benchmark", "perplexity")
    tab.page.wait_for_function("() => location.hash.includes('perplexity')", timeout=WAIT)
    before = tab.settled(2)
    again = Tab(browser, tab.page.url)
    np.testing.assert_allclose(again.settled(2), before, atol=1e-6)
    off = f'[data-neuron="{neuron}"] button[aria-pressed=true]'
    again.page.wait_for_selector(off, state="attached", timeout=WAIT)
    assert again.page.input_value("#steering") == "4"
    assert again.page.input_value("#benchmark") == "perplexity"
    assert again.page.input_value("#sentence") == SENTENCE
    assert again.page.get_attribute('[data-head="2-1"]', "aria-pressed") == "true"
    again.close()


@pytest.mark.parametrize("everything", [False, True])
def test_the_copied_recipe_gives_the_same_numbers_by_levelhead_debias(
    tab: Tab, folder: Path, tmp_path: Path, typed: Typed, everything: bool
) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.type(SENTENCE)
    tab.page.click('[data-head="3-1"]')
    if everything:
        tab.switch_neuron()
        tab.steer("4")
    shown = tab.settled(2)
    tab.page.click('button[data-of="recipe"]')
    (tmp_path / "recipe.toml").write_text(tab.page.evaluate("navigator.clipboard.readText()"))
    code, _, error = typed(
        "debias", str(folder), "--recipe", str(tmp_path / "recipe.toml"), "-o", str(tmp_path / "changed")
    )
    assert code == 0, error
    changed = load(str(tmp_path / "changed"))
    np.testing.assert_allclose(log_odds(changed, [()])[:, 0], [row[1] for row in shown[:2]], atol=1e-5)


def test_a_saved_page_works_without_the_server(browser: Any, tab: Tab, tmp_path: Path) -> None:
    tab.type(SENTENCE)
    tab.page.click('[data-head="2-1"]')
    neuron = tab.switch_neuron()
    tab.steer("4")
    shown = tab.settled(2)
    with tab.page.expect_download() as download:
        tab.page.click("#save")
    download.value.save_as(tmp_path / "page.html")
    context = browser.new_context(offline=True)
    page, messages, requests = context.new_page(), [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("html[data-ready]", timeout=WAIT)
    points = "points => points.map(point => Number(point.dataset.logOdds))"
    assert page.eval_on_selector_all("#odds .point", points) == pytest.approx(
        [x for row in shown for x in row]
    )
    assert page.is_disabled("#sentence")
    assert page.get_attribute(f'[data-neuron="{neuron}"] button', "aria-pressed") == "true"
    assert page.is_disabled(f'[data-neuron="{neuron}"] button')
    assert page.input_value("#steering") == "4"
    page.focus('[data-head="1-1"]')
    assert page.inner_text("#attending") == "1-1"
    assert messages == []
    assert [url for url in requests if not url.startswith("data:")] == [(tmp_path / "page.html").as_uri()]
    context.close()


# ---- what it writes

WRITES = "#writes[aria-busy=false] li"


@pytest.fixture(scope="module")
def writing() -> Iterator[Served]:
    """A server for a model that continues texts."""
    with serving(tiny("gpt2")) as one:
        yield one


def texts_of(page: Any) -> list[list[list[str]]]:
    """[side][text][sentence or counterfactual], as they stand on the page, without the sentences."""
    found: list[list[list[str]]] = page.eval_on_selector_all(
        "#writes ol",
        """sides => sides.map(side => [...side.children].map(
            row => [...row.querySelectorAll('.said')].map(said => said.textContent)))""",
    )
    return found


def written_by(served: Served, state: PageState) -> list[list[list[str]]]:
    """The same, as the explorer has them."""
    sides = served.explorer.continuations(state).sides

    def said(text: WrittenText) -> str:
        return "".join(piece.text for piece in text.pieces)

    return [[list(map(said, row)) for row in zip(*side.texts, strict=True)] for side in sides]


def with_seed(page: Any, seed: int) -> None:
    """Wait for the texts of a seed."""
    page.wait_for_function(
        """seed => document.querySelector('#writes[aria-busy=false]') &&
            document.querySelector('#seed').textContent === String(seed)""",
        arg=seed,
        timeout=WAIT,
    )


@pytest.mark.nightly
def test_a_causal_model_writes_beside_its_counterfactual_and_again_and_a_saved_page_keeps_it(
    browser: Any, writing: Served, tmp_path: Path
) -> None:
    sentence = "My mother said that she"
    opened = Tab(browser, writing.address, 390, 844)
    page = opened.page
    opened.type(sentence)
    opened.settled(1, sentence)
    page.wait_for_selector("html[data-settled]", timeout=WAIT)
    page.wait_for_selector(WRITES, timeout=WAIT)
    assert texts_of(page) == written_by(writing, PageState(sentence))
    assert page.inner_text("#writes mark.first >> nth=0") == "mother"
    assert page.inner_text("#writes mark.second >> nth=0") == "father"
    page.click("#symmetrized")
    page.wait_for_selector("#writes h3 >> nth=1", timeout=WAIT)
    page.focus("#again")
    page.keyboard.press("Enter")
    with_seed(page, 1)
    page.keyboard.press("Space")
    with_seed(page, 2)
    shown = texts_of(page)
    assert shown == written_by(writing, PageState(sentence, symmetrized=True, seed=2))
    assert page.evaluate("document.activeElement.id") == "again"
    assert page.inner_text("#status") == "New texts, seed 2"
    assert "seed" in page.url
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    linked = Tab(browser, page.url)
    with_seed(linked.page, 2)
    assert texts_of(linked.page) == shown
    linked.close()
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "page.html")
    opened.check_silent(writing.address)
    opened.close()
    context = browser.new_context(offline=True)
    kept = context.new_page()
    kept.goto((tmp_path / "page.html").as_uri())
    with_seed(kept, 2)
    assert texts_of(kept) == shown
    assert kept.query_selector("#again") is None
    context.close()


@pytest.mark.nightly
def test_texts_that_nobody_wants_any_more_are_given_up_without_a_word(browser: Any, writing: Served) -> None:
    opened = Tab(browser, writing.address)
    for number in range(12):
        opened.type(f"My father said {number} times that")
        opened.page.wait_for_timeout(90)
        opened.page.click("#again")
    opened.page.wait_for_selector("html[data-settled]", timeout=WAIT)
    with_seed(opened.page, 12)
    assert texts_of(opened.page) == written_by(writing, PageState("My father said 11 times that", seed=12))
    opened.check_silent(writing.address)
    opened.close()


def test_a_masked_model_has_no_panel_for_texts(tab: Tab) -> None:
    assert tab.page.query_selector("#writes, #again, #seed") is None


# ---- what must not break it

HOSTILE = {
    "markup": "<img src=x onerror=alert(1)><script>alert(2)</script> ___ </textarea>",
    "right to left": "אמא אמרה ש ___ עייפה\u202e!",
    "emoji": "👩‍🚀 said that ___ was tired 🏳️‍🌈",
    "10,000 characters": "a " * 5_000 + "___",
    "empty": "",
}


@pytest.fixture(scope="module")
def lasting(browser: Any, served: Served) -> Iterator[Tab]:
    """A tab in which one sentence is typed after the other."""
    opened = Tab(browser, served.address)
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_sentence_is_text_and_the_page_goes_on(lasting: Tab, served: Served, kind: str) -> None:
    tab, sentence = lasting, HOSTILE[kind]
    tab.type(sentence)
    if kind in ("10,000 characters", "empty"):
        tab.page.wait_for_selector("#line:not([hidden])", timeout=WAIT)
        assert tab.page.inner_text("#line")
    else:
        tab.settled(1, sentence)
        assert tab.page.inner_text("#as-python").count("___") == 0
    assert tab.page.input_value("#sentence") == sentence
    assert tab.page.eval_on_selector_all("main img, main script", "all => all.length") == 0
    width = tab.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0
    tab.type(SENTENCE)
    tab.settled(1)
    tab.page.wait_for_selector("#line", state="hidden", timeout=WAIT)
    tab.check_silent(served.address)


def test_two_tabs_have_their_own_sentences_and_switches(browser: Any, served: Served, model: Model) -> None:
    other = "The nurse said that ___ was not."
    one, two = Tab(browser, served.address), Tab(browser, served.address)
    one.type(SENTENCE)
    two.type(other)
    one.page.click('[data-head="1-1"]')
    two.page.click('[data-head="3-3"]')
    first = log_odds(model, [(), gates(model, {Head(0, 0): 0.0})])
    both = (other, "My brother, a nurse, said that ___ was not.")
    second = log_odds(model, [(), gates(model, {Head(2, 2): 0.0})], both)
    np.testing.assert_allclose(one.settled(2)[:2], first, atol=1e-6)
    np.testing.assert_allclose(two.settled(2, other)[:2], second, atol=1e-6)
    one.close()
    two.close()


def test_a_killed_server_is_one_line_and_the_page_goes_on_when_it_is_back(browser: Any, model: Model) -> None:
    with serving(model) as own:
        port, opened = own.port, Tab(browser, own.address)
    opened.type(SENTENCE)
    opened.page.wait_for_selector("#line:not([hidden])", timeout=WAIT)
    line = opened.page.inner_text("#line")
    assert "server does not answer" in line
    assert "\n" not in line
    assert opened.page.input_value("#sentence") == SENTENCE
    assert opened.page.inner_text("#odds") == ""
    with serving(model, port) as back:
        np.testing.assert_allclose(opened.settled(1)[:2], log_odds(model, [()]), atol=1e-6)
        opened.page.wait_for_selector("#line", state="hidden", timeout=WAIT)
        assert back.port == port
    opened.close()


def test_typing_never_has_more_than_one_request_under_way(browser: Any, model: Model) -> None:
    explorer = Explorer(model, load_words("gender"))
    answer, under_way, most = explorer.answer, [0], [0]
    lock = threading.Lock()

    def slow(state: Any) -> Any:
        threading.Event().wait(0.15)
        return answer(state)

    explorer.answer = slow  # type: ignore[method-assign]
    served = Served(explorer, 0, TOKEN).start()
    opened = Tab(browser, served.address)

    def count(step: int) -> Any:
        def counted(request: Any) -> None:
            if "/ask/" in request.url:
                with lock:
                    under_way[0] += step
                    most[0] = max(most[0], under_way[0])

        return counted

    opened.page.on("request", count(1))
    opened.page.on("requestfinished", count(-1))
    opened.requests.clear()
    opened.page.focus("#sentence")
    opened.page.keyboard.press("Control+A")
    opened.page.keyboard.type(SENTENCE, delay=25)
    opened.settled(1)
    asked = [url for url in opened.requests if url.endswith("/ask/answer")]
    assert most[0] == 1
    assert len(asked) < len(SENTENCE)
    opened.close()
    served.close()


def test_no_script_and_no_style_but_the_pages_own_is_taken(browser: Any, served: Served) -> None:
    opened = Tab(browser, served.address)
    opened.page.evaluate(SMUGGLED)
    opened.page.wait_for_timeout(300)
    assert opened.page.title().startswith("levelhead explore: ")
    spacing = opened.page.evaluate("getComputedStyle(document.querySelector('h1')).letterSpacing")
    assert "77" not in spacing
    assert "78" not in spacing
    assert opened.messages  # the browser says what it refused
    opened.close()


# ---- how it looks and sounds


def test_every_control_has_a_name_and_odds_are_spoken(tab: Tab) -> None:
    names = """controls => controls.filter(c => !(c.getAttribute('aria-label') || c.textContent.trim() ||
      c.closest('label') || c.labels?.length)).map(c => c.outerHTML)"""
    assert tab.page.eval_on_selector_all("button, input, select, textarea", names) == []
    tab.type(SENTENCE)
    tab.settled(1)
    assert tab.page.get_attribute("#spoken", "aria-live") == "polite"
    assert "counterfactual" in tab.page.inner_text("#spoken")


@pytest.fixture(scope="module")
def grid(request: pytest.FixtureRequest) -> Model:
    """A model with as many heads as the shipped BERT, which is taken itself for the pictures of docs/."""
    if os.environ.get(PICTURES):
        shipped: Model = request.getfixturevalue("bert")
        return shipped
    return tiny("bert", "nsp", layers=8, num_attention_heads=8)


@pytest.fixture(scope="module")
def served_grid(grid: Model) -> Iterator[Served]:
    with serving(grid) as one:
        yield one


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.nightly), 390])
def test_the_grid_of_the_shipped_bert_fits_on_a_desk_and_on_a_phone(
    browser: Any, grid: Model, served_grid: Served, width: int, tmp_path: Path
) -> None:
    opened = Tab(browser, served_grid.address, width, 900 if width == 1280 else 844)
    opened.page.click('[data-head="6-8"]')
    both = (NEUTRAL, "My brother, a nurse, said that ___ was tired.")  # the opening example
    expected = log_odds(grid, [(), gates(grid, {Head(5, 7): 0.0})], both)
    np.testing.assert_allclose(opened.settled(2, NEUTRAL)[:2], expected, atol=1e-6)
    opened.page.select_option("#colors", "why")
    opened.page.wait_for_selector("html[data-settled]", timeout=WAIT)
    assert opened.page.eval_on_selector_all("#odds .band", "bands => bands.length") == 1
    assert opened.page.inner_text("#words button[aria-pressed=true]") == "[MASK]"
    assert opened.page.eval_on_selector_all("#neurons li", "rows => rows.length") == 8
    beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert opened.page.evaluate(beyond) <= 0
    assert opened.page.evaluate("scrollY") == 0
    for name in (
        "#sentence",
        "#counterfactual",
        "#pair",
        "#names",
        "#odds .odd",
        '[data-head="1-1"]',
        '[data-head="8-8"]',
    ):
        boxes = opened.page.eval_on_selector_all(name, "all => all.map(one => one.getBoundingClientRect())")
        assert boxes
        assert all(box["top"] >= 0 and box["bottom"] <= opened.page.viewport_size["height"] for box in boxes)
    opened.page.evaluate("document.querySelector('.skip').focus()")  # it is there while it has the focus
    small = """controls => controls.map(c => [c.getBoundingClientRect(), c.outerHTML]).filter(
      ([box]) => box.width && (box.width < 24 || box.height < 24)).map(([box, html]) => html)"""
    touched = "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])"
    assert opened.page.eval_on_selector_all(touched, "all => all.length") > 64 + 30
    assert opened.page.eval_on_selector_all(touched, small) == []
    name = "explore.png" if width == 1280 else "explore-phone.png"
    place = DOCS if os.environ.get(PICTURES) else tmp_path
    if place == DOCS:
        opened.page.wait_for_selector("#measured[data-change]", state="attached", timeout=5 * WAIT)
    opened.page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    opened.page.mouse.move(0, 0)
    opened.page.set_viewport_size({"width": width, "height": 1490 if width == 1280 else 844})
    opened.page.screenshot(path=str(place / name))
    assert (place / name).stat().st_size > 20_000
    opened.close()


def test_the_pictures_of_the_docs_are_there() -> None:
    page = (DOCS / "explore.md").read_text("utf-8")
    for name in ("explore.png", "explore-phone.png"):
        assert f"({name})" in page
        assert (DOCS / name).stat().st_size > 20_000
