"""Two sentences with this model's own numbers, for readers who do not know the field.

Numbers come from the run folder: occupations/*.csv of the prompts, arcs of the heads. Where a run has none,
there is no example.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from levelhead.edits.sites import Head
from levelhead.inference.contents import Contents, arcs, measurements
from levelhead.inference.verdicts import claimed
from levelhead.measures.log_odds import NAME as LOG_ODDS
from levelhead.pages.blocks import Example, FirstArcs, Said
from levelhead.probes.cloze import Prompt, load_cloze
from levelhead.runs.common import BASE
from levelhead.studies.counteracts import PROMPTS_HASH, Counteracts
from levelhead.studies.counteracts.records import OccupationLine
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import ArcPair, ArcVersion

_SHIPPED = "gender-occupation"
_BLANK = "[target]"
_COUNTER = "weakens"  # what knowledge that runs against the stereotype is designed to do


def measured_example(contents: Contents) -> Example | None:
    """An occupation of either group, in the middle of its group, and whom the model fills in."""
    run = contents.counteracts
    if run is None:
        return None
    # two odds that differ would illustrate a bias that another measure found and this one did not
    known = (each for each in measurements(contents) if each.measurement.value is not None)
    biases = [each.name for each in known if claimed(contents, each)]
    if biases and not any(name.startswith(LOG_ODDS) for name in biases):
        return None
    odds = _odds(run, BASE)
    said = [
        Said(_text(run, line.occupation), _in_words(run, line.value))
        for group in run.settings.groups
        if (line := _middle(odds, group)) is not None
    ]
    note = (
        "Fill-in log-odds: both occupations are those in the middle of their group by these odds. A model "
        "without a stereotype has the same odds for both."
    )
    return Example(said[0], said[1], note) if len(said) == 2 else None


def knowledge_example(contents: Contents) -> Example | None:
    """The same question bare, and after a sentence that runs against the stereotype."""
    run = contents.counteracts
    if run is None:
        return None
    kinds = {cell.kind for cell in run.knowledge() if cell.expected == _COUNTER}
    ordered = [kind for kind in run.settings.kinds if kind in kinds]
    kind = next((kind for kind in ordered if "counter" in kind), ordered[0] if ordered else None)
    line = _middle(_odds(run, BASE), run.settings.groups[0])
    told = None if kind is None or line is None else _odds(run, BASE, kind).get(line.occupation)
    if line is None or told is None:
        return None
    return Example(
        Said(_text(run, line.occupation), _in_words(run, line.value)),
        Said(_text(run, line.occupation, told.kind), _in_words(run, told.value)),
        f"The same question without knowledge, and after a sentence of the kind “{told.kind}”.",
    )


def kind_examples(run: Counteracts) -> dict[str, str]:
    """A prompt of each kind of knowledge, about an occupation in the middle of the first group; nothing for
    prompts that do not ship."""
    line = _middle(_odds(run, BASE), run.settings.groups[0])
    own = [prompt for prompt in _shipped(run) if line is not None and prompt.occupation == line.occupation]
    first = {prompt.kind: _filled(prompt) for prompt in reversed(own)}
    return {kind: first[kind] for kind in run.settings.kinds if kind in first and kind != BASE}


def arcs_example(contents: Contents) -> Example | None:
    """A sentence and the same with the groups exchanged, and how much a head attends to the group word."""
    run, pairs = contents.heads, arcs(contents)
    if run is None or not run.scores or not pairs:
        return None
    first = first_arcs(run, pairs)
    pair = pairs[first.pair]
    weights = [attention(version, first.head) for version in (pair.original, pair.counter)]
    if weights[0] is None or weights[1] is None:
        return None
    texts = [f"head {first.head} looks at the group word with {weight:.3f}" for weight in weights]
    note = (
        "Attention is between 0 (not at all) and 1 (more than at any other word). Of the heads that move as "
        "biased heads do over all sentences, the one with the highest score is shown, in its most typical "
        "pair."
    )
    return Example(Said(pair.text, texts[0]), Said(pair.counter_text, texts[1]), note)


# ---- occupations


def _odds(run: Counteracts, variant: str, kind: str = BASE) -> Mapping[str, OccupationLine]:
    """The log-odds of every occupation, for the first model."""
    lines = run.occupations(run.settings.models[0], variant)
    own = [line for line in lines if (line.name, line.kind) == (LOG_ODDS, kind)]
    return {line.occupation: line for line in own if line.value is not None}


def _middle(odds: Mapping[str, OccupationLine], group: str) -> OccupationLine | None:
    own = sorted((line for line in odds.values() if line.group == group), key=lambda line: line.value or 0.0)
    return own[(len(own) - 1) // 2] if own else None


def _in_words(run: Counteracts, value: float | None) -> str:
    """Log-odds as how many times as likely one group's words are."""
    odds, (first, second) = value or 0.0, run.settings.groups
    likelier, other = (first, second) if odds >= 0 else (second, first)
    times, signed = f"{math.exp(abs(odds)):.1f} times", f"{odds:+.2f}".replace("-", "−")
    return f"{likelier} words {times} as likely as {other} ones (log-odds {signed})"


def _text(run: Counteracts, occupation: str, kind: str = BASE) -> str:
    """The prompt itself where the run used prompts that ship; else its occupation."""
    for prompt in _shipped(run):
        if (prompt.occupation, prompt.kind) == (occupation, kind):
            return _filled(prompt)
    return f"A question about “{occupation}”" + ("" if kind == BASE else f", after knowledge: {kind}")


def _shipped(run: Counteracts) -> Sequence[Prompt]:
    """The prompts of the run where it used those that ship, which their hash tells."""
    settings = run.settings
    if settings.prompts != _SHIPPED or settings.verbalizer is not None:
        return ()
    shipped = load_cloze(_SHIPPED, settings.seed, settings.per_background)
    return shipped.prompts if shipped.fingerprint == run.data.hashes.get(PROMPTS_HASH) else ()


def _filled(prompt: Prompt) -> str:
    return f"{prompt.knowledge} {prompt.base}".strip().replace(_BLANK, "___")


# ---- attention


def first_arcs(run: Heads, pairs: Sequence[ArcPair]) -> FirstArcs:
    """The highest-scoring head, and its most typical pair, that move as biased heads do over all sentences.

    Heads differ, and so do sentences: the first pair of the highest head can show the contrary of what the
    experiment found. Without such a head and pair, or where nothing was found, it is those all the same.
    """
    means = {each.head: each.difference for each in run.counter_heads}
    direction = next(
        (test.measurement.value for test in run.counter if test.group == "biased" and not test.side), None
    )
    for score in run.ranked:
        mean = means.get(score.head)
        if not score.biased or not direction or mean is None or mean * direction <= 0:
            continue
        distances: dict[int, float] = {}  # from the mean, of pairs that move as it does
        for number, pair in enumerate(pairs):
            before, after = (attention(each, score.head) for each in (pair.original, pair.counter))
            if before is not None and after is not None and (before - after) * direction > 0:
                distances[number] = abs(before - after - mean)
        if distances:
            return FirstArcs(score.head, min(distances, key=lambda number: distances[number]))
    return FirstArcs(run.ranked[0].head, 0)


def attention(version: ArcVersion, head: Head) -> float | None:
    """A head's attention from the target word to the group word; None where the run did not keep it."""
    weights = version.attention[head.layer][head.head]
    parts = [None if weights is None else weights[place] for place in version.attribute]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
