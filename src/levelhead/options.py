"""Settings of studies and measures, each declared once: its type, default, bounds and help, and what makes it
inapplicable.

    @dataclass(frozen=True)
    class PlantedSettings(Settings):
        heads: int = option(3, "How many heads to plant into.", least=1)

The option of the command with its help, the check of what Python gives, the command line that makes a run
again, and the reference page of the documentation follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from levelhead.errors import BadOption

LAST_SEED = 2**32 - 1  # the largest that every generator of random numbers takes
MOST_NULLS = 10_000  # null models
ABOUT = "TOML with purpose, groups, provenance ... (docs/report.md)."  # help of --about
# fmt: off
Kind = Literal[
    "", "models", "model", "words", "sentences", "corpus", "triples", "probe", "prompts",
    "templates", "run", "recipe", "pairs", "glue", "code", "file",
    "objective", "localizer", "continued",
]
# fmt: on


@dataclass(frozen=True)
class Option:
    """What is declared of a setting beside its name, type and default.

    needs: another setting, and after "=" what it must contain, without which this one changes nothing.
    old: its names in version 0.2, which still work, with a warning. each: repeated, not a list with commas.
    kind: what it names, which the command looks up before torch is imported.
    """

    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    needs: str = ""
    null_models: Literal["", "0 or at least 2", "at least 2"] = ""
    old: tuple[str, ...] = ()
    metavar: str = ""
    each: bool = False
    argument: bool = False
    kind: Kind = ""
    flag: str = ""  # where it is not the setting's name
    on: object = True  # of a switch: the value that it sets
    python_only: bool = False

    def check(self, name: str, value: object) -> None:
        """Refuse a value outside of the bounds; None is no value."""
        given = [
            each for each in (value if isinstance(value, tuple | list) else (value,)) if each is not None
        ]
        for each in given:
            if self.choices and each not in self.choices:
                raise BadOption(f"{name} must be of {', '.join(self.choices)} (got {each!r})")
            if isinstance(each, bool) or not isinstance(each, int | float):
                continue
            if self.null_models:  # fewer than two give no distribution
                if each < 2 and not (each == 0 and self.null_models.startswith("0")):
                    raise BadOption(f"{name} must be {self.null_models} (got {each})")
                if each > MOST_NULLS:
                    raise BadOption(f"{name} must be at most {MOST_NULLS} (got {each})")
            if each != each:
                raise BadOption(f"{name} must be a number (got nan)")
            if self.above is not None and each <= self.above:
                raise BadOption(f"{name} must be above {self.above:g} (got {each:.12g})")
            if self.least is not None and each < self.least:
                raise BadOption(f"{name} must be at least {self.least:.12g} (got {each:.12g})")
            if self.most is not None and each > self.most:
                raise BadOption(f"{name} must be at most {self.most:.12g} (got {each:.12g})")


def option(default: Any = MISSING, help: str = "", **more: Any) -> Any:
    """A setting. default: a value, a class or function that makes one, or left out: it must be given."""
    metadata = {"option": Option(help, **more)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """The parent of all settings."""

    def __post_init__(self) -> None:
        for name, declared in options(type(self)).items():
            declared.option.check(name, getattr(self, name))
        self.check()

    def check(self) -> None:
        """Refuse settings that do not fit together; what a file or a registry knows is left to the run."""


@dataclass(frozen=True)
class Declared:
    """A setting as its class declares it."""

    name: str
    option: Option
    type: Any  # without None
    default: Any  # MISSING: it must be given

    @property
    def flag(self) -> str:
        """The option of the command."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def several(self) -> bool:
        """Whether it has several values, of any number."""
        args = get_args(self.type)
        if get_origin(self.type) is Sequence:
            return True
        return get_origin(self.type) is tuple and len(args) == 2 and args[1] is Ellipsis

    @property
    def named(self) -> bool:
        """Whether it has values by names."""
        return get_origin(self.type) is not None and issubclass(get_origin(self.type), Mapping)

    @property
    def fixed(self) -> int:
        """How many values it has, where that is fixed and more than one; else 0."""
        args = get_args(self.type)
        return len(args) if get_origin(self.type) is tuple and args[-1] is not Ellipsis else 0


_OPTIONS: dict[Any, dict[str, Declared]] = {}


