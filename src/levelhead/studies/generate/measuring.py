"""From texts to numbers: every measure of one variant's texts.

What is compared with what follows from the prompts: prompts of one set whose frames have the same groups are
one comparison. Empty texts and refusals are counted, and are no texts for other scorers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.decisions import crossed, impact_ratio, log_odds_gap, selection_rates
from levelhead.measures.gaps import Design, excess_distance, paired_gap
from levelhead.measures.generated import marked_words, who_appears, who_appears_real
from levelhead.measures.influence import paired_test
from levelhead.measures.judged import Calibration, corrected
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.measures.mirror import PairedWords, mirror_change, mirror_divergence, mirror_parts
from levelhead.measures.statistics import Resampling
from levelhead.probes.generation import SEXES, Prompt, occupation_facts
from levelhead.probes.swap import gendered_words, name_pairs, swap_text
from levelhead.scoring.rivals.bold import bold_scores
from levelhead.scoring.rivals.exchange import Grouped, Sides
from levelhead.scoring.rivals.exchange import RivalScore as Rival
from levelhead.scoring.rivals.honest import honest_scores
from levelhead.scoring.rivals.langfair import group_words, langfair_scores
from levelhead.scoring.scorers.refusal import REFUSAL
from levelhead.scoring.scorers.sentiment import installed, vader
from levelhead.studies.generate.records import (
    Appearance,
    DecisionCell,
    GenerationMeasured,
    MarkedWord,
    RivalScore,
    Unanswered,
)
from levelhead.studies.generate.texts import (
    NEUTRAL,
    NOT_SWAPPED,
    OTHERS,
    Comparison,
    Doubles,
    Texts,
    first_of_two,
    named_by,
    places,
)

LARGEST, UNANSWERED = "largest gap", "texts that say nothing"
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
Vectors = Callable[[Sequence[str]], NDArray[np.float32]]


# ---- every measure


def measured(texts: Texts, vectors: Vectors | None) -> Iterator[GenerationMeasured]:
    """Every measure of texts but the parts of the divergence: who appears, gaps, distances, refusals.

    vectors: None where the model is behind a server, which gives none; distances are then left out.
    """
    yield from appearing(texts)
    for each in texts.detailed:
        yield from gaps(texts, each)
    if vectors is not None:
        for each in texts.paired:
            yield distance(texts, each, vectors)
    sets = ((each.label, texts.inside(each)) for each in texts.compared)
    for name, kept in (("neutral", texts.where(*NEUTRAL)), *sets):
        if any(text.log_p is not None for text, own in zip(texts.written, kept, strict=True) if own):
            own = "mirror divergence" if name == "neutral" else f"mirror divergence/{name}"
            scores, clusters = texts.mirror(kept)
            found = mirror_divergence(scores, clusters, texts.resampling)
            yield magnitude(texts, own, "" if name == "neutral" else name, found)


def magnitude(texts: Texts, name: str, set_name: str, found: Measurement) -> GenerationMeasured:
    """A size for comparisons, of which nothing is claimed: it has no neutral value that models could have."""
    plain = replace(found, name=name, neutral=None)
    return GenerationMeasured(texts.variant, texts.model, set_name, False, plain)


def parts(texts: Texts, words: PairedWords) -> Iterator[GenerationMeasured]:
    """The two parts of the divergence after neutral prompts."""
    scores, clusters = texts.mirror(texts.where(*NEUTRAL))
    found = mirror_parts(scores, words, clusters, texts.resampling)
    for name, part in (("frequency", found.frequency), ("context", found.context)):
        yield magnitude(texts, f"mirror divergence, {name}", "", part)


def appearances(texts: Texts) -> list[Appearance]:
    """Who appears first, occupation by occupation."""
    counts: dict[str, list[int]] = {}
    expected: dict[str, list[float]] = {}
    for text, prompt, first in zip(texts.written, texts.of, texts.firsts, strict=True):
        if prompt.about and not prompt.group:
            own = counts.setdefault(prompt.about, [0, 0, 0])
            own[("feminine", "masculine", "").index(first)] += 1
            shares = expected.setdefault(prompt.about, [0.0, 0.0])
            known = (text.feminine, text.masculine)
            for side, (share, sex) in enumerate(zip(known, SEXES, strict=True)):
                shares[side] += float(first == sex) if share is None else share
    found = []
    for about, (feminine, masculine, neither) in counts.items():
        facts = occupation_facts().get(about)
        label, real = (0, None) if facts is None else (facts.label, facts.women)
        f, m = expected[about]
        found.append(Appearance(texts.variant, about, feminine, masculine, neither, label, real, f, m))
    return found


def appearing(texts: Texts) -> Iterator[GenerationMeasured]:
    """Whether who appears follows the stereotype, a claim, and the workforce, a description."""
    own = [each for each in appearances(texts) if each.share is not None]
    if not own:
        return
    f, m = [each.expected_feminine for each in own], [each.expected_masculine for each in own]
    by_label = who_appears(f, m, [each.said for each in own], texts.resampling)
    by_share = who_appears_real(f, m, [each.share or 0.0 for each in own], texts.resampling)
    for name, found in (("who appears", by_label), ("who appears, real shares", by_share)):
        named, claim = replace(found, name=name), found is by_label
        yield GenerationMeasured(texts.variant, texts.model, "", claim, named)


def gaps(texts: Texts, compared: Comparison) -> Iterator[GenerationMeasured]:
    """Paired gaps of every score, and of texts that say nothing; of a set that the main comparison does not
    hold also the largest of them, which is its claim."""
    kept = texts.inside(compared)
    design = texts.design(kept, compared.groups)
    no_text = (texts.empty | texts.refusals)[kept]
    unscorable = np.zeros(int(kept.sum()), np.bool_)
    found: list[GenerationMeasured] = []
    for scorer, values in texts.scores.items():
        own, unasked = values[kept], texts.unasked.get(scorer, np.zeros(len(values), np.bool_))[kept]
        if unasked.all():
            continue
        unscorable |= ~np.isfinite(own) & ~no_text & ~unasked
        if scorer != REFUSAL.name:
            scored = np.where(no_text, np.nan, own)
            found += _gap(texts, compared, f"paired gap: {scorer}", scored, design, texts.judges.get(scorer))
    shares = {
        "refusals": texts.refusals[kept],
        "empty texts": texts.empty[kept],
        "unscorable texts": unscorable,
    }
    for name, holds in shares.items():
        if holds.any():  # else there is nothing to compare
            parts = _gap(texts, compared, name, holds.astype(np.float64), design)
            found += (replace(each, claim=False) for each in parts)
    nothing = (no_text | unscorable).astype(np.float64)
    if nothing.any():
        found += _gap(texts, compared, UNANSWERED, nothing, design)
    yield from found
    if compared != texts.main and compared.groups != SEXES:
        yield from _largest(texts, compared, found)


def _gap(
    texts: Texts,
    compared: Comparison,
    name: str,
    values: Doubles,
    design: Design,
    judge: Calibration | None = None,
) -> Iterator[GenerationMeasured]:
    known = values[np.isfinite(values)]
    sd = float(known.std(ddof=1)) if known.size > 1 else 0.0
    for group, found in paired_gap(name, values, design, texts.resampling).items():
        own = found if judge is None else corrected(found, judge)
        measured = replace(own, details={**own.details, "sd": sd if judge is None else sd / judge.slope})
        yield texts.said(name, compared, measured, group if len(compared.groups) > 2 else "")


def _largest(
    texts: Texts, compared: Comparison, found: Sequence[GenerationMeasured]
) -> Iterator[GenerationMeasured]:
    """The gap of smallest p among all scores of a set, in its standard deviations: the one claim about it.

    p is that of the gap times the number of scores (Bonferroni); it is corrected for groups already.
    """
    scores = {each.name.partition("/")[0] for each in found if each.measurement.null is not None}
    tested = [each for each in found if each.measurement.null is not None and each.measurement.details["sd"]]
    best = min(
        tested,
        key=lambda each: 1.0 if (p := each.measurement.p_value) is None else p,
        default=None,
    )
    if best is None or best.measurement.null is None or best.measurement.value is None:
        return
    own, sd = best.measurement, best.measurement.details["sd"] or 1.0
    null = best.measurement.null
    p = min(1.0, null.p_value * len(scores))
    interval = None if own.interval is None else (own.interval[0] / sd, own.interval[1] / sd)
    measurement = replace(
        own,
        name=f"{LARGEST}/{compared.label}",
        value=best.measurement.value / sd,
        interval=interval,
        details={"sd": 1.0, "scores": float(len(scores))},
        null=replace(null, floor=null.floor / sd, spread=null.spread / sd, p_value=p),
        influence={},
    )
    score = best.name.partition("/")[0].removeprefix("paired gap: ")
    yield replace(best, claim=True, measurement=measurement, score=score)


def distance(texts: Texts, compared: Comparison, vectors: Vectors) -> GenerationMeasured:
    """Excess distance of the two groups; the swap takes what names the group out of the second's texts."""
    first_group, second_group = compared.groups
    by_place = {(each.prompt, each.sample): each.text for each in texts.written}
    frames: dict[str, dict[str, Prompt]] = {}
    for prompt in compared.prompts:
        frames.setdefault(prompt.frame, {})[prompt.group] = prompt
    rows = [
        (own[first_group], k, by_place[own[first_group].id, k], by_place[own[second_group].id, k])
        for own in frames.values()
        if len(own) == 2
        for k in sorted({each.sample for each in texts.written})
        if all((own[group].id, k) in by_place for group in compared.groups)
    ]
    turned = (lambda text: swap_text(text, names=True)) if compared.set not in NOT_SWAPPED else str
    first, second = vectors([one for *_, one, _ in rows]), vectors([turned(other) for *_, other in rows])
    prompts = [prompt for prompt, *_ in rows]
    of_names, units = [prompt for prompt in prompts if prompt.name], None
    # where a frame of words has several pairs of names, they exchange sides with all of their samples
    if len({each.frame for each in of_names}) > len({each.cluster for each in of_names}):
        named = named_by(prompts) or []
        units = [
            pair if prompt.name else f"{prompt.frame}/{k}"
            for (prompt, k, *_), pair in zip(rows, named, strict=True)
        ]
    found = excess_distance(
        first,
        second,
        # of names, pairs of the same words are compared
        [prompt.cluster if prompt.name else prompt.frame for prompt in prompts],
        [prompt.cluster for prompt in prompts],
        units,
        texts.resampling,
    )
    return texts.said("excess distance", compared, found)


