"""WikiText's raw form becomes running text; text that nobody marked stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelhead.errors import BadProbe
from levelhead.probes.corpus import plain_sentences
from levelhead.probes.sentences import fluency_sentences, fluency_text

LINES = (  # with the blanks at both ends that the files have
    " = The Harbor = ",
    " ",
    " The old harbor was a well @-@ known place , with 1 @,@ 200 boats ( and 3 @.@ 5 cranes ) . ",
    " It did n't close until 1990 ; the mayor 's office called it \" a loss \" . ",
    " ",
    " = = History = = ",
    " ",
    " Nobody knows who built it . ",
)


def test_the_raw_form_of_wikitext_loses_its_headings_and_marks(tmp_path: Path) -> None:
    file = tmp_path / "wiki.test.raw"
    file.write_text("\n".join(LINES), encoding="utf-8")
    assert fluency_text(file) == (
        "The old harbor was a well-known place, with 1,200 boats (and 3.5 cranes).",
        "It didn't close until 1990; the mayor's office called it \"a loss\".",
        "Nobody knows who built it.",
    )


def test_plain_english_stays_as_it_is() -> None:
    assert tuple(plain_sentences(fluency_sentences())) == fluency_sentences()
    others = ("2 = 2 holds.", "x = y", "Mail me @home, not @ work.", 'She said "no" (twice).')
    assert tuple(plain_sentences(others)) == others


def test_a_part_of_a_text_is_spread_evenly_over_it(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("".join(f"Sentence number {i} is here.\n" for i in range(10)), encoding="utf-8")
    assert [s.split()[2] for s in fluency_text(file, 5)] == ["0", "2", "4", "6", "8"]
    assert len(fluency_text(file, 50)) == len(fluency_text(file)) == 10
    assert fluency_text() == fluency_sentences()


def test_a_text_of_headings_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "heads.txt"
    file.write_text(" = One = \n = = Two = = \n", encoding="utf-8")
    with pytest.raises(BadProbe, match="nothing but headings"):
        fluency_text(file)
