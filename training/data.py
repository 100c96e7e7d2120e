"""From text to training data: sentence pairs for BERT, one long stream of tokens for GPT-2."""

from __future__ import annotations

import lzma
import os
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

PAD, UNK, CLS, SEP, MASK = range(5)  # the first entries of the WordPiece vocabulary
LONG, SHORT = 128, 48  # lengths of BERT's rows: many sentences, and two sentences as the probes have them
PIECE_CHARACTERS = 20_000
SENTENCE_END = re.compile(r"(?<=[.!?][\"'”’)]|.[.!?])\s+(?=[\"'“‘(]?[A-Z])")

Ids = NDArray[np.uint16]
Document = list[Ids]  # one array a sentence


@dataclass(frozen=True)
class Pairs:
    """Rows `[CLS] a [SEP] b [SEP] [PAD] ...` for masked-language and next-sentence training."""

    ids: Ids  # [row, position]
    second: NDArray[np.uint8]  # where b begins
    label: NDArray[np.uint8]  # 0: b follows a; 1: b comes from another document

    @classmethod
    def concatenate(cls, parts: Iterable[Pairs]) -> Pairs:
        """All rows of several."""
        columns = zip(*((part.ids, part.second, part.label) for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def shuffled(self, seed: int = 0) -> Pairs:
        """The same rows in a random order."""
        order = np.random.default_rng(seed).permutation(len(self.ids))
        return Pairs(self.ids[order], self.second[order], self.label[order])


def read_documents(folder: Path) -> list[str]:
    """Documents (separated by blank lines) of all `*.xz` in the folder, long ones cut, in a seeded random
    order."""
    pieces = []
    for path in sorted(folder.glob("*.xz")):
        with lzma.open(path, "rt", encoding="utf-8", errors="replace") as file:
            documents = re.split(r"\n\s*\n", file.read())
        pieces += [
            piece for text in documents if len(text.strip()) > 40 for piece in cut_document(text.strip())
        ]
    random.Random(0).shuffle(pieces)
    return pieces


def cut_document(text: str) -> list[str]:
    """Pieces of whole lines, so that work spreads evenly and 'another document' is plentiful."""
    pieces, lines, size = [], [], 0
    for line in text.split("\n"):
        lines.append(line)
        size += len(line)
        if size > PIECE_CHARACTERS:
            pieces.append("\n".join(lines))
            lines, size = [], 0
    return [*pieces, "\n".join(lines)] if lines else pieces


def split_sentences(text: str) -> list[str]:
    """Sentences of a text, by full stops before capital letters."""
    return [
        sentence for line in text.split("\n") for sentence in SENTENCE_END.split(line.strip()) if sentence
    ]


def encode_sentences(text: str, wordpiece: Tokenizer) -> Document:
    """A document as arrays of tokens, one a sentence."""
    encoded = wordpiece.encode_batch(split_sentences(text), add_special_tokens=False)
    return [np.array(sentence.ids, np.uint16) for sentence in encoded if sentence.ids]


def build_pairs(documents: list[Document], seed: int, length: int) -> Pairs:
    """Cut documents into pairs: half with the sentences that follow, half with sentences of another
    document."""
    rng = random.Random(seed)
    rows, second, label = [], [], []
    for document in documents:
        at = 0
        while at < len(document) - 1:
            low = length // 2 if length > 64 else 10
            target = rng.randint(low, length - 3)
            chunk = _take(document, at, target, 50 if length > 64 else 2)
            at += len(chunk)
            if len(chunk) < 2:
                continue
            cut = rng.randint(1, len(chunk) - 1)
            a = np.concatenate(chunk[:cut])
            follows = rng.random() < 0.5
            if follows:
                b = np.concatenate(chunk[cut:])
            else:
                b = _from_another(documents, document, max(4, target - len(a)), 50 if length > 64 else 1, rng)
                at = max(1, at - (len(chunk) - cut))  # the sentences that were not used are used again
            row, begins = _join(a, b, length, rng)
            rows.append(row)
            second.append(begins)
            label.append(0 if follows else 1)
    ids = np.array(rows, np.uint16).reshape(-1, length)
    return Pairs(ids, np.array(second, np.uint8), np.array(label, np.uint8))


def _take(document: Document, start: int, tokens: int, sentences: int) -> Document:
    """Sentences from `start` on, until there are enough tokens or sentences."""
    taken: Document = []
    size = 0
    for sentence in document[start:]:
        if size >= tokens or len(taken) >= sentences:
            break
        taken.append(sentence)
        size += len(sentence)
    return taken


def _from_another(
    documents: list[Document], own: Document, tokens: int, sentences: int, rng: random.Random
) -> Ids:
    other = documents[rng.randrange(len(documents))]
    while other is own and len(documents) > 1:
        other = documents[rng.randrange(len(documents))]
    return np.concatenate(_take(other, rng.randrange(len(other)), tokens, sentences))


def _join(a: Ids, b: Ids, length: int, rng: random.Random) -> tuple[Ids, int]:
    """One row, the longer side trimmed until both fit, and where b begins."""
    while len(a) + len(b) > length - 3:
        if len(a) >= len(b):
            a = a[1:] if rng.random() < 0.5 else a[:-1]
        else:
            b = b[:-1]
    row = np.full(length, PAD, np.uint16)
    content = np.concatenate([[CLS], a, [SEP], b, [SEP]])
    row[: len(content)] = content
    return row, 2 + len(a)


@dataclass(frozen=True)
class Shard:
    """A share of the documents for one process; only flat arrays travel back."""

    number: int
    documents: list[str]
    tokenizers: Path  # the folder with bert/ and gpt/
    rounds: int  # how often each document is cut into pairs, differently each time


def build_bert_shard(shard: Shard) -> dict[int, Pairs]:
    """Pairs of both lengths."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are parallel already
    wordpiece = Tokenizer.from_file(str(shard.tokenizers / "bert" / "tokenizer.json"))
    documents = [d for d in (encode_sentences(text, wordpiece) for text in shard.documents) if d]
    return {
        length: Pairs.concatenate(
            build_pairs(documents, 1000 * r + shard.number, length) for r in range(shard.rounds)
        )
        for length in (LONG, SHORT)
    }


def build_gpt_shard(shard: Shard) -> Ids:
    """All documents in a row, each with an end token (0)."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    bpe = Tokenizer.from_file(str(shard.tokenizers / "gpt" / "tokenizer.json"))
    return np.concatenate([np.array([*bpe.encode(text).ids, 0], np.uint16) for text in shard.documents])


def make_shards(folder: Path, tokenizers: Path, rounds: int, processes: int) -> list[Shard]:
    """Four shards a process."""
    documents, n = read_documents(folder), 4 * processes
    return [Shard(i, documents[i::n], tokenizers, rounds) for i in range(n) if documents[i::n]]


def build_bert_data(shards: list[Shard], processes: int) -> dict[int, Pairs]:
    """Shuffled pairs by length."""
    with Pool(processes) as pool:
        parts = pool.map(build_bert_shard, shards, chunksize=1)
    return {length: Pairs.concatenate(part[length] for part in parts).shuffled() for length in (LONG, SHORT)}


def build_gpt_data(shards: list[Shard], processes: int) -> Ids:
    """One stream of tokens."""
    with Pool(processes) as pool:
        return np.concatenate(pool.map(build_gpt_shard, shards, chunksize=1))