# ---- marked words


def marked(texts: Texts) -> Iterator[tuple[GenerationMeasured, list[MarkedWord]]]:
    """The words that mark the texts of two groups, comparison by comparison."""
    feminine, masculine = group_words()
    names = (name.casefold() for pair in name_pairs() for name in pair)
    named = {*feminine, *masculine, *(each.casefold() for each in gendered_words()), *names}
    for compared in texts.paired:
        kept = texts.inside(compared) & ~texts.empty & ~texts.refusals
        own = [(texts.written[i], texts.of[i]) for i in places(kept)]
        # words of a frame's prompts that not all of them have: they name the groups
        frames: dict[str, list[set[str]]] = {}
        for prompt in compared.prompts:
            frames.setdefault(prompt.frame, []).append(set(_WORD.findall(prompt.text.casefold())))
        stated = named.copy()
        for words in frames.values():
            stated |= set[str]().union(*words) - words[0].intersection(*words)
        found = marked_words(
            [_WORD.findall(text.text.casefold()) for text, _ in own],
            [prompt.group == compared.groups[0] for _, prompt in own],
            # which name of a pair is feminine is what is exchanged, wherever the pair stands
            named_by([prompt for _, prompt in own]) or [prompt.cluster for _, prompt in own],
            stated.__contains__,
            texts.resampling.seed,
        )
        if not found:
            continue
        rows = [
            MarkedWord(
                texts.variant,
                compared.label,
                each.word,
                compared.groups[0] if each.z > 0 else compared.groups[1],
                each.z,
                each.log_odds,
                (each.first, each.second) if each.z > 0 else (each.second, each.first),
                each.p_value,
            )
            for each in found
        ]
        details = {
            "p_value": min(each.p for each in rows),
            "words": float(sum(each.p < 0.05 for each in rows)),
        }
        largest = Measurement("marked words", abs(rows[0].z), n=len(rows), neutral=0.0, details=details)
        yield texts.said("marked words", compared, largest), rows


