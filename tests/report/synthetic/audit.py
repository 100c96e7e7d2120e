"""A whole audit: measures, mitigations of which one is certified, heads, prompts and arcs.

The classifier beside the model was evaluated too; nothing was tried on it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from levelhead.inference.claims import calibration
from levelhead.measures.certificate import PERPLEXITY, Certificate, Outside
from levelhead.measures.measurement import Measurement, Null
from levelhead.runs.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.runs.files import TextFile
from levelhead.runs.folder import Run
from levelhead.runs.presets import SMALL
from levelhead.runs.study import RECIPES, WEIGHTS_HASH
from levelhead.scoring.natural import COSINE
from levelhead.studies.audit import ARCS, Audit
from levelhead.studies.audit.records import Headline
from levelhead.studies.audit.settings import AuditStored
from levelhead.studies.heads.records import ArcPair, ArcSheet, ArcVersion
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.records import BiasDetected, BiasMoved, CandidateTested
from levelhead.studies.mitigate.settings import MitigateStored
from tests.report.synthetic.heads import HEADS, LAYERS, write_heads
from tests.report.synthetic.measurements import HOSTILE, WEIGHTS, measured
from tests.report.synthetic.prompts import CLOSED, write_prompts

PROJECTED = f"tokens: soft, 2-d {HOSTILE}"
RECIPE = f'title = "{HOSTILE}"\n'
CLOSED_RECIPE = "[[gate]]\nlayer = 4\nhead = 5\nvalue = 0.0\n"
CLASSIFIER = "lh:tiny-nli"


def write_audit(folder: Path, model: str = "lh:tiny", seed: int = 0, shift: float = 0.0) -> Path:
    """A whole audit; `shift` moves the biases."""
    hashes = {WEIGHTS_HASH: WEIGHTS, "words": calibration().words, "nli weights": "cd" * 32}
    with Run.open(folder, Audit, _settings(model, seed), hashes=hashes) as run:
        run.file(ARCS, ArcSheet(tuple(_pair(number) for number in range(2))))
        groups = {**_groups(shift), **_untouched_groups()}
        groups["seat"] = [replace(each, null=NULL_MODELS_NULL) for each in groups["seat"]]
        for group, measurements in groups.items():
            own = CLASSIFIER if group == "inference" else model
            records = [MeasuredVariant(BASE, own, each) for each in measurements]
            run.results(Audit.measured.of(group), records.copy)
        run.file(TextFile(f"{RECIPES}/01-tokens.toml"), RECIPE)
        for variant, change in ((SAME_ITEMS, 0.02), (PROJECTED, -1.1)):
            for group, measurements in {**_groups(shift + change), **_verified_groups(variant)}.items():
                records = [MeasuredVariant(variant, model, each) for each in measurements]
                run.results(Audit.verified.of(f"{variant}/{group}"), records.copy)
        headline = Headline(f"{model} leans: SEAT 1.23.", ("One & two <b>three</b>.",))
        run.result(Audit.headline, lambda: headline)
    write_heads(folder / Audit.heads.folder, model, seed)
    write_prompts(folder / Audit.counteracts.folder, model, seed)
    write_arena(folder / Audit.mitigate.folder, model, seed)
    return folder


def _settings(model: str, seed: int) -> AuditStored:
    return AuditStored(
        study=Audit.name,
        seed=seed,
        models=(model,),
        abilities=("mlm", "nsp"),
        layers=LAYERS,
        heads=HEADS,
        large=False,
        bias="gender",
        nli=CLASSIFIER,
        top=2,
        full=False,
        all_sizes=replace(SMALL, contexts=16).with_null(19),
    )


# ---- measures

NULL_MODELS_NULL = Null("null models", 19, 0.2, 0.08, 0.0004, least=0.5)


def _groups(shift: float) -> dict[str, list[Measurement]]:
    """What is asked of the model in every variant, group by group."""
    lost = {"triple <b>without</b> a null model": 3}
    return {
        "seat": [measured("seat", 1.23456789 + shift, neutral=0.0, n=1304, details={"p_value": 0.0004})],
        "lpbs": [
            measured("lpbs career", 0.2 + shift, 0.6, 20, neutral=0.0),
            measured("lpbs math", None, neutral=0.0),
        ],
        "triples": [
            measured("ss", 0.61 + shift / 10, 0.04, 170, neutral=0.5, unscored=lost),
            measured("lms", 0.8, 0.03, neutral=1.0),
            measured("strength", 0.4111 + shift / 3, 0.05, neutral=0.0),
        ],
        "prompts": [
            measured("log_odds", 0.4 + shift / 20, 0.1, 58, neutral=0.0),
            measured("margin", 0.05 + shift / 20, 0.01, 58, neutral=0.0),
        ],
    }


def _untouched_groups() -> dict[str, list[Measurement]]:
    """What is asked of the unmodified model, and of the classifier, alone."""
    return {
        "fluency": [measured("fluency", 21.987654, 1.5, 4000)],
        "inference": [
            measured("accuracy", None, neutral=1.0, reason="not asked & <i>skipped</i>"),
            measured("fairness", 0.1234, 0.02, 41, neutral=1.0),
            measured("ability", 0.75, 0.04, 330),
        ],
    }


def _verified_groups(variant: str) -> dict[str, list[Measurement]]:
    """What is asked of the unmodified model on the same items, and of changed models, beside the rest."""
    fluency = [measured("fluency", 22.5, 1.5, 2000)]
    if variant != SAME_ITEMS:
        fluency.append(measured("fluency change", 1.0234, 0.01, neutral=1.0))
    return {"fluency": fluency}


# ---- mitigations


def write_arena(folder: Path, model: str, seed: int) -> None:
    """One mitigation that is certified, and one that comes after it and costs too much."""
    settings = MitigateStored(study=Mitigate.name, seed=seed, models=(model,), objective=COSINE)
    with Run.open(folder, Mitigate, settings, hashes={WEIGHTS_HASH: WEIGHTS}) as run:
        run.result(Mitigate.detected, lambda: BiasDetected(COSINE, "cosine", 0.3, 0.5, 5, 0.001, True))
        tested = [_tested(PROJECTED, RECIPE, 0.01), _tested(CLOSED, CLOSED_RECIPE, 0.4)]
        run.results(Mitigate.candidates, tested.copy)
        moved = BiasMoved(PROJECTED, COSINE, "cosine", 0.3, 0.05, -0.25, -0.35, -0.15, 0.8, 0.3)
        run.results(Mitigate.moved, lambda: [moved])


def _tested(name: str, recipe: str, p_cost: float) -> CandidateTested:
    certificate = Certificate(
        name,
        COSINE,
        "cosine",
        before=0.3,
        after=0.05,
        gain=0.25,
        interval=(0.15, 0.35),
        p_gain=0.001,
        p_overshoot=0.001,
        p_costs={PERPLEXITY: p_cost},
        costs={PERPLEXITY: 0.0231},
        certified=p_cost < 0.05,
        outside=Outside(
            sentences=60,
            before=2.1,
            after=1.4,
            gain=0.7,
            interval=(0.4, 1.0),
            p_gain=0.002,
            p_costs={PERPLEXITY: 0.01},
            costs={PERPLEXITY: 0.004},
            cost_intervals={PERPLEXITY: (0.001, 0.007)},
        ),
    )
    return CandidateTested(name, "projected tokens", 1.0, recipe, 0.3, certificate)


# ---- attention


def _pair(number: int) -> ArcPair:
    rng = np.random.default_rng(number)
    return ArcPair(
        text=f"The women are emotional {number} <b>x</b>.",
        counter_text=f"The men are emotional {number}.",
        original=_version(rng, "women", number),
        counter=_version(rng, "men", number),
    )


def _version(rng: np.random.Generator, word: str, number: int) -> ArcVersion:
    tokens = ("", "The", word, "are", "emo", "tional", str(number), "<b>x</b>", ".", "")
    weights = rng.random((LAYERS, HEADS, len(tokens))).round(4).tolist()
    attention = tuple(
        tuple(tuple(None if i in (0, 8, 9) else weight for i, weight in enumerate(head)) for head in layer)
        for layer in weights
    )
    return ArcVersion(tokens, target=(4, 5), attribute=(2,), attention=attention)
