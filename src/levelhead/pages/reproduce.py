"""The command that makes a run again, from its settings."""

from __future__ import annotations

import shlex

from levelhead.pages.contents import Contents
from levelhead.results.runs import AnyRun, AuditRun, GlueRun, HeadsRun, PromptsRun, SurveyRun, SweepRun
from levelhead.results.settings import (
    AuditRunSettings,
    GlueRunSettings,
    HeadsRunSettings,
    PromptsRunSettings,
    SurveyRunSettings,
    SweepRunSettings,
)

Arguments = list[str]


def command(contents: Contents) -> str:
    """A line for the shell; strings that came from users are quoted."""
    arguments = _arguments(contents.run)
    if not arguments:
        return f"# the study {contents.study!r} does not say how it was started; its settings are below"
    seed = ["--seed", str(contents.run.settings.seed)]
    line = shlex.join(["levelhead", *arguments, "-o", str(contents.folder), *seed])
    return f"{line}{_own_measures(contents)}{_recipes(contents)}"


def _own_measures(contents: Contents) -> str:
    """A reminder that the files with the user's own measures, which no run folder keeps, have to be given."""
    names = () if contents.audit is None else contents.audit.settings.measures
    return f"  # and --measure FILE for {', '.join(map(repr, names))}" if names else ""


def _recipes(contents: Contents) -> str:
    """A reminder that every recipe of a GLUE run has to be given; the run folder keeps their text."""
    names = contents.run.settings.recipes if isinstance(contents.run, GlueRun) else ()
    return f"  # and --recipe FILE for {', '.join(map(repr, names))}" if names else ""


def _arguments(run: AnyRun) -> Arguments:
    """The command of a study and its options; nothing for a study whose settings do not hold them all."""
    arguments: Arguments = []
    match run:
        case AuditRun():
            arguments = [*_audit(run.settings), *_audit_glue(run)]
        case HeadsRun():
            arguments = _heads(run.settings)
        case PromptsRun():
            arguments = _prompts(run.settings)
        case SweepRun():
            arguments = _sweep(run.settings)
        case GlueRun():
            arguments = _glue(run.settings)
        case SurveyRun():
            arguments = _survey(run.settings)
    return arguments


def _option(name: str, value: object) -> Arguments:
    """An option with its value; nothing where it was left out."""
    return [] if value is None else [name, str(value)]


def _switch(name: str, on: bool) -> Arguments:
    return [name] if on else []


def _audit(settings: AuditRunSettings) -> Arguments:
    return [
        *("audit", settings.model),
        *_option("--nli", settings.nli),
        *("--bias", settings.bias, "--top", str(settings.top)),
        *_switch("--full", settings.full),
        *_option("--text", settings.text),
    ]


def _audit_glue(run: AuditRun) -> Arguments:
    """What was fine-tuned inside an audit, as far as that was begun."""
    if run.settings.glue is None:
        return []
    data = ("--glue", run.settings.glue)
    if run.glue is None:
        return [*data]
    settings = run.glue.settings
    return [*data, "--glue-tasks", ",".join(settings.tasks), "--train-rows", str(settings.train_rows or 0)]


def _heads(settings: HeadsRunSettings) -> Arguments:
    return [
        *("heads", settings.model, "--bias", settings.bias, "--contexts", settings.contexts),
        *("--experiments", ",".join(settings.experiments)),
        *_option("--per-word", settings.per_word),
        *_option("--score-contexts", settings.score_contexts),
        *_option("--sentences", settings.sentences),
        *("--top", str(settings.top)),
        *_option("--text", settings.text),
        *_switch("--trim", settings.trim),
    ]


def _prompts(settings: PromptsRunSettings) -> Arguments:
    removed = ",".join(map(str, settings.remove_heads))
    return [
        *("prompts", *settings.models, "--set", settings.prompts),
        *(part for k in settings.ks for part in ("--k", str(k))),
        *_option("--heads", removed or None),
        *_option("--verbalizer", settings.verbalizer),
        *("--backgrounds", str(settings.per_background)),
    ]


def _sweep(settings: SweepRunSettings) -> Arguments:
    return [
        *("sweep", settings.model, "--nli", settings.nli_model),
        *_switch("--depth", settings.depth),
        *_switch("--sequential", settings.fit == "sequential"),
        *("--pairs", settings.pairs),
        *_option("--labels", settings.labels),
        *("--limit", str(settings.occupations), str(settings.contexts)),
    ]


def _glue(settings: GlueRunSettings) -> Arguments:
    return [
        *("glue", settings.model, "--data", settings.published, "--tasks", ",".join(settings.tasks)),
        *("--seeds", str(settings.seeds)),
        *_option("--train-rows", settings.train_rows),
        *("--margin", str(settings.margin), "--epochs", str(settings.epochs)),
        *("--batch-size", str(settings.batch_size), "--learning-rate", str(settings.learning_rate)),
        *("--warmup", str(settings.warmup), "--weight-decay", str(settings.weight_decay)),
        *("--max-length", str(settings.max_length)),
        *_switch("--lora", settings.lora),
        *_switch("--bf16", settings.bf16),
    ]


def _survey(settings: SurveyRunSettings) -> Arguments:
    return [
        *("survey", *settings.models, "--bias", ",".join(settings.biases)),
        *("--measures", ",".join(settings.questions)),
        *_switch("--quick", settings.quick),
        *_option("--dtype", settings.dtype),
    ]
