"""Short names of variants: everywhere on the page, with the long one on hover; files keep the long ones."""

from __future__ import annotations

from pathlib import Path

from levelhead.inference.contents import open_contents
from levelhead.pages.names import Names, Piece, names_of
from levelhead.pages.page import report_html
from levelhead.studies.audit import Audit
from tests.report.synthetic import write_audit, write_sweep
from tests.report.synthetic.audit import PROJECTED, write_arena

LONG = "tokens from layer 3: soft, 2-d"
NAMES = Names(
    {LONG: "projection 7", f"nli {LONG}": "projection 9", "sent: soft": "projection 2"},
    {LONG: "projection 7"},
)


def test_a_name_in_a_sentence_is_shortened_and_keeps_the_long_one_as_its_title() -> None:
    assert NAMES.pieces(f"Of 75 projections, {LONG} helps.") == [
        Piece("Of 75 projections, "),
        Piece("projection 7", LONG),
        Piece(" helps."),
    ]


def test_plain_words_that_are_names_of_settings_stay_in_sentences() -> None:
    sentence = "Two stages, sent: soft, and so on."
    assert NAMES.short(sentence) == sentence
    assert NAMES.short("sent: soft") == "projection 2"
    assert NAMES.short(f"x{LONG}") == f"x{LONG}"  # inside a word


def test_data_of_charts_are_shortened_but_for_what_is_called_long() -> None:
    spec = {"data": [{"setting": LONG, "long": LONG, "who": f"lh:tiny, {LONG}", "n": 3}]}
    (point,) = NAMES.shorten(spec)["data"]
    assert point == {"setting": "projection 7", "long": LONG, "who": "lh:tiny, projection 7", "n": 3}


def test_what_is_recommended_of_a_classifier_is_named_with_its_model(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "run")
    write_arena(folder / Audit.nli_mitigate.folder, "lh:tiny-nli", 0)
    contents = open_contents(folder)
    assert contents.audit is not None
    assert list(contents.audit.recommended) == [PROJECTED, f"nli {PROJECTED}"]
    assert names_of(contents).short(f"nli {PROJECTED}") == f"{PROJECTED} (lh:tiny-nli)"
    assert names_of(contents).short(PROJECTED) == PROJECTED


def test_settings_of_a_sweep_are_numbered_in_their_order(tmp_path: Path) -> None:
    contents = open_contents(write_sweep(tmp_path / "run"))
    html = report_html(contents)
    for number, name in enumerate(("sent: hard", "sent: soft"), start=1):
        assert names_of(contents).short(name) == f"projection {number}"
        assert f"projection {number}: {name}" in html
