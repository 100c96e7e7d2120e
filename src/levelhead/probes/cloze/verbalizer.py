"""The group that a predicted word speaks of: tokens to words to groups (docs/method.md, Verbalizer)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadProbe
from levelhead.probes.files import parse_toml, read_text

_SPACE_MARKS = " \t\n\u0120\u2581"  # a blank, byte-level BPE's Ġ, SentencePiece's ▁


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

    def code_of(self, surface: str, begins_word: bool) -> int:
        """+1 for the first group, -1 for the second, 0 for neither."""
        group = self.group_of(surface, begins_word)
        return 0 if group is None else 1 if group == self.groups[0] else -1

    def are_counterparts(self, first: str, second: str) -> bool:
        """Whether the first is a word of the first group, and the second one of the second."""
        return (self.group_of(first, True), self.group_of(second, True)) == self.groups

    def match(self, tokens: Sequence[TokenForm]) -> Matched:
        """Key and code of each token of a vocabulary."""
        keys = tuple(word_key(token.surface, token.begins_word) for token in tokens)
        codes = tuple(self.code_of(token.surface, token.begins_word) for token in tokens)
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
    entries = _toml_entries(text, path) if path.suffix == ".toml" else _tsv_entries(text, path)
    return make_verbalizer(groups, entries)


def _toml_entries(text: str, path: Path) -> list[tuple[str, str, str]]:
    entries = []
    for group, words in parse_toml(path, text, 'Write lines such as female = ["she", "her"].').items():
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise BadProbe(f'{path}: {group} must be a list of words, as in {group} = ["she", "her"].')
        entries += [(word, group, f"{path}, {group}") for word in words]
    return entries


def _tsv_entries(text: str, path: Path) -> list[tuple[str, str, str]]:
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2:
            raise BadProbe(
                f"{path}, line {number}: {len(columns)} columns. Write a word, a tab, and its group."
            )
        entries.append((columns[0], columns[1], f"{path}, line {number}"))
    return entries
