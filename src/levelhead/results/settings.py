"""What a run was asked, as settings.json keeps it: one record a study."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.results.codec import Record, StoredHead


@dataclass(frozen=True)
class RunSettings(Record):
    """What the settings of every study have."""

    study: str
    seed: int


@dataclass(frozen=True)
class HeadsRunSettings(RunSettings):
    """A run of `levelhead heads`."""

    model: str
    layers: int
    heads: int
    bias: str
    contexts: str
    experiments: tuple[str, ...]
    per_word: int | None
    contexts_per_word: int  # that followed from it
    sentences: str | None
    n_sentences: int
    top: int
    trim: bool
    resamples: int
    null: int = 0  # null twins
    splits: int = 0  # of the words, for cross-fitting, on the first context of each word
    score_contexts: int | None = None  # for each word, that scores and removals were taken on, if asked
    score_contexts_per_word: int | None = None  # that followed from it
    text: str | None = None  # of the user's, for fluency; None: ours


@dataclass(frozen=True)
class HeadComparisonSettings(RunSettings):
    """A run of `levelhead compare-heads`."""

    runs: tuple[str, ...]
    top: int
    test: str


@dataclass(frozen=True)
class PlantedRunSettings(RunSettings):
    """A run of `levelhead planted`."""

    model: str
    layers: int
    heads_in_all: int
    bias: str
    heads: int  # planted at a time
    seeds: int
    kinds: tuple[str, ...]
    rise: float
    nats: float
    words: int
    sentences: str | None
    n_sentences: int


@dataclass(frozen=True)
class SweepRunSettings(RunSettings):
    """A run of `levelhead sweep`."""

    model: str
    nli_model: str
    fit: str
    depth: bool
    labels: str | None
    triples: str
    ability: str
    occupations: int
    contexts: int
    words: tuple[str, str]  # feminine, masculine, of the hypotheses
    resamples: int
    pairs: str
    form: str  # of the inputs that the next-sentence model's subspaces were fitted on
    nli_form: str


@dataclass(frozen=True)
class PromptsRunSettings(RunSettings):
    """A run of `levelhead prompts`."""

    models: tuple[str, ...]
    variants: tuple[str, ...]
    prompts: str
    verbalizer: str | None
    per_background: int
    ks: tuple[int, ...]
    draws: int
    remove_heads: tuple[StoredHead, ...]
    groups: tuple[str, str]
    kinds: tuple[str, ...]
    n_prompts: int
    null: int = 0  # null twins that verdicts are held against
    chat: bool = False  # whether prompts went through the chat templates of the models; else plain text

    @property
    def shown_k(self) -> int:
        """The k that stands for all: 5 where it was asked, else the one nearest to it."""
        return min(self.ks, key=lambda k: (abs(k - 5), k))


@dataclass(frozen=True)
class GlueRunSettings(RunSettings):
    """A run of `levelhead glue`."""

    model: str
    published: str  # the folder of GLUE's files, or hub:glue
    tasks: tuple[str, ...]
    recipes: tuple[str, ...]  # names; the untouched model is always there
    seeds: int  # how many, from `seed` on
    train_rows: int | None
    margin: float  # points that a change may cost and still count as not inferior
    epochs: int
    batch_size: int
    learning_rate: float
    warmup: float
    weight_decay: float
    max_length: int
    lora: bool
    bf16: bool = False


@dataclass(frozen=True)
class AuditSizes(Record):
    """How much an audit asks; by default what a quick audit asks of a small model."""

    experiments: tuple[str, ...] = ("scores", "counter")  # of the heads study
    contexts: int | None = None  # for each word, for SEAT; None: all templates
    score_contexts: int | None = None  # for scores of heads; None: as many as the heads study takes
    splits: int = 2  # of the words into halves, to choose heads on one and judge them on the other
    counter_sentences: int = 500
    triples: int = 1  # one of so many is asked
    occupations: tuple[int, int] | None = (41, 8)  # and contexts of inferences; None: all
    abilities: int | None = None  # ordinary inferences; None: all
    sentences: int = 2  # of the text for fluency, one of so many is asked
    backgrounds: int | None = None  # of a CounterActs occupation; None: as the prompts say
    starts: int | None = 4  # first layers of token projections; None: all
    screen_contexts: int | None = None  # for each word, for choosing projections; None: all of them
    screen: tuple[int, int] | None = (25, 6)  # most occupations, contexts for choosing; None: all of a half
    null: int = 19  # twins of the model without meaning
    triple_twins: int = 39  # of them answer all triples, at most: Student's p needs no more
    prompt_twins: int = 9  # of them answer CounterActs' prompts, at most
    resamples: int = 10_000  # of every interval: so many that its bounds do not hang on the seed


@dataclass(frozen=True)
class AuditRunSettings(RunSettings):
    """A run of `levelhead audit`."""

    model: str
    abilities: tuple[str, ...]
    layers: int
    heads: int
    large: bool  # so large that a quick audit asks less
    bias: str
    nli: str | None
    top: int
    full: bool
    sizes: AuditSizes = AuditSizes()
    measures: tuple[str, ...] = ()  # names of the user's own
    text: str | None = None  # of the user's, for fluency; None: ours
    glue: str | None = None  # the folder of GLUE's files, or hub:glue; None: nothing was fine-tuned


@dataclass(frozen=True)
class SurveyRunSettings(RunSettings):
    """A run of `levelhead survey`; it can be asked for more models later."""

    models: tuple[str, ...]
    biases: tuple[str, ...]
    questions: tuple[str, ...]
    quick: bool
    sizes: AuditSizes
    dtype: str | None


@dataclass(frozen=True)
class MitigateRunSettings(RunSettings):
    """A run of `levelhead mitigate`."""

    model: str
    bias: str
    methods: tuple[str, ...]  # none: all that are registered
    gain: float
    max_perplexity: float
    max_loss: float
    null: int
