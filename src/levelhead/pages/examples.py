"""Two sentences with this model's own numbers, for readers who do not know the field.

Numbers come from the run folder: occupations/*.csv of the prompts, arcs of the heads. Where a run has none,
there is no example.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from levelhead.inference.contents import Contents, arcs, measurements
from levelhead.inference.infos import claimed
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.pages.blocks import Example, Said
from levelhead.pages.first_arcs import attention, first_arcs
from levelhead.probes.cloze import Prompt, load_cloze
from levelhead.results.layout import PROMPTS_HASH
from levelhead.results.records.cloze import OccupationLine
from levelhead.results.records.common import BASE
from levelhead.results.runs import PromptsRun

_SHIPPED = "gender-occupation"
_BLANK = "[target]"
_COUNTER = "weakens"  # what knowledge that runs against the stereotype is designed to do


def asked_example(contents: Contents) -> Example | None:
    """An occupation of either group, in the middle of its group, and whom the model fills in."""
    run = contents.prompts
    if run is None or not _belongs(contents):
        return None
    odds = _odds(run, BASE)
    middle = [_middle(odds, group) for group in run.settings.groups]
    if middle[0] is None or middle[1] is None:
        return None
    first, second = (
        Said(_text(run, line.occupation), _in_words(run, line.value)) for line in middle if line is not None
    )
    note = (
        "Fill-in log-odds: both occupations are those in the middle of their group by these odds. A model "
        "without a stereotype has the same odds for both."
    )
    return Example(first, second, note)


def knowledge_example(contents: Contents) -> Example | None:
    """The same question bare, and after a sentence that runs against the stereotype."""
    run = contents.prompts
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


def kind_examples(run: PromptsRun) -> dict[str, str]:
    """A prompt of each kind of knowledge, about an occupation in the middle of the first group; nothing for
    prompts that do not ship."""
    line = _middle(_odds(run, BASE), run.settings.groups[0])
    own = [prompt for prompt in _shipped(run) if line is not None and prompt.occupation == line.occupation]
    first = {prompt.kind: _filled(prompt) for prompt in reversed(own)}
    return {kind: first[kind] for kind in run.settings.kinds if kind in first and kind != BASE}


def changed_example(contents: Contents) -> Example | None:
    """The same question to the unmodified model and to the first changed one."""
    run, audit = contents.prompts, contents.audit
    if run is None or audit is None or not _belongs(contents):
        return None
    line = _middle(_odds(run, BASE), run.settings.groups[0])
    changed = [each.variant for each in audit.mitigations if each.variant in run.settings.variants]
    after = _odds(run, changed[0]).get(line.occupation) if changed and line is not None else None
    if line is None or after is None:
        return None
    question = _text(run, line.occupation)
    return Example(
        Said(question, f"untouched: {_in_words(run, line.value)}"),
        Said(question, f"{changed[0]}: {_in_words(run, after.value)}"),
        "One question before and after a change. One question shows little: the table has all of them.",
    )


def arcs_example(contents: Contents) -> Example | None:
    """A sentence and the same with the groups exchanged, and how much a head looks at the group word."""
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


def _belongs(contents: Contents) -> bool:
    """Whether an example of log-odds stands under a finding of their own: they show a bias, or nothing does.

    Two odds that differ would illustrate a bias that another measure found and this one did not.
    """
    known = (each for each in measurements(contents) if each.measurement.value is not None)
    shown = [each.name for each in known if claimed(contents, each)]
    return not shown or any(name.startswith(LOG_ODDS) for name in shown)


# ---- occupations


def _odds(run: PromptsRun, variant: str, kind: str = BASE) -> Mapping[str, OccupationLine]:
    """The log-odds of every occupation, for the first model."""
    lines = run.occupations(run.settings.models[0], variant)
    own = [line for line in lines if (line.name, line.kind) == (LOG_ODDS, kind)]
    return {line.occupation: line for line in own if line.value is not None}


def _middle(odds: Mapping[str, OccupationLine], group: str) -> OccupationLine | None:
    own = sorted((line for line in odds.values() if line.group == group), key=lambda line: line.value or 0.0)
    return own[(len(own) - 1) // 2] if own else None


def _in_words(run: PromptsRun, value: float | None) -> str:
    """Log-odds as how many times as likely one group's words are."""
    odds, (first, second) = value or 0.0, run.settings.groups
    likelier, other = (first, second) if odds >= 0 else (second, first)
    times, signed = f"{math.exp(abs(odds)):.1f} times", f"{odds:+.2f}".replace("-", "−")
    return f"{likelier} words {times} as likely as {other} ones (log-odds {signed})"


def _text(run: PromptsRun, occupation: str, kind: str = BASE) -> str:
    """The prompt itself where the run used prompts that ship; else its occupation."""
    for prompt in _shipped(run):
        if (prompt.occupation, prompt.kind) == (occupation, kind):
            return _filled(prompt)
    return f"A question about “{occupation}”" + ("" if kind == BASE else f", after knowledge: {kind}")


def _shipped(run: PromptsRun) -> Sequence[Prompt]:
    """The prompts of the run where it used those that ship, which their hash tells."""
    settings = run.settings
    if settings.prompts != _SHIPPED or settings.verbalizer is not None:
        return ()
    shipped = load_cloze(_SHIPPED, settings.seed, settings.per_background)
    return shipped.prompts if shipped.fingerprint == run.data.hashes.get(PROMPTS_HASH) else ()


def _filled(prompt: Prompt) -> str:
    return f"{prompt.knowledge} {prompt.base}".strip().replace(_BLANK, "___")
