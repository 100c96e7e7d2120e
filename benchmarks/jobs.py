"""Commands on tiny models, one of each kind, which end within seconds: to kill, and to lay traps for.

Words in capitals stand for what `prepare` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.glue_files import write_glue
from tests.report.synthetic import write_audit
from tests.studies.head_runs import scored_run
from tests.tiny import tiny
from tests.word_lists import OCCUPATIONS

_WORDS = """A = ["she", "mother", "woman"]
B = ["he", "father", "man"]
X = ["nurse", "teacher", "kitchen"]
Y = ["engineer", "book", "work"]
"""
_TRIPLES = """{"context": "The nurse is a woman.", "stereotype": "She is tired.", "anti": "She is not.", \
"unrelated": "The book is red."}
{"context": "The engineer is a man.", "stereotype": "He gave a book.", "anti": "He was in the kitchen.", \
"unrelated": "It is red."}
"""
_PAIRS = "premise\thypothesis\tlabel\n" + "".join(
    f"The nurse was tired.\tThe nurse was {mood}.\t{label}\n"
    for label, mood in enumerate(("tired", "in the kitchen", "not tired"))
)
_RECIPE = '[fit]\npairs = "single"\n[[projection]]\nlocation = "tokens"\nlayer = 1\n'
_OWN = "The nurse was tired. The engineer gave a book to the woman.\n" * 3
_TEXTS = {
    "OWN.txt": _OWN,
    "WORDS.toml": _WORDS,
    "TRIPLES.jsonl": _TRIPLES,
    "PAIRS.tsv": _PAIRS,
    "RECIPE.toml": _RECIPE,
    "PROMPTS.toml": OCCUPATIONS,
}
_SCORES = [[0.1, -0.2, 0.4, 0.0], [0.3, -0.1, -0.5, 0.2]]
JOBS: dict[str, Sequence[str]] = {
    "heads": ("heads", "MASKED", "--bias", "WORDS", "--experiments", "scores,ablation", "--null", "2"),
    "audit": ("audit", "CAUSAL", "--bias", "WORDS", "--null", "2", "--top", "1", "--text", "OWN"),
    "counteracts": (
        *("counteracts", "MASKED", "--prompts", "PROMPTS", "--per-background", "1", "--null", "0"),
    ),
    "generate": (
        *("generate", "CAUSAL", "--sets", "occupations,gender", "--limit", "8", "--samples", "2"),
        *("--tokens", "3", "--scorers", "length,warmth"),
    ),
    "planted": (
        *("planted", "MASKED", "--bias", "WORDS", "--sentences", "shipped"),
        *("--heads", "1", "--seeds", "2", "--kinds", "attention"),
    ),
    "projections": (
        *("projections", "MASKED", "--nli", "CLASSIFIER", "--limit", "2", "2", "--pairs", "single"),
        *("--triples", "TRIPLES", "--ability", "PAIRS"),
    ),
    "glue": (
        *("glue", "MASKED", "--data", "GLUE", "--tasks", "rte", "--seeds", "1", "--epochs", "1"),
        *("--heads", "1-1"),
    ),
    "survey": (
        *("survey", "MASKED", "CLASSIFIER", "lh:none", "--quick"),
        *("--measures", "seat,lpbs", "--bias", "WORDS"),
    ),
    "finetune": ("finetune", "MASKED", "--data", "GLUE", "--task", "rte", "--epochs", "1"),
    "debias": ("debias", "MASKED", "--heads", "1-1"),
    "debias, adapter": ("debias", "MASKED", "--recipe", "RECIPE"),
    "report": ("report", "AUDIT"),
    "card": ("card", "AUDIT"),
    "compare": ("compare", "AUDIT"),
    "compare-heads": ("compare-heads", "BASE", "CHAT"),
}
WITH_WORKERS: dict[str, Sequence[str]] = {
    f"{name}, workers": (*JOBS[name], "--workers", "2")
    for name in ("heads", "audit", "counteracts", "generate", "planted", "projections", "glue", "survey")
}
WHOLE = ("debias", "finetune")  # jobs that write a model
FILES = {"report": "report.html", "card": "card.md", "compare": "compare.html"}  # others write a folder


def prepare(folder: Path) -> dict[str, str]:
    """Tiny models, data and runs by the names that jobs call them."""
    kinds = (("MASKED", "bert", "nsp"), ("CLASSIFIER", "bert", "nli"), ("CAUSAL", "llama", ""))
    for name, family, head in kinds:
        model = tiny(family, head, layers=2, max_position_embeddings=256)
        model.hf.save_pretrained(folder / name)
        model.tokenizer.save_pretrained(folder / name)
    for name, text in _TEXTS.items():
        (folder / name).write_text(text)
    write_glue(folder / "GLUE")
    write_audit(folder / "AUDIT")
    for name in ("BASE", "CHAT"):
        scored_run(folder, name, _SCORES, 0.5)
    return {path.stem: str(path) for path in folder.iterdir()}


def resolved(arguments: Sequence[str], paths: dict[str, str]) -> list[str]:
    """A job's arguments with the places of what `prepare` wrote."""
    return [paths.get(each, each) for each in arguments]
