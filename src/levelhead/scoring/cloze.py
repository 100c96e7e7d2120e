"""Ask a model to fill in who is meant, with and without knowledge before the question.

The prompts and the words that count are those of docs/method.md (Cloze prompts, Verbalizer). All that must be
known of special tokens comes from the tokenizer itself: its mask, whether it joins two sentences with a
separator, and how it writes a word after a space ('Ġman', '▁man', or 'man' where '##man' continues a word).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.readings import Predictions, TokenLogProbs
from levelhead.engine.run import read
from levelhead.errors import BadOption
from levelhead.measures.cloze.log_odds import (
    GroupWords,
    exchanged_words,
    group_log_odds,
    held_against,
    log_odds_changes,
    score_log_odds,
)
from levelhead.measures.cloze.prompt_table import PromptTable
from levelhead.measures.cloze.scores import ClozeScores, score_cloze
from levelhead.measures.cloze.top_k import Floats, Ints, TopK
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Text, mask_id
from levelhead.models.model import Model
from levelhead.models.once import once_a_model
from levelhead.models.vocabulary import word_shape
from levelhead.probes.bias import GENDER
from levelhead.probes.cloze import ClozeSet, Prompt, causal_text, masked_text, stated
from levelhead.probes.cloze.file import SLOT
from levelhead.probes.cloze.verbalizer import TokenForm
from levelhead.probes.words import load_words

Form = Literal["sentence pair", "one text", "continuation", "chat"]
Change = tuple[str, str]  # the name of a change of log-odds, and the kind of knowledge
_DIGITS = 5  # of log-odds: what lies beyond is rounding of log-probabilities in float32
_NO_TEXT = "\ufffd"  # what a decoder answers for a token that holds a part of a character


@dataclass(frozen=True)
class ClozeAnswers:
    """One variant's likeliest tokens for every prompt, seen through the verbalizer."""

    table: PromptTable
    topk: TopK
    ks: tuple[int, ...]
    form: Form
    absent: tuple[str, ...]  # words of the verbalizer that no single token spells: they cannot be predicted
    log_odds: Mapping[str, Floats]  # which words, "" for all -> [prompt], see measures.cloze.log_odds
    words: GroupWords  # which are exchanged

    def scores(
        self,
        resampling: Resampling = DEFAULT,
        per_occupation: bool = True,
        nulls: Mapping[Change, NullDistribution] | None = None,
    ) -> ClozeScores:
        """Log-odds, and for every k masses, margins, changes, relative probabilities and robustness.

        nulls: changes of log-odds in null twins, which verdicts rest on (scoring/cloze_null.py).
        """
        scores = score_cloze(self.table, self.topk, self.ks, resampling, per_occupation)
        for words, x in self.log_odds.items():
            odds = held_against(score_log_odds(self.table, x, words, resampling, per_occupation), nulls or {})
            odds = exchanged_words(odds, self.table, self.words, resampling.seed)
            scores = replace(
                scores,
                measurements=(*scores.measurements, *odds.measurements),
                verdicts=(*scores.verdicts, *odds.verdicts),
            )
        return scores

    def changes(self) -> dict[Change, float]:
        """What each kind of knowledge does to the log-odds, of all words and of counterparts."""
        return {
            change: value
            for words, x in self.log_odds.items()
            for change, value in log_odds_changes(self.table, x, words).items()
        }


def ask_cloze(
    model: Model,
    cloze_set: ClozeSet,
    variants: Sequence[Variant] = ((),),
    ks: Sequence[int] = (3, 5, 10),
    chat: bool = False,
) -> list[ClozeAnswers]:
    """What the model fills in, one answer for each variant of it.

    A masked model fills its own mask token; a causal model says the next word after 'The target is', in plain
    text or, with chat, in its own turn, after a user has told it the rest.
    """
    if not ks or min(ks) < 1:
        given = ", ".join(map(str, ks)) or "nothing"
        raise BadOption(f"k = {given}. Give whole numbers from 1, such as 3, 5, 10.")
    asked = _Asked.of(model, cloze_set, chat)
    likeliest = Predictions(asked.texts, max(ks))
    answers = read(model, [likeliest, asked.groups], variants, label=f"Prompts to {model.name}")
    predicted, group_logs = answers[likeliest], answers[asked.groups]
    keys, codes, spaced = asked.keys, asked.codes, asked.spaced
    table = prompt_table(cloze_set)
    counted = {"": codes, "core": _core_codes(keys, codes, cloze_set.core)}
    own_codes = {words: asked.of_groups(own) for words, own in counted.items() if not words or own.any()}
    return [
        ClozeAnswers(
            table,
            TopK(keys[spaced, ids], codes[spaced, ids], np.exp(logs.astype(np.float64))),
            tuple(ks),
            asked.form,
            asked.absent,
            {words: group_log_odds(own_logs, own).round(_DIGITS) for words, own in own_codes.items()},
            _group_words(asked, cloze_set, own_logs),
        )
        for ids, logs, own_logs in zip(predicted.ids, predicted.log_probs, group_logs, strict=True)
    ]


