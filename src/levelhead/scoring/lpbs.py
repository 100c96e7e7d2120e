"""The log-probability bias score of masked models: does a target word raise she over he?

See docs/method/words.md, LPBS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.measures import seat as log_probability
from levelhead.measures.exchange import exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling
from levelhead.models.encoding import Text, token_id
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.contexts import surface
from levelhead.probes.files import by_reason
from levelhead.probes.lpbs import LPBS_TESTS, Kind, LpbsTemplate, LpbsTemplates, lpbs_sentences
from levelhead.probes.words import WordTest, load_words

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
    token. Two words are held fixed, and a claim names them; more of them are exchanged (docs/method/words.md,
    Exchanged pairs). Every target of X and Y stands in every shipped template of its kind: topic for the
    shipped tests (career, math, science), else words, which fits any list; person and trait suit lists of
    nothing else. templates: another kind, or those that load_lpbs_templates read from a user's file.
    """
    if isinstance(templates, LpbsTemplates):
        question, unusable = LpbsQuestion.of(model, test, templates.templates), by_reason(templates.unusable)
        stated = {"templates": templates.name, "data_hash": f"{test.fingerprint()} {templates.fingerprint}"}
    else:
        question, unusable = LpbsQuestion.of(model, test, templates), {}
        stated = {"templates": str(question.templates), "data_hash": test.fingerprint()}
    if reason := question.why_not(model):
        return [Measurement.missing("lpbs", reason, neutral=0.0)] * len(variants)
    settings = {"test": test.name, "attributes": [list(side) for side in question.sides], **stated}
    split = {"attribute of several tokens": question.split} if question.split else {}
    found = [cells.lpbs(test, resampling) for cells in question.cells(model, variants)]
    return [
        replace(m, unscored={**m.unscored, **split, **unusable}, settings={**m.settings, **settings})
        for m in found
    ]


def ask_lpbs_tests(
    model: Model, variants: Sequence[Variant] = UNTOUCHED, resampling: Resampling = DEFAULT
) -> list[list[Measurement]]:
    """LPBS of the three shipped tests in every variant [variant][test], named "lpbs career" and so on."""
    tests = lpbs_tests()
    by_test = [ask_lpbs(model, test, variants, resampling=resampling) for test in tests.values()]
    named = zip(*by_test, strict=True)
    return [[replace(m, name=f"lpbs {n}") for m, n in zip(own, tests, strict=True)] for own in named]


def lpbs_tests() -> dict[str, WordTest]:
    return {name: load_words(name) for name in LPBS_TESTS}


def lpbs_biases(
    model: Model, test: WordTest, variants: Sequence[Variant]
) -> tuple[list[str], list[FloatArray]]:
    """The targets of a test, and the bias of each in nats in every variant, where a model has LPBS."""
    cells = LpbsQuestion.of(model, test).cells(model, variants)
    return list(cells[0].targets) if cells else [], [own.biases(test) for own in cells]


def has_pronouns(test: WordTest) -> bool:
    """Whether a list about gender asks about she and he, as the shipped tests do."""
    return "she" in test.A and "he" in test.B and about_gender(test)


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


@dataclass(frozen=True)
class LpbsQuestion:
    """A test as one model reads it. Attributes are the words whose probability is read at the mask: she and
    he, or the list entries of one token, repeats included."""

    targets: tuple[str, ...]
    sides: tuple[tuple[str, ...], tuple[str, ...]]  # attributes of A, of B
    tokens: tuple[int, ...]  # of A's, then of B's: [attribute]
    split: int  # entries left out
    templates: Kind | tuple[LpbsTemplate, ...]

    @classmethod
    def of(
        cls, model: Model, test: WordTest, given: Kind | tuple[LpbsTemplate, ...] | None = None
    ) -> LpbsQuestion:
        """templates: given ones, or the kind that suits the test."""
        listed = _PRONOUNS if has_pronouns(test) else (test.A, test.B)
        known = [[(word, token_id(model, surface(word))) for word in side] for side in listed]
        a, b = (tuple(word for word, token in side if token is not None) for side in known)
        tokens = tuple(token for side in known for _, token in side if token is not None)
        targets = tuple(dict.fromkeys((*test.X, *test.Y)))
        split = sum(map(len, known)) - len(tokens)
        usual: Kind = "topic" if test.name in LPBS_TESTS else "words"
        return cls(targets, (a, b), tokens, split, given or usual)

    def why_not(self, model: Model) -> str:
        """Why a model has no LPBS; empty where it has."""
        if "mlm" not in model.abilities:
            kind = "a causal model" if model.family.causal else "a model without a masked-language head"
            return f"LPBS asks a masked model; {model.name} is {kind}"
        if not all(self.sides):
            return f"no attribute word of {'A' if not self.sides[0] else 'B'} is one token of {model.name}"
        return ""

    def readings(self, model: Model) -> tuple[TokenLogProbs, TokenLogProbs]:
        """Texts with their targets, and with these masked."""
        sentences = lpbs_sentences(list(self.targets), model.tokenizer.mask_token, self.templates)
        plain = [Text(s.text) for s in sentences]
        masked = [Text(s.text, masked=(s.target_span,)) for s in sentences]
        return TokenLogProbs(plain, self.tokens), TokenLogProbs(masked, self.tokens)

    def cells(self, model: Model, variants: Sequence[Variant]) -> list[Cells]:
        log_ps, log_priors = (
            read_one(model, reading, variants, label="LPBS") for reading in self.readings(model)
        )
        # targets are the outer loop of lpbs_sentences, templates the inner one
        shape = (len(self.targets), -1, len(self.tokens))
        both = zip(log_ps, log_priors, strict=True)
        answers = (log_probability.association(*each).reshape(shape).transpose(1, 0, 2) for each in both)
        return [Cells(self.targets, (*self.sides[0], *self.sides[1]), each) for each in answers]
