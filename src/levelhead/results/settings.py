"""What a run was asked, as settings.json keeps it: one record a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from levelhead.results.asked import (
    LAST_SEED,
    REQUIRED,
    Argument,
    Asked,
    Command,
    Follows,
    InPython,
    Option,
    asked,
)
from levelhead.results.codec import Record, Stored, StoredHead, completed
from levelhead.results.presets import (
    GLUE_ROWS,
    PAPER_HEADS,
    QUICK_PAPER_HEADS,
    QUICK_PAPER_SWEEP,
    SMALL,
    audit_preset,
    survey_preset,
)
from levelhead.results.presets import AuditSizes as AuditSizes

_BIAS = Option("--bias", "gender")
_SENTENCES = Option("--sentences")
_TEXT = Option("--text")
_MEASURES = Option("--measure", (), "each")
_OF_A_PAPER = frozenset({"--seed", "--dtype", "--allow-pickle", "--trust-remote-code"})  # of `reproduce`
_OF_TWO_MODELS = _OF_A_PAPER | {"--nli", "--labels"}
BenchmarkFiles = Annotated[Mapping[str, str], Option("--benchmark", {}, "named")]
InMemory = Annotated[bool, InPython(False)]  # whether Python made what the command line names


def _sizes_before(stored: Stored) -> Stored:
    """Sizes that audits up to 0.2 did not store: the heads of all null models, and all items of a half."""
    return {"head_twins": stored.get("null", 0), "screen_every": 1}


@dataclass(frozen=True)
class LoadedAs(Record):
    """How the models of a run were loaded, as far as it changes numbers or whether they load at all."""

    dtype: Annotated[str | None, Option("--dtype")] = None  # that was asked for; None: levelhead's choice
    allow_pickle: Annotated[bool, Option("--allow-pickle", False, "switch")] = False
    trust_remote_code: Annotated[bool, Option("--trust-remote-code", False, "switch")] = False
    in_python: InMemory = False  # in memory already, edited, or each in another way


@dataclass(frozen=True)
class RunSettings(Record):
    """What the settings of every study have. Each says how it is asked for (results/asked.py)."""

    COMMANDS: ClassVar[tuple[Command, ...]]  # that make such a run, the first that can is printed

    study: Annotated[str, Follows()]
    seed: Annotated[int, Option("--seed", 0, most=LAST_SEED)]

    def asked(self) -> Iterator[Asked]:
        """The settings one by one, with how each is asked for."""
        return asked(self)


@dataclass(frozen=True)
class HeadsRunSettings(RunSettings):
    """A run of `levelhead heads`."""

    COMMANDS = (
        Command(("heads",)),
        Command(("reproduce", "heads"), PAPER_HEADS, "--model", _OF_A_PAPER),
        Command(("reproduce", "heads", "--quick"), QUICK_PAPER_HEADS, "--model", _OF_A_PAPER),
    )

    model: Annotated[str, Argument()]
    layers: Annotated[int, Follows()]
    heads: Annotated[int, Follows()]
    bias: Annotated[str, _BIAS]
    contexts: Annotated[str, Option("--contexts", "templates")]
    experiments: Annotated[
        tuple[str, ...], Option("--experiments", ("scores", "ablation", "counter"), "list")
    ]
    per_word: Annotated[int | None, Option("--per-word")]
    contexts_per_word: Annotated[int, Follows()]
    sentences: Annotated[str | None, Option("--sentences", needs=("experiments", "counter"))]
    n_sentences: Annotated[int, InPython(500)]
    top: Annotated[int, Option("--top", 3, needs=("experiments", "debias"))]
    trim: Annotated[bool, Option("--trim", False, "switch")]
    resamples: Annotated[int, InPython(2_000)]
    null: Annotated[int, Option("--null", 19)] = 0  # null twins
    splits: Annotated[int, InPython(2)] = 0  # of the words, for cross-fitting, on the first context of each
    score_contexts: Annotated[int | None, Option("--score-contexts")] = None  # that were asked for
    score_contexts_per_word: Annotated[int | None, Follows()] = None  # that scores were taken on
    text: Annotated[str | None, Option("--text", needs=("experiments", "debias"))] = None  # None: ours
    words_in_memory: InMemory = False
    loading: LoadedAs = LoadedAs()
    scored_twins: Annotated[int | None, InPython(None)] = None  # twins whose heads are scored; None: all


@dataclass(frozen=True)
class HeadComparisonSettings(RunSettings):
    """A run of `levelhead compare-heads`."""

    COMMANDS = (Command(("compare-heads",)),)

    seed: Annotated[int, Follows()]  # nothing is drawn
    runs: Annotated[tuple[str, ...], Argument()]
    top: Annotated[int, Option("--top", 5)]
    test: Annotated[str, Follows()]


@dataclass(frozen=True)
class PlantedRunSettings(RunSettings):
    """A run of `levelhead planted`."""

    COMMANDS = (Command(("planted",)),)

    model: Annotated[str, Argument()]
    layers: Annotated[int, Follows()]
    heads_in_all: Annotated[int, Follows()]
    bias: Annotated[str, _BIAS]
    heads: Annotated[int, Option("--plants", 3)]  # planted at a time
    seeds: Annotated[int, Option("--seeds", 5)]
    kinds: Annotated[tuple[str, ...], Option("--kinds", ("value", "attention"), "list")]
    rise: Annotated[float, Option("--rise", 0.1)]
    nats: Annotated[float, InPython(4.0)]
    words: Annotated[int, InPython(60)]
    sentences: Annotated[str | None, _SENTENCES]
    n_sentences: Annotated[int, InPython(100)]
    words_in_memory: InMemory = False
    loading: LoadedAs = LoadedAs()


@dataclass(frozen=True)
class SweepRunSettings(RunSettings):
    """A run of `levelhead sweep`."""

    COMMANDS = (
        Command(("sweep",)),
        Command(
            ("reproduce", "projections", "--quick"),
            QUICK_PAPER_SWEEP,
            "--model",
            _OF_TWO_MODELS,
        ),
    )

    model: Annotated[str, Argument()]
    nli_model: Annotated[str, Option("--nli", REQUIRED)]
    fit: Annotated[str, Option("--sequential", "base", "switch", on="sequential")]
    depth: Annotated[bool, Option("--depth", False, "switch")]
    labels: Annotated[str | None, Option("--labels")]
    triples: Annotated[str, Follows()]  # the names of the data
    ability: Annotated[str, Follows()]
    occupations: Annotated[int, Follows()]  # as `limit` says
    contexts: Annotated[int, Follows()]
    words: Annotated[tuple[str, str], Follows()]  # feminine, masculine, of the hypotheses
    resamples: Annotated[int, InPython(2_000)]
    pairs: Annotated[str, Option("--pairs", "frames")]
    form: Annotated[str, Follows()]  # of the inputs that the next-sentence model's subspaces were fitted on
    nli_form: Annotated[str, Follows()]
    triples_file: Annotated[str | None, Option("--triples")] = None  # None: ours
    ability_file: Annotated[str | None, Option("--ability")] = None
    probe_file: Annotated[str | None, Option("--probe")] = None
    data_in_memory: InMemory = False
    loading: LoadedAs = LoadedAs()

    def asked(self) -> Iterator[Asked]:
        """The settings; occupations and contexts are one option."""
        yield from asked(self)
        limit = (self.occupations, self.contexts)
        yield Asked("limit", limit, Option("--limit", REQUIRED, "several"))


@dataclass(frozen=True)
class PromptsRunSettings(RunSettings):
    """A run of `levelhead prompts`."""

    COMMANDS = (Command(("prompts",)),)

    models: Annotated[tuple[str, ...], Argument()]
    variants: Annotated[tuple[str, ...], Follows()]
    prompts: Annotated[str, Option("--set", "gender-occupation")]
    verbalizer: Annotated[str | None, Option("--verbalizer")]
    per_background: Annotated[int, Option("--backgrounds", REQUIRED)]
    ks: Annotated[tuple[int, ...], Option("--k", (3, 5, 10), "each")]
    draws: Annotated[int, InPython(2_000)]
    remove_heads: Annotated[tuple[StoredHead, ...], Option("--heads", (), "list")]
    groups: Annotated[tuple[str, str], Follows()]
    kinds: Annotated[tuple[str, ...], Follows()]
    n_prompts: Annotated[int, Follows()]
    null: Annotated[int, Option("--null", 9)] = 0  # null twins that verdicts are held against
    chat: Annotated[bool, Option("--chat", False, "switch")] = False  # else plain text
    recipe_file: Annotated[str | None, Option("--recipe")] = None
    variants_in_memory: InMemory = False  # beside the models without heads and with the recipe of the file
    loading: LoadedAs = LoadedAs()

    @property
    def shown_k(self) -> int:
        """The k that stands for all: 5 where it was asked, else the one nearest to it."""
        return min(self.ks, key=lambda k: (abs(k - 5), k))


@dataclass(frozen=True)
class GlueRunSettings(RunSettings):
    """A run of `levelhead glue`."""

    COMMANDS = (Command(("glue",)),)

    model: Annotated[str, Argument()]
    published: Annotated[str, Option("--data", REQUIRED)]  # the folder of GLUE's files, or hub:glue
    tasks: Annotated[tuple[str, ...], Option("--tasks", REQUIRED, "list")]
    recipes: Annotated[tuple[str, ...], Follows()]  # names; the unmodified model is always there
    seeds: Annotated[int, Option("--seeds", 3)]  # how many, from `seed` on
    train_rows: Annotated[int | None, Option("--train-rows")]
    margin: Annotated[float, Option("--margin", 1.0)]  # points that a change may cost: not inferior
    epochs: Annotated[int, Option("--epochs", 3)]
    batch_size: Annotated[int, Option("--batch-size", 32)]
    learning_rate: Annotated[float, Option("--learning-rate", REQUIRED)]
    warmup: Annotated[float, Option("--warmup", 0.1)]
    weight_decay: Annotated[float, Option("--weight-decay", 0.01)]
    max_length: Annotated[int, Option("--max-length", 128)]
    lora: Annotated[bool, Option("--lora", False, "switch")]
    bf16: Annotated[bool, Option("--bf16", False, "switch")] = False
    gated_heads: Annotated[str, Option("--heads", "")] = ""  # the recipe that --heads makes, as it is typed
    recipe_files: Annotated[tuple[str, ...], Option("--recipe", (), "each")] = ()
    recipes_in_memory: InMemory = False  # beside those
    loading: LoadedAs = LoadedAs()


@dataclass(frozen=True)
class AuditRunSettings(RunSettings):
    """A run of `levelhead audit`."""

    COMMANDS = (Command(("audit",)),)

    model: Annotated[str, Argument()]
    abilities: Annotated[tuple[str, ...], Follows()]
    layers: Annotated[int, Follows()]
    heads: Annotated[int, Follows()]
    large: Annotated[bool, Follows()]  # so large that an audit asks less, unless it is a full one
    bias: Annotated[str, _BIAS]
    nli: Annotated[str | None, Option("--nli")]
    top: Annotated[int, Option("--top", 3)]
    full: Annotated[bool, Option("--full", False, "switch")]
    sizes: Annotated[AuditSizes, Follows(), completed(_sizes_before)] = SMALL
    measures: Annotated[tuple[str, ...], Follows()] = ()  # names of the user's own
    text: Annotated[str | None, _TEXT] = None  # of the user's, for fluency; None: ours
    glue: Annotated[str | None, Option("--glue")] = None  # a folder or hub:glue; None: nothing is fine-tuned
    huge: Annotated[bool, Follows()] = False  # so large that an audit on a CPU evaluates still less
    quick: Annotated[bool, Option("--quick", False, "switch")] = False
    glue_tasks: Annotated[tuple[str, ...], Option("--glue-tasks", (), "list")] = ()
    glue_rows: Annotated[int | None, Follows()] = None  # None: all
    glue_in_python: InMemory = False  # with seeds or hyperparameters that the command has no option for
    measure_files: Annotated[tuple[str, ...], _MEASURES] = ()
    measures_in_memory: InMemory = False
    words_in_memory: InMemory = False
    benchmark_files: BenchmarkFiles = field(default_factory=dict)
    loading: LoadedAs = LoadedAs()

    def asked(self) -> Iterator[Asked]:
        """The settings, and what of the sizes was asked for."""
        yield from asked(self)
        preset = audit_preset(self.full, self.quick, self.large, self.huge)
        own = preset if self.sizes.contexts is None else replace(preset, contexts=self.sizes.contexts)
        null = self.sizes.null if self.sizes == own.with_null(self.sizes.null) != own else None
        yield Asked("null", null, Option("--null"))
        yield Asked("per_word", own.contexts, Option("--per-word", preset.contexts))
        yield Asked("sizes", self.sizes, InPython(own if null is None else own.with_null(null)))
        if self.glue is not None:
            yield Asked("glue_rows", self.glue_rows or 0, Option("--train-rows", GLUE_ROWS))


@dataclass(frozen=True)
class SurveyRunSettings(RunSettings):
    """A run of `levelhead survey`; it can be asked for more models later."""

    COMMANDS = (Command(("survey",)),)

    models: Annotated[tuple[str, ...], Argument()]
    biases: Annotated[tuple[str, ...], Option("--bias", ("gender",), "list")]
    questions: Annotated[tuple[str, ...], Option("--measures", REQUIRED, "list")]
    quick: Annotated[bool, Option("--quick", False, "switch")]
    sizes: Annotated[AuditSizes, Follows()]
    dtype: Annotated[str | None, Follows()]  # as `loading` has it
    measure_files: Annotated[tuple[str, ...], _MEASURES] = ()
    measures_in_memory: InMemory = False
    words_in_memory: InMemory = False
    benchmark_files: BenchmarkFiles = field(default_factory=dict)
    loading: LoadedAs = LoadedAs()

    def asked(self) -> Iterator[Asked]:
        """The settings; sizes other than those of `quick` were given in Python."""
        yield from asked(self)
        yield Asked("sizes", self.sizes, InPython(survey_preset(self.quick)))


@dataclass(frozen=True)
class MitigateRunSettings(RunSettings):
    """A run of `levelhead mitigate`."""

    COMMANDS = (Command(("mitigate",)),)

    model: Annotated[str, Argument()]
    bias: Annotated[str, _BIAS]
    methods: Annotated[tuple[str, ...], Option("--methods", (), "list")]  # none: all that are registered
    objective: Annotated[str, Option("--objective", "")]
    gain: Annotated[float, Option("--gain", 0.0)]
    max_perplexity: Annotated[float, Option("--max-perplexity", 2.0)]
    max_loss: Annotated[float, Option("--max-loss", 2.0)]
    null: Annotated[int, Option("--null", 9)]
    text: Annotated[str, Option("--text", "")] = ""
    steps: Annotated[int, Option("--steps", 0)] = 0
    lora: Annotated[bool, Option("--lora", False, "switch")] = False
    budget: Annotated[str, Option("--budget", "")] = ""
    spillover: Annotated[bool, InPython(True)] = True
    published: Annotated[str, Option("--data", "")] = ""  # of the benchmark that is the target
    limit: Annotated[int | None, Option("--limit")] = None
    glue: Annotated[str | None, Option("--glue")] = None  # a folder or hub:glue; None: nothing is fine-tuned
    glue_tasks: Annotated[tuple[str, ...], Option("--glue-tasks", (), "list")] = ()
    glue_rows: Annotated[int | None, Follows()] = None  # None: all
    glue_in_python: InMemory = False  # with seeds or hyperparameters that the command has no option for
    max_glue: Annotated[float, Option("--max-glue", 1.0)] = 1.0
    words_in_memory: InMemory = False
    loading: LoadedAs = LoadedAs()

    def asked(self) -> Iterator[Asked]:
        """The settings, and the rows of GLUE where it was asked for."""
        yield from asked(self)
        if self.glue is not None:
            yield Asked("glue_rows", self.glue_rows or 0, Option("--train-rows", GLUE_ROWS))


@dataclass(frozen=True)
class AtlasRunSettings(RunSettings):
    """A run of `levelhead atlas`, and of `levelhead heads --objective`."""

    COMMANDS = (Command(("atlas",)),)

    model: Annotated[str, Argument()]
    objectives: Annotated[tuple[str, ...], Option("--objectives", (), "list")]
    benchmark_files: Annotated[Mapping[str, str], Option("--data", {}, "named")]  # by benchmark
    bias: Annotated[str, _BIAS]
    localizer: Annotated[str, Option("--localizer", "gradient")]
    splits: Annotated[int, Option("--splits", 2)]
    null: Annotated[int, Option("--null", 19)]
    limit: Annotated[int | None, Option("--limit")]
    transfer: Annotated[int, Option("--transfer", 0)] = 0
    words_in_memory: InMemory = False
    loading: LoadedAs = LoadedAs()


@dataclass(frozen=True)
class BenchmarkRunSettings(RunSettings):
    """A run of `levelhead measure`."""

    COMMANDS = (Command(("measure",)),)

    benchmark: Annotated[str, Argument()]
    model: Annotated[str, Argument()]  # empty where predictions stand in its place
    published: Annotated[str, Option("--data", REQUIRED)]  # the benchmark's file or folder, or hub:NAME
    rule: Annotated[str | None, Option("--rule")]  # that was asked for; None: the benchmark's first
    categories: Annotated[tuple[str, ...], Option("--category", (), "each")]
    limit: Annotated[int | None, Option("--limit")]
    null: Annotated[int | None, Option("--null")]  # on all items; None: up to 5, on an even part of them
    chat: Annotated[bool, Option("--chat", False, "switch")]
    predictions: Annotated[str | None, Option("--from-predictions")]  # in place of a model
    resamples: Annotated[int, InPython(2_000)]
    abilities: Annotated[tuple[str, ...], Follows()] = ()
    loading: LoadedAs = LoadedAs()
