"""Short names of variants: everywhere on the page, with the long one on hover; files keep the long ones."""

from __future__ import annotations

import re
from pathlib import Path

from levelhead.inference.contents import open_contents
from levelhead.pages.names import Names, Piece, names_of
from levelhead.pages.page import report_html
from tests.report.synthetic import write_audit, write_sweep
from tests.report.synthetic.audit import PROJECTED
from tests.report.synthetic.prompts import CLOSED

LONG = "tokens from layer 3: soft, 2-d"
NAMES = Names(
    {LONG: "projection 7", f"nli {LONG}": "classifier projection 9", "sent: soft": "projection 2"},
    {LONG: "projection 7", f"of the classifier, {LONG}": "classifier projection 9"},
)


def test_a_name_in_a_sentence_is_shortened_and_keeps_the_long_one_as_its_title() -> None:
    assert NAMES.pieces(f"Of 75 projections, {LONG} helps.") == [
        Piece("Of 75 projections, "),
        Piece("projection 7", LONG),
        Piece(" helps."),
    ]


def test_the_classifiers_projection_of_the_same_name_keeps_its_own_number() -> None:
    sentence = "Of 91 projections of the classifier, {} helps; of 75, {} does not."
    short = NAMES.short(sentence.format(LONG, LONG))
    assert short == sentence.format("classifier projection 9", "projection 7")


def test_plain_words_that_are_names_of_settings_stay_in_sentences() -> None:
    sentence = "Two stages, sent: soft, and so on."
    assert NAMES.short(sentence) == sentence
    assert NAMES.short("sent: soft") == "projection 2"
    assert NAMES.short(f"x{LONG}") == f"x{LONG}"  # inside a word


def test_data_of_charts_are_shortened_but_for_what_is_called_long() -> None:
    spec = {"data": [{"setting": LONG, "long": LONG, "who": f"lh:tiny, {LONG}", "n": 3}]}
    (point,) = NAMES.shorten(spec)["data"]
    assert point == {"setting": "projection 7", "long": LONG, "who": "lh:tiny, projection 7", "n": 3}


def test_projections_of_an_audit_are_numbered_and_closed_heads_counted(tmp_path: Path) -> None:
    names = names_of(open_contents(write_audit(tmp_path / "run")))
    assert names.short(CLOSED) == "without 2 heads"
    assert names.short(PROJECTED) == "projection 3"
    assert names.short("nli sent: hard") == "classifier projection 1"
    assert names.short("sent-debias") == "sent-debias"  # the name of its level: short already


def test_no_long_name_is_left_where_a_reader_looks(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "run")
    html = report_html(open_contents(folder))
    seen = re.sub(r'(title|data-csv|data-key|value)="[^"]*"', "", html)  # hover texts and files
    seen = re.sub(
        r"<small>[^<]*</small>|<script.*?</script>|<pre.*?</pre>|<option.*?</option>", "", seen, flags=re.S
    )
    assert CLOSED not in seen
    assert "tokens: soft, 2-d" not in seen
    assert f'<abbr title="{CLOSED}">without 2 heads</abbr>' in html
    assert f"After: {CLOSED}" in html  # in CSV files


def test_settings_of_a_sweep_are_numbered_in_their_order(tmp_path: Path) -> None:
    contents = open_contents(write_sweep(tmp_path / "run"))
    html = report_html(contents)
    for number, name in enumerate(("sent: hard", "sent: soft"), start=1):
        assert names_of(contents).short(name) == f"projection {number}"
        assert f"projection {number}: {name}" in html
