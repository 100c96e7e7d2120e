"""Cloze prompts with knowledge before them (docs/method.md, Cloze prompts).

The question: does a counterexample change what the model fills in? Reference: Zhang 2023, "Counteracts". The
paper has 2,680 prompts and does not publish how they split; with 13 drawn backgrounds we have
58 × (1 + 6 + 3 × 13) = 2,668. An occupation's 13 backgrounds are the same in the three background kinds, so
that those kinds differ in wording alone. The unrelated sentences are dealt evenly within each group.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levelhead.errors import BadOption, BadProbe
from levelhead.probes.articles import with_article
from levelhead.probes.cloze.file import (
    PLACEHOLDER,
    SLOT,
    ClozeFile,
    Expected,
    KnowledgeTemplate,
    read_cloze_file,
)
from levelhead.probes.cloze.verbalizer import Verbalizer, load_verbalizer, word_key

BASE = "base"
DEFAULT_BACKGROUNDS = 13


@dataclass(frozen=True)
class Occupation:
    """What the base sentence speaks of, and the group it is stereotyped with."""

    name: str
    group: str
    share: float | None  # percent of the first group, where known


@dataclass(frozen=True)
class Prompt:
    """One question to the model."""

    id: str
    kind: str
    occupation: str
    group: str  # the occupation's own group: a prediction of it is pro-stereotypical
    knowledge: str  # "" for the base prompt
    base: str  # with the slot [target]
    ask: str  # what a causal model is asked after it
    expected: Expected  # what the kind is designed to do to the margin pro − anti


@dataclass(frozen=True)
class ClozeSet:
    """Prompts, the words that count as answers, and where they came from."""

    name: str
    groups: tuple[str, str]  # the first has code +1, the second -1
    targets: Mapping[str, Mapping[str, str]]  # group -> form -> how the group is named in knowledge
    occupations: tuple[Occupation, ...]
    templates: Mapping[str, tuple[str, ...]]  # kind -> texts
    prompts: tuple[Prompt, ...]
    verbalizer: Verbalizer
    core: tuple[tuple[str, str], ...]  # counterparts of the two groups, all of them words of the verbalizer
    seed: int
    per_background: int
    fingerprint: str  # SHA-256 of prompts and verbalizer

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds in the order of the file, base first."""
        return tuple(self.templates)

    def about(self, occupations: Collection[str]) -> ClozeSet:
        """The prompts about these occupations, a part of the set."""
        return replace(self, prompts=tuple(p for p in self.prompts if p.occupation in occupations))

    def of_kinds(self, kinds: Collection[str]) -> ClozeSet:
        """The prompts of these kinds, a part of the set."""
        return replace(self, prompts=tuple(p for p in self.prompts if p.kind in kinds))


def load_cloze(
    name_or_path: str | Path = "gender-occupation",
    seed: int = 0,
    per_background: int | None = None,
    verbalizer: str | Path | None = None,
) -> ClozeSet:
    """The prompts of a shipped set or of a TOML file of the user's.

    per_background: how many words of the other group are drawn for each word in the kinds that need one; None
    takes the file's own number (13 for gender-occupation), 0 leaves all knowledge out. verbalizer: a .toml or
    .tsv file in place of the set's own.
    """
    file, answers = read_cloze_file(name_or_path)
    if verbalizer is not None:
        answers = load_verbalizer(verbalizer, file.group_names)
    core = tuple(
        (word_key(first, True), word_key(second, True))
        for first, second in file.core
        if answers.are_counterparts(first, second)
    )
    draws = _backgrounds_per_word(file, per_background)
    knowledge = file.knowledge if draws else ()
    prompts = _prompts(file, knowledge, seed, draws)
    templates = {BASE: (file.base,), **{each.kind: tuple(each.text) for each in knowledge}}
    return ClozeSet(
        name=file.name,
        groups=file.group_names,
        targets=file.groups,
        occupations=tuple(Occupation(word, group, share) for word, group, share in _words(file)),
        templates=templates,
        prompts=prompts,
        verbalizer=answers,
        core=core,
        seed=seed,
        per_background=draws,
        fingerprint=_fingerprint(prompts, answers, core),
    )


