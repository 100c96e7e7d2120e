"""Cloze prompts with knowledge before them, and the words that answer them (docs/method/prompts.md, Cloze
prompts; Verbalizer).

The paper (Zhang 2023, "Counteracts") has 2,680 prompts and does not publish how they split; with 13 drawn
backgrounds we have 58 × (1 + 6 + 3 × 13) = 2,668. An occupation's 13 backgrounds are the same in the three
background kinds, so that those kinds differ in wording alone. The TOML form of a prompt set is in
docs/own-prompts.md; every mistake is named by key and line.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import DATA, json_hash
from levelhead.probes.files import Checked, Key, Source, parse_toml, read_checked, read_text
from levelhead.probes.slots import article

Expected = Literal["none", "strengthens", "weakens"]
BASE = "base"
DEFAULT_BACKGROUNDS = 13
SLOT = "[target]"
PLACEHOLDER = re.compile(r"\{(?P<article>a )?(?P<name>[^{}]*)\}")
SHIPPED = DATA / "cloze"
_SPACE_MARKS = " \t\n\u0120\u2581"  # a blank, byte-level BPE's Ġ, SentencePiece's ▁


# ---- answers


@dataclass(frozen=True)
class TokenForm:
    """A vocabulary token as the engine's tokenizer knows it.

    begins_word: in WordPiece a token without '##'; in BPE and SentencePiece one with a leading space mark.
    Only such tokens are words.
    """

    surface: str
    begins_word: bool


@dataclass(frozen=True)
class Matched:
    """A vocabulary seen through a verbalizer, token by token."""

    keys: tuple[str, ...]  # [vocabulary] tokens with one key are one word
    codes: tuple[int, ...]  # [vocabulary] +1 first group, -1 second group, 0 neither
    absent: tuple[str, ...]  # words that no single token spells: they can never be predicted


def word_key(surface: str, begins_word: bool) -> str:
    """One key for all case and leading-space forms of a word; a continuation has its own ('##…')."""
    word = surface.strip(_SPACE_MARKS).casefold()
    return word if begins_word else "##" + word.removeprefix("##")


@dataclass(frozen=True)
class Verbalizer:
    """Words of two groups. A token that continues a word never matches, whatever it spells."""

    groups: tuple[str, str]  # the first has code +1, the second -1
    words: Mapping[str, str]  # key -> group

    def group_of(self, surface: str, begins_word: bool) -> str | None:
        """The group a token speaks of, or None."""
        return self.words.get(word_key(surface, begins_word)) if begins_word else None

    def are_counterparts(self, first: str, second: str) -> bool:
        """Whether the first is a word of the first group, and the second one of the second."""
        return (self.group_of(first, True), self.group_of(second, True)) == self.groups

    def match(self, tokens: Sequence[TokenForm]) -> Matched:
        """Key and code of each token of a vocabulary."""
        keys = tuple(word_key(token.surface, token.begins_word) for token in tokens)
        groups = [self.group_of(token.surface, token.begins_word) for token in tokens]
        codes = tuple(0 if group is None else 1 if group == self.groups[0] else -1 for group in groups)
        present = set(keys)
        return Matched(keys, codes, tuple(word for word in self.words if word not in present))


def make_verbalizer(groups: tuple[str, str], entries: Iterable[tuple[str, str, str]]) -> Verbalizer:
    """A verbalizer from (word, group, where it was read); the place is named when the entry is wrong."""
    words: dict[str, str] = {}
    for word, group, where in entries:
        key = word_key(word, begins_word=True)
        if group not in groups:
            raise BadProbe(f"{where}: verbalizer group {group!r} is unknown. Allowed: {', '.join(groups)}.")
        if not key or any(character.isspace() for character in key):
            raise BadProbe(
                f"{where}: verbalizer entry {word!r} is not one word. A token spells one word: write one."
            )
        if key in words:
            raise BadProbe(
                f"{where}: verbalizer word {word!r} is in {words[key]!r} already, case aside. Keep one."
            )
        words[key] = group
    empty = [group for group in groups if group not in words.values()]
    if empty:
        raise BadProbe(f"The verbalizer has no word for {' and '.join(map(repr, empty))}. Give at least one.")
    return Verbalizer(groups, words)


def load_verbalizer(path: str | Path, groups: tuple[str, str]) -> Verbalizer:
    """A user's verbalizer: TOML (group = ["word", …]), or lines of word, tab, group with '#' for comments."""
    path = Path(path)
    text = read_text(path, "Give a verbalizer, a .toml or .tsv file in UTF-8.")
    entries = []
    if path.suffix == ".toml":
        for group, words in parse_toml(path, text, 'Write lines such as female = ["she", "her"].').items():
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise BadProbe(f'{path}: {group} must be a list of words, as in {group} = ["she", "her"].')
            entries += [(word, group, f"{path}, {group}") for word in words]
        return make_verbalizer(groups, entries)
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2:
            raise BadProbe(
                f"{path}, line {number}: {len(columns)} columns. Write a word, a tab, and its group."
            )
        entries.append((columns[0], columns[1], f"{path}, line {number}"))
    return make_verbalizer(groups, entries)