def hints_of(kind: Any) -> dict[str, object]:
    """The types of a class's fields. Types that only memory holds, as models, are imported for type checkers
    alone, so that a declaration imports no torch: here they are `object`."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(kind, localns=unknown, include_extras=True)
        except NameError as error:
            if not error.name or error.name in unknown:
                raise
            unknown[error.name] = object


def options(kind: Any) -> dict[str, Declared]:
    """The settings of a class by their names; groups of settings inside it are not among them."""
    if kind not in _OPTIONS:
        hints = hints_of(kind)
        _OPTIONS[kind] = {}
        for each in fields(kind):
            if "option" in each.metadata:
                made = each.default_factory
                default = each.default if made is MISSING else made()
                own = Declared(each.name, each.metadata["option"], plain_type(hints[each.name]), default)
                _OPTIONS[kind][each.name] = own
    return _OPTIONS[kind]


def groups(kind: Any) -> dict[str, Any]:
    """Settings inside the settings, whose options belong to the same command."""
    hints = hints_of(kind)
    found = {each.name: plain_type(hints[each.name]) for each in fields(kind) if each.metadata.get("group")}
    return {name: inner for name, inner in found.items() if is_dataclass(inner)}


def group(default: Any) -> Any:
    """Settings inside the settings."""
    return field(default_factory=default, metadata={"group": True})


def plain_type(hint: Any) -> Any:
    """A type without None and annotations; of several types the first that a text can name."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        inside = [each for each in get_args(hint) if each is not type(None)]
        simple = [each for each in inside if each in (str, int, float, bool) or get_origin(each) is tuple]
        hint = (simple or inside)[0]
    if get_origin(hint) is Literal:
        return str
    return hint


def inapplicable(settings: Any, given: set[str] | None = None) -> dict[str, str]:
    """Settings that change nothing without another one, which is missing: what each needs, in words.

    given: the names that somebody has set; None: those that differ from their defaults.
    """
    found = {}
    for name, declared in options(type(settings)).items():
        needs, _, part = declared.option.needs.partition("=")
        changed = getattr(settings, name) != declared.default if given is None else name in given
        if needs and changed:
            value = getattr(settings, needs)
            if not (part in value if part and value else value):
                found[name] = f"{options(type(settings))[needs].flag}{' ' * bool(part)}{part}"
    return found


# ---- settings that several studies and measures share, each with one help text

bias = partial(option, "gender", help="gender, race, or your word list (docs/own-words.md).", kind="words")
limit = partial(option, None, help="At most so many items, evenly spread.", least=1)
per_word = partial(
    option, None, help="Contexts per word. Default: all 16 templates, 20 sentences of a corpus.", least=1
)
quick = partial(option, False, help="Ask little: a first look, with wider intervals.")
fluency_text = partial(
    option,
    None,
    help="Text for fluency: a .txt or .jsonl file, a folder, or hub:NAME. Default: ours.",
    kind="corpus",
)
stereotype_sentences = partial(
    option,
    None,
    help="Sentences with stereotypes: shipped, a .txt or .jsonl file, a folder, or hub:NAME.",
    kind="corpus",
)
triples = partial(
    option, None, help="A file of triples or hub:stereoset. Default: 170 that we wrote.", kind="triples"
)
ability = partial(
    option, None, help="SNLI file, folder or hub:snli. Default: 330 pairs that we wrote.", kind="pairs"
)
occupations = partial(
    option, None, help="Ask N occupations in M contexts only; default 164 33.", least=1, metavar="N M"
)
probe = partial(
    option,
    None,
    help="Occupations, contexts and sentences of yours (docs/own-prompts.md).",
    metavar="FILE",
    kind="probe",
)
labels = partial(option, None, help='What outputs 0, 1, 2 mean, e.g. "contradiction,entailment,neutral".')
train_rows = partial(
    option, None, help="Train on so many examples, evenly spread: a quick look. Default: all.", least=1
)
strict = partial(option, False, help="An item of a file that cannot be evaluated is an error, not left out.")
own_measures = partial(
    option,
    (),
    help="Python with a measure of yours (docs/own-measure.md); repeatable.",
    each=True,
    flag="--measure",
    metavar="FILE",
    kind="code",
)
benchmarks = partial(
    option,
    dict,
    help="Also score on a published benchmark; repeatable.",
    flag="--benchmark",
    metavar="NAME=FILE",
)
closed_heads = partial(option, "", help="Heads to ablate or to scale, LAYER-HEAD[=GATE]: 3-5,7-2=0.5")
recipe = partial(
    option, None, help="A recipe (TOML), as audits and projections write.", metavar="FILE", kind="recipe"
)


def seed(help: str = "Seed of every draw.") -> Any:
    return option(0, help, least=0, most=LAST_SEED)


def null_models(default: int | None, help: str = "Null models to compare with", none: bool = True) -> Any:
    allowed: Any = "0 or at least 2" if none else "at least 2"
    return option(default, f"{help}: {'0 (none), or ' * none}at least 2.", null_models=allowed, metavar="K")


def resamples(default: int = 2_000) -> Any:
    return option(default, "Bootstrap samples of every interval.", least=100)


def biases(default: tuple[str, ...], **more: Any) -> Any:
    help = "Word lists, with commas: gender, race, career ..., or yours (docs/own-words.md)."
    return option(default, help, kind="words", **more)
