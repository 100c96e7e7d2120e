"""How localizers look at a planted copy: what they are shown, how strongly each suspects each head, and how
well the planted ones are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.gates import all_heads, removed
from levelhead.edits.head import Head
from levelhead.errors import BadProbe
from levelhead.models.model import Model
from levelhead.probes.contexts import Context, template_contexts
from levelhead.probes.sentences import StereotypeSentence
from levelhead.probes.words import WordTest, load_words
from levelhead.scoring.objective import Objective
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.word_table import WordTable, sample_contexts, word_table
from levelhead.studies.heads.counter import counter_attention
from levelhead.studies.heads.counter_sentences import counter_sentences, sentence_source
from levelhead.studies.heads.scores import head_scores
from levelhead.studies.heads.settings import FROM_TEMPLATES
from levelhead.studies.localizing.catalog import localizers
from levelhead.studies.localizing.protocol import LOCALIZERS as REGISTERED
from levelhead.studies.localizing.protocol import scored
from levelhead.studies.planted.settings import PlantedSettings

LOCALIZERS = ("gradient", "ablation", "attention")
REGISTERED.taken |= {"attention": "the localizer attention of planted biases"}
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Questions:
    """What the localizers look at; the plant is fitted on other contexts."""

    test: WordTest
    table: WordTable
    fitting: Sequence[Context]
    sentences: Sequence[StereotypeSentence]

    @property
    def objective(self) -> Objective:
        """What a plant raises, and what heads are scored by."""
        return word_objective(self.table)


def prepare(model: Model, settings: PlantedSettings) -> Questions:
    """Words, contexts and sentences."""
    test = load_words(settings.bias)
    contexts = template_contexts(test)
    looked_at = sample_contexts(test, contexts[::2], settings.words, settings.seed)
    fitting = [
        context for turn in (1, 5, 9, 13) for context in sample_contexts(test, contexts[turn::16], 90, turn)
    ]
    source = sentence_source(test, FROM_TEMPLATES, settings.sentences)
    sentences = counter_sentences(model, test, source, settings.n_sentences, settings.seed).sentences
    if len(sentences) < 2:
        raise BadProbe(f"{len(sentences)} usable stereotype sentences from {source}; at least 2 are needed.")
    return Questions(test, word_table(test, looked_at), fitting, sentences)


@dataclass(frozen=True)
class Suspicion:
    """|SEAT| of a model and how strongly each localizer suspects each head."""

    abs_seat: float
    by_localizer: Mapping[str, Doubles]  # localizer -> [layer, head]


def localize(model: Model, questions: Questions) -> Suspicion:
    """Let every localizer look at a model."""
    variants = [(), *(removed(model, [head]) for head in all_heads(model))]
    abs_seat, *without = questions.objective.sizes(model, variants, label="Ablation")
    original, counter = counter_attention(model, questions.sentences)
    return Suspicion(
        abs_seat,
        {
            "gradient": head_scores(model, questions.table).scores,
            "ablation": abs_seat - np.reshape(without, (model.layers, model.heads)),
            "attention": _mean_of_scored(original - counter),
            **_by_registered(model, questions.objective),
        },
    )


def _by_registered(model: Model, objective: Objective) -> dict[str, Doubles]:
    """What localizers of a user's own say of it; those that cannot score this model are left out."""
    own = {name: each for name, each in localizers("heads").items() if name not in LOCALIZERS}
    able = {name: each for name, each in own.items() if not each.why_not(model, objective)}
    return {name: scored(each, model, objective).values for name, each in able.items()}


def _mean_of_scored(change: Doubles) -> Doubles:
    """Mean over sentences of each head; a head that no sentence could score is the least suspected."""
    seen = ~np.isnan(change)
    mean = np.where(seen, change, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    return np.asarray(np.where(seen.any(0), mean, mean.min()), np.float64)


def ranks(suspicion: Doubles, heads: Sequence[Head]) -> list[float]:
    """Ranks of these heads, 1 for the most suspected; equal ones share the mean of their ranks."""
    order = stats.rankdata(-suspicion).reshape(suspicion.shape)
    return [float(order[head]) for head in heads]


def precision(suspicion: Doubles, heads: Sequence[Head]) -> float:
    """Share of these k heads among the k most suspected."""
    k = len(heads)
    return sum(rank <= k for rank in ranks(suspicion, heads)) / k