# ---- the file


def _as_shares(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if not all(isinstance(word, str) for word in value):
        raise ValueError("a list of words, or a table word = share in percent, is needed")
    repeated = sorted({word for word in value if value.count(word) > 1})
    if repeated:
        raise ValueError(f"{repeated[0]!r} stands twice; keep one")
    return dict.fromkeys(value)


_as_list = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=100)] | None
Words = Annotated[dict[Text, Share], BeforeValidator(_as_shares), Field(min_length=1)]


class KnowledgeTemplate(Checked):
    """One kind of knowledge. Several texts are spread evenly, one per prompt."""

    kind: Text
    text: Annotated[list[Text], _as_list, Field(min_length=1)]
    expected: Expected


class ClozeFile(Checked):
    """A prompt set as it is written; `load_cloze` makes prompts of it."""

    name: Text
    about: str = ""
    base: Text
    ask: Text
    per_background: Annotated[int, Field(ge=1)] | None = None
    groups: dict[Text, dict[str, Text]]
    words: dict[str, Words]
    knowledge: Annotated[list[KnowledgeTemplate], Field(min_length=1)]
    verbalizer: dict[str, list[Text]] | None = None
    verbalizer_file: str | None = None
    core: list[tuple[Text, Text]] = Field(default_factory=list)

    @property
    def group_names(self) -> tuple[str, str]:
        """The two groups in the file's order: the first counts as +1."""
        first, second = self.groups
        return first, second

    def other(self, group: str) -> str:
        first, second = self.group_names
        return second if group == first else first


def read_cloze_file(name_or_path: str | Path) -> tuple[ClozeFile, Verbalizer]:
    """A shipped set by its name, or a file of the user's."""
    shipped = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    path = shipped.get(name_or_path) if isinstance(name_or_path, str) else None
    path = path or Path(name_or_path)
    if not path.is_file():
        raise BadProbe(
            f"No prompt set {str(path)!r}. Shipped: {', '.join(shipped)}. Or give the path of a .toml file."
        )
    file, source = read_checked(path, ClozeFile, "a prompt set", "docs/own-prompts.md")
    if len(file.groups) != 2:
        raise source.fail(("groups",), f"{len(file.groups)} groups. Exactly two are compared: keep two.")
    first, second = file.group_names
    if set(file.groups[first]) != set(file.groups[second]):
        raise source.fail(
            ("groups", second), f"its keys differ from those of {first!r}. Give both the same keys."
        )
    if set(file.words) != set(file.groups):
        raise source.fail(
            ("words",), f"words for {', '.join(file.words)}. Give them for {first} and {second} only."
        )
    shared = sorted(set(file.words[first]) & set(file.words[second]))
    if shared:
        raise source.fail(
            ("words", second, shared[0]), f"stands in {first!r} too. A word belongs to one group."
        )
    _check_templates(source, file)
    if (file.verbalizer is None) == (file.verbalizer_file is None):
        raise source.fail(
            ("verbalizer",), "give either a table [verbalizer] or verbalizer_file, one of them."
        )
    if file.verbalizer_file is not None:
        verbalizer = load_verbalizer(path.parent / file.verbalizer_file, file.group_names)
    else:
        entries = []
        for group, listed in (file.verbalizer or {}).items():
            where = f"{path.name}, line {source.lines.get(('verbalizer', group))}: verbalizer.{group}"
            entries += [(word, group, where) for word in listed]
        verbalizer = make_verbalizer(file.group_names, entries)
    for pair in file.core:
        if not verbalizer.are_counterparts(*pair):
            advice = f"{list(pair)}: write a word of {first} and one of {second}, both in the verbalizer."
            raise source.fail(("core",), advice)
    return file, verbalizer


