"""The command that makes a run again, from its settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from levelhead.report.contents import Contents

Arguments = list[str]


def command(contents: Contents) -> str:
    """A line for the shell; strings that came from users are quoted."""
    settings = contents.settings
    writers = {"audit": _audit, "heads": _heads, "counteracts": _prompts, "projections": _sweep}
    writer = writers.get(contents.study)
    arguments = [] if writer is None else writer(settings)
    if not arguments:
        return f"# the study {contents.study!r} does not say how it was started; its settings are below"
    return shlex.join(
        ["levelhead", *arguments, "-o", str(contents.folder), "--seed", str(settings.get("seed", 0))]
    )


def _audit(settings: Mapping[str, Any]) -> Arguments:
    told = ["audit", str(settings["model"])]
    for name in ("nli", "bias", "top"):
        if settings.get(name) is not None:
            told += [f"--{name}", str(settings[name])]
    return told + (["--full"] if settings.get("full") else [])


def _heads(settings: Mapping[str, Any]) -> Arguments:
    told = [
        "heads",
        str(settings["model"]),
        "--bias",
        str(settings["bias"]),
        "--contexts",
        str(settings["contexts"]),
    ]
    told += ["--experiments", ",".join(settings["experiments"])]
    for name in ("per_word", "sentences"):
        if settings.get(name) is not None:
            told += [f"--{name.replace('_', '-')}", str(settings[name])]
    return told + (["--trim"] if settings.get("trim") else [])


def _prompts(settings: Mapping[str, Any]) -> Arguments:
    told = ["prompts", *map(str, settings["models"]), "--set", str(settings["prompts"])]
    told += [part for k in settings["ks"] for part in ("--k", str(k))]
    if settings.get("remove_heads"):
        told += ["--remove-heads", ",".join(settings["remove_heads"])]
    if settings.get("verbalizer"):
        told += ["--verbalizer", str(settings["verbalizer"])]
    return [*told, "--backgrounds", str(settings["per_background"])]


def _sweep(settings: Mapping[str, Any]) -> Arguments:
    told = ["sweep", str(settings["model"]), "--nli", str(settings["nli_model"])]
    told += ["--depth"] if settings.get("depth") else []
    told += ["--sequential"] if settings.get("fit") == "sequential" else []
    told += ["--labels", str(settings["labels"])] if settings.get("labels") else []
    return [*told, "--limit", str(settings["occupations"]), str(settings["contexts"])]
