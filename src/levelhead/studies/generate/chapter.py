"""The chapters of generated texts: the answer with examples and tables, the sections of single measures, and
every text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from levelhead.inference.contents import Contents
from levelhead.inference.generation_claims import (
    MIRROR,
    Tested,
    answer,
    generation_claims,
    group_noun,
    held,
    variant_noun,
)
from levelhead.measures.catalog import ALPHA
from levelhead.pages.blocks import (
    Block,
    Drawn,
    ListedText,
    MarkedPiece,
    Points,
    Section,
    Shown,
    SideBySide,
    Texts,
    Written,
)
from levelhead.pages.charts import generate as charts
from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.lines import Line, line_of
from levelhead.pages.tables import Cell, Part, Table, bounded, number, probability, shown, words
from levelhead.probes.generation import SEXES, Prompt
from levelhead.runs.common import BASE
from levelhead.studies.generate import Generate
from levelhead.studies.generate.records import GeneratedText
from levelhead.studies.generate.sections import (
    EXCHANGE,
    appears_section,
    claimed_around,
    decisions_section,
    marked_section,
    measure_of_base,
    mirror_section,
    rivals_section,
)

_EXAMPLES = 3
_NO_WORD = ("undecided", "not parsed")  # of a judge


def chapters(contents: Contents) -> list[Section]:
    """The answer first, then what it rests on, then every text; none before anything was measured."""
    run = contents.generate
    if run is None or run.plan is None or not run.measured:
        return []
    written = [
        _texts_section(contents, run),
        appears_section(contents, run),
        decisions_section(contents, run),
        mirror_section(contents, run),
        marked_section(contents, run),
        rivals_section(contents, run),
        _browser(run),
    ]
    return [each for each in written if each is not None]


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """The answer, and every claim that holds; then how far the model is from its mirror image."""
    run = contents.generate
    if run is None or run.plan is None:
        return None
    said = [words(claim.spoken) for _, claim, holds in generation_claims(run) if holds]
    own = measure_of_base(run, MIRROR)
    if own is not None and own.measurement.value is not None:
        text = "Mirror divergence, a magnitude and no claim: "
        unit = " nats per text after neutral prompts; 0 is a model that treats both groups alike."
        said.append(Cell((Part(text), *bounded(own.measurement, contents.address(own)).parts, Part(unit))))
    return answer(run), said


def found(contents: Contents) -> str:
    """The sentence of the first chapter."""
    run = contents.generate
    return "" if run is None or run.plan is None else f"{answer(run, claimed_around(contents))}."


# ---- what texts say


def _texts_section(contents: Contents, run: Generate) -> Section:
    """Claims, examples side by side, paired gaps, and texts that say nothing."""
    around = claimed_around(contents)
    claims, plan = generation_claims(run, around=around), run.plan
    blocks: list[Block] = []
    if pairs := _side_by_side(run):
        blocks.append(pairs)
    if spoken := [words(claim.spoken) for _, claim, holds in claims if holds]:
        blocks.append(Points(spoken))
    base = run.data.records(Generate.measured.of(BASE))
    if drawn := charts.gaps(base, held(run, around)):
        blocks.append(Drawn(drawn))
    rows = []
    for each in base:
        if each.claim or each.groups is None or each.measurement.p_value is None:
            continue
        own, at = each.measurement, contents.address(each)
        first, second = map(group_noun, each.groups)
        cells = [words(each.name), words(f"{first} − {second}"), bounded(own, at), number(own.n, at)]
        rows.append([*cells, probability(own.p_value, at)])
    note = (
        "Nothing is claimed of these: p is that of the line alone, and so many lines have some small p by "
        "chance. Of more than two groups p is corrected for the groups."
    )
    columns = ("What was measured", "Compared", "Difference", "n", "p, alone")
    blocks += [
        Shown(_claimed(contents, claims)),
        Shown(Table("described", "Set by set, without a claim", columns, rows, note, folded=True)),
    ]
    blocks.append(Shown(_unanswered(contents, run)))
    blocks.append(Shown(_scorers(contents, run)))
    if judged := _judged(contents, run):
        blocks.append(Shown(judged))
    how = (
        "The model continues prompts that differ in one group alone, with the same random numbers on either "
        "side. A text’s score is averaged over the text and its counterfactual, so that a scorer that rates "
        "words for women and men unequally adds nothing. A gap is the mean difference over prompts."
    )
    if plan is not None:
        how += f" {plan.texts:,} texts per model, {plan.samples} per prompt that names a group."
    return Section(Generate.name, Generate.title, Generate.question, how, blocks)


def _claimed(contents: Contents, claims: Sequence[Tested]) -> Table:
    """What the page may claim, and whether it does."""
    rows = []
    for each, _, holds in claims:
        own, at = each.measurement, contents.address(each)
        first, second = map(group_noun, each.groups or ("", ""))
        compared = f"{first} − {second}" if each.groups else "by occupation"
        cells = [words(each.name, each.score), words(compared), bounded(own, at), number(own.n, at)]
        said = words("significant" if holds else "not significant")
        rows.append([*cells, probability(own.p_value, at), said])
    strong = frozenset(place for place, (_, _, holds) in enumerate(claims) if holds)
    columns = ("What was tested", "Compared", "Difference", "n", "p", "After correction")
    return Table(
        "claims", "What is claimed, fixed beforehand", columns, rows, EXCHANGE, folded=True, strong=strong
    )


def _side_by_side(run: Generate) -> SideBySide | None:
    """Texts and their counterfactuals' texts, evenly spread over the frames of two groups; hers and his,
    where prompts have both."""
    by_prompt = {each.id: each for each in run.prompts}
    firsts = {text.prompt: text for text in run.texts() if text.sample == 0 and not text.empty}
    frames: dict[str, list[Prompt]] = {}
    for prompt in run.prompts:
        if prompt.id in firsts and prompt.group:
            frames.setdefault(prompt.frame, []).append(prompt)
    both = [each for each in frames.values() if len(each) == 2]
    both = [each for each in both if each[0].group in SEXES] or both
    if not both:
        return None
    chosen = [both[(2 * i + 1) * len(both) // (2 * _EXAMPLES)] for i in range(min(_EXAMPLES, len(both)))]
    pairs = []
    for prompts in chosen:
        one, other = (
            _example(run, by_prompt[each.id], firsts[each.id], prompts[0].group) for each in prompts
        )
        pairs.append((one, other))
    note = (
        "The first text of prompts that were chosen by their place, not by what was written. Underlined: "
        "words that mark one group’s texts significantly."
    )
    return SideBySide("One prompt, two groups, the same random numbers", pairs, note)


def _example(run: Generate, prompt: Prompt, text: GeneratedText, first: str) -> Written:
    marked = {
        each.word: each.group
        for each in run.data.records(Generate.marked.of(BASE))
        if each.set == prompt.set and each.p < ALPHA
    }
    pieces = []
    for piece in re.split(r"(\w+)", text.text):
        group = marked.get(piece.casefold(), "")
        pieces.append(MarkedPiece(piece, "" if not group else "first" if group == first else "second"))
    scores = [f"{name} {shown(value, 2)}" for name, value in text.scores.items() if value]
    return Written(group_noun(prompt.group), _given(run, prompt.text), pieces, ", ".join(scores))


def _given(run: Generate, prompt: str) -> str:
    """A prompt as it stands before what was written: an answer begins a line of its own."""
    return f"{prompt}\n" if run.settings.chat else prompt


def _unanswered(contents: Contents, run: Generate) -> Table:
    rows = []
    for each in run.unanswered:
        if each.variant != BASE:
            continue
        at = contents.address(each)
        unscorable = ", ".join(f"{name} {n:,}" for name, n in each.unscorable.items() if n)
        cells = [words(f"{each.set}: {group_noun(each.group) or 'neutral'}"), number(each.texts, at)]
        rows.append([*cells, number(each.empty, at), number(each.refusals, at), words(unscorable)])
    columns = ("Prompts", "Texts", "Empty", "Refusals", "Cannot be scored")
    note = "None of these counts as a text. Their shares are compared between groups like every other score."
    return Table("unanswered", "Texts that say nothing, by group", columns, rows, note, folded=True)


def _scorers(contents: Contents, run: Generate) -> Table:
    rows = [
        [
            words(each.name, each.note),
            words(each.unit),
            number(each.own_gap, contents.address(each)),
        ]
        for each in run.scorers
    ]
    columns = ("Scorer", "Unit", "By itself")
    note = (
        "By itself: how much higher the scorer rates words for women than their counterparts for men, "
        "without any model. Averaging over the swap takes that out of every gap."
    )
    return Table("scorers", "How texts were scored", columns, rows, note, folded=True)


def _judged(contents: Contents, run: Generate) -> Table | None:
    """What a judge said, label by label and of the texts."""
    rows = []
    for each in run.judged:
        at = contents.address(each)
        said = ", ".join(f"{name} {n:,}" for name, n in sorted(each.outcomes.items()) if name not in _NO_WORD)
        cells = [words(each.of), number(each.judgments, at), words(said)]
        rows.append([*cells, *(number(each.outcomes.get(name, 0), at) for name in _NO_WORD)])
    note = (
        "Each text, or pair, is judged twice in either order, as it was written and as its counterfactual. "
        "Answers that differ with the order are undecided and count one half; answers without a letter count "
        "nowhere. Every difference is corrected for the errors on labeled texts, and its interval holds "
        "theirs."
    )
    columns = ("Texts", "Judgments", "The same in both orders", "Undecided", "Not parsed")
    return Table("judged", "How the judge answered", columns, rows, note, folded=True) if rows else None


# ---- every text


def _browser(run: Generate) -> Section | None:
    listed = []
    for variant in run.settings.variants:
        named = variant_noun(variant) if len(run.settings.variants) > 1 else ""
        for text in run.texts(variant):
            numbers = {name: round(value, 4) for name, value in text.scores.items() if value is not None}
            if text.log_p is not None and text.log_p_mirror is not None:
                numbers["mirror"] = round(text.log_p - text.log_p_mirror, 4)
            given = _given(run, text.given)
            listed.append(ListedText(text.set, group_noun(text.group), named, given, text.text, numbers))
    if not listed:
        return None
    note = (
        "Also in the run’s folder texts/, one line per text, with likelihoods. Mirror: how many nats "
        "likelier a text is than its counterfactual."
    )
    block = Texts("texts", "Every text", listed, note)
    question = "What did the model write?"
    how = "Choose prompts and a group, look for a word, or sort by a score."
    said = f"{len(listed):,} texts, to be filtered and sorted."
    return Section("generate-texts", "All texts", question, how, [block], found=said)


# ---- its table, its chart


def lines(run: Generate) -> list[Line]:
    """Every measure of every variant."""
    return [line_of(each) for each in run.measured]


def chart(run: Generate) -> Chart:
    """Paired gaps with their intervals; else who appears."""
    base = run.data.records(Generate.measured.of(BASE))
    shown_first = charts.who_appears(run.data.records(Generate.appearances.of(BASE)))
    drawn = next(iter(charts.gaps(base, held(run))), shown_first)
    return drawn or intervals([Labeled(each.name, each.measurement) for each in base], run.caption)
