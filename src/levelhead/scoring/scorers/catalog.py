"""Which scorers a run uses: those that ship and are installed, or those that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from levelhead.errors import BadOption, CannotDo
from levelhead.scoring.plugins import run_file
from levelhead.scoring.scorers import sentiment
from levelhead.scoring.scorers.classifier import PREFIX, load_classifier
from levelhead.scoring.scorers.judge import NAME, Judge, load_judge
from levelhead.scoring.scorers.judge import PREFIX as JUDGE
from levelhead.scoring.scorers.length import LENGTH
from levelhead.scoring.scorers.protocol import SCORERS, Scorer, ScoreTexts, of_function, of_object
from levelhead.scoring.scorers.refusal import REFUSAL
from levelhead.scoring.scorers.sentiment import SENTIMENT
from levelhead.scoring.scorers.word_shares import AGENCY, WARMTH

SHIPPED = (SENTIMENT, LENGTH, REFUSAL, AGENCY, WARMTH)  # in the order of a page
Requested = str | Scorer | ScoreTexts
_FUNCTION = "scores"


@dataclass(frozen=True)
class Chosen:
    """The scorers of a run, and those that it does without. A judge is none of them: its scores are nothing
    without its error rates."""

    scorers: tuple[Scorer, ...]
    left_out: dict[str, str] = field(default_factory=dict)  # name -> why
    judge: Judge | None = None


def chosen_scorers(
    requested: Sequence[Requested] = (), rubric: str | None = None, labels: str | None = None
) -> Chosen:
    """Scorers by name, `classifier:PATH#LABEL`, `FILE.py`, as objects or as functions; none: all that are
    registered, without sentiment where its package is not installed. rubric and labels: of `judge:MODEL`."""
    judges = [each for each in requested if isinstance(each, str) and each.startswith(JUDGE)]
    if len(judges) > 1:
        raise BadOption(f"scorers must have one judge at most (got {', '.join(judges)})")
    for option, given in (("--judge-rubric", rubric), ("--judge-labels", labels)):
        if given is not None and not judges:
            raise BadOption(f"{option} must be left out without --scorers {JUDGE}MODEL (got {given!r})")
    if judges:
        rest = [each for each in requested if each not in judges]
        scorers = chosen_scorers(rest).scorers if rest else ()
        return Chosen(scorers, judge=load_judge(judges[0], rubric, labels))
    if not requested:
        missing = {} if sentiment.installed() else {SENTIMENT.name: sentiment.MISSING}
        return Chosen(tuple(scorer for name, scorer in _known().items() if name not in missing), missing)
    scorers = tuple(_scorer(each) for each in requested)
    names = [scorer.name for scorer in scorers]
    if NAME in names:
        raise BadOption(f"a scorer must have another name than {NAME!r}, which {JUDGE}MODEL has")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadOption(f"scorers must have different names (got {twice!r} twice)")
    return Chosen(scorers)


def _known() -> dict[str, Scorer]:
    """Those that ship, in the order of a page, then a user's own."""
    return {scorer.name: scorer for scorer in SHIPPED} | SCORERS.known()


def _scorer(chosen: Requested) -> Scorer:
    if not isinstance(chosen, str):
        if isinstance(chosen, Scorer):
            return of_object(chosen)
        if callable(chosen):
            return of_function(chosen)
        raise BadOption(f"a scorer must be a name, a function or a scorer (got {type(chosen).__name__})")
    if chosen.startswith(PREFIX):
        return load_classifier(chosen)
    if chosen.endswith(".py"):  # with a function `scores(texts)`
        refused = "a scorer must be a Python file that is there (got {!r})"
        module, file = run_file(chosen, "levelhead_scorer_", refused), Path(chosen).expanduser()
        function: Callable[..., Sequence[float | None]] | None = getattr(module, _FUNCTION, None)
        if callable(function):
            return of_function(function, file.stem)
        needed = f"{_FUNCTION}(texts), one number or None for each text (got none)"
        raise BadOption(f"{file} must define {needed}")
    known = _known()
    if chosen not in known:
        names = ", ".join((*known, f"{PREFIX}PATH#LABEL", f"{JUDGE}MODEL"))
        raise BadOption(f"a scorer must be {names} or FILE.py (got {chosen!r})")
    if chosen == SENTIMENT.name and not sentiment.installed():
        raise CannotDo(sentiment.MISSING)
    return known[chosen]
