"""What a model fills in for who is meant, with and without knowledge before the question.

The prompts and the words that count are those of docs/method/prompts.md (Cloze prompts, Verbalizer). All that
must be known of special tokens comes from the tokenizer itself: its mask, whether it joins two sentences with
a separator, and how it writes a word after a space ('Ġman', '▁man', or 'man' where '##man' continues a word).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.effort import askable_tokens
from levelhead.engine.readings import Predictions, TokenLogProbs
from levelhead.engine.run import read
from levelhead.engine.served.writing import span_likelihoods
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.cloze import ClozeScores, Floats, Ints, PromptTable, TopK, Verdict, score_cloze
from levelhead.measures.log_odds import (
    GroupWords,
    exchanged_words,
    group_log_odds,
    held_against,
    log_odds_changes,
    score_log_odds,
)
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution, closed, likely, looked_at, looks
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Text, mask_id, word_shape
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_seed
from levelhead.models.served import ServedModel
from levelhead.probes.bias import GENDER
from levelhead.probes.cloze import BASE, SLOT, ClozeSet, TokenForm, causal_text, masked_text, stated
from levelhead.probes.words import load_words
from levelhead.progress import steps

Form = Literal["sentence pair", "one text", "continuation", "chat", "likelihoods of words"]
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
    unread: str = ""  # why the likeliest tokens are not known

    def scores(
        self,
        resampling: Resampling = DEFAULT,
        per_occupation: bool = True,
        nulls: Mapping[Change, NullDistribution] | None = None,
    ) -> ClozeScores:
        """Log-odds, and for every k masses, margins, changes, relative probabilities and robustness.

        nulls: changes of log-odds in null models, which verdicts rest on (change_nulls).
        """
        scores = score_cloze(self.table, self.topk, self.ks, resampling, per_occupation and not self.unread)
        if self.unread:
            measured, robust = (
                tuple(
                    Measurement.missing(m.name, self.unread, neutral=m.neutral, settings=m.settings)
                    for m in some
                )
                for some in (scores.measurements, scores.robustness)
            )
            changes = tuple(Verdict.of(each) for each in measured if each.name == "margin change")
            scores = ClozeScores(measured, changes, robust)
        for words, x in self.log_odds.items():
            odds = held_against(score_log_odds(self.table, x, words, resampling, per_occupation), nulls or {})
            odds = exchanged_words(odds, self.table, self.words, resampling.seed)
            both = (*scores.measurements, *odds.measurements), (*scores.verdicts, *odds.verdicts)
            scores = replace(scores, measurements=both[0], verdicts=both[1])
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
        raise BadOption(f"k must be whole numbers from 1, such as 3, 5, 10 (got {given}).")
    prompts = _PromptReading.of(model, cloze_set, chat)
    likeliest = Predictions(prompts.texts, max(ks))
    answers = read(model, [likeliest, prompts.groups], variants, label=f"Prompts to {model.name}")
    predicted, group_logs = answers[likeliest], answers[prompts.groups]
    keys, codes, spaced = prompts.keys, prompts.codes, prompts.spaced
    table = prompt_table(cloze_set)
    counted = {"": codes, "core": prompts.core_codes(cloze_set.core)}
    tokens = np.asarray(prompts.groups.tokens)
    own_codes = {words: own[spaced, tokens] for words, own in counted.items() if not words or own.any()}
    return [
        ClozeAnswers(
            table,
            TopK(keys[spaced, ids], codes[spaced, ids], np.exp(logs.astype(np.float64))),
            tuple(ks),
            prompts.form,
            prompts.absent,
            {words: group_log_odds(own_logs, own).round(_DIGITS) for words, own in own_codes.items()},
            prompts.group_words(cloze_set, own_logs),
        )
        for ids, logs, own_logs in zip(predicted.ids, predicted.log_probs, group_logs, strict=True)
    ]


def cloze_readings(
    model: Model, cloze_set: ClozeSet, chat: bool = False
) -> tuple[Predictions, TokenLogProbs]:
    """What ask_cloze reads together of one variant, so that its work is known before."""
    prompts = _PromptReading.of(model, cloze_set, chat)
    return Predictions(prompts.texts, 1), prompts.groups


def cloze_tokens(model: Model, cloze_set: ClozeSet, few: ClozeSet, planned: int, chat: bool = False) -> float:
    """The work of prompts: those of a set in one variant, and fewer of them in as many of the planned null
    models as are likely evaluated (change_nulls)."""
    there = likely(planned) if cloze_set.kinds != (BASE,) else looks(planned)[0] if planned else 0
    nulls = there * askable_tokens(model, *cloze_readings(model, few, chat)) if there else 0.0
    return askable_tokens(model, *cloze_readings(model, cloze_set, chat)) + nulls


def counted_words(cloze_set: ClozeSet) -> tuple[str, ...]:
    """The words whose likelihoods a server is asked for: counterparts, or all words where there are none."""
    return tuple(word for pair in cloze_set.core for word in pair) or tuple(cloze_set.verbalizer.words)


def word_texts(cloze_set: ClozeSet) -> list[tuple[str, int, int]]:
    """Every prompt with every counted word behind it, and where the word begins and ends."""
    texts = []
    for prompt in cloze_set.prompts:
        given = causal_text(prompt)
        texts += [(f"{given} {w}", len(given) + 1, len(given) + 1 + len(w)) for w in counted_words(cloze_set)]
    return texts


def ask_served_cloze(model: ServedModel, cloze_set: ClozeSet, ks: Sequence[int]) -> ClozeAnswers:
    """What a causal model behind a server makes of the prompts: the likelihood of every counted word, of one
    token or several, behind 'The target is'. Which tokens are the likeliest is not known."""
    words, prompts = counted_words(cloze_set), len(cloze_set.prompts)
    sums, counts = span_likelihoods(model, word_texts(cloze_set), f"Prompts to {model.name}")
    if lost := int((counts == 0).sum()):
        raise CannotDo(
            f"{model.name}: the tokens of {lost} prompts with a word do not add up to their texts."
        )
    log_p = sums.reshape(prompts, len(words)).round(_DIGITS)
    group = {word: cloze_set.verbalizer.words[word] for word in words}
    codes = np.array([[1 if group[word] == cloze_set.groups[0] else -1 for word in words]] * prompts)
    sides = tuple(tuple(word for word in words if group[word] == side) for side in cloze_set.groups)
    nothing = np.zeros((prompts, max(ks)))
    return ClozeAnswers(
        prompt_table(cloze_set),
        TopK(nothing.astype(str), nothing.astype(np.int64), nothing),
        tuple(ks),
        "likelihoods of words",
        tuple(word for word in cloze_set.verbalizer.words if word not in group),
        {"": group_log_odds(log_p, codes).round(_DIGITS)},
        GroupWords(dict(zip(words, log_p.T, strict=True)), (sides[0], sides[1]), cloze_set.core),
        f"{model.name} is behind a server, which gives likelihoods of texts and not the likeliest tokens",
    )


def log_odds_question(model: Model, cloze_set: ClozeSet) -> tuple[TokenLogProbs, Ints]:
    """What is read for log-odds, and on which side each token counts: codes [prompt, token], +1, −1 or 0.

    The tokens are those of counterparts of which both words are one token; of all words where there are none.
    """
    prompts = _PromptReading.of(model, cloze_set, chat=False)
    core = prompts.core_codes(cloze_set.core)
    codes = core if core.any() else prompts.codes
    return prompts.groups, np.asarray(codes[prompts.spaced, np.asarray(prompts.groups.tokens)])


@dataclass(frozen=True)
class _PromptReading:
    """What is read at every prompt, and how its tokens are read as words."""

    form: Form
    texts: list[Text]
    groups: TokenLogProbs  # of all tokens that are words of a group
    keys: Any  # [without or after a space, token]
    codes: Ints
    absent: tuple[str, ...]
    spaced: Ints  # [prompt, 1] whether the blank comes after a space

    @classmethod
    def of(cls, model: Model, cloze_set: ClozeSet, chat: bool) -> _PromptReading:
        """The prompts in the form that the model reads."""
        form, verbalizer = prompt_form(model, chat), cloze_set.verbalizer
        texts = cloze_texts(model, cloze_set, chat)
        # behind a space only a token that begins with a space is a word at the blank
        after_space = []
        for prompt in cloze_set.prompts:
            before = prompt.base[: prompt.base.index(SLOT)]
            if form in ("continuation", "chat"):
                after_space.append(True)
            elif before:
                after_space.append(before[-1].isspace())
            else:
                after_space.append(form == "one text" and bool(prompt.knowledge))
        spaced = np.array(after_space, dtype=np.int64)
        matched = {
            each: verbalizer.match(token_forms(model, each)) for each in sorted(set(map(bool, spaced)))
        }
        sides = [matched.get(each) or matched[not each] for each in (False, True)]
        keys = np.array([side.keys for side in sides])
        codes = np.array([side.codes for side in sides], dtype=np.int64)
        missing = set.intersection(*[set(side.absent) for side in matched.values()])
        absent = tuple(word for word in verbalizer.words if word in missing)
        tokens = np.flatnonzero((codes != 0).any(axis=0))
        if not tokens.size:
            tokens = np.zeros(1, dtype=np.int64)  # a reading needs a token; this one counts on neither side
        groups = TokenLogProbs(texts, tokens.tolist())
        return cls(form, texts, groups, keys, codes, absent, spaced[:, None])

    def core_codes(self, core: Sequence[tuple[str, str]]) -> Ints:
        """Codes [without or after a space, token] of the counterparts of which both words are one token."""
        kept = np.zeros_like(self.codes)
        for of_side, own, all_keys in zip(kept, self.codes, self.keys, strict=True):
            present = set(all_keys[own != 0].tolist())
            words = [word for pair in core if present.issuperset(pair) for word in pair]
            of_side[:] = np.where(np.isin(all_keys, words), own, 0)
        return kept

    def group_words(self, cloze_set: ClozeSet, logs: Floats) -> GroupWords:
        """How likely each word of a group is at every prompt: logs [prompt, token] -> one row for each word.

        Counterparts are the set's own, and those of the shipped list for gender that are words of its groups.
        """
        tokens, spaced = np.asarray(self.groups.tokens), self.spaced[:, 0]
        verbalizer, log_p = cloze_set.verbalizer, dict[str, Floats]()
        keys = self.keys[:, tokens]
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


def prompt_table(cloze_set: ClozeSet) -> PromptTable:
    prompts, first = cloze_set.prompts, cloze_set.groups[0]
    return PromptTable(
        kinds=np.array([prompt.kind for prompt in prompts]),
        occupations=np.array([prompt.occupation for prompt in prompts]),
        own=np.array([1 if prompt.group == first else -1 for prompt in prompts], dtype=np.int64),
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


# ---- null models


def change_nulls(
    model: Model,
    cloze_set: ClozeSet,
    changes: Sequence[Mapping[Change, float]],
    planned: int,
    seed: int = 0,
    chat: bool = False,
) -> list[dict[Change, NullDistribution]]:
    """What null models show of every change of log-odds, for each variant of a model.

    Any two words are moved apart by a sentence that names one of them; only what goes beyond that is meaning.
    A few null models copy the named word and are moved ten times as far as the others: the tails are long.
    Null models come in rounds, kind by kind: once all verdicts on a kind of knowledge are closed, no further
    ones are run for it (measures/null.py).

    changes: of each variant, by name and kind. Each has as many null models as its own verdict needs, so that
    no variant's numbers depend on which others are scored beside it.
    """

    def null_of(change: Change, value: float) -> NullDistribution:
        # the null models up to the look at which the verdict on a value was closed; else all of them
        values = told[change]
        there = [look for look in looks(planned) if look <= len(values)]
        nulls = [NullDistribution(np.asarray(values[:look]), long_tails=True) for look in there]
        null = next((each for each in nulls if closed(each, value, planned)), nulls[-1])
        return looked_at(null, value, planned)

    told: dict[Change, list[float]] = {}
    kinds = tuple(kind for kind in cloze_set.kinds if kind != BASE)
    with steps("Prompts in null models", planned) as advance:
        for number in range(planned):
            if number in looks(planned):
                still_open = {
                    change[1]
                    for own in changes
                    for change, value in own.items()
                    if len(told.get(change, ())) > 1
                    if not closed(null_of(change, value), value, planned)
                }
                kinds = tuple(kind for kind in kinds if kind in still_open)
            if kinds:
                with as_null_model(model, draw_null_model(model, null_model_seed(seed, number))):
                    answers = ask_cloze(model, cloze_set.of_kinds({BASE, *kinds}), ks=(1,), chat=chat)[0]
                for change, value in answers.changes().items():
                    told.setdefault(change, []).append(value)
            advance(1)
    return [
        {change: null_of(change, value) for change, value in own.items() if len(told.get(change, ())) > 1}
        for own in changes
    ]