def _check_templates(source: Source, file: ClozeFile) -> None:
    if file.base.count(SLOT) != 1:
        raise source.fail(
            ("base",), f"{file.base.count(SLOT)} slots {SLOT} in {file.base!r}. Write exactly one."
        )
    if "{word}" not in file.base and "{a word}" not in file.base:
        raise source.fail(("base",), "it does not name the word. Write {word} or {a word} where it belongs.")
    if file.ask != file.ask.strip():
        raise source.fail(("ask",), "spaces at an end would change the next token. Remove them.")
    texts: list[tuple[Key, str, list[str]]] = [(("base",), file.base, ["word"])]
    forms = list(next(iter(file.groups.values())))
    allowed = ["word", "background", *(f"{side}.{form}" for side in ("own", "other") for form in forms)]
    kinds = [BASE]
    for number, knowledge in enumerate(file.knowledge):
        at: Key = ("knowledge", number, "text")
        if knowledge.kind in kinds:
            raise source.fail(
                (*at[:2], "kind"), f"{knowledge.kind!r} is taken. Each kind needs a name of its own."
            )
        kinds.append(knowledge.kind)
        for text in knowledge.text:
            if SLOT in text:
                raise source.fail(at, f"{SLOT} belongs into base only. Remove it from {text!r}.")
            texts.append((at, text, allowed))
    for key, text, names in texts:
        for slot in PLACEHOLDER.finditer(text):
            if slot["name"] not in names:
                shown = ", ".join("{" + name + "}" for name in names)
                raise source.fail(
                    key, f"unknown placeholder {slot[0]}. Allowed here: {shown}, each also as {{a …}}."
                )
        rest = PLACEHOLDER.sub("", text)
        if "{" in rest or "}" in rest:
            raise source.fail(
                key, f"a brace without its partner in {text!r}. Write placeholders as {{word}}."
            )
        if not text.rstrip().endswith((".", "!", "?")):
            raise source.fail(key, f"{text!r} does not end. Close the sentence with a full stop.")


# ---- prompts


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
    ask: str  # what a causal model completes after it
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
    available = min(len(words) for words in file.words.values())
    draws = per_background if per_background is not None else file.per_background
    if draws is None:
        draws = min(DEFAULT_BACKGROUNDS, available)
    elif not (1 <= draws <= available or per_background == 0):
        mistake = BadProbe if per_background is None else BadOption
        raise mistake(
            f"per_background {draws} for {file.name}: the smaller group has {available} words. "
            f"Choose 1 to {available}."
        )
    knowledge = file.knowledge if draws else ()
    # A text for each word; within a group every text comes equally often, so that texts tell no group.
    text_of: dict[tuple[str, str], str] = {}
    for each in knowledge:
        for group, words in file.words.items():
            shuffled = list(each.text)
            random.Random(f"{seed}/{each.kind}/{group}").shuffle(shuffled)
            for i, word in enumerate(words):
                text_of[each.kind, word] = shuffled[i % len(shuffled)]
    # Where a text speaks of a word of the other group, several prompts are drawn.
    drawn = {
        each.kind: any(
            slot["name"] == "background" for text in each.text for slot in PLACEHOLDER.finditer(text)
        )
        for each in knowledge
    }
    listed: list[Prompt] = []
    for word, group in ((word, group) for group, words in file.words.items() for word in words):
        base = _fill(file, file.base, word, group)
        listed.append(Prompt(f"{word}/{BASE}", BASE, word, group, "", base, file.ask, "none"))
        backgrounds = random.Random(f"{seed}/{word}").sample(list(file.words[file.other(group)]), draws)
        for each in knowledge:
            for background in backgrounds if drawn[each.kind] else [""]:
                told = _fill(file, text_of[each.kind, word], word, group, background)
                name = "/".join(filter(None, (word, each.kind, background)))
                listed.append(Prompt(name, each.kind, word, group, told, base, file.ask, each.expected))
    prompts = tuple(listed)
    texts = [[prompt.id, prompt.knowledge, prompt.base, prompt.ask, prompt.group] for prompt in prompts]
    content = [texts, answers.groups, sorted(answers.words.items()), core]
    return ClozeSet(
        name=file.name,
        groups=file.group_names,
        targets=file.groups,
        occupations=tuple(
            Occupation(word, group, share)
            for group, words in file.words.items()
            for word, share in words.items()
        ),
        templates={BASE: (file.base,), **{each.kind: tuple(each.text) for each in knowledge}},
        prompts=prompts,
        verbalizer=answers,
        core=core,
        seed=seed,
        per_background=draws,
        fingerprint=json_hash(content),
    )


def _fill(file: ClozeFile, template: str, word: str, group: str, background: str = "") -> str:
    values = {"word": word, "background": background}
    for side, name in (("own", group), ("other", file.other(group))):
        values |= {f"{side}.{form}": text for form, text in file.groups[name].items()}
    values |= {f"a {name}": f"{article(word)} {word}" for name, word in values.items()}
    text = PLACEHOLDER.sub(lambda slot: values[slot[0][1:-1]], template)
    return text[0].upper() + text[1:]


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
    """What a causal model is told before its question: '… The target works as a nurse.'"""
    base = prompt.base.replace(SLOT, SLOT.strip("[]"))
    return f"{prompt.knowledge} {base}" if prompt.knowledge else base


def prompt_rows(cloze_set: ClozeSet) -> list[dict[str, Any]]:
    """Every prompt as the record that a run folder stores in one JSON line."""
    keys = ("id", "kind", "occupation", "group", "knowledge", "base", "expected")
    return [{key: getattr(prompt, key) for key in keys} for prompt in cloze_set.prompts]
