"""Mitigations that change weights: strength 0 changes no bit, and each says why it cannot run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from levelhead.edits.output import Reweighted
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text, token_id, vocabulary_parameters
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.counterfactual_text import CounterfactualText
from levelhead.studies.mitigate.gradient_edit import STRENGTHS, GradientEdit, steps_of
from levelhead.studies.mitigate.merging import STRENGTHS as MERGED
from levelhead.studies.mitigate.merging import MergedVectors, merging_steps
from levelhead.studies.mitigate.preference_tuning import PreferenceTuning
from levelhead.studies.mitigate.training import Means
from levelhead.studies.mitigate.unlearning import Unlearning
from tests.studies.test_distillation import TEXT
from tests.tiny import tiny
from tests.word_lists import GENDER

NSP = tiny("bert", "nsp", max_position_embeddings=256)


def battery(contexts: int = 4) -> Battery:
    triples = load_triples()
    some = list(dict.fromkeys(pair.original.context for pair in triples.pairs))[:contexts]
    return Battery(GENDER, tuple(template_contexts(GENDER, 1)), triples.about(some))


def test_the_step_is_the_difference_of_gradients_in_the_rows_that_disagree_most() -> None:
    weights = {"w": torch.tensor([[3.0, 4.0], [1.0, 1.0]]), "b": torch.ones(2)}
    anti, stereo = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[-1.0, 0.0], [1.0, 1.0]])
    step = steps_of(weights, {"w": (anti, stereo), "b": (torch.ones(2), -torch.ones(2))}, share=0.5)
    # the first row alone: D = (2, 0), and its weights have a norm of 5
    torch.testing.assert_close(step["w"], torch.tensor([[5.0, 0.0], [0.0, 0.0]]))
    assert set(step) == {"w"}


@pytest.mark.slow
def test_a_gradient_edit_of_strength_0_changes_no_bit_and_a_small_one_lowers_the_preference() -> None:
    fit = battery()
    candidates = GradientEdit().candidates(NSP, fit)
    assert [each.strength for each in candidates] == list(STRENGTHS)
    (change,) = candidates[0].edits
    assert isinstance(change, Reweighted)
    own = dict(NSP.hf.named_parameters())
    steps = {name: value - own[name] for name, value in change.values.items()}
    nothing = Reweighted.moved("nothing", own, steps, 0.0)
    triples = [each for pair in fit.triples.pairs for each in (pair.original, pair.swapped) if each]
    asked = Pooled([Text(t.context, s) for t in triples for s in (t.stereotype, t.anti)])
    plain, same, edited = read_one(NSP, asked, [(), (nothing,), candidates[0].edits])
    np.testing.assert_array_equal(plain, same)

    def preferred(logits: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
        x = (logits[:, 0] - logits[:, 1]).reshape(-1, 2)
        return float((x[:, 0] - x[:, 1]).mean())

    assert preferred(edited) < preferred(plain)


def test_merging_makes_the_means_of_groups_equal_and_leaves_all_other_rows() -> None:
    rows = torch.tensor([[0.0, 0.0], [4.0, 2.0], [0.0, 0.0], [2.0, 6.0], [7.0, 7.0]])
    steps = merging_steps(rows, [((1,), (2, 3))])
    # the groups' means are (4, 2) and (1, 3), and (2.5, 2.5) lies between them
    expected = torch.tensor([[0.0, 0.0], [-1.5, 0.5], [1.5, -0.5], [1.5, -0.5], [0.0, 0.0]]).double()
    torch.testing.assert_close(steps, expected)


@pytest.mark.parametrize(
    "model", [NSP, tiny("gpt2", "lm"), tiny("bert", "mlm")], ids=["nsp", "causal", "masked"]
)
def test_merged_word_vectors_shrink_what_tells_counterparts_apart_by_their_strength(model: Model) -> None:
    merged = MergedVectors()
    assert not merged.why_not(model, battery())
    candidates = merged.candidates(model, battery())
    assert [each.strength for each in candidates] == list(MERGED)
    she, he = (token for token in (token_id(model, word) for word in ("she", "he")) if token is not None)
    rows = vocabulary_parameters(model)
    for candidate in candidates:
        (change,) = candidate.edits
        assert isinstance(change, Reweighted)
        assert set(change.values) == set(rows)
        for name, new in change.values.items():
            left = (1 - candidate.strength) * (rows[name][she] - rows[name][he])
            torch.testing.assert_close(new[she] - new[he], left.detach(), atol=1e-6, rtol=1e-4)


def test_wholly_merged_vectors_answer_alike_for_both_groups_and_strength_0_changes_no_bit() -> None:
    *_, whole = MergedVectors().candidates(NSP, battery())
    (change,) = whole.edits
    assert isinstance(change, Reweighted)
    own = dict(NSP.hf.named_parameters())
    steps = {name: value - own[name] for name, value in change.values.items()}
    nothing = Reweighted.moved("nothing", own, steps, 0.0)
    asked = Pooled([Text(f"{word} said that {word} was late.", f"{word} ran.") for word in ("she", "he")])
    plain, same, merged = read_one(NSP, asked, [(), (nothing,), whole.edits])
    np.testing.assert_array_equal(plain, same)
    assert np.abs(plain[0] - plain[1]).max() > 1e-4
    np.testing.assert_allclose(merged[0], merged[1], atol=1e-5)


def test_a_list_without_counterparts_is_not_merged() -> None:
    lonely = replace(battery(), test=replace(GENDER, pairs=()))
    assert "no counterparts" in MergedVectors().why_not(NSP, lonely)


@pytest.mark.slow
@pytest.mark.parametrize("method", [PreferenceTuning, Unlearning, CounterfactualText])
def test_what_trains_gives_weights_after_several_numbers_of_steps(
    method: type[PreferenceTuning], tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    own = method(Means(str(tmp_path / "text.txt"), steps=4, folder=tmp_path / "checkpoints"))
    assert own.why_not(NSP, battery()) == ""
    candidates = own.candidates(NSP, battery())
    assert candidates[0].strength == 1.0
    changed = [
        any(not torch.equal(value, NSP.hf.get_parameter(name)) for name, value in edit.values.items())
        for each in candidates
        for edit in each.edits
        if isinstance(edit, Reweighted)
    ]
    assert all(changed)


def test_each_says_why_it_cannot_run() -> None:
    fit, vectors = battery(), tiny("bert", "base")
    assert "no vocabulary head" in CounterfactualText().why_not(vectors, fit)
    for method in (PreferenceTuning(), Unlearning(), GradientEdit()):
        assert "cannot judge a next sentence" in method.why_not(vectors, fit)
        assert method.why_not(NSP, fit) == ""
    other = Battery(load_words("race"), tuple(template_contexts(load_words("race"), 1)))
    assert "ship" in GradientEdit().why_not(NSP, other)
    assert "counterparts" in CounterfactualText().why_not(NSP, replace(fit, test=replace(GENDER, pairs=())))
