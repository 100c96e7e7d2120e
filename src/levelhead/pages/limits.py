"""What a run does not show, in plain words: always the same warnings, and those of the measures that were
taken."""

from __future__ import annotations

from levelhead.inference.contents import Contents, measurements, variants
from levelhead.measures.certified import AGREEMENT

ALWAYS = (
    "No number here says that a model is unbiased. An interval that holds the neutral value means that "
    "these items, this many of them, do not show a bias.",
    "Intervals say how far the numbers depend on which items were drawn. They do not cover the choice of "
    "word lists, sentences and templates: other lists can give other numbers.",
    "The shipped probes are in English and know two groups of people. They say nothing about other "
    "languages, about people outside these two groups, or about how several kinds of bias act together.",
    "A bias inside a model need not become harm in use, and a model that measures well can still do harm. "
    "The paper behind Strength and fairness found no correlation between the two. Test the task that the "
    "model will serve.",
)
_HEADS = (
    "A head's bias score is the slope of |SEAT| at the unmodified model. It ranks heads; it does not promise "
    "what removing several of them at once does. Its error holds the words fixed and draws contexts only.",
    "Attention from one word to another is what a head reads, not why the model answers as it does.",
)
_PROMPTS = (
    "CounterActs reads only words of its two lists that are one token. Its margin counts them among the k "
    "likeliest tokens: prompts without any such word say nothing, and their share stands in the table."
)
_NLI = (
    "Fairness of inferences rests on short template sentences about occupations. It does not tell how the "
    "classifier treats people in longer texts."
)
_GLUE = (
    "GLUE’s development sets are small: a cost below a few points, on WNLI below ten, cannot be shown. "
    "Nothing is chosen on them. With one seed, an interval cannot answer for another training."
)
_CHANGED = (
    "What was changed was chosen on other items, but with the same kind of probes that it is then measured "
    "with. Measure with your own data before you rely on “after” numbers."
)
_NAMES = (
    "Agreement asks for pronouns behind nouns, titles and first names that state a gender (my mother, Mrs. "
    "Brown, Mary). A name that is in no table and that the model itself is not sure of counts as stating "
    "none: behind it a symmetrized model says he as readily as she."
)
_USUAL = "This was no full audit: fewer items and wider intervals than with --full."


def limits(contents: Contents) -> list[str]:
    """The warnings that apply to this run, and what it did not measure."""
    measured = [each.measurement for each in measurements(contents)]
    names = {each.name for each in measured if each.value is not None}
    warnings = list(ALWAYS)
    warnings += _HEADS if contents.heads is not None and contents.heads.scores else []
    warnings += [_PROMPTS] if contents.prompts is not None or "margin" in names else []
    warnings += [_NLI] if "fairness" in names else []
    warnings += [_GLUE] if contents.glue is not None else []
    warnings += [_CHANGED] if len(variants(contents)) > 1 else []
    tried = [] if contents.mitigations is None else contents.mitigations.candidates
    warnings += [_NAMES] if any(AGREEMENT in each.certificate.costs for each in tried) else []
    warnings += [_USUAL] if contents.audit is not None and not contents.audit.settings.full else []
    skipped = [each for each in measured if each.value is None]
    return warnings + [f"Not measured: {each.name}, because {each.reason.rstrip('.')}." for each in skipped]