def masked_text(prompt: Prompt, mask_token: str) -> tuple[str, str | None]:
    """What a masked model reads: (knowledge, base with its mask) as a pair, or (base with its mask, None)."""
    question = prompt.base.replace(SLOT, mask_token)
    return (prompt.knowledge, question) if prompt.knowledge else (question, None)


def causal_text(prompt: Prompt) -> str:
    """What a causal model continues: '… The target works as a nurse. The target is'.

    No blank at the end: the next token brings its own.
    """
    return " ".join(part for part in (stated(prompt), prompt.ask) if part)


def stated(prompt: Prompt) -> str:
    """What a causal model is told before it is asked: '… The target works as a nurse.'"""
    base = prompt.base.replace(SLOT, SLOT.strip("[]"))
    return f"{prompt.knowledge} {base}" if prompt.knowledge else base


def prompt_rows(cloze_set: ClozeSet) -> list[dict[str, Any]]:
    """Every prompt as the record that a run folder stores in one JSON line."""
    keys = ("id", "kind", "occupation", "group", "knowledge", "base", "expected")
    return [{key: getattr(prompt, key) for key in keys} for prompt in cloze_set.prompts]


def _words(file: ClozeFile) -> list[tuple[str, str, float | None]]:
    return [(word, group, share) for group, words in file.words.items() for word, share in words.items()]


def _backgrounds_per_word(file: ClozeFile, per_background: int | None) -> int:
    available = min(len(words) for words in file.words.values())
    draws = per_background if per_background is not None else file.per_background
    if draws is None:
        return min(DEFAULT_BACKGROUNDS, available)
    if not (1 <= draws <= available or per_background == 0):
        mistake = BadProbe if per_background is None else BadOption
        raise mistake(
            f"per_background {draws} for {file.name}: the smaller group has {available} words. "
            f"Choose 1 to {available}."
        )
    return draws


def _prompts(
    file: ClozeFile, every: Sequence[KnowledgeTemplate], seed: int, draws: int
) -> tuple[Prompt, ...]:
    dealt = {knowledge.kind: _deal(file, knowledge, seed) for knowledge in every}
    prompts = []
    for word, group, _ in _words(file):
        base = _fill(file, file.base, word, group)
        prompts.append(Prompt(_identity(word, BASE), BASE, word, group, "", base, file.ask, "none"))
        backgrounds = random.Random(f"{seed}/{word}").sample(list(file.words[file.other(group)]), draws)
        for knowledge in every:
            text = dealt[knowledge.kind][word]
            for background in backgrounds if knowledge.draws_background else [""]:
                kind, stated = knowledge.kind, _fill(file, text, word, group, background)
                name = _identity(word, kind, background)
                prompts.append(Prompt(name, kind, word, group, stated, base, file.ask, knowledge.expected))
    return tuple(prompts)


def _deal(file: ClozeFile, knowledge: KnowledgeTemplate, seed: int) -> dict[str, str]:
    """A text for each word; within a group every text is dealt equally often, so that texts tell no group."""
    dealt: dict[str, str] = {}
    for group, words in file.words.items():
        texts = list(knowledge.text)
        random.Random(f"{seed}/{knowledge.kind}/{group}").shuffle(texts)
        dealt |= {word: texts[position % len(texts)] for position, word in enumerate(words)}
    return dealt


def _fill(file: ClozeFile, template: str, word: str, group: str, background: str = "") -> str:
    values = {"word": word, "background": background}
    for side, name in (("own", group), ("other", file.other(group))):
        values |= {f"{side}.{form}": text for form, text in file.groups[name].items()}

    def value(slot: re.Match[str]) -> str:
        return with_article(values[slot["name"]]) if slot["article"] else values[slot["name"]]

    text = PLACEHOLDER.sub(value, template)
    return text[0].upper() + text[1:]


def _identity(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _fingerprint(
    prompts: tuple[Prompt, ...], verbalizer: Verbalizer, core: tuple[tuple[str, str], ...]
) -> str:
    texts = [[prompt.id, prompt.knowledge, prompt.base, prompt.ask, prompt.group] for prompt in prompts]
    words = [verbalizer.groups, sorted(verbalizer.words.items()), core]
    content = json.dumps([texts, *words], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()
