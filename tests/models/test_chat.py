"""Questions through a chat template: what the user told, what the model says, and nothing twice."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors

import levelhead as lh
from levelhead.errors import BadOption, CannotDo
from levelhead.models.chat import chat_texts
from levelhead.models.encoding import Text, encode
from levelhead.models.model import Model
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.scoring.cloze import ask_cloze, cloze_texts
from levelhead.scoring.pairs import likelihood_answers
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.run import counteracts
from levelhead.studies.counteracts.settings import CounteractsSettings
from tests.tiny import bpe, tiny
from tests.word_lists import OCCUPATIONS

TURNS = (
    "{% for turn in messages %}<|endoftext|>{{ turn.role }}\n{{ turn.content }}<|endoftext|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|endoftext|>assistant\n{% endif %}"
)
INSTRUCTED = "{% for turn in messages %}<|endoftext|>[INST] {{ turn.content }} [/INST]{% endfor %}"
STRICT = "{{ raise_exception('Say who you are first') }}"
TOLD, SAID = "The nurse was tired.", "She was not."


def chatting(template: str | None = TURNS, *, begins: bool = False) -> Model:
    """A tiny causal model with this template; begins: its tokenizer puts a token before every text."""
    tokenizer: Any = copy.deepcopy(bpe())
    tokenizer.chat_template = template
    if begins:
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 1)]
        )
    return tiny("llama", tokenizer=tokenizer, max_position_embeddings=256)


def chat_text(model: Model, told: str, said: str) -> Text:
    return chat_texts(model, [(told, said)])[0]


@pytest.fixture(scope="module")
def model() -> Model:
    return chatting()


@pytest.fixture
def triples() -> TripleSet:
    pairs = load_triples().pairs[:4]
    return TripleSet("four", tuple(pairs), {}, "hash", "pairs", ())


def test_the_model_says_what_stands_behind_the_generation_prompt(model: Model) -> None:
    assert chat_text(model, TOLD, SAID).first == (
        f"<|endoftext|>user\n{TOLD}<|endoftext|>\n<|endoftext|>assistant\n{SAID}"
    )
    assert chat_text(chatting(INSTRUCTED), TOLD, SAID).first.endswith(f"{TOLD} [/INST] {SAID}")


def test_a_chat_brings_its_special_tokens_and_the_tokenizer_adds_none() -> None:
    model = chatting(begins=True)
    chat, plain = chat_text(model, TOLD, SAID), Text(TOLD)
    own = model.tokenizer.bos_token_id
    rows = list(encode(model, [plain, chat, plain]))
    assert rows[0].ids[:2].tolist().count(own) == 1
    assert rows[1].ids[:2].tolist().count(own) == 1  # not twice
    assert rows[1].ids.tolist() == model.tokenizer(chat.first, add_special_tokens=False)["input_ids"]
    assert rows[2].key == rows[0].key
    assert set(rows[1].ids[rows[1].part == -1]) == {own}  # written in the text, and special all the same


def test_likelihoods_are_those_of_the_models_own_turn(model: Model, triples: TripleSet) -> None:
    answers = likelihood_answers(model, triples, chat=True)[0]
    triple = triples.pairs[0].original
    turns = [{"role": "user", "content": triple.context}]
    opened = model.tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
    said = model.tokenizer(triple.anti, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model.hf(input_ids=torch.tensor([[*opened, *said]])).logits[0].log_softmax(-1)
    places = range(len(opened) - 1, len(opened) + len(said) - 1)
    by_hand = np.mean([float(logits[place, token]) for place, token in zip(places, said, strict=True)])
    assert answers.x[0, 1] == pytest.approx(by_hand, abs=1e-5)
    assert "the context is a user's turn" in answers.probability
    plain = likelihood_answers(model, triples)[0]
    assert "turn" not in plain.probability
    assert np.abs(plain.x - answers.x).max() > 1e-3


def test_prompts_are_answered_in_the_models_own_turn(model: Model, tmp_path: Path) -> None:
    prompts = tmp_path / "set.toml"
    prompts.write_text(OCCUPATIONS)
    cloze_set = CounteractsSettings(str(prompts)).load()
    prompt = cloze_set.prompts[1]
    assert prompt.knowledge
    told = f"{prompt.knowledge} {prompt.base.replace('[target]', 'target')}"
    assert cloze_texts(model, cloze_set, chat=True)[1] == chat_text(model, told, prompt.ask)
    chat, plain = (ask_cloze(model, cloze_set, ks=(3,), chat=each)[0] for each in (True, False))
    assert (chat.form, plain.form) == ("chat", "continuation")
    assert not np.allclose(chat.topk.probs, plain.topk.probs)


def test_a_run_says_whether_it_was_a_chat(model: Model, tmp_path: Path) -> None:
    prompts = tmp_path / "set.toml"
    prompts.write_text(OCCUPATIONS)
    settings = CounteractsSettings(str(prompts), ks=(3,), draws=100, null=0, chat=True)
    counteracts([model], settings, tmp_path / "run")
    run = Counteracts.open(tmp_path / "run")
    assert run.settings.chat
    assert [form.form for form in run.forms] == ["chat"]


def test_what_has_no_chat_is_refused_in_one_line(triples: TripleSet, tmp_path: Path) -> None:
    plain = chatting(None)
    with pytest.raises(CannotDo, match=r"^The tokenizer of tiny-llama has no chat template\. [^\n]*$"):
        likelihood_answers(plain, triples, chat=True)
    with pytest.raises(CannotDo, match=r"^tiny-bert cannot do questions through a chat template[^\n]*$"):
        counteracts([tiny("bert")], CounteractsSettings(chat=True), tmp_path / "run")
    with pytest.raises(CannotDo, match=r"^The chat template of tiny-llama cannot take .*: Say who you are"):
        likelihood_answers(chatting(STRICT), triples, chat=True)
    assert not (tmp_path / "run").exists()


def test_chat_without_likelihood_would_change_nothing_and_is_refused() -> None:
    with pytest.raises(BadOption, match="chat would change nothing without likelihood"):
        lh.settings.NspSettings(chat=True)
