"""The TOML form of a prompt set (docs/own-prompts.md); every mistake is named by its key and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from levelhead.errors import BadProbe
from levelhead.probes import DATA
from levelhead.probes.cloze.verbalizer import Verbalizer, load_verbalizer, make_verbalizer
from levelhead.probes.files import parse_toml, read_text, shown

Expected = Literal["none", "strengthens", "weakens"]
SLOT = "[target]"
PLACEHOLDER = re.compile(r"\{(?P<article>a )?(?P<name>[^{}]*)\}")
SHIPPED = DATA / "cloze"

_HEADER = re.compile(r"^\s*\[(\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]+"|'[^']+'|[\w-]+)\s*=""")


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


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KnowledgeTemplate(_Strict):
    """One kind of knowledge. Several texts are dealt out evenly, one a prompt."""

    kind: Text
    text: Annotated[list[Text], BeforeValidator(_as_list), Field(min_length=1)]
    expected: Expected

    @property
    def draws_background(self) -> bool:
        """Whether the text speaks of a word of the other group, so that several prompts are drawn."""
        slots = (slot["name"] for text in self.text for slot in PLACEHOLDER.finditer(text))
        return "background" in slots


class ClozeFile(_Strict):
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

    @property
    def group_names(self) -> tuple[str, str]:
        """The two groups in the file's order: the first counts as +1."""
        first, second = self.groups
        return first, second

    def other(self, group: str) -> str:
        """The other of the two groups."""
        first, second = self.group_names
        return second if group == first else first


@dataclass(frozen=True)
class _Source:
    """The file and where its keys stand, so that an error can name the line."""

    path: Path
    lines: dict[tuple[str | int, ...], int]

    def fail(self, key: tuple[str | int, ...], message: str) -> BadProbe:
        known = next((key[:end] for end in range(len(key), 0, -1) if key[:end] in self.lines), None)
        where = f", line {self.lines[known]}" if known else ""
        name = ".".join(str(part + 1) if isinstance(part, int) else part for part in key)
        return BadProbe(f"{self.path.name}{where}: {name}: {message}")


def read_cloze_file(name_or_path: str | Path) -> tuple[ClozeFile, Verbalizer]:
    """A shipped set by its name, or a file of the user's."""
    path = _find(name_or_path)
    text = read_text(path, "Give a prompt set, a .toml file in UTF-8.")
    table = parse_toml(path, text, "See docs/own-prompts.md.")
    source = _Source(path, dict(_key_lines(text)))
    try:
        file = ClozeFile.model_validate(table)
    except ValidationError as error:
        raise _first_mistake(source, error) from error
    _check_groups(source, file)
    _check_templates(source, file)
    return file, _verbalizer(source, file)


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


def _first_mistake(source: _Source, error: ValidationError) -> BadProbe:
    mistake = error.errors()[0]
    messages = {
        "missing": "this key is needed and not there",
        "extra_forbidden": "this key is unknown; remove it or correct its spelling",
    }
    message = messages.get(mistake["type"], f"{mistake['msg']}, not {shown(mistake['input'])}")
    return source.fail(mistake["loc"], f"{message}. See docs/own-prompts.md.")


def _key_lines(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Every key with its line. tomllib keeps no positions; a line scan does for the form that we document."""
    table: tuple[str | int, ...] = ()
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            name = header[2]
            table = tuple(part.strip().strip("\"'") for part in name.split("."))
            if header[1]:
                table = (*table, seen.get(name, 0))
                seen[name] = seen.get(name, 0) + 1
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, key[1].strip("\"'")), number


def _check_groups(source: _Source, file: ClozeFile) -> None:
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


def _check_templates(source: _Source, file: ClozeFile) -> None:
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
        key: tuple[str | int, ...] = ("knowledge", number, "text")
        if knowledge.kind in kinds:
            raise source.fail(
                (*key[:2], "kind"), f"{knowledge.kind!r} is taken. Each kind needs a name of its own."
            )
        kinds.append(knowledge.kind)
        for text in knowledge.text:
            if SLOT in text:
                raise source.fail(key, f"{SLOT} belongs into base only. Remove it from {text!r}.")
            _check_text(source, file, key, text, background=True)


def _check_text(
    source: _Source, file: ClozeFile, key: tuple[str | int, ...], text: str, background: bool
) -> None:
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


def _verbalizer(source: _Source, file: ClozeFile) -> Verbalizer:
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
