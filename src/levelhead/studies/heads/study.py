"""Which attention heads carry a bias, and are they really the ones? (SPEC A, 'Bias A-head?')

    scores     b[layer, head] = d|SEAT| / d gate, for every head
    ablation   what |SEAT| really does when one head is removed, for every head
    counter    does a biased head look at the attribute word less when the stereotype is turned around?
    debias     what removing or weighting heads buys and costs (studies/heads/debias.py)

Layers and heads count from 1 in all that is written.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.engine.gradients import GateGradients, Objective, gate_gradients
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling, q_values, spearman
from levelhead.models.model import Model
from levelhead.probes.contexts import (
    TEMPLATES,
    Context,
    contexts_fingerprint,
    corpus_contexts,
    template_contexts,
    write_contexts,
)
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.words import WordTest, load_words
from levelhead.results.folder import Row, Run, RunData, read_run, text_hash
from levelhead.scoring.seat import absolute_seats, ask_seat, turns
from levelhead.scoring.word_table import WordTable, fitting, unknown_words, word_table
from levelhead.studies.heads.counter import CounterSentences, counter_experiment, find_sentences

EXPERIMENTS = ("scores", "ablation", "counter", "debias")
CORPUS_PER_WORD = 20
TEMPLATE_CONTEXTS = 1_300  # in all, by default: what keeps every experiment on a small model within minutes
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class HeadsSettings:
    """What is asked of a model."""

    bias: str = "gender"  # a shipped word list, a file, or a folder of published lists
    contexts: str = "templates"  # or a text file, a folder, hub:NAME
    experiments: tuple[str, ...] = ("scores", "ablation", "counter")
    per_word: int | None = None  # contexts a word; by default 2 to 16 templates, or 20 sentences of a corpus
    sentences: str | None = None  # of the counter experiment: "shipped", a text file, a folder, hub:NAME
    n_sentences: int = 500
    top: int = 3  # of the debias experiment: how many of the most biased heads are removed
    trim: bool = False  # cut X and Y to equal size
    resamples: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.experiments if name not in EXPERIMENTS]
        if unknown or not self.experiments:
            raise BadProbe(
                f"Experiments {', '.join(unknown) or 'none'} came; allowed are {', '.join(EXPERIMENTS)}."
            )
        if (self.per_word is not None and self.per_word < 1) or min(self.n_sentences, self.top) < 1:
            told = f"per_word={self.per_word}, n_sentences={self.n_sentences}, top={self.top}"
            raise BadProbe(f"{told} came; each needs at least 1.")

    def contexts_per_word(self, test: WordTest) -> int:
        """At most so many contexts for each word: short lists get more templates than long ones."""
        if self.per_word is not None:
            return self.per_word
        words = len({word for words in test.groups().values() for word in words})
        templates = min(len(TEMPLATES), max(2, TEMPLATE_CONTEXTS // words))
        return templates if self.contexts == "templates" else CORPUS_PER_WORD

    @property
    def resampling(self) -> Resampling:
        """How intervals are drawn."""
        return Resampling(self.resamples, self.seed)


@dataclass(frozen=True)
class Prepared:
    """Words and contexts of a run."""

    test: WordTest
    table: WordTable
    skipped: Mapping[str, int]  # reason -> sentences or contexts that are not used

    def row(self) -> Row:
        """What a reader must know about them."""
        sizes = {group: len(words) for group, words in self.test.groups().items()}
        return {
            "study": "heads",
            "test": self.test.name,
            "labels": list(self.test.labels),
            "sizes": sizes,
            "words": len(self.table.words),
            "contexts": len(self.table.contexts),
            "missing": list(self.table.missing),
            "skipped": dict(self.skipped),
        }


def heads(model: Model, settings: HeadsSettings, folder: str | Path) -> RunData:
    """Run the experiments and write them into a folder; a folder of a killed run with the same settings is
    finished."""
    prepared = prepare(model, settings)
    asked = {
        "study": "heads",
        "model": model.name,
        "layers": model.layers,
        "heads": model.heads,
        **asdict(settings),
    }
    asked["contexts_per_word"] = settings.contexts_per_word(prepared.test)
    hashes = {
        "weights": model.fingerprint,
        "words": prepared.test.fingerprint(),
        "contexts": contexts_fingerprint(prepared.table.contexts),
    }
    counter = None
    if "counter" in settings.experiments:
        source = settings.contexts, settings.sentences
        counter = find_sentences(model, prepared.test, *source, settings.n_sentences, settings.seed)
        hashes["sentences"] = text_hash(f"{s.text}\n{s.counter}" for s in counter.sentences)
    if "debias" in settings.experiments:
        hashes["fluency text"] = text_hash(fluency_sentences())
    with Run.open(folder, asked, hashes=hashes) as run:
        _write_words(run, prepared)
        run.result("words", prepared.row)
        seat = run.result("seat", lambda: _seat_row(model, prepared, settings))[0]
        if seat["value"] is None:
            raise CannotDo(f"{prepared.test.name}: there are no head scores, because {seat['reason']}.")
        scores = _scores(model, prepared, run)
        if "ablation" in settings.experiments:
            _ablation(model, prepared.table, scores, run)
        if counter is not None:
            _counter(model, counter, scores, run, settings)
        if "debias" in settings.experiments:
            from levelhead.studies.heads.debias import debias
            from levelhead.studies.heads.strategies import DebiasSettings

            chosen = DebiasSettings(k=settings.top, resamples=settings.resamples, seed=settings.seed)
            debias(model, prepared.test, prepared.table.contexts, scores, run, chosen)
    return read_run(folder)


# ---- words and contexts


def prepare(model: Model, settings: HeadsSettings) -> Prepared:
    """Load the words and find or make their contexts; those that do not fit into the model are left out,
    counted."""
    test = load_words(settings.bias, settings.trim)
    n = settings.contexts_per_word(test)
    skipped: dict[str, int] = {}
    if settings.contexts == "templates":
        if n > len(TEMPLATES):
            raise BadProbe(
                f"{n} contexts a word came; there are {len(TEMPLATES)} templates. Give a corpus for more."
            )
        contexts: Sequence[Context] = template_contexts(test, n)
    else:
        found = corpus_contexts(test, settings.contexts, n, settings.seed)
        contexts, skipped = found.contexts, dict(found.skipped)
    fits = fitting(model, [context.text for context in contexts])
    if lost := len(fits) - sum(fits):
        skipped["context longer than the model's positions"] = lost
    kept = [context for context, ok in zip(contexts, fits, strict=True) if ok]
    unknown = unknown_words(model, (context.word for context in kept))
    if lost := sum(context.word in unknown for context in kept):
        skipped["context of a word that the tokenizer does not know"] = lost
        kept = [context for context in kept if context.word not in unknown]
    return Prepared(test, word_table(test, kept), skipped)


def _write_words(run: Run, prepared: Prepared) -> None:
    test = prepared.test
    words: dict[str, Any] = {"name": test.name, "labels": dict(zip("ABXY", test.labels, strict=True))}
    words |= {**test.groups(), "pairs": test.pairs, "missing": prepared.table.missing}
    text = json.dumps(words, indent=1, ensure_ascii=False) + "\n"
    run.artifact("words.json", lambda path: path.write_text(text, encoding="utf-8"))
    run.artifact("contexts.jsonl", lambda path: write_contexts(path, prepared.table.contexts))


# ---- the measure and its gradient


def _seat_row(model: Model, prepared: Prepared, settings: HeadsSettings) -> Row:
    contexts = prepared.table.contexts
    measured = ask_seat(model, prepared.test, contexts, resampling=settings.resampling, intervals=True)[0]
    return {"study": "heads", "variant": "base", **measured.to_json()}


def absolute_seat(sets: Mapping[str, Sequence[int]]) -> Objective:
    """|SEAT| of static vectors [word, hidden], differentiable: the objective of equation 4."""
    a, b, x, y = (torch.tensor(list(sets[name])) for name in "ABXY")

    def objective(vectors: Tensor) -> Tensor:
        unit = torch.nn.functional.normalize(vectors, dim=-1)
        s = unit @ (unit[a].mean(0) - unit[b].mean(0))
        effect = (s[x].mean() - s[y].mean()) / torch.cat([s[x], s[y]]).std()
        return torch.abs(effect)

    return objective


def head_scores(model: Model, table: WordTable) -> GateGradients:
    """b[layer, head] = d|SEAT| / d gate at 1, exact over all contexts (SPEC A4)."""
    return gate_gradients(model, table.static(), absolute_seat(table.sets), label="Head scores")


def _scores(model: Model, prepared: Prepared, run: Run) -> Doubles:
    """Head scores as rows and as a table; returns b[layer, head]."""
    rows = run.result("scores", lambda: score_rows(head_scores(model, prepared.table)))
    run.artifact("head_scores.csv", lambda path: _write_scores(path, rows))
    return np.array([row["score"] for row in rows]).reshape(model.layers, model.heads)


def score_rows(found: GateGradients) -> list[Row]:
    """One row a head: score, standard error, two-sided z-test with its Benjamini-Hochberg q-value, rank (1:
    highest).

    The standard error says how far the contexts leave b open; the cotangents of the words are held fixed.
    """
    with np.errstate(all="ignore"):
        z = found.scores / found.stderr
    p = np.asarray(2 * stats.norm.sf(np.abs(z)), np.float64)
    q = q_values(p)
    rank = stats.rankdata(-found.scores, method="ordinal").reshape(found.scores.shape)
    return [
        {
            "layer": layer + 1,
            "head": head + 1,
            "score": float(found.scores[layer, head]),
            "stderr": _at(found.stderr, layer, head),
            "p": _at(p, layer, head),
            "q": _at(q, layer, head),
            "rank": int(rank[layer, head]),
            "objective": found.objective,
        }
        for layer, head in np.ndindex(found.scores.shape)
    ]


def _write_scores(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ("layer", "head", "score", "stderr", "q"), extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)


def _at(values: Doubles, layer: int, head: int) -> float | None:
    value = float(values[layer, head])
    return value if np.isfinite(value) else None


# ---- is it true?


def _ablation(model: Model, table: WordTable, scores: Doubles, run: Run) -> None:
    """Remove every head alone; heads whose answers fit into memory together are asked at once and share
    layers."""
    everyone: list[Head] = [(layer, head) for layer, head in np.ndindex(scores.shape)]
    floats = 2 * len(table.words) * int(model.config.hidden_size)
    size = len(turns([()] * len(everyone), floats)[0])
    change: list[float] = []
    for start in range(0, len(everyone), size):
        some = everyone[start : start + size]
        key = f"ablation/{_named(some[0])} to {_named(some[-1])}"
        change += [row["change"] for row in run.result(key, partial(_removals, model, table, some))]
    run.result("ablation", lambda: {"study": "heads", **agreement(scores, np.array(change)).to_json()})


def _removals(model: Model, table: WordTable, some: Sequence[Head]) -> list[Row]:
    variants = [(), *(removed(model, [head]) for head in some)]
    base, *found = absolute_seats(model, table, variants, label="Ablation")
    return [
        {"layer": head[0] + 1, "head": head[1] + 1, "abs_seat": value, "change": value - base}
        for head, value in zip(some, found, strict=True)
    ]


def agreement(scores: Doubles, change: Doubles) -> Measurement:
    """Spearman's rho between b and the drop of |SEAT| on removal: 1 if the gradient ranks heads as removal
    does."""
    return spearman(scores.ravel(), -change.ravel())


def _named(head: Head) -> str:
    return f"{head[0] + 1}-{head[1] + 1}"


def _counter(
    model: Model, asked: CounterSentences, scores: Doubles, run: Run, settings: HeadsSettings
) -> None:
    """Four results: the tests of both groups of heads, also by side, every head's test, and the running
    example."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in asked.rows())
    run.artifact("sentences.jsonl", lambda path: path.write_text(lines, encoding="utf-8"))
    if "counter" in run:
        return
    found = counter_experiment(model, asked, scores, settings.resampling)
    for part in ("sides", "heads", "example"):
        run.result(f"counter/{part}", found[part].copy)
    run.result("counter", lambda: found["groups"])