# ---- decisions


@dataclass(frozen=True)
class Decided:
    """Decisions about applicants: the log-odds of the favorable answer behind each prompt."""

    variant: str
    model: str
    prompts: Sequence[Prompt]
    odds: Doubles
    resampling: Resampling

    def _by(self) -> dict[str, list[str]]:
        sexes, origins = [each.group for each in self.prompts], [each.origin for each in self.prompts]
        both = crossed([f"{each}" for each in sexes], origins)
        found = {"sex": sexes, "origin": origins, "sex × origin": both}
        return {name: groups for name, groups in found.items() if len({*groups} - {""}) > 1}

    def _design(self, groups: Sequence[str]) -> Design:
        order = tuple(sorted({*groups} - {""}, key=first_of_two))
        names, frames = named_by(self.prompts), [each.frame for each in self.prompts]
        if names is not None and len(order) == 2:  # one pair of names in each frame
            frames = [f"{frame}/{name}" for frame, name in zip(frames, names, strict=True)]
        return Design(frames, groups, [each.cluster for each in self.prompts], order, names)

    def measured(self) -> Iterator[GenerationMeasured]:
        """Gaps of log-odds, and impact ratios."""
        kinds = [each.kind for each in self.prompts]
        for name, groups in self._by().items():
            design = self._design(groups)
            ratio = impact_ratio(self.odds, kinds, design, self.resampling)
            yield GenerationMeasured(
                self.variant, self.model, "decisions", False, replace(ratio, name=f"impact ratio/{name}")
            )
            if name == "sex × origin":  # the two gaps say it; the table has their crossing
                continue
            gaps = log_odds_gap(self.odds, design, self.resampling)
            two = len(design.order) == 2
            for group, found in gaps.items():
                own = f"decision gap/{name}" if two else f"decision gap/{name}, {group}"
                yield self._gap(own, found, (group, design.order[1] if two else OTHERS), two)
            if not two:  # of several groups the one of smallest p, which is corrected for all of them
                group = min(gaps, key=lambda each: gaps[each].p_value or 1.0)
                yield self._gap(f"decision gap/{name}", gaps[group], (group, OTHERS), True)

    def _gap(self, name: str, found: Measurement, sides: tuple[str, str], claim: bool) -> GenerationMeasured:
        named = replace(found, name=name)
        return GenerationMeasured(self.variant, self.model, "decisions", claim, named, sides)

    def cells(self) -> Iterator[DecisionCell]:
        """Selection rates: over all kinds of decision, then kind by kind."""
        kinds = np.array([each.kind for each in self.prompts])
        for kind in ("", *dict.fromkeys(kinds.tolist())):
            kept = places((kinds == kind) | (kind == ""))
            own = replace(self, prompts=[self.prompts[i] for i in kept], odds=self.odds[kept])
            for name, groups in own._by().items():
                rates = selection_rates(own.odds, kinds[kept], own._design(groups), own.resampling)
                for each in rates:
                    low, high = each.interval or (None, None)
                    yield DecisionCell(
                        *(self.variant, kind, name, each.group, each.applicants, each.selected),
                        *(each.rate, low, high, each.impact, each.p_yes),
                    )


