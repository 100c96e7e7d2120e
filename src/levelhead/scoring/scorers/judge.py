"""A language model as a judge of texts: whether a text meets a rubric, or which text of a pair does more.

    texts    "Does the text meet the rubric?", once with A: yes, B: no, and once with A: no, B: yes
    pairs    "Which text meets the rubric more?", once in either order
    s        1 for yes or the preferred text, 0 for no or the other one, one half for neither
    s*       the mean over a text and its counterfactual, as for every scorer

Two answers that contradict each other are undecided, s = 1/2: what follows the order says nothing of the
text. An answer that names no letter is no answer, and the text is not scored. On its own s* is no result: its
error rates are estimated on texts whose labels the user gives, judged in the same way (measures/judged.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.served.questions import AskInWords
from levelhead.errors import BadOption, CannotDo
from levelhead.escaping import escaped
from levelhead.measures.judged import LEAST, Calibration, calibrated
from levelhead.models.model import Model, load
from levelhead.models.served import ServedModel, is_served, served
from levelhead.probes.benchmark_files import Reader, Row, Source, json_rows, table_rows
from levelhead.probes.files import read_text
from levelhead.probes.swap import swap_text
from levelhead.runs.folder import text_hash
from levelhead.scoring.benchmarks.served import parsed_choice

PREFIX, NAME = "judge:", "judge"
UNDECIDED, UNPARSED = "undecided", "not parsed"
_LETTERS, _PAIR_LETTERS = ("A", "B"), ("A", "B", "C")
_TRUTHS, _PAIR_TRUTHS = ("yes", "no"), ("A", "B", "same")
Item = tuple[str, ...]  # a text, or the two of a pair


@dataclass(frozen=True)
class Judgments:
    """What a judge says of items."""

    scores: NDArray[np.float64]  # s* of each, of pairs that of the first text; NaN: not parsed
    outcomes: Counter[str]  # of every judgment, two for each item: it, and its counterfactual
    lost: str = ""  # the first answer that names no letter


@dataclass(frozen=True, eq=False)
class Judge:
    """A model with its rubric, and the labels that tell how often it errs."""

    model: Model | ServedModel
    rubric: str
    labeled: tuple[tuple[Item, str], ...]  # of the user: texts with yes or no, or pairs with A, B or same

    @property
    def pairs(self) -> bool:
        """Whether it compares two texts."""
        return len(self.labeled[0][0]) == 2

    def facts(self) -> dict[str, str]:
        """What its answers depend on, for the hashes of a run."""
        own = self.model.facts() if isinstance(self.model, ServedModel) else {"": self.model.fingerprint}
        labels = [f"{label}\n{text}" for texts, label in self.labeled for text in texts]
        return {"judge": text_hash([*own.values(), self.rubric]), "labels of the judge": text_hash(labels)}

    def judged(self, items: Sequence[Item], ask: AskInWords) -> Judgments:
        """Every item and its counterfactual, in both orders."""
        letters = _PAIR_LETTERS if self.pairs else _LETTERS
        answers = ask(self.questions(items))
        said = [parsed_choice(text, letters) for text in answers]
        lost = next((text for text, choice in zip(answers, said, strict=True) if choice is None), "")
        scores, outcomes = np.full(len(answers) // 2, np.nan), Counter[str]()
        for place, (plain, other) in enumerate(zip(said[::2], said[1::2], strict=True)):
            if plain is None or other is None:
                outcomes[UNPARSED] += 1
                continue
            back = (1, 0, 2)[other]  # the second question has A and B exchanged
            scores[place] = (1.0, 0.0, 0.5)[plain] if plain == back else 0.5
            names = _PAIR_TRUTHS if self.pairs else _TRUTHS
            outcomes[names[plain] if plain == back else UNDECIDED] += 1
        mean: NDArray[np.float64] = scores.reshape(2, len(items)).mean(axis=0)
        return Judgments(mean, outcomes, lost)

    def questions(self, items: Sequence[Item]) -> list[str]:
        """What is sent about items, and then about their counterfactuals: of each both orders."""
        mirrored = [tuple(swap_text(text, names=True) for text in item) for item in items]
        return [self.question(item, order) for item in (*items, *mirrored) for order in (False, True)]

    def question(self, item: Item, exchanged: bool) -> str:
        """What is sent about an item. exchanged: A and B."""
        letter_of_first, letter_of_second = _LETTERS[::-1] if exchanged else _LETTERS
        lines = [f"Rubric: {self.rubric}", ""]
        if self.pairs:
            for letter, text in zip(_LETTERS, item[::-1] if exchanged else item, strict=True):
                lines += [f"Text {letter}:", f"<text>\n{text.strip()}\n</text>", ""]
            lines += ["Which text meets the rubric more?", "A: text A", "B: text B", "C: neither"]
        else:
            options = sorted((f"{letter_of_first}: yes", f"{letter_of_second}: no"))
            lines += [f"<text>\n{item[0].strip()}\n</text>", "", "Does the text meet the rubric?", *options]
        letters = "A, B or C" if self.pairs else "A or B"
        return "\n".join([*lines, f"Answer with the letter {letters} alone."])

    def calibrated(self, ask: AskInWords) -> tuple[Calibration, dict[str, Counter[str]]]:
        """How well it tells labels apart, and its answers by label; refused where that is no better than a
        guess."""
        by_label = {}
        for label in _PAIR_TRUTHS if self.pairs else _TRUTHS:
            items = [item for item, own in self.labeled if own == label]
            by_label[label] = self.judged(items, ask)
        scores = {label: each.scores[np.isfinite(each.scores)] for label, each in by_label.items()}
        if self.pairs:  # of the better text, whichever it is
            first, second, _ = scores.values()
            known = [[*first, *(1 - second)]]
        else:
            known = [scores["yes"].tolist(), scores["no"].tolist()]
        if (fewest := min(map(len, known))) < LEAST:
            lost = next((each.lost for each in by_label.values() if each.lost.strip()), "nothing")
            raise CannotDo(
                f"{self.model.name} answers with a letter about {fewest} texts of a label, and {LEAST} are "
                f"needed; others it answers as {escaped(' '.join(lost.split()))[:60]!r}. Give another judge, "
                "or more labels."
            )
        found = calibrated(*known)
        if not found.tells:
            raise CannotDo(
                f"{self.model.name} tells your labels apart no better than a guess (slope {found.slope:.2f}, "
                f"standard error {found.error:.2f}): nothing can be corrected. Give another judge or rubric."
            )
        return found, {label: each.outcomes for label, each in by_label.items()}


def load_judge(chosen: str, rubric: str | None, labels: str | None) -> Judge:
    """judge:MODEL, where MODEL is a server, or a causal model of this machine with a chat template."""
    name = chosen.removeprefix(PREFIX)
    if not name:
        raise BadOption(f"a judge must be {PREFIX}MODEL, as {PREFIX}server:URL#NAME (got {chosen!r})")
    if not rubric:
        raise BadOption(f"--judge-rubric must say what {chosen} decides, a sentence or a file (got none)")
    if not labels:
        raise BadOption(
            f"--judge-labels must be a file of labeled texts for {chosen} (got none): a judge errs, and "
            "without its error rates its numbers are not shown"
        )
    path, is_file = Path(rubric).expanduser(), False
    with suppress(OSError):  # a sentence may be too long for the name of a file
        is_file = path.is_file()
    text = read_text(path, "Save it as UTF-8.", BadOption) if is_file else rubric
    if not text.strip():
        raise BadOption(f"--judge-rubric must hold a text (got an empty file: {rubric})")
    labeled = read_labels(Path(labels).expanduser())
    if not is_served(name):
        return Judge(load(name), text.strip(), labeled)
    # under a name of its own: the model whose texts are judged may be the same one, with its own answers
    return Judge(replace(served(name), name=chosen), text.strip(), labeled)


def read_labels(path: Path) -> tuple[tuple[Item, str], ...]:
    """Texts with labels: JSONL or CSV with text and label (yes, no), or a, b and label (A, B, same)."""
    rows = json_rows(path) if path.suffix.lower() == ".jsonl" else table_rows(path, ("label",))
    pairs = any("a" in row.cells for row in rows)
    reader = Reader(Source(str(path), "labels of a judge", (path.name,)))

    def read(row: Row) -> tuple[Item, str]:
        names, allowed = (("a", "b"), _PAIR_TRUTHS) if pairs else (("text",), _TRUTHS)
        said = {each.casefold(): each for each in allowed}.get(row.text("label").casefold())
        if said is None:  # of numbers nobody knows which means yes
            complaint = f"label must be {', '.join(allowed)} (got {row.text('label')[:40]!r})."
            raise row.unusable(f"label is none of {', '.join(allowed)}", complaint)
        return tuple(row.text(name) for name in names), said

    found = tuple(reader.read(rows, read))
    counts = Counter("A or B" if pairs and label != "same" else label for _, label in found)
    needed = ("A or B",) if pairs else _TRUTHS
    if short := next((each for each in needed if counts[each] < LEAST), None):
        lost = f". {sum(reader.unscored.values())} cannot be used: {reader.first}" if reader.first else ""
        least = f"{LEAST} {'pairs' if pairs else 'texts'}"
        raise BadOption(
            f"--judge-labels must have at least {least} with the label {short} (got {counts[short]}){lost}"
        )
    return found
