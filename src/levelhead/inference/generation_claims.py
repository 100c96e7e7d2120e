"""What may be said of generated texts: every claim of the page, corrected for all of them.

The claims are few and known before a text is sampled: who appears by stereotype, and of women and men every
score, texts that say nothing, what texts say and which words they use, over all prompts that state a gender
or a name; of every other set the largest gap; decisions by sex and by origin. Who appears is the main claim,
with most of the error. Their nulls exchange labels or sides (docs/method/generation.md). Single sets and the
real shares of women are described, not claimed. Mirror divergence is a magnitude: any model that is not
exactly symmetric has one.
"""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.inference.claims import Claim, judged, p_text, valued
from levelhead.runs.common import BASE
from levelhead.studies.generate import Generate
from levelhead.studies.generate.records import GenerationMeasured

MIRROR, APPEARS = "mirror divergence", "who appears"
GAP, DISTANCE, DECISION = "paired gap", "excess distance", "decision gap"
LARGEST, MARKED, UNANSWERED = "largest gap", "marked words", "texts that say nothing"
_NOUNS = {"feminine": "women", "masculine": "men", "older": "older people", "younger": "younger people"}


def group_noun(group: str) -> str:
    """A group as a sentence names it."""
    return _NOUNS.get(group, group if group == "others" else group.title())


def variant_noun(variant: str) -> str:
    """A variant as a page names it."""
    return "unmodified model" if variant == BASE else variant


def family(name: str) -> str:
    """What a measure is about: `paired gap` of `paired gap: sentiment/names`."""
    return name.partition("/")[0].partition(":")[0]


Tested = tuple[GenerationMeasured, Claim, bool]


Around = frozenset[str] | None  # what an audit around the run claims; None: there is none


def generation_claims(run: Generate, variant: str = BASE, around: Around = None) -> list[Tested]:
    """Every claim that the page makes or keeps silent about, and whether it holds after correction: for all
    of them, or on the page of an audit for all of its claims."""
    tested = corrected(run.data.records(Generate.measured.of(variant)))
    if around is not None:
        return [(each, claim, each.name in around) for each, claim, _ in tested]
    return [(each, claim, holds and not run.doubts) for each, claim, holds in tested]


def corrected(measured: Sequence[GenerationMeasured]) -> list[Tested]:
    """The claims among measures, and whether each holds on a page of all of them."""
    tested = [each for each in measured if each.claim and each.measurement.p_value is not None]
    claims = []
    for each in tested:  # each sentence with its evidence
        own = each.measurement
        spoken, silent = _sentences(each)
        by = f"{valued(own)}, p {p_text(own.p_value)}"
        floor = own.null.floor if own.null is not None else own.neutral or 0.0
        beyond = own.interval is None or not own.interval[0] <= floor <= own.interval[1]
        main = each.name == APPEARS  # it gets most of the page's error
        claims.append(Claim(own.p_value, beyond, f"{spoken}: {by}.", f"{silent}: {by}.", main=main))
    return list(zip(tested, claims, judged(claims), strict=True))


def held(run: Generate, around: Around = None) -> frozenset[str]:
    """The measures of which the page claims something."""
    return frozenset(each.name for each, _, holds in generation_claims(run, around=around) if holds)


def _sentences(each: GenerationMeasured) -> tuple[str, str]:
    """What is said of a measure if it holds, and if it does not."""
    value = each.measurement.value or 0.0
    more, higher = ("more", "higher") if value > 0 else ("fewer", "lower")
    first, second = map(group_noun, each.groups or ("", ""))
    between = f"between {first} and {second} (prompts of {each.set})"
    score = each.name.partition(": ")[2].partition("/")[0]
    match family(each.name):
        case "who appears":
            return (
                f"In texts about occupations that are said to be women's, {more} women appear, in log-odds "
                "per label",
                "Who appears does not clearly follow stereotypes of occupations, in log-odds per label",
            )
        case "paired gap":
            return (
                f"Texts for {first} score {higher} on {score} than for {second} (prompts of {each.set})",
                f"No difference in {score} shows {between}",
            )
        case "largest gap":
            return (
                f"Texts for {first} score {higher} on {each.score} than for {second} (prompts of "
                f"{each.set}), in standard deviations",
                f"No score clearly differs between groups (prompts of {each.set}); the clearest, "
                f"{each.score} of {first}, in standard deviations",
            )
        case "excess distance":
            return (
                f"Texts for {first} differ from texts for {second} more than texts of one prompt do "
                f"(prompts of {each.set})",
                f"Texts do not clearly differ {between}",
            )
        case "decision gap":
            likelier = "likelier" if value > 0 else "less likely"
            return (
                f"The favorable answer is {likelier} for {first} than for {second}, in log-odds",
                f"No difference in decisions shows between {first} and {second}, in log-odds",
            )
        case "marked words":
            return (
                f"Some words mark texts for {first} or for {second} (prompts of {each.set}); largest z",
                f"No word clearly marks texts {between}; largest z",
            )
    what, often = each.name.partition("/")[0], "more" if value > 0 else "less"
    return (
        f"{what.capitalize()} are {often} frequent for {first} than for {second} (prompts of {each.set})",
        f"No difference in {what} shows {between}",
    )


def answer(run: Generate, around: Around = None) -> str:
    """The answer of the page in one sentence."""
    plan = run.plan
    claims = generation_claims(run, around=around)
    found = [each for each, _, holds in claims if holds]
    texts = 0 if plan is None else plan.texts
    who = f"In {texts:,} texts of {run.model}"
    if run.doubts or not claims:
        return f"{who} nothing was tested"
    if not found:
        smallest = None if plan is None else plan.detectable
        shows = ""
        if smallest is not None:
            shows = f"; a paired gap of {smallest:.2g} standard deviations would have shown with power 0.8"
        return f"{who}, none of {len(claims)} tested differences between groups is significant{shows}"
    kinds = dict.fromkeys(_KINDS.get(family(each.name), family(each.name)) for each in found)
    are = "is" if len(found) == 1 else "are"
    many = f"{len(found)} of {len(claims)} tested differences {are} significant after correction"
    return f"{who}, {many}: {', '.join(kinds)}"


_KINDS = {
    APPEARS: "who appears in texts about occupations",
    GAP: "how texts score",
    LARGEST: "how texts score",
    DISTANCE: "what texts say",
    DECISION: "decisions",
    MARKED: "which words are used",
    UNANSWERED: "how often nothing is said",
}
