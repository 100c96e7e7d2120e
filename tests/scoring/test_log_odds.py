"""Log-odds at the blank: from the model's own probabilities, of all words of both groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelhead.errors import CannotDo
from levelhead.measures.cloze.log_odds import lean_change, trend
from levelhead.models.encoding import token_id
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin
from levelhead.probes.cloze import ClozeSet, load_cloze
from levelhead.scoring.cloze import cloze_texts, prompt_table
from levelhead.scoring.log_odds import CORE, ask_log_odds, twin_log_odds
from tests.tiny import tiny


@pytest.fixture(scope="module")
def prompts() -> ClozeSet:
    return load_cloze(per_background=1)


def own_log_odds(model: Model, texts: list[str], female: list[int], male: list[int]) -> list[float]:
    """The model's own forward pass, one text at a time."""
    values = []
    for text in texts:
        ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
        place = -1
        if "mlm" in model.abilities:
            place = int((ids[0] == model.tokenizer.mask_token_id).nonzero()[0, 0])
        with torch.no_grad():
            out = model.hf(input_ids=ids)
        logits = (out.prediction_logits if "mlm" in model.abilities else out.logits)[0, place]
        values.append(float(logits[female].logsumexp(0) - logits[male].logsumexp(0)))
    return values


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_log_odds_of_two_words_are_those_of_the_models_own_forward_pass(
    name: str, request: pytest.FixtureRequest, prompts: ClozeSet
) -> None:
    model: Model = request.getfixturevalue(name)
    base = [text.first for text in cloze_texts(model, prompts)[:1]]
    values = ask_log_odds(model, prompts, words=("woman", "man"))[0]
    female, male = ([token for token in (token_id(model, w),) if token is not None] for w in ("woman", "man"))
    if name == "gpt":
        female += model.tokenizer.convert_tokens_to_ids(["ĠWoman"])
        male += model.tokenizer.convert_tokens_to_ids(["ĠMan"])
    known = set(range(model.config.vocab_size)) - {model.tokenizer.unk_token_id}
    female, male = ([token for token in side if token in known] for side in (female, male))
    assert values[0] == pytest.approx(own_log_odds(model, base, female, male)[0], abs=1e-4)


@pytest.mark.slow
def test_a_causal_model_without_a_gendered_word_in_any_top_10_is_measured(
    gpt: Model, prompts: ClozeSet
) -> None:
    """Knowledge that names the group moves the odds fivefold, and hardly at all in twins."""
    values, table = ask_log_odds(gpt, prompts)[0], prompt_table(prompts)
    assert np.isfinite(values).all()
    twins = twin_log_odds(gpt, prompts, [draw_twin(gpt, seed) for seed in range(4)])
    assert twins.shape == (4, len(values))
    named = lean_change(values, table, "target syntactic similar", twins)
    unrelated = lean_change(values, table, "unrelated", twins)
    assert named.value == pytest.approx(1.56, abs=0.05)
    assert named.null is not None
    assert abs(named.null.floor) < 0.3
    assert unrelated.value == pytest.approx(-0.04, abs=0.05)


def test_core_words_are_some_of_the_verbalizers(bert: Model, prompts: ClozeSet) -> None:
    assert set(prompts.verbalizer.words) >= CORE
    whole, core = ask_log_odds(bert, prompts)[0], ask_log_odds(bert, prompts, words=CORE)[0]
    assert np.corrcoef(whole, core)[0, 1] > 0.8
    assert np.abs(whole - core).max() > 0.1
    shares = {each.name: each.share for each in prompts.occupations if each.share is not None}
    assert trend(core, prompt_table(prompts), shares).n == 58


def test_variants_are_answered_side_by_side_and_a_vocabulary_without_the_words_is_refused(
    bert: Model, prompts: ClozeSet
) -> None:
    values = ask_log_odds(bert, prompts, variants=((), ()))
    np.testing.assert_array_equal(values[0], values[1])
    with pytest.raises(CannotDo, match="no log-odds"):
        ask_log_odds(tiny("bert"), prompts, words=("queen", "king"))
