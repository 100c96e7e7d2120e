"""Train the two tokenizers: uncased WordPiece for BERT, cased byte-level BPE for GPT-2.

python -m training.train_tokenizers OUT TEXT [TEXT ...]   writes OUT/bert and OUT/gpt
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from training.words import forced_words

VOCABULARY = 16384
BERT_SPECIALS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
]  # in this order: training.data knows their numbers
GPT_END = "<|endoftext|>"


def sample_lines(paths: Iterable[Path], stride: int, repeats: int = 3000) -> Iterator[str]:
    """Every stride-th line, then the forced words, with and without a space, so often that each becomes one
    token."""
    for path in paths:
        with path.open(encoding="utf-8") as file:
            yield from (line for i, line in enumerate(file) if i % stride == 0 and line.strip())
    words = " ".join(forced_words())
    for _ in range(repeats):
        yield words
        yield " " + words


def train_wordpiece(lines: Iterable[str], vocabulary: int = VOCABULARY) -> Tokenizer:
    """BERT's: lower case, accents stripped, `[CLS] a [SEP] b [SEP]`."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, min_frequency=2, special_tokens=BERT_SPECIALS)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def train_bpe(lines: Iterable[str], vocabulary: int = VOCABULARY) -> Tokenizer:
    """GPT-2's: bytes, cased, the space belongs to the word after it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=2, special_tokens=[GPT_END], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def split_words(tokenizer: Tokenizer, before: str) -> list[str]:
    """Forced words that are not one token after `before` ("" or a space); the possessives cannot be."""
    words = [word for word in forced_words() if "'" not in word]
    return [word for word in words if len(tokenizer.encode(before + word, add_special_tokens=False).ids) != 1]


def main() -> None:
    """Train both and report the words that did not stay whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--stride", type=int, default=4, help="use every n-th line")
    asked = parser.parse_args()

    fast: Any = PreTrainedTokenizerFast
    bert = train_wordpiece(sample_lines(asked.text, asked.stride))
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), BERT_SPECIALS, strict=True))
    specials = {f"{role}_token": token for role, token in names.items()}
    inputs = [
        "input_ids",
        "token_type_ids",
        "attention_mask",
    ]  # without this, the second text of a pair is not marked
    fast(tokenizer_object=bert, model_max_length=128, model_input_names=inputs, **specials).save_pretrained(
        asked.out / "bert"
    )

    gpt = train_bpe(sample_lines(asked.text, asked.stride))
    ends = {f"{role}_token": GPT_END for role in ("bos", "eos", "unk")}
    fast(tokenizer_object=gpt, model_max_length=256, **ends).save_pretrained(asked.out / "gpt")
    print("not whole in WordPiece:", split_words(bert, ""), "in BPE:", split_words(gpt, " "))


if __name__ == "__main__":
    main()
