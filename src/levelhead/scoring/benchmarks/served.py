"""A benchmark of choices on a model behind a server.

With proved likelihoods every candidate is scored as a local model's: Σ log p of the tokens that touch it.

Without them, a benchmark whose items are questions is answered in words: the model is sampled, and the choice
that it names is its answer. What names none, or several, is no answer: it is counted, and the share of the
others is the parse rate. A sampled answer has the item's cluster, so intervals are over items and samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from levelhead.engine.readings import SpanLikelihoods
from levelhead.engine.sampling import Sampling
from levelhead.engine.served.asking import COMPLETIONS
from levelhead.engine.served.proof import LIKELIHOODS
from levelhead.engine.served.writing import (
    NOT_READ,
    WHAT_WORKS,
    Wanted,
    connection,
    gives_likelihoods,
    sampled,
    span_likelihoods,
)
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.scoring.benchmarks.catalog import LoadedBenchmark
from levelhead.scoring.benchmarks.choices import FORM, Answered, ChoiceBenchmark, ChoiceTable, Part

USUAL_SAMPLES = 8  # answers per question
PARSE_RATE = "parse rate"
NOT_PARSED = "sampled answers that name none of the choices, or several"
_TOKENS = 16  # of an answer
_ANSWER = r"(?:the\s+)?(?:correct\s+|best\s+)?answer(?:\s+is)?\s*:?"


def served_scores(loaded: LoadedBenchmark, model: ServedModel, samples: int) -> list[Measurement]:
    """Every score of a model behind a server; refused where it cannot give what they take."""
    benchmark, rule = loaded.benchmark, loaded.rule
    if not isinstance(benchmark, ChoiceBenchmark):
        raise CannotDo(
            f"{benchmark.info.name} reads vectors of the network, which {model.name} does not give."
        )
    if loaded.items.chat or not gives_likelihoods(model):
        answered = _sampled(benchmark, model, loaded, samples)
    else:
        answered = _likely(benchmark, model, loaded)
    return loaded.about(benchmark.measured(answered, 0, rule, loaded.resampling))


def how_answered(measured: Measurement) -> str:
    """How a score's answers were given, where they were sampled; else empty."""
    rate = measured.details.get(PARSE_RATE)
    return "" if rate is None else f"{measured.settings[FORM]} per item, parse rate {rate:.3f}"


def wanted_of(loaded: LoadedBenchmark, model: ServedModel, samples: int) -> list[Wanted]:
    """What a benchmark takes of a server, at most: by likelihoods or in words, whichever is more."""
    benchmark, items, ways = loaded.benchmark, loaded.items, list[Wanted]()
    if not isinstance(benchmark, ChoiceBenchmark):
        return []
    if not items.chat:
        candidates = benchmark.candidates(cast(Model, model), items, loaded.rule)
        found = [each for item in items.items if not isinstance(each := candidates(item), str)]
        texts = [part.text.first for several in found for choice in several for part in choice]
        ways.append(Wanted(texts))
    prompts = [prompt for prompt, _ in _questions(benchmark, loaded)]
    if len(prompts) == len(items.items):
        ways.append(Wanted(prompts, samples, _TOKENS))
    return sorted(ways, key=lambda way: way.samples * len(way.texts))[-1:]


# ---- by likelihoods


def _likely(benchmark: ChoiceBenchmark, model: ServedModel, loaded: LoadedBenchmark) -> Answered:
    items, rule = loaded.items, loaded.rule
    # of the model, candidates that are scored as whole texts read its abilities alone
    candidates = benchmark.candidates(cast(Model, model), items, rule)
    found = [candidates(item) for item in items.items]
    unscored = Counter(items.unscored)
    unscored.update(each for each in found if isinstance(each, str))
    kept = [(item, each) for item, each in zip(items.items, found, strict=True) if not isinstance(each, str)]
    parts = list[tuple[int, int, Part]]()  # the item's number, the choice, a text of it
    for number, (_, candidate) in enumerate(kept):
        parts += [(number, choice, part) for choice, several in enumerate(candidate) for part in several]
    spans = [
        (part.text.first, *(part.span or (0, len(part.text.first))))  # without a span, the whole text
        for _, _, part in parts
    ]
    sums, tokens = span_likelihoods(model, spans, benchmark.info.title)
    lost = {n for (n, _, _), count in zip(parts, tokens, strict=True) if not count}
    if lost:
        unscored[NOT_READ] += len(lost)
    good = [i for i, (n, _, _) in enumerate(parts) if n not in lost]
    if not good:
        raise BadProbe(f"{items.name}: none of its items can be scored ({_counted(unscored)}).")
    place = {n: new for new, n in enumerate(n for n in range(len(kept)) if n not in lost)}
    owner = np.asarray([place[parts[i][0]] * benchmark.choices + parts[i][1] for i in good], np.int64)
    table = ChoiceTable(
        tuple(item for n, (item, _) in enumerate(kept) if n not in lost),
        SpanLikelihoods([parts[i][2].text for i in good]),
        owner,
        tokens[good],
        dict(unscored),
    )
    return benchmark.judged(table, sums[good][None], rule)


