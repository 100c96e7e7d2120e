"""A judge as a scorer: calibrated on labeled texts, then given the texts that are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from levelhead.engine.served.questions import TOKENS, AskInWords, answering
from levelhead.engine.served.writing import Wanted, requests_plan
from levelhead.measures.judged import Calibration
from levelhead.models.served import ServedModel
from levelhead.progress import LETTERS, Plan, announce_line
from levelhead.scoring.scorers.judge import NAME, Judge, Judgments
from levelhead.studies.generate import Generate
from levelhead.studies.generate.records import JudgedTexts, ScoredTexts, UsedScorer
from levelhead.studies.generate.sampled import Inputs, Open, finite
from levelhead.studies.generate.texts import Texts, places


@dataclass(frozen=True)
class Judging:
    """A judge that answers, and what its scores are worth."""

    judge: Judge
    ask: AskInWords
    by: Calibration
    used: UsedScorer


def judge_plan(inputs: Inputs, judge: Judge | None, folder: Path) -> Plan:
    """What a judge is sent, at most: labeled texts, and those whose prompts name a group, each in both orders
    as it was written and as its counterfactual."""
    if judge is None:
        return Plan()
    if not isinstance(judge.model, ServedModel):
        return Plan(shorter="what the judge takes is not counted")
    settings, several = inputs.settings, 2 if judge.pairs else 1
    compared = sum(bool(each.group) for each in inputs.continued)
    written = ("x" * round(LETTERS * settings.tokens),) * several
    texts = settings.samples * compared * len(inputs.variants) // several
    wanted = [
        Wanted([*{*judge.questions([item for item, _ in judge.labeled])}], 1, TOKENS),
        Wanted([judge.question(written, exchanged=False)], 4 * texts, TOKENS),
    ]
    replay = inputs.model.replay if isinstance(inputs.model, ServedModel) else ""
    return requests_plan(replace(judge.model, replay=replay), wanted, folder / NAME)


@contextmanager
def judging_of(run: Open, inputs: Inputs, judge: Judge | None) -> Iterator[Judging | None]:
    """The judge of a run, once it has answered about the labeled texts."""
    if judge is None:
        yield None
        return
    model, replay = judge.model, ""
    if isinstance(inputs.model, ServedModel) and inputs.model.replay:
        replay = str(Path(inputs.model.replay).expanduser() / NAME)
    if isinstance(model, ServedModel):
        patience = inputs.model.patience if isinstance(inputs.model, ServedModel) else model.patience
        model = replace(model, replay=replay, patience=patience)
    with answering(model, run.folder.absolute() / NAME, "Judge", replay) as ask:
        by, outcomes = judge.calibrated(ask)
        kind = "pairs" if judge.pairs else "texts"
        run.results(
            Generate.judged.of("labels"),
            lambda: [
                JudgedTexts(f"labeled {label}", kind, each.total(), dict(each))
                for label, each in outcomes.items()
            ],
        )
        if by.base is None:
            rates = f"prefers the better text of labeled pairs in {(1 + by.slope) / 2:.1%}"
        else:
            rates = f"sensitivity {by.base + by.slope:.1%} and specificity {1 - by.base:.1%} on labeled texts"
        note = (
            f"{model.name}: {rates}, undecided counted half; differences are divided by {by.slope:.3f} "
            f"(standard error {by.error:.3f})."
        )
        announce_line(note)
        yield Judging(judge, ask, by, UsedScorer(NAME, kind, None, note))


def with_judgments(run: Open, texts: Texts, judging: Judging) -> Texts:
    """Texts with a judge's scores too. It is given what is compared and says something: texts whose prompts
    name a group, or pairs of texts whose prompts differ in one of two."""
    judge, usable = judging.judge, ~texts.empty & ~texts.refusals
    items: list[tuple[int, ...]] = []
    if judge.pairs:
        at = {(each.prompt, each.sample): i for i, each in enumerate(texts.written)}
        for compared in texts.compared:
            sides: dict[str, dict[str, str]] = {}
            for prompt in compared.prompts if len(compared.groups) == 2 else ():
                sides.setdefault(prompt.frame, {})[prompt.group] = prompt.id
            for own in sides.values():
                first, second = (own[group] for group in compared.groups)
                samples = [k for id, k in at if id == first and (second, k) in at]
                items += [(at[first, k], at[second, k]) for k in samples]
    else:
        inside = np.any([texts.inside(each) for each in texts.compared] or [~usable & usable], axis=0)
        items = [(i,) for i in places(inside)]
    items = [each for each in items if usable[list(each)].all()]

    @cache
    def judged() -> Judgments:
        return judge.judged([tuple(texts.written[i].text for i in each) for each in items], judging.ask)

    def scores() -> ScoredTexts:
        values: list[float | None] = [None] * len(texts.written)
        for each, score in zip(items, judged().scores.tolist(), strict=True):
            for i, of_text in zip(each, (score, 1 - score), strict=False):
                values[i] = finite(of_text)
        left = sorted({*range(len(values))} - {i for each in items for i in each})
        return ScoredTexts(NAME, judging.used.unit, tuple(values), tuple(left))

    stored = run.result(Generate.scored.of(f"{texts.variant} | {NAME}"), scores)
    run.results(
        Generate.judged.of(texts.variant),
        lambda: [JudgedTexts(texts.variant, judging.used.unit, 2 * len(items), dict(judged().outcomes))],
    )
    values = [math.nan if each is None else each for each in stored.values]
    unasked = np.isin(np.arange(len(values)), stored.unasked)
    return replace(
        texts,
        scores={**texts.scores, NAME: np.array(values, np.float64)},
        judges={NAME: judging.by},
        unasked={NAME: unasked},
    )
