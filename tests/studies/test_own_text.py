"""Fluency on a text of the user's: the heads study and the audit read it, and a run says which it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import fluency_sentences, fluency_text
from levelhead.runs.folder import text_hash
from levelhead.studies.audit.extent import Extent
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.heads import run as study
from levelhead.studies.heads.bench import Bench
from levelhead.studies.heads.settings import DebiasSettings, HeadsSettings
from tests.tiny import tiny
from tests.word_lists import GENDER, gender_toml


@pytest.fixture
def text(tmp_path: Path) -> str:
    """Twelve sentences in WikiText's raw form, with a heading."""
    lines = [" = Work = ", " ", *(f" The nurse gave {n} @,@ 000 books , no less . " for n in range(1, 13))]
    (tmp_path / "wiki.raw").write_text("\n".join(lines), encoding="utf-8")
    return str(tmp_path / "wiki.raw")


def test_debiasing_is_judged_on_the_users_text_and_learned_on_other_sentences_of_it(text: str) -> None:
    bench = Bench(tiny("bert"), GENDER, template_contexts(GENDER, 1), DebiasSettings(text=text, sentences=3))
    read = fluency_text(text)
    assert read[0] == "The nurse gave 1,000 books, no less."
    assert [read.index(sentence) for sentence in bench.judging] == [2, 6, 10]  # spread over the whole text
    assert [read.index(sentence) for sentence in bench.learning] == [0, 4, 8]
    ((value, change),) = bench.fluency([()])
    assert value.settings["sentences"] == change.settings["sentences"] == 3


def test_a_heads_run_keeps_the_texts_name_and_hash(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "debias", lambda bench, scores, run: None)
    bias = gender_toml(tmp_path)
    settings = HeadsSettings(
        bias, experiments=("scores", "debias"), per_word=1, resamples=100, null=0, splits=0
    )
    model = tiny("bert")
    ours, own = (
        study.heads(model, replace(settings, text=t), tmp_path / str(i)) for i, t in enumerate((None, text))
    )
    assert (ours.settings.text, own.settings.text) == (None, text)
    hashes = [run.data.hashes["fluency text"] for run in (ours, own)]
    assert hashes == [text_hash(fluency_sentences()), text_hash(fluency_text(text))]


def test_an_audit_asks_fluency_of_the_users_text_everywhere(text: str) -> None:
    extent = Extent(AuditSettings(text=text, null=0), tiny("bert", "nsp"))
    assert extent.heads.text == text
    battery = extent.battery()
    assert battery.sentences == fluency_text(text)[::3]  # an audit asks every third sentence
    assert battery.hashes()["text"] == text_hash(battery.sentences)