# ---- refusals by group, other tools


def unanswered(texts: Texts) -> list[Unanswered]:
    """Empty texts, refusals and texts that cannot be scored, by set and group."""
    keys = [(each.set, each.group) for each in texts.of]
    found = []
    for key in dict.fromkeys(keys):
        own = np.array([each == key for each in keys])
        usable = own & ~texts.empty & ~texts.refusals
        unscorable = {
            name: int((usable & ~np.isfinite(values) & ~texts.unasked.get(name, ~usable)).sum())
            for name, values in texts.scores.items()
        }
        counts = (int(own.sum()), int((own & texts.empty).sum()), int((own & texts.refusals).sum()))
        found.append(Unanswered(texts.variant, *key, *counts, unscorable))
    return found


def rivals(texts: Texts, lexicon: tuple[str, ...]) -> Iterator[RivalScore]:
    """Scores of other tools, comparison by comparison; association scores of neutral prompts."""
    usable = ~texts.empty & ~texts.refusals
    neutral = [texts.written[i].text for i in places(texts.where(*NEUTRAL) & usable)]
    seed = texts.resampling.seed
    if neutral:
        every = langfair_scores([], neutral, None, seed)
        yield from (_rival(texts, "neutral", each) for each in every if each.value is not None)
    for compared in texts.compared:
        kept = texts.inside(compared) & usable
        own = [(texts.written[i], texts.of[i]) for i in places(kept)]
        if len(compared.groups) == 2:
            # what was written behind the two prompts of each frame, samples that both have
            by_frame: dict[str, tuple[dict[int, str], dict[int, str]]] = {}
            for text, prompt in own:
                both = by_frame.setdefault(prompt.frame, ({}, {}))
                both[compared.groups.index(prompt.group)][text.sample] = text.text
            sides = []
            for frame, (one, other) in by_frame.items():
                shared = sorted(one.keys() & other.keys())
                if len(shared) > 1:
                    sides.append(Sides(frame, tuple(one[k] for k in shared), tuple(other[k] for k in shared)))
            known = langfair_scores(sides, [], None, seed) if sides else []
            yield from (_rival(texts, compared.label, each) for each in known if each.value is not None)
        values = np.array(vader([text.text for text, _ in own]) if installed() else [0.0] * len(own))
        grouped = Grouped(
            [prompt.frame for _, prompt in own],
            [prompt.group for _, prompt in own],
            [text.sample for text, _ in own],
            values,
        )
        found = bold_scores(grouped, seed) if installed() and own else []
        found += honest_scores([text.text for text, _ in own], grouped, lexicon, seed) if lexicon else []
        yield from (_rival(texts, compared.label, each) for each in found)


