"""The TOML form of a prompt set (docs/own-prompts.md); every mistake is named by its key and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from levelhead.errors import BadProbe
from levelhead.probes import DATA
from levelhead.probes.checked_toml import Checked, Key, Source, read_checked
from levelhead.probes.cloze.verbalizer import Verbalizer, load_verbalizer, make_verbalizer

Expected = Literal["none", "strengthens", "weakens"]
SLOT = "[target]"
PLACEHOLDER = re.compile(r"\{(?P<article>a )?(?P<name>[^{}]*)\}")
SHIPPED = DATA / "cloze"


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_shares(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if not all(isinstance(word, str) for word in value):
        raise ValueError("a list of words, or a table word = share in percent, is needed")
    repeated = sorted({word for word in value if value.count(word) > 1})
    if repeated:
        raise ValueError(f"{repeated[0]!r} stands twice; keep one")
    return dict.fromkeys(value)


Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=100)] | None
Words = Annotated[dict[Text, Share], BeforeValidator(_as_shares), Field(min_length=1)]


class KnowledgeTemplate(Checked):
    """One kind of knowledge. Several texts are dealt out evenly, one a prompt."""

    kind: Text
    text: Annotated[list[Text], BeforeValidator(_as_list), Field(min_length=1)]
    expected: Expected

    @property
    def draws_background(self) -> bool:
        """Whether the text speaks of a word of the other group, so that several prompts are drawn."""
        slots = (slot["name"] for text in self.text for slot in PLACEHOLDER.finditer(text))
        return "background" in slots


class ClozeFile(Checked):
    """A prompt set as it is written; `load_cloze` turns it into prompts."""

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
        """The other of the two groups."""
        first, second = self.group_names
        return second if group == first else first


def read_cloze_file(name_or_path: str | Path) -> tuple[ClozeFile, Verbalizer]:
    """A shipped set by its name, or a file of the user's."""
    path = _find(name_or_path)
    file, source = read_checked(path, ClozeFile, "a prompt set", "docs/own-prompts.md")
    _check_groups(source, file)
    _check_templates(source, file)
    verbalizer = _verbalizer(source, file)
    for pair in file.core:
        if not verbalizer.are_counterparts(*pair):
            first, second = file.group_names
            words = f"{list(pair)}: write a word of {first} and one of {second}, both in the verbalizer."
            raise source.fail(("core",), words)
    return file, verbalizer


def _find(name_or_path: str | Path) -> Path:
    shipped = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    if isinstance(name_or_path, str) and name_or_path in shipped:
        return shipped[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        raise BadProbe(
            f"No prompt set {str(path)!r}. Shipped: {', '.join(shipped)}. Or give the path of a .toml file."
        )
    return path


def _check_groups(source: Source, file: ClozeFile) -> None:
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


def _check_templates(source: Source, file: ClozeFile) -> None:
    if file.base.count(SLOT) != 1:
        raise source.fail(
            ("base",), f"{file.base.count(SLOT)} slots {SLOT} in {file.base!r}. Write exactly one."
        )
    if "{word}" not in file.base and "{a word}" not in file.base:
        raise source.fail(("base",), "it does not name the word. Write {word} or {a word} where it belongs.")
    if file.ask != file.ask.strip():
        raise source.fail(("ask",), "spaces at an end would change the next token. Remove them.")
    _check_text(source, file, ("base",), file.base, background=False)
    kinds = ["base"]
    for number, knowledge in enumerate(file.knowledge):
        key: Key = ("knowledge", number, "text")
        if knowledge.kind in kinds:
            raise source.fail(
                (*key[:2], "kind"), f"{knowledge.kind!r} is taken. Each kind needs a name of its own."
            )
        kinds.append(knowledge.kind)
        for text in knowledge.text:
            if SLOT in text:
                raise source.fail(key, f"{SLOT} belongs into base only. Remove it from {text!r}.")
            _check_text(source, file, key, text, background=True)


def _check_text(source: Source, file: ClozeFile, key: Key, text: str, background: bool) -> None:
    forms = list(next(iter(file.groups.values())))
    allowed = ["word", *(["background"] if background else [])]
    allowed += [f"{side}.{form}" for side in ("own", "other") for form in forms] if background else []
    for slot in PLACEHOLDER.finditer(text):
        if slot["name"] not in allowed:
            names = ", ".join("{" + name + "}" for name in allowed)
            raise source.fail(
                key, f"unknown placeholder {slot[0]}. Allowed here: {names}, each also as {{a …}}."
            )
    if "{" in PLACEHOLDER.sub("", text) or "}" in PLACEHOLDER.sub("", text):
        raise source.fail(key, f"a brace without its partner in {text!r}. Write placeholders as {{word}}.")
    if not text.rstrip().endswith((".", "!", "?")):
        raise source.fail(key, f"{text!r} does not end. Close the sentence with a full stop.")


def _verbalizer(source: Source, file: ClozeFile) -> Verbalizer:
    if (file.verbalizer is None) == (file.verbalizer_file is None):
        raise source.fail(
            ("verbalizer",), "give either a table [verbalizer] or verbalizer_file, one of them."
        )
    if file.verbalizer_file is not None:
        return load_verbalizer(source.path.parent / file.verbalizer_file, file.group_names)
    entries = []
    for group, words in (file.verbalizer or {}).items():
        line = source.lines.get(("verbalizer", group))
        entries += [(word, group, f"{source.path.name}, line {line}: verbalizer.{group}") for word in words]
    return make_verbalizer(file.group_names, entries)
