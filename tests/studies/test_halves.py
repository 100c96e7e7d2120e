"""Nothing is chosen and reported on the same items."""

from __future__ import annotations

import pytest

from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.probes.words import WordTest, load_words
from levelhead.scoring.battery import Battery
from levelhead.studies.halves import Halves, halves


@pytest.fixture(scope="module")
def battery() -> Battery:
    test = load_words("gender")
    return Battery(
        test,
        tuple(template_contexts(test, 2)),
        triples=load_triples(),
        probe=nli_probe(limit=(41, 8)),
        ability=ability_pairs(limit=90),
        sentences=fluency_sentences()[::10],
    )


@pytest.fixture(scope="module")
def parts(battery: Battery) -> Halves:
    return halves(battery, seed=0)


def items(battery: Battery) -> dict[str, set[str]]:
    """The clusters of every kind of item."""
    return {
        "triples": {pair.original.context for pair in battery.triples.pairs},
        "inferences": set(battery.probe.occupations),
        "abilities": {pair.premise for pair in battery.ability.pairs},
        "sentences": set(battery.sentences),
        "words": {word for own in battery.test.groups().values() for word in own},
        "contexts": {context.word for context in battery.contexts},
    }


def test_the_halves_share_no_context_occupation_premise_sentence_or_word(parts: Halves) -> None:
    chosen, reported = items(parts.choose), items(parts.report)
    assert parts.words_apart
    for kind, own in chosen.items():
        assert own, kind
        assert reported[kind], kind
        assert not own & reported[kind], kind


def test_the_halves_are_all_there_is(battery: Battery, parts: Halves) -> None:
    whole, chosen, reported = items(battery), items(parts.choose), items(parts.report)
    for kind in ("triples", "inferences", "abilities", "sentences", "words", "contexts"):
        assert chosen[kind] | reported[kind] == whole[kind], kind
    assert parts.choose.probe.shape == (20, 8, 2)
    assert parts.report.probe.shape == (21, 8, 2)
    assert abs(len(chosen["triples"]) - len(reported["triples"])) <= 1


def test_counterparts_stay_together(parts: Halves) -> None:
    for own in (parts.choose.test, parts.report.test):
        known = {word for pair in own.pairs for word in pair}
        assert known == {*own.A, *own.B}


def test_another_seed_splits_otherwise_and_changes_the_hashes(battery: Battery, parts: Halves) -> None:
    other = halves(battery, seed=1)
    assert items(other.report)["triples"] != items(parts.report)["triples"]
    hashes = [each.hashes() for each in (battery, parts.choose, parts.report, other.report)]
    for name in ("words", "triples", "inference", "ability", "text"):
        assert len({each[name] for each in hashes}) == 4, name


def test_a_list_too_short_to_split_is_used_whole_and_said(battery: Battery) -> None:
    short = WordTest(
        "short",
        ("she", "woman"),
        ("he", "man"),
        ("nurse", "dancer"),
        ("pilot", "boxer"),
        pairs=(("she", "he"), ("woman", "man")),
    )
    parts = halves(Battery(short, tuple(template_contexts(short, 2)), battery.triples, battery.probe), seed=0)
    assert not parts.words_apart
    assert parts.choose.test == parts.report.test == short
