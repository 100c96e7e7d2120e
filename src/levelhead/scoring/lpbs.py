"""The log-probability bias score of masked models: does a target word raise she over he?

See docs/method.md, LPBS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.measures import lpbs as log_probability
from levelhead.measures.exchange import exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling
from levelhead.models.encoding import Text, token_id
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.contexts import surface
from levelhead.probes.files import by_reason
from levelhead.probes.lpbs import Kind, LpbsTemplate, LpbsTemplates, lpbs_sentences
from levelhead.probes.words import WordTest, load_words

LPBS_TESTS = ("career", "math", "science")
_PRONOUNS = (("she",), ("he",))


def ask_lpbs(
    model: Model,
    test: WordTest,
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    templates: Kind | LpbsTemplates | None = None,
    resampling: Resampling = DEFAULT,
) -> list[Measurement]:
    """LPBS of a test in every variant, for example of load_words("career"). Only masked models can be asked.

    At the mask stand she and he where a list about gender has them, else the words of A and B that are one
    token. Two words are held fixed, and a claim names them; more of them are exchanged (docs/method.md,
    Exchanged pairs). Every target of X and Y stands in every shipped template of its kind: topic for the
    shipped tests (career, math, science), else words, which fits any list; person and trait suit lists of
    nothing else. templates: another kind, or those that load_lpbs_templates read from a user's file.
    """
    chosen = _Templates.of(test, templates)
    attributes = _Attributes.of(model, test)
    if reason := attributes.why_not(model):
        return [Measurement.missing("lpbs", reason, neutral=0.0)] * len(variants)
    asked = _cells(model, test, variants, attributes, chosen)
    settings = {"test": test.name, "attributes": [list(side) for side in attributes.sides], **chosen.stated}
    split = {"attribute of several tokens": attributes.split} if attributes.split else {}
    measurements = []
    for cells in asked:
        measured = cells.lpbs(test, resampling)
        unscored = {**measured.unscored, **split, **chosen.unusable}
        measurements.append(replace(measured, unscored=unscored, settings={**measured.settings, **settings}))
    return measurements


def why_no_lpbs(model: Model, test: WordTest) -> str:
    """The reason why a model cannot be asked about a test; empty where it can."""
    return _Attributes.of(model, test).why_not(model)


def lpbs_biases(
    model: Model, test: WordTest, variants: Sequence[Variant]
) -> tuple[list[str], list[FloatArray]]:
    """The targets of a test, and the bias of each in nats in every variant, where a model can be asked."""
    attributes = _Attributes.of(model, test)
    asked = _cells(model, test, variants, attributes, _Templates.of(test, None))
    return list(asked[0].targets) if asked else [], [cells.biases(test) for cells in asked]


def lpbs_cells(model: Model, test: WordTest) -> Cells:
    """What a model that can be asked about a test answers."""
    return _cells(model, test, UNTOUCHED, _Attributes.of(model, test), _Templates.of(test, None))[0]


@dataclass(frozen=True, eq=False)
class Cells:
    """The association of every target with every attribute word, in one variant of a model."""

    targets: tuple[str, ...]
    words: tuple[str, ...]  # the attributes, repeats included
    associations: FloatArray  # [template, target, attribute]

    def biases(self, test: WordTest) -> FloatArray:
        """The bias of every target in nats: [target]"""
        return log_probability.word_bias(self.associations, [word in set(test.A) for word in self.words])

    def lpbs(self, test: WordTest, resampling: Resampling = DEFAULT) -> Measurement:
        """LPBS of a test of these words; its group words are exchanged where they are more than two."""
        in_x = [target in set(test.X) for target in self.targets]
        measured = log_probability.lpbs(self.biases(test), in_x, resampling)
        if measured.value is None or len(self.words) == 2:
            return measured
        gaps = log_probability.attribute_gaps(self.associations, in_x)
        of_word = dict(zip(self.words, gaps.tolist(), strict=True))
        sides = (test.A, test.B)
        found = exchange(of_word, sides, test.pairs, leans=measured.value, seed=resampling.seed)
        return measured if found is None else found.on(measured)


def _cells(
    model: Model, test: WordTest, variants: Sequence[Variant], attributes: _Attributes, chosen: _Templates
) -> list[Cells]:
    """What a model answers in every variant."""
    targets = list(dict.fromkeys((*test.X, *test.Y)))
    asked = _readings(model, targets, attributes, chosen)
    log_ps, log_priors = (read_one(model, reading, variants, label="LPBS") for reading in asked)
    # targets are the outer loop of lpbs_sentences, templates the inner one
    shape = (len(targets), -1, len(attributes.tokens))
    both = zip(log_ps, log_priors, strict=True)
    answers = (log_probability.association(*each).reshape(shape).transpose(1, 0, 2) for each in both)
    return [Cells(tuple(targets), attributes.words, each) for each in answers]


def lpbs_readings(model: Model, test: WordTest) -> tuple[TokenLogProbs, TokenLogProbs]:
    """What a model that can be asked about a test is asked: texts with their targets, and without."""
    targets = list(dict.fromkeys((*test.X, *test.Y)))
    return _readings(model, targets, _Attributes.of(model, test), _Templates.of(test, None))


def _readings(
    model: Model, targets: Sequence[str], attributes: _Attributes, chosen: _Templates
) -> tuple[TokenLogProbs, TokenLogProbs]:
    sentences = lpbs_sentences(targets, model.tokenizer.mask_token, chosen.templates)
    masked = [Text(s.text, masked=(s.target_span,)) for s in sentences]
    tokens = tuple(attributes.tokens)
    return TokenLogProbs([Text(s.text) for s in sentences], tokens), TokenLogProbs(masked, tokens)


def lpbs_tests() -> dict[str, WordTest]:
    """The shipped tests by their names."""
    return {name: load_words(name) for name in LPBS_TESTS}


def ask_lpbs_tests(
    model: Model, variants: Sequence[Variant] = UNTOUCHED, resampling: Resampling = DEFAULT
) -> list[list[Measurement]]:
    """LPBS of the three shipped tests in every variant [variant][test], named "lpbs career" and so on."""
    by_test = [
        [
            replace(measured, name=f"lpbs {name}")
            for measured in ask_lpbs(model, test, variants, resampling=resampling)
        ]
        for name, test in lpbs_tests().items()
    ]
    return [list(of_variant) for of_variant in zip(*by_test, strict=True)]


def has_pronouns(test: WordTest) -> bool:
    """Whether a list about gender asks about she and he, as the shipped tests do."""
    return "she" in test.A and "he" in test.B and about_gender(test)


@dataclass(frozen=True)
class _Templates:
    """The templates that are asked, how a result names them, and lines of a user's file that are none."""

    templates: Kind | tuple[LpbsTemplate, ...]
    stated: dict[str, str]
    unusable: dict[str, int]

    @classmethod
    def of(cls, test: WordTest, given: Kind | LpbsTemplates | None) -> _Templates:
        """Those of a file, of a kind, or of the kind that suits a test."""
        if isinstance(given, LpbsTemplates):
            stated = {"templates": given.name, "data_hash": f"{test.fingerprint()} {given.fingerprint}"}
            return cls(given.templates, stated, by_reason(given.unusable))
        kind: Kind = given or ("topic" if test.name in LPBS_TESTS else "words")
        return cls(kind, {"templates": kind, "data_hash": test.fingerprint()}, {})


