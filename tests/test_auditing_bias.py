"""Audits of another bias than the shipped probes': its own words, or the reason why nothing was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import levelhead as lh
from levelhead.inference.comparing import compare
from levelhead.inference.contents import open_contents
from levelhead.pages.card import card
from levelhead.pages.page import render
from levelhead.pages.presented import comparison_page
from levelhead.pages.tables import probability, shown
from levelhead.probes.bias import about_gender, list_pairs
from levelhead.probes.words import load_words
from levelhead.runs.presets import AuditSizes
from levelhead.studies.audit import Audit
from levelhead.studies.audit.run import audit
from tests.test_auditing import headline
from tests.tiny import tiny
from tests.word_lists import RELIGION, toml

SMALL = AuditSizes(
    null=2,
    contexts=1,
    score_contexts=1,
    counter_sentences=6,
    sentences=80,
    resamples=100,
)
AGE = """
name = "age"
labels = ["old", "young", "stereotyped as old", "stereotyped as young"]
pairs = [["old", "young"], ["elderly", "youthful"], ["senior", "junior"], ["aged", "adolescent"],
         ["retired", "teenage"], ["ancient", "new"]]
X = ["slow", "weak", "frail", "stubborn", "wise", "tired"]
Y = ["fast", "strong", "energetic", "flexible", "modern", "lively"]
"""


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    settings = lh.settings.AuditSettings(bias="race", sizes=SMALL)
    return audit("lh:bert-mini", settings, tmp_path_factory.mktemp("runs") / "race", device="cpu")


def test_lists_of_feminine_and_masculine_words_are_about_gender_and_others_are_not(tmp_path: Path) -> None:
    gendered = {
        name for name in ("gender", "career", "math", "science", "race") if about_gender(load_words(name))
    }
    assert gendered == {"gender", "career", "math", "science"}
    assert not about_gender(load_words(toml(tmp_path, RELIGION)))


def test_pairs_of_a_list_are_its_counterparts_in_every_template() -> None:
    pairs = list_pairs(load_words("race"))
    assert len(pairs) == 3 * 16
    assert pairs[0].feminine == ("The word I had in mind was black.", None)
    assert pairs[0].masculine == ("The word I had in mind was Caucasian.", None)
    judged = list_pairs(load_words("race"), for_classifier=True)
    assert judged[0].feminine[0] == judged[0].masculine[0] == "The word I had in mind was this."


def test_an_audit_of_race_nowhere_has_the_word_gender(race: Audit) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in race.folder.rglob("*") if path.is_file()}
    texts[Path("card")] = card(open_contents(race.folder))
    assert race.report in texts
    for path, text in texts.items():
        assert "gender" not in text.lower(), (path, text[max(0, text.lower().index("gender") - 200) :][:300])


def test_what_belongs_to_another_bias_is_asked_in_words_of_the_list_or_not_measured(race: Audit) -> None:
    assert race["lpbs race"].value is not None
    assert race["lpbs race"].settings["test"] == "race"
    assert "lpbs career" not in race.measurements["base"]
    for measure, what in {"strength": "next sentences", "log_odds": "fill-in prompts"}.items():
        assert race[measure].reason == f"no {what} ship for race"
    said = headline(race).text  # the pairs share words
    assert "the words black, African rather than Caucasian, white" in said
    assert "nothing is claimed about race" in said
    assert not any("Filling in she or he" in finding for finding in headline(race).findings)


def test_card_and_report_name_the_bias_and_its_list(race: Audit) -> None:
    fingerprint = load_words("race").fingerprint()
    for text in (card(open_contents(race.folder)), race.report.read_text(encoding="utf-8")):
        assert "race" in text
        assert "African American" in text
        assert fingerprint in text


def test_an_equal_model_compares_as_no_difference_item_by_item(race: Audit) -> None:
    compared = compare([race.folder, race.folder]).measures
    known = [name for name, each in compared.items() if each.values[0] and each.values[0].value is not None]
    assert {"seat", "lpbs race", "fluency"} <= set(known)
    for name in known:
        difference = compared[name].differences[0]
        assert difference is not None
        assert (difference.value, difference.interval, difference.paired) == (0.0, (0.0, 0.0), True), name


def test_a_short_list_of_the_users_own_shows_p_and_floor_wherever_the_value_stands(tmp_path: Path) -> None:
    settings = lh.settings.AuditSettings(bias=toml(tmp_path, AGE, "age.toml"), sizes=SMALL)
    audited = audit(saved(tmp_path), settings, tmp_path / "run", device="cpu")
    seat = audited["seat"]
    assert seat.null is not None
    held = f"{seat.null.floor:.2f} ± {seat.null.spread:.2f} in null models, p "
    assert held in headline(audited).text
    comparison = render(comparison_page(compare([audited.folder, audited.folder])))
    pages = {"report": audited.report.read_text(encoding="utf-8"), "comparison": comparison}
    for name, page in pages.items():
        assert held in page, name
    assert f"| {shown(seat.null.floor)} | {probability(seat.null.p_value).text} |" in card(
        open_contents(audited.folder)
    )


def saved(folder: Path) -> str:
    """A tiny masked model as a folder."""
    model = tiny("bert", "mlm")
    model.hf.save_pretrained(folder / "model")
    model.tokenizer.save_pretrained(folder / "model")
    return str(folder / "model")
