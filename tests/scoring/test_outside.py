"""The mirror gap: by hand, 0 for a symmetrized model, and on published pairs."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from levelhead.edits.output import Symmetrized
from levelhead.errors import CannotDo
from levelhead.measures.certified import AGREEMENT, MIRROR_GAP, PERPLEXITY
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap, RowSwap
from levelhead.probes.outside import OutsideSizes, OutsideText, exact
from levelhead.probes.words import load_words
from levelhead.scoring.outside import drawn_outside, mirror_gaps, outside_text, outside_values
from tests.tiny import tiny

SWAP = GenderSwap()
SENTENCES = (
    "The mother said that she saw him.",
    "His sister works in the kitchen.",
    "Mary gave her book to the grandmother.",
)
TEXT = OutsideText("ours", SENTENCES, ("a", "a", "b"), ("The nurse works. She is tired, and so is he.",))
PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data"
published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published data are not beside the checkout"
)


def of(model: Model, text: str) -> float:
    """log P of a text, token by token: of a masked model each behind a mask of its own."""
    ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
    total = 0.0
    with torch.no_grad():
        if "causal" in model.abilities:
            logs = model.hf(ids).logits[0].double().log_softmax(-1)
            return float(sum(logs[at - 1, ids[0, at]] for at in range(1, ids.shape[1])))
        for at in range(1, ids.shape[1] - 1):
            masked = ids.clone()
            masked[0, at] = model.tokenizer.mask_token_id
            total += float(model.hf(masked).logits[0, at].double().log_softmax(-1)[ids[0, at]])
    return total


@pytest.mark.parametrize(("family", "head"), [("gpt2", "causal"), ("bert", "mlm")])
def test_the_mirror_gap_is_the_difference_of_two_log_probabilities_by_hand(family: str, head: str) -> None:
    model = tiny(family, head)
    gaps = mirror_gaps(model, TEXT, SWAP, [()])
    by_hand = [abs(of(model, each) - of(model, SWAP(each).text)) for each in SENTENCES]
    assert gaps.values[0] == pytest.approx(by_hand, abs=1e-4)
    assert gaps.values.min() > 1e-3
    assert gaps.name == MIRROR_GAP


@pytest.mark.parametrize(("family", "head"), [("gpt2", "causal"), ("bert", "mlm")])
def test_a_symmetrized_model_has_no_mirror_gap(family: str, head: str) -> None:
    # a tiny vocabulary has a space of its own before some words, which a causal mixture leaves as it is
    text = OutsideText("", ("Mary gave her book to the grandmother.", "She lost her keys."), ("a", "b"))
    before, after = mirror_gaps(tiny(family, head), text, SWAP, [(), (Symmetrized(SWAP),)]).values
    assert after == pytest.approx(np.zeros(2), abs=1e-4)
    assert (before > 1e-3).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sentences"), [("lh:gpt-mini", 60), ("lh:bert-mini", 6)])
def test_a_symmetrized_shipped_model_has_no_mirror_gap_on_text_that_ships(name: str, sentences: int) -> None:
    model = load(name)
    whole = outside_text(model, "", load_words("gender"))
    text = whole.drawn(OutsideSizes(sentences, 1, 1, longest=10), seed=1)
    before, after = mirror_gaps(model, text, SWAP, [(), (Symmetrized(SWAP),)]).values
    # a name in no table ("Carthoris") has the gender that the model believes, at each orientation
    assert (after > 1e-3).sum() <= sentences // 50
    assert before.mean() > 0.5


def test_of_three_groups_the_gap_is_the_mean_over_the_other_orientations() -> None:
    model, rows = tiny("gpt2", "causal"), RowSwap("work", (("nurse", "engineer", "teacher"),))
    gap = mirror_gaps(model, OutsideText("", ("The nurse works too.",), ("a",)), rows, [()]).values[0, 0]
    own, second, third = (of(model, f"The {who} works too.") for who in ("nurse", "engineer", "teacher"))
    assert gap == pytest.approx((abs(own - second) + abs(own - third)) / 2, abs=1e-4)
    symmetrized = mirror_gaps(
        model, OutsideText("", ("The nurse works too.",), ("a",)), rows, [(Symmetrized(rows),)]
    )
    assert symmetrized.values[0, 0] == pytest.approx(0, abs=1e-4)


def test_outside_stand_the_gap_first_then_perplexity_and_one_agreement_of_nouns_and_names() -> None:
    model = tiny("gpt2", "causal", max_position_embeddings=256)
    text = drawn_outside(model, outside_text(model, "", load_words("gender")), seed=0)
    found = outside_values(model, text, SWAP, [()])
    names = [each.name for each in found]
    assert names[:2] == [MIRROR_GAP, PERPLEXITY]
    assert names[2:] in ([], [AGREEMENT])  # a tiny vocabulary may split pronouns


@pytest.mark.parametrize(
    ("bias", "source", "why"),
    [("gender", "none", "left out"), ("race", "", "no text ships for race"), ("science", "", "")],
)
def test_where_nothing_is_measured_outside_the_reason_is_given(bias: str, source: str, why: str) -> None:
    model = tiny("gpt2", "causal", max_position_embeddings=256)
    if not why:
        assert outside_text(model, source, load_words(bias)).sentences
        return
    with pytest.raises(CannotDo, match=why):
        outside_text(model, source, load_words(bias))


def published_pairs() -> tuple[str, ...]:
    """Next sentences of the published gender-swapped StereoSet whose published counterpart is ours."""
    file = PUBLISHED / "gender-swapped-stereoset" / "dev.csv"
    with file.open(encoding="utf-8-sig") as handle:
        rows = list(csv.DictReader(handle))
    pairs = dict.fromkeys((row["next_sentence"], row["gender_swapped_next_sentence"]) for row in rows)
    return tuple(a for a, b in pairs if a != b and SWAP(a).text == b and exact(SWAP, a))


@published
def test_published_counterparts_are_those_of_the_swap_in_nine_of_ten_sentences() -> None:
    assert len(published_pairs()) == 345  # of 377


@published
@pytest.mark.slow
def test_the_mirror_gap_of_published_sentences_is_known() -> None:
    model, sentences = load("lh:gpt-mini"), published_pairs()
    text = OutsideText("published", sentences, tuple(map(str, range(len(sentences)))))
    assert mirror_gaps(model, text, SWAP, [()]).values.mean() == pytest.approx(1.19, abs=0.01)