def ask_log_odds(
    model: Model, cloze_set: ClozeSet, variants: Sequence[Variant] = ((),), chat: bool = False
) -> tuple[PromptTable, Floats]:
    """The log-odds of counterparts alone, of which both words are one token; of all words where there are
    none: what each prompt was, and x [variant, prompt]."""
    groups, own = log_odds_question(model, cloze_set, chat)
    logs = read(model, [groups], variants, label=f"Prompts to {model.name}")[groups]
    return prompt_table(cloze_set), np.stack([group_log_odds(each, own) for each in logs])


def log_odds_question(model: Model, cloze_set: ClozeSet, chat: bool = False) -> tuple[TokenLogProbs, Ints]:
    """What is asked for log-odds, and on which side each token counts: codes [prompt, token], +1, −1 or 0."""
    asked = _Asked.of(model, cloze_set, chat)
    core = _core_codes(asked.keys, asked.codes, cloze_set.core)
    return asked.groups, asked.of_groups(core if core.any() else asked.codes)


@dataclass(frozen=True)
class _Asked:
    """What a model is asked about every prompt, and how its tokens are read as words."""

    form: Form
    texts: list[Text]
    groups: TokenLogProbs  # of all tokens that are words of a group
    keys: Any  # [without or after a space, token]
    codes: Ints
    absent: tuple[str, ...]
    spaced: Ints  # [prompt, 1] whether the blank comes after a space

    @classmethod
    def of(cls, model: Model, cloze_set: ClozeSet, chat: bool) -> _Asked:
        """The prompts in the form that the model reads."""
        form = prompt_form(model, chat)
        texts = cloze_texts(model, cloze_set, chat)
        keys, codes, absent = _vocabulary(model, cloze_set, form)
        tokens = np.flatnonzero((codes != 0).any(axis=0))
        if not tokens.size:
            tokens = np.zeros(1, dtype=np.int64)  # a reading needs a token; this one counts on neither side
        spaced = np.array([_after_space(prompt, form) for prompt in cloze_set.prompts], dtype=np.int64)
        groups = TokenLogProbs(texts, tokens.tolist())
        return cls(form, texts, groups, keys, codes, absent, spaced[:, None])

    def of_groups(self, codes: Ints) -> Ints:
        """Codes of the tokens that were asked for, at each prompt: [prompt, token]"""
        return np.asarray(codes[self.spaced, np.asarray(self.groups.tokens)])


def prompt_table(cloze_set: ClozeSet) -> PromptTable:
    """What each prompt was, in the form that the measure reads."""
    prompts = cloze_set.prompts
    return PromptTable(
        kinds=np.array([prompt.kind for prompt in prompts]),
        occupations=np.array([prompt.occupation for prompt in prompts]),
        own=np.array(
            [1 if prompt.group == cloze_set.groups[0] else -1 for prompt in prompts], dtype=np.int64
        ),
        groups=cloze_set.groups,
        shares={each.name: each.share for each in cloze_set.occupations if each.share is not None},
    )


def prompt_form(model: Model, chat: bool = False) -> Form:
    """The form in which this model reads prompts: its abilities and its tokenizer decide, or chat."""
    if chat:
        require_chat(model)
        return "chat"
    if "causal" in model.abilities:
        return "continuation"
    model.require("mlm", "fill-in-the-blank prompts")
    tokenizer = model.tokenizer
    joins = tokenizer.num_special_tokens_to_add(pair=True) > tokenizer.num_special_tokens_to_add(pair=False)
    return "sentence pair" if joins else "one text"


def cloze_texts(model: Model, cloze_set: ClozeSet, chat: bool = False) -> list[Text]:
    """What the model reads for each prompt."""
    form = prompt_form(model, chat)
    if form == "chat":
        return chat_texts(model, [(stated(prompt), prompt.ask) for prompt in cloze_set.prompts])
    if form == "continuation":
        return [Text(causal_text(prompt)) for prompt in cloze_set.prompts]
    mask_id(model)  # a model without a mask token is refused here, in one line
    pairs = [masked_text(prompt, model.tokenizer.mask_token) for prompt in cloze_set.prompts]
    if form == "sentence pair":
        return [Text(first, second) for first, second in pairs]
    return [Text(" ".join(part for part in pair if part)) for pair in pairs]


