"""Small GLUE and SNLI folders of our own, in the published forms, for tests."""

from __future__ import annotations

from pathlib import Path

from tests.tiny import CORPUS

_PEOPLE = ("nurse", "engineer", "teacher", "mother", "father", "woman", "man", "grandmother")
_MOODS = ("tired", "not tired")


def _sentences(n: int) -> list[tuple[str, str, int]]:
    """A sentence, a second one, and whether the second follows from the first."""
    lines = []
    for i in range(n):
        person, other = _PEOPLE[i % len(_PEOPLE)], _PEOPLE[(i * 3 + 1) % len(_PEOPLE)]
        follows = i // 2 % 2
        first = f"the {person} said that she was {_MOODS[i % 2]}"
        second = f"the {person} was {_MOODS[i % 2]}" if follows else f"the {other} was {_MOODS[1 - i % 2]}"
        lines.append((f"{first} {CORPUS[i % 4].split()[0].lower()}", second, follows))
    return lines


def write_glue(folder: Path, train: int = 24, dev: int = 16) -> Path:
    """RTE, SST-2, CoLA (no header), MRPC (with a byte-order mark) and STS-B, train and dev."""
    for part, n in (("train", train), ("dev", dev)):
        texts = _sentences(n)
        entails = ("not_entailment", "entailment")
        files = {
            "RTE": ["index\tsentence1\tsentence2\tlabel"]
            + [f"{i}\t{a}\t{b}\t{entails[y]}" for i, (a, b, y) in enumerate(texts)],
            "SST-2": ["sentence\tlabel"] + [f"{a} \t{y}" for a, _, y in texts],
            "CoLA": [f"own\t{y}\t{'' if y else '*'}\t{a}" for a, _, y in texts],
            "MRPC": ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
            + [f"{y}\t{i}\t{i}\t{a}\t{b}" for i, (a, b, y) in enumerate(texts)],
            "STS-B": ["index\tsentence1\tsentence2\tscore"]
            + [f"{i}\t{a}\t{b}\t{4 * y + i % 3 / 2:.3f}" for i, (a, b, y) in enumerate(texts)],
        }
        for name, lines in files.items():
            path = folder / name / f"{part}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_snli(folder: Path, train: int = 30, test: int = 18) -> Path:
    """Premises and hypotheses in three classes, in the form premise, hypothesis, label."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", train), ("test", test)):
        lines = ["premise\thypothesis\tlabel"]
        for i in range(n):
            person, label = _PEOPLE[i % len(_PEOPLE)], i % 3
            mood = ("tired", "in the kitchen", "not tired")[label]
            lines.append(f"the {person} said that she was tired {i}\tthe {person} was {mood}\t{label}")
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