@dataclass(frozen=True)
class _Attributes:
    """Words whose probability is asked at the mask: the list entries of one token, repeats included."""

    sides: tuple[tuple[str, ...], tuple[str, ...]]  # of A, of B
    tokens: list[int]
    split: int  # entries left out

    @classmethod
    def of(cls, model: Model, test: WordTest) -> _Attributes:
        """She and he where a list about gender has them, else the words of A and B."""
        listed = _PRONOUNS if has_pronouns(test) else (test.A, test.B)
        known = [[(word, token_id(model, surface(word))) for word in side] for side in listed]
        a, b = (tuple(word for word, token in side if token is not None) for side in known)
        tokens = [token for side in known for _, token in side if token is not None]
        return cls((a, b), tokens, sum(map(len, known)) - len(tokens))

    @property
    def words(self) -> tuple[str, ...]:
        """Those of A, then those of B: [attribute]"""
        return (*self.sides[0], *self.sides[1])

    def why_not(self, model: Model) -> str:
        """The reason why a model cannot be asked; empty where it can."""
        if "mlm" not in model.abilities:
            kind = "a causal model" if model.family.causal else "a model without a masked-language head"
            return f"LPBS asks a masked model; {model.name} is {kind}"
        if not all(self.sides):
            return f"no attribute word of {'A' if not self.sides[0] else 'B'} is one token of {model.name}"
        return ""