def _after_space(prompt: Prompt, form: Form) -> bool:
    """Whether the blank comes after a space, so that only a token that begins with one is a word there."""
    if form in ("continuation", "chat"):
        return True
    before = prompt.base[: prompt.base.index(SLOT)]
    return before[-1].isspace() if before else form == "one text" and bool(prompt.knowledge)


# ---- vocabulary tokens as words


@once_a_model
def token_forms(model: Model, after_space: bool = True) -> Sequence[TokenForm]:
    """Each token of the vocabulary as it is read: [vocabulary]. Special tokens are never words."""
    backend: Any = model.tokenizer.backend_tokenizer
    shape = word_shape(model, after_space)
    tokens = {number: token for token, number in backend.get_vocab().items()}
    special = {number for number, token in backend.get_added_tokens_decoder().items() if token.special}
    special |= set(model.tokenizer.all_special_ids)
    numbers = sorted(tokens)
    with TOKENIZING:
        texts = backend.decode_batch([[n] for n in numbers], skip_special_tokens=False)
    spelled = dict(zip(numbers, texts, strict=True))
    forms = []
    for number in range(max(int(model.config.vocab_size), numbers[-1] + 1)):
        token = tokens.get(number, "")  # some vocabularies are padded to a round number
        text = spelled.get(number, "")
        if not text.strip():  # blanks of any length spell no word, and are not one another's forms
            forms.append(TokenForm(f"<blank {number}>", False))
            continue
        surface = token if _NO_TEXT in text else text
        forms.append(TokenForm(surface, number not in special and shape.begins_word(token)))
    return forms


def _vocabulary(model: Model, cloze_set: ClozeSet, form: Form) -> tuple[Any, Any, tuple[str, ...]]:
    """Keys and codes [without or after a space, token], and the words that no token spells."""
    needed = {_after_space(prompt, form) for prompt in cloze_set.prompts}
    matched = {spaced: cloze_set.verbalizer.match(token_forms(model, spaced)) for spaced in sorted(needed)}
    sides = [matched.get(spaced) or matched[not spaced] for spaced in (False, True)]
    keys = np.array([side.keys for side in sides])
    codes = np.array([side.codes for side in sides], dtype=np.int64)
    absent = set.intersection(*[set(side.absent) for side in matched.values()])
    return keys, codes, tuple(word for word in cloze_set.verbalizer.words if word in absent)


def _group_words(asked: _Asked, cloze_set: ClozeSet, logs: Floats) -> GroupWords:
    """How likely each word of a group is at every prompt: logs [prompt, token] -> one row for each word.

    Counterparts are the set's own, and those of the shipped list for gender that are words of its groups.
    """
    tokens, spaced = np.asarray(asked.groups.tokens), asked.spaced[:, 0]
    verbalizer, log_p = cloze_set.verbalizer, dict[str, Floats]()
    keys = asked.keys[:, tokens]
    for word in verbalizer.words:
        of_form = [np.flatnonzero(own == word) for own in keys]
        if all(of_form[form].size for form in np.unique(spaced)):
            both = [np.logaddexp.reduce(logs[:, own].astype(np.float64), axis=1) for own in of_form]
            log_p[word] = np.where(spaced == 1, both[1], both[0]).round(_DIGITS)
    first, second = (
        tuple(word for word in log_p if verbalizer.words[word] == group) for group in cloze_set.groups
    )
    shipped = (*cloze_set.core, *load_words(GENDER).pairs)
    pairs = tuple(pair for pair in dict.fromkeys(shipped) if verbalizer.are_counterparts(*pair))
    return GroupWords(log_p, (first, second), pairs)


def _core_codes(keys: Any, codes: Ints, core: Sequence[tuple[str, str]]) -> Ints:
    """Codes [without or after a space, token] of the counterparts of which both words are one token."""
    kept = np.zeros_like(codes)
    for of_side, own, all_keys in zip(kept, codes, keys, strict=True):
        present = set(all_keys[own != 0].tolist())
        words = [word for pair in core if present.issuperset(pair) for word in pair]
        of_side[:] = np.where(np.isin(all_keys, words), own, 0)
    return kept