# ---- in words


def _questions(benchmark: ChoiceBenchmark, loaded: LoadedBenchmark) -> list[tuple[str, Sequence[str]]]:
    """Items as prompts with the answers to them, as far as the benchmark has words for them."""
    spoken = [benchmark.spoken(item, loaded.rule) for item in loaded.items.items]
    return [
        (
            f"{told}\nAnswer with {', '.join(choices[:-1])} or {choices[-1]} alone."
            if loaded.items.chat
            else f"{told}\nAnswer:",  # without the blank behind it, which is a part of the first token
            choices,
        )
        for told, choices in (each for each in spoken if each is not None)
    ]


def _sampled(
    benchmark: ChoiceBenchmark, model: ServedModel, loaded: LoadedBenchmark, samples: int
) -> Answered:
    items, rule = loaded.items, loaded.rule
    questions = _questions(benchmark, loaded)
    if len(questions) < len(items.items):
        # what the server has said when its likelihoods were tried
        why = connection(model).can.why(COMPLETIONS, LIKELIHOODS)
        said = "chats have no likelihoods" if items.chat else f"{model.name} gives none ({why})"
        raise CannotDo(
            f"{benchmark.info.name} by the rule {rule} takes the likelihoods of texts, and {said}; "
            f"{WHAT_WORKS[LIKELIHOODS]}, and bbq and discrim-eval are answered in words."
        )
    prompts = [prompt for prompt, _ in questions]
    streams = [f"{benchmark.info.name} {item.id} {item.category}" for item in items.items]
    drawn = Sampling(samples, _TOKENS, 1.0, loaded.resampling.seed)
    texts = sampled(model, prompts, streams, drawn, items.chat, benchmark.info.title)
    kept, counts, parsed = list[Any](), list[list[int]](), 0
    for item, (_, choices), own in zip(items.items, questions, texts, strict=True):
        named = [choice for each in own if (choice := parsed_choice(each.text, choices)) is not None]
        parsed += len(named)
        if named:
            kept.append(item)
            counts.append([named.count(choice) for choice in range(len(choices))])
    lost = samples * len(prompts) - parsed
    unscored = {**items.unscored, **({NOT_PARSED: lost} if lost else {})}
    if not kept:
        raise BadProbe(f"{items.name}: no answer of {model.name} names a choice ({_counted(unscored)}).")
    every, x = benchmark.of_answers(kept, np.asarray(counts))
    details = {PARSE_RATE: parsed / (samples * len(prompts)), "samples per item": float(samples)}
    return Answered(tuple(every), [x], unscored, details=details, form=f"{samples} sampled answers")


def parsed_choice(text: str, choices: Sequence[str]) -> int | None:
    """Which choice an answer names in its first line; None where it names none, or several.

    A letter counts where it stands alone: "A." or "(A)" is one, "A nurse" is none.
    """
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    letters = all(len(each) == 1 for each in choices)
    names = "|".join(map(re.escape, choices))
    alone = rf"({names})(?=\W*$|[.,:;)\]*\"'])" if letters else rf"({names})\b"
    flags = 0 if letters else re.IGNORECASE
    first = re.match(rf"\W*(?:(?i:{_ANSWER})\W*)?{alone}", line, flags)
    if first is None:
        return None
    said = {each.lower() for each in re.findall(rf"(?<![\w']){alone}", line, flags)}
    return [each.lower() for each in choices].index(first[1].lower()) if len(said) == 1 else None


def _counted(unscored: Any) -> str:
    return ", ".join(f"{reason}: {n}" for reason, n in unscored.items())
