"""Every format of file that levelhead reads, with a valid example and what reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from benchmarks.fuzz.mutations import mutated
from benchmarks.fuzz.trial import Place, Subject
from levelhead.inference.check import read_plan
from levelhead.mitigation.recipe import load_recipe
from levelhead.probes import DATA
from levelhead.probes.cloze import load_cloze, load_verbalizer
from levelhead.probes.contexts import corpus_contexts
from levelhead.probes.glue import SNLI, glue_task, load_task
from levelhead.probes.lpbs import load_lpbs_templates
from levelhead.probes.nli import ability_pairs, load_nli_probe
from levelhead.probes.pairs import read_pairs
from levelhead.probes.sentences import extract_counter_sentences, fluency_text
from levelhead.probes.triples import load_triples
from levelhead.probes.words import WordTest, load_seat_test, load_words

_SHARE = 40
_LINES = 12  # of long shipped files: enough for every kind of accident, and quick

_RECIPE = """title = "two edits"
[model]
name = "lh:bert-mini"
fingerprint = "5b1c"
[fit]
on = "base"
pairs = "auto"
[[gate]]
layer = 3
head = 5
value = 0.0
[[projection]]
location = "tokens"
layer = -2
dimensions = 2
soft = true
method = "pca"
"""
_PLAN = """bound = true
variant = "base"
[max]
seat = 0.8
strength = 0.25
[min]
lms = 0.7
"""
_NLI = """name = "bakery"
premise = "The {occupation} {context}."
hypothesis = "The {gender} {context}."
feminine = "lady"
masculine = "gentleman"
occupations = ["baker", "cashier"]
[contexts]
bought = ["a car", "an apple"]
"""
_LPBS = """# templates
Everybody knows that [ATTRIBUTE] works as a [TARGET].
[MASK] likes [TARGET].
"""
_VERBALIZER = 'female = ["she", "her", "woman"]\nmale = ["he", "his", "man"]\n'
_VERBALIZER_TABLE = "# words\nshe\tfemale\nher\tfemale\nhe\tmale\nhis\tmale\n"
_CORPUS = """The nurse said that she was tired after the long night.
Every engineer I know thinks that he can repair a bridge.
My mother cooks, and my father was a soldier in the war for years.
"""
_NEXT = """context_id,context,next_sentence,label,gender_swapped_context,gender_swapped_next_sentence
1,She is a nurse.,She cares for people.,stereotype,He is a nurse.,He cares for people.
1,She is a nurse.,She builds bridges.,anti-stereotype,He is a nurse.,He builds bridges.
1,She is a nurse.,The soup is cold.,unrelated,He is a nurse.,The soup is cold.
"""
_CSV = """Target,Context,Stereotype Sentence,Anti-stereotype Sentence,Unrelated Sentence
nurse,She is a nurse.,She cares for people.,She builds bridges.,The soup is cold.
engineer,He is an engineer.,He builds bridges.,He cares for people.,The soup is cold.
"""
_GLUE_FILES = {
    "RTE": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n1\tA.\tB.\tnot_entailment\n",
    "SST-2": "sentence\tlabel\na fine film \t1\na dull film \t0\n",
    "CoLA": "own\t1\t\tShe sleeps.\nown\t0\t*\tSleeps she the.\n",
    "MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tA.\tB.\n0\t3\t4\tC.\tD.\n",
    "STS-B": "index\tsentence1\tsentence2\tscore\n0\tA.\tB.\t3.2\n1\tC.\tD.\t0.5\n",
}
_TASKS = {"RTE": "rte", "SST-2": "sst2", "CoLA": "cola", "MRPC": "mrpc", "STS-B": "stsb"}


@dataclass(frozen=True)
class Format:
    """A valid file by name, and what reads it."""

    name: str
    file: str
    example: Callable[[], bytes]
    read: Callable[[Path], object]
    beside: tuple[tuple[str, str], ...] = ()  # other files of the same folder, and what they hold

    def prepare(self, rng: Random, place: Place) -> Callable[[], object]:
        """Write a damaged example."""
        path = place.inputs / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(mutated(rng, self.example()))
        for name, text in self.beside:
            (path.parent / name).write_text(text, encoding="utf-8")
        return lambda: self.read(path)


def file_subjects() -> list[Subject]:
    """A subject for each format."""
    return [Subject(each.name, _SHARE, each.prepare) for each in _formats()]


def _text(text: str) -> Callable[[], bytes]:
    return text.encode


def _shipped(name: str, lines: int | None = None) -> Callable[[], bytes]:
    @cache
    def data() -> bytes:
        return b"".join((DATA / name).read_bytes().splitlines(keepends=True)[:lines])

    return data


@cache
def _stereoset() -> bytes:
    labels = ("stereotype", "anti-stereotype", "unrelated")
    sentences = [
        {"id": str(i), "sentence": f"She is number {i}.", "gold_label": label}
        for i, label in enumerate(labels)
    ]
    entry = {
        "id": "a",
        "target": "nurse",
        "bias_type": "gender",
        "context": "The nurse sat.",
        "sentences": sentences,
    }
    lists = {"gold_label": [0, 1, 2], "sentence": ["He left.", "He stayed.", "Soup."]}
    other = {**entry, "id": "b", "bias_type": "race"}
    entries = [entry, {**entry, "id": "c", "sentences": lists}, other]
    return json.dumps({"version": "1", "data": {"intersentence": entries}}).encode()


@cache
def _seat() -> bytes:
    parts = {
        "targ1": ["math", "algebra"],
        "targ2": ["poetry", "art"],
        "attr1": ["he", "man"],
        "attr2": ["she", "her"],
    }
    return json.dumps({key: {"category": key, "examples": words} for key, words in parts.items()}).encode()


@cache
def _race() -> bytes:
    roles = {"black": ["slave", "musician"], "caucasian": ["manager", "redneck"]}
    sets = [["black", "caucasian"], ["african", "european"], ["Africa", "Europe"]]
    return json.dumps({"definite_sets": sets, "analogy_templates": {"role": roles}}).encode()


@cache
def _pairs_of_snli() -> bytes:
    records = [
        {"sentence1": f"A man {verb}.", "sentence2": "He acts.", "gold_label": label}
        for verb, label in (("runs", "entailment"), ("sits", "neutral"), ("eats", "contradiction"))
    ]
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


@cache
def _corpus_records() -> bytes:
    return "".join(
        f"{json.dumps({'id': i, 'text': line})}\n" for i, line in enumerate(_CORPUS.splitlines())
    ).encode()


@cache
def _small_test() -> WordTest:
    return WordTest("small", ("she", "mother"), ("he", "father"), ("nurse", "cooks"), ("engineer", "soldier"))


def _read_corpus(path: Path) -> object:
    fluency_text(path, 2)
    extract_counter_sentences(load_words("gender"), path)
    return corpus_contexts(_small_test(), path, per_word=2)


def _glue_formats() -> list[Format]:
    def reader(task: str) -> Callable[[Path], object]:
        return lambda path: load_task(glue_task(task), "train", path.parent.parent)

    return [
        Format(f"glue {_TASKS[folder]}", f"glue/{folder}/train.tsv", _text(text), reader(_TASKS[folder]))
        for folder, text in _GLUE_FILES.items()
    ]


def _word_formats() -> list[Format]:
    return [
        Format("words", "own.toml", _shipped("words/math.toml"), load_words),
        Format("words with pairs", "own.toml", _shipped("words/gender.toml"), load_words),
        Format("seat file", "seat.jsonl", _seat, load_seat_test),
        Format("words of a seat file", "seat.jsonl", _seat, load_words),
        Format("race attributes", "race.json", _race, load_words),
        Format(
            "published words",
            "published/female.txt",
            _text("she\nmother\n"),
            lambda path: load_words(path.parent),
            (("male.txt", "he\nfather\n"), ("stereotype.txt", "nurse\nengineer\n")),
        ),
    ]


def _probe_formats() -> list[Format]:
    shipped = _shipped("triples/gender.jsonl", _LINES)
    return [
        Format("triples", "own.jsonl", shipped, load_triples),
        Format("triples, strict", "own.jsonl", shipped, lambda path: load_triples(path, strict=True)),
        Format("stereoset", "dev.json", _stereoset, load_triples),
        Format("triples table", "own.csv", _text(_CSV), load_triples),
        Format("next sentences table", "own.csv", _text(_NEXT), load_triples),
        Format("triples tabs", "own.tsv", _text(_CSV.replace(",", "\t")), load_triples),
        Format("prompts", "own.toml", _shipped("cloze/age-pastime.toml"), load_cloze),
        Format(
            "verbalizer",
            "own.toml",
            _text(_VERBALIZER),
            lambda path: load_verbalizer(path, ("female", "male")),
        ),
        Format(
            "verbalizer table",
            "own.tsv",
            _text(_VERBALIZER_TABLE),
            lambda path: load_verbalizer(path, ("female", "male")),
        ),
        Format("lpbs templates", "own.txt", _text(_LPBS), load_lpbs_templates),
        Format("nli probe", "own.toml", _text(_NLI), load_nli_probe),
        Format("nli pairs", "own.tsv", _shipped("nli/ability.tsv", _LINES), ability_pairs),
        Format(
            "snli", "snli_1.0_test.jsonl", _pairs_of_snli, lambda path: load_task(SNLI, "dev", path.parent)
        ),
        Format("pairs", "own.tsv", _shipped("pairs/inputs.tsv", _LINES), read_pairs),
        Format("corpus", "own.txt", _text(_CORPUS), _read_corpus),
        Format("corpus records", "own.jsonl", _corpus_records, _read_corpus),
        Format("corpus folder", "corpus/a.txt", _text(_CORPUS), lambda path: _read_corpus(path.parent)),
    ]


def _formats() -> list[Format]:
    others = [
        Format("recipe", "own.toml", _text(_RECIPE), load_recipe),
        Format("thresholds", "own.toml", _text(_PLAN), read_plan),
    ]
    return [*_word_formats(), *_probe_formats(), *_glue_formats(), *others]
