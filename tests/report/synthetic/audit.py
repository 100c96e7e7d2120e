"""A whole audit: measures, candidates, two changed models, heads, prompts and arcs.

The classifier beside the model was asked too; none of its projections helps, so it has no changed model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from levelhead.inference.calibration import calibration
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.viability import viable
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.keys import TextFile
from levelhead.results.presets import SMALL
from levelhead.results.records.audit import Headline, Mitigation, NamedValue, ProjectionCandidate
from levelhead.results.records.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.results.records.heads import ArcPair, ArcSheet, ArcVersion
from levelhead.results.settings import AuditRunSettings
from tests.report.synthetic.heads import HEADS, LAYERS, write_heads
from tests.report.synthetic.measurements import HOSTILE, WEIGHTS, measured
from tests.report.synthetic.prompts import CLOSED, CLOSED_HEADS, write_prompts

PROJECTED = f"tokens: soft, 2-d {HOSTILE}"
CLASSIFIER = "lh:tiny-nli"


def write_audit(folder: Path, model: str = "lh:tiny", seed: int = 0, shift: float = 0.0) -> Path:
    """A whole audit; `shift` moves the biases."""
    hashes = {layout.WEIGHTS_HASH: WEIGHTS, "words": calibration().words, "nli weights": "cd" * 32}
    with Run.open(folder, layout.AUDIT, _settings(model, seed), hashes=hashes) as run:
        run.file(layout.ARCS, ArcSheet(tuple(_pair(number) for number in range(2))))
        groups = {**_groups(shift), **_untouched_groups()}
        groups["seat"] = [replace(each, null=TWINS) for each in groups["seat"]]
        for group, measurements in groups.items():
            own = CLASSIFIER if group == "inference" else model
            records = [MeasuredVariant(BASE, own, each) for each in measurements]
            run.results(layout.MEASURED.of(group), records.copy)
        run.results(layout.CANDIDATES, _candidates)
        run.results(layout.MITIGATIONS, _mitigations)
        run.file(TextFile(f"{layout.RECIPES}/02-tokens.toml"), _mitigations()[1].recipe)
        run.results(layout.NLI_CANDIDATES, _classifier_candidates)
        run.results(layout.NLI_MITIGATIONS, list)
        for variant, change in ((SAME_ITEMS, 0.02), (CLOSED, -0.5), (PROJECTED, -1.1)):
            for group, measurements in {**_groups(shift + change), **_verified_groups(variant)}.items():
                records = [MeasuredVariant(variant, model, each) for each in measurements]
                run.results(layout.VERIFIED.of(f"{variant}/{group}"), records.copy)
        headline = Headline(f"{model} leans: SEAT 1.23.", ("One & two <b>three</b>.",))
        run.result(layout.HEADLINE, lambda: headline)
    write_heads(folder / layout.HEADS_PART, model, seed)
    write_prompts(folder / layout.PROMPTS_PART, model, seed, edited=(CLOSED, PROJECTED))
    return folder


def _settings(model: str, seed: int) -> AuditRunSettings:
    return AuditRunSettings(
        study=layout.AUDIT.study,
        seed=seed,
        model=model,
        abilities=("mlm", "nsp"),
        layers=LAYERS,
        heads=HEADS,
        large=False,
        bias="gender",
        nli=CLASSIFIER,
        top=2,
        full=False,
        sizes=replace(SMALL, contexts=16).with_null(19),
    )


# ---- measures

TWINS = Null("null twins", 19, 0.2, 0.08, 0.0004, least=0.5)


def _groups(shift: float) -> dict[str, list[Measurement]]:
    """What is asked of the model in every variant, group by group."""
    lost = {"triple <b>without</b> a twin": 3}
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
    groups = {"fluency": fluency}
    if variant == PROJECTED:
        null = Null("before and after exchanged", 9_999, 0.0, 0.03, 0.0002)
        groups[layout.CHANGE_PART] = [measured("strength change", -0.3733, 0.05, 85, neutral=0.0, null=null)]
    return groups


# ---- ways out


def _mitigations() -> list[Mitigation]:
    return [
        Mitigation(
            CLOSED,
            what="The 2 heads with the highest scores are removed.",
            heads=CLOSED_HEADS,
            recipe="[[gate]]\nlayer = 4\nhead = 5\nvalue = 0.0\n",
            chosen=True,
        ),
        Mitigation(
            PROJECTED,
            what="Directions are projected out.",
            heads=(),
            recipe=f'title = "{HOSTILE}"\n',
            chosen=True,
        ),
    ]


def _candidates() -> Iterator[ProjectionCandidate]:
    """Four settings: name, level, Strength, LMS."""
    settings = (
        (BASE, BASE, 0.41, 0.8),
        ("sent-debias", "sent-debias", 0.32, 0.77),
        ("sent: soft", "SENT", 0.23, 0.71),
        (PROJECTED, "layer 3", 0.14, 0.76),
    )
    for name, level, strength, lms in settings:
        yield ProjectionCandidate(
            name,
            level,
            code="",
            bias=NamedValue("strength", strength),
            ability=NamedValue("lms", lms),
            viable=bool(viable(lms, 0.8)),
            gain=-strength,
            recipe="" if name == BASE else f"title = '{name}'\n",
            chosen=name == PROJECTED,
        )


def _classifier_candidates() -> Iterator[ProjectionCandidate]:
    for i, (name, level) in enumerate({BASE: BASE, "sent: hard": "SENT"}.items()):
        yield ProjectionCandidate(
            name,
            level,
            code="",
            bias=NamedValue("fairness", 0.12 - 0.01 * i),
            ability=NamedValue("ability", 0.75 - 0.2 * i),
            viable=i == 0,
            gain=0.12 - 0.01 * i,
            recipe=f"title = '{name}'\n" if i else "",
            chosen=False,
        )


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
