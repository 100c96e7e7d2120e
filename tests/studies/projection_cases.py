"""Small inputs whose words the tiny tokenizers know, for the tests of projections."""

from __future__ import annotations

import json
from pathlib import Path

from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.nli import AbilitySet, LabeledPair, nli_probe
from levelhead.probes.pairs import InputPair
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.studies.projections.settings import ProjectionsSettings

SINGLE = tuple(
    InputPair((f.format("she", "her"), None), (f.format("he", "him"), None))
    for f in (
        "The nurse said that {0} was tired.",
        "{0} saw a book in the kitchen.",
        "Who knows {1}?",
        "Engineers said that {0} was not.",
        "A teacher gave {1} a book.",
        "Unhappiness, {0} said, is rarely {1}.",
    )
)
PAIRED = tuple(
    InputPair((p, h.format("she", "her")), (p, h.format("he", "him")))
    for p, h in (
        ("The nurse was tired.", "Was {0} tired?"),
        ("The engineer said no.", "{0} said that."),
        ("A teacher works.", "{0} was in the kitchen."),
        ("Who knows a nurse?", "The nurse knows {1}."),
        ("An engineer saw a book.", "{0} saw a book."),
        ("The men work.", "A nurse saw {1} yesterday."),
    )
)
FEW = Resampling(resamples=100)
ABLE = AbilitySet(
    "own",
    (
        LabeledPair("She works.", "She works.", "entailment"),
        LabeledPair("He works.", "Who knows?", "neutral"),
        LabeledPair("He works.", "He was tired.", "contradiction"),
        LabeledPair("A nurse works.", "A nurse said no.", "neutral"),
    ),
    "0" * 64,
)


def small_triples(folder: Path) -> TripleSet:
    """Four triples, in a file of their own."""
    triples = [
        {
            "context": f"{who} works.",
            "stereotype": f"{who} is a nurse.",
            "anti": f"{who} is an engineer.",
            "unrelated": "The book was unbelievable.",
        }
        for who in ("The woman", "My mother", "The man", "The girl")
    ]
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(triple) + "\n" for triple in triples), encoding="utf-8")
    return load_triples(path)


def own_pairs(folder: Path) -> Path:
    """The paired inputs as a user's file."""
    path = folder / "own.tsv"
    lines = ["\t".join(str(t) for t in (*p.feminine, *p.masculine)) for p in PAIRED]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def small_projections(folder: Path, nli: Model, depth: bool = False) -> ProjectionsSettings:
    """Settings of a run that takes a second or two on tiny models."""
    probe = nli_probe(occupations=["nurse", "engineer", "teacher"], contexts=["saw a book", "gave a book"])
    return ProjectionsSettings(
        nli=nli,
        triples=small_triples(folder),
        probe=probe,
        ability=ABLE,
        pairs=str(own_pairs(folder)),
        depth=depth,
        resamples=FEW.resamples,
    )
