"""CounterActs: does a counterexample change the model's mind? (SPEC C; Zhang 2023)

Varied: the knowledge before the question (nine kinds and none), the model, and any edit of it. Measured for
each k: the mass of either group's words among the k likeliest tokens, the margin pro − anti, and what
knowledge does to it.

A run holds, for each model and variant:
    results.jsonl           measurements per k, kind and group; verdicts stand in the rows of 'margin change'
    occupations/NAME.csv    the same numbers for each occupation
    answers/NAME.jsonl      what the model said to each prompt, word by word
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.edits.sites import Variant
from levelhead.errors import BadProbe
from levelhead.measures.cloze.scores import ClozeScores
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.cloze import ClozeSet, load_cloze
from levelhead.results.folder import Run, text_hash
from levelhead.scoring.cloze import ClozeAnswers, ask_cloze

STUDY = "counteracts"
UNTOUCHED = "base"
_CELL = ("k", "kind", "group", "occupation")

Row = dict[str, Any]


@dataclass(frozen=True)
class Edited:
    """How a model is edited, and a text that says it: another text is another run."""

    edits: Callable[[Model], Variant]
    stated: str = ""


Variants = Mapping[str, Edited]  # by name


@dataclass(frozen=True)
class CounteractsSettings:
    """What is asked and how it is counted."""

    prompts: str = "gender-occupation"  # a shipped set, or the path of a TOML file
    verbalizer: str | None = None  # a file in place of the set's own words
    seed: int = 0  # of the drawn backgrounds and of the bootstrap
    per_background: int | None = None  # None: as the set says
    ks: tuple[int, ...] = (3, 5, 10)
    draws: int = 2000
    remove_heads: tuple[Head, ...] = ()  # counted from 0; asks every model without these heads too

    def __post_init__(self) -> None:
        if not self.ks or min(self.ks) < 1 or len(set(self.ks)) < len(self.ks):
            came = ", ".join(map(str, self.ks)) or "nothing"
            raise BadProbe(f"k = {came}. Give different whole numbers from 1, such as 3, 5, 10.")
        if self.draws < 100:
            raise BadProbe(f"{self.draws} bootstrap draws are too few for a 95 % interval. Use 100 or more.")

    def load(self) -> ClozeSet:
        """The prompts."""
        return load_cloze(self.prompts, self.seed, self.per_background, self.verbalizer)


def head_name(head: Head) -> str:
    """As people write it: layer-head, both from 1."""
    return f"{head[0] + 1}-{head[1] + 1}"


def open_counteracts(
    folder: str | Path,
    models: Sequence[Model],
    settings: CounteractsSettings,
    variants: Variants | None = None,
) -> Run:
    """The run folder of this study; one begun with other models, weights, prompts or variants is refused."""
    names = [model.name for model in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadProbe(f"{twice[0]} was given twice. Results are kept by name: give each model once.")
    cloze_set = settings.load()
    hashes = {f"weights of {model.name}": model.fingerprint for model in models}
    hashes |= {f"edits {name}": text_hash(edited.stated) for name, edited in (variants or {}).items()}
    stated = {**asdict(settings), "remove_heads": [head_name(head) for head in settings.remove_heads]}
    counted = {"groups": cloze_set.groups, "kinds": cloze_set.kinds, "n_prompts": len(cloze_set.prompts)}
    asked = {
        "study": STUDY,
        "models": names,
        "variants": list(_editors(settings, variants)),
        **stated,
        **counted,
    }
    return Run.open(
        folder,
        {**asked, "per_background": cloze_set.per_background},
        hashes={**hashes, "prompts and words": cloze_set.fingerprint},
    )


def counteracts(
    models: Sequence[Model], settings: CounteractsSettings, run: Run, variants: Variants | None = None
) -> list[Row]:
    """Ask every model, in every variant of it, and keep the results in the run folder.

    variants: further edits by name, e.g. {"without its gender direction": Edited(lambda model:
    (projection,))}. Rows of the same prompts under an edit can be compared with the untouched model's, named
    'base'. Returns the rows of all kinds and groups; those of single occupations are in a CSV file.
    """
    cloze_set = settings.load()
    rows: list[Row] = []
    for model in models:
        keys = {name: f"{model.name} | {name}" for name in _editors(settings, variants)}
        missing = [name for name, key in keys.items() if key not in run]
        edits = [_editors(settings, variants)[name].edits(model) for name in missing]
        answers = ask_cloze(model, cloze_set, edits, settings.ks) if missing else []
        for name, answer in zip(missing, answers, strict=True):
            _keep(run, {"study": STUDY, "model": model.name, "variant": name}, cloze_set, answer, settings)
        rows += [row for key in keys.values() for row in run.result(key, list)]
    return rows


def _editors(settings: CounteractsSettings, variants: Variants | None) -> dict[str, Edited]:
    editors = {UNTOUCHED: Edited(lambda model: ())}
    if settings.remove_heads:
        name = "without heads " + ", ".join(map(head_name, settings.remove_heads))
        editors[name] = Edited(lambda model: removed(model, list(settings.remove_heads)))
    return {**editors, **(variants or {})}


def _keep(
    run: Run, label: Row, cloze_set: ClozeSet, answers: ClozeAnswers, settings: CounteractsSettings
) -> None:
    key = f"{label['model']} | {label['variant']}"
    name = _file_name(key)
    rows = list(_rows(answers.scores(Resampling(settings.draws, settings.seed)), cloze_set))
    run.artifact(f"answers/{name}.jsonl", lambda path: _write_answers(path, cloze_set, answers))
    run.artifact(f"occupations/{name}.csv", lambda path: _write_occupations(path, rows))
    asked = {"name": "how it was asked", "form": answers.form, "absent": list(answers.absent)}
    run.result(key, lambda: [{**label, **row} for row in (asked, *rows) if not row.get("occupation")])


def _rows(scores: ClozeScores, cloze_set: ClozeSet) -> Iterator[Row]:
    expected = {prompt.kind: prompt.expected for prompt in cloze_set.prompts}
    verdicts = {(verdict.k, verdict.kind, verdict.group): verdict.word for verdict in scores.verdicts}
    for measurement in (*scores.measurements, *scores.robustness):
        row = _row(measurement)
        if measurement.name == "margin change" and not row["occupation"]:
            row |= {
                "verdict": verdicts[row["k"], row["kind"], row["group"]],
                "expected": expected[row["kind"]],
            }
        yield row


def _row(measurement: Measurement) -> Row:
    """The cell's labels beside the number, once."""
    said = measurement.to_json()
    settings = said.pop("settings")
    cell = {key: settings.pop(key, "") for key in _CELL}
    return {**cell, **said, "settings": settings}


def _write_occupations(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*_CELL, "name", "value", "low", "high", "n", "reason"])
        for row in rows:
            if row["occupation"]:
                low, high = row["interval"] or ("", "")
                cell = [row[key] for key in _CELL]
                table.writerow([*cell, row["name"], row["value"], low, high, row["n"], row["reason"]])


def _write_answers(path: Path, cloze_set: ClozeSet, answers: ClozeAnswers) -> None:
    names = {1: cloze_set.groups[0], -1: cloze_set.groups[1], 0: None}
    top = answers.topk
    with path.open("w", encoding="utf-8") as file:
        for prompt, words, groups, probs in zip(
            cloze_set.prompts, top.words, top.groups, top.probs, strict=True
        ):
            said = [
                {"word": str(word), "group": names[int(group)], "p": round(float(p), 6)}
                for word, group, p in zip(words, groups, probs, strict=True)
            ]
            file.write(json.dumps({"id": prompt.id, "answers": said}, ensure_ascii=False) + "\n")


def _file_name(key: str) -> str:
    """Readable, and different for keys that differ in signs alone."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", key).strip("-.")[:80] + "-" + text_hash(key)[:6]