def _rival(texts: Texts, label: str, each: Rival) -> RivalScore:
    return RivalScore(
        texts.variant,
        f"{each.tool}: {each.name}",
        label,
        each.value,
        each.ideal,
        each.unbiased,
        each.unbiased_95,
        each.n,
        each.why_not,
    )


# ---- changes


def changed(
    before: Texts, after: Texts, base: Sequence[GenerationMeasured], own: Sequence[GenerationMeasured]
) -> Iterator[GenerationMeasured]:
    """What a mitigation changes: the divergence by whole clusters, all else by what each cluster adds."""
    first = {each.name: each for each in base}
    for each in own:
        if each.name == "mirror divergence":
            one, clusters = before.mirror(before.where(*NEUTRAL))
            other, others = after.mirror(after.where(*NEUTRAL))
            share = mirror_change(one, other, clusters, others, after.resampling)
            name, found = f"{each.name}{CHANGE}", share.details
            if share.value is None:
                yield replace(each, claim=False, measurement=Measurement.missing(name, share.reason))
                continue
            was, now = (float(mirror.gaps[mirror.exact].mean()) for mirror in (one, other))
            low, high = found["difference, low"], found["difference, high"]
            ends = None if low is None or high is None else (low, high)
            lows, highs = share.interval or (None, None)
            details = {"share": share.value, "share, low": lows, "share, high": highs}
            moved = Measurement(name, now - was, ends, n=share.n, neutral=0.0, details=details)
            yield replace(each, claim=False, measurement=moved)
            continue
        old = first[each.name].measurement if each.name in first else None
        test = None if old is None else paired_test(old, each.measurement)
        if old is None or test is None or old.value is None or each.measurement.value is None:
            continue
        difference = Measurement(
            f"{each.name}{CHANGE}",
            each.measurement.value - old.value,
            test.interval,
            n=min(old.n, each.measurement.n),
            neutral=0.0,
            details={"p_value": test.p},
        )
        yield replace(each, claim=False, measurement=difference)
