"""The numbers of a run as Hugging Face's `model-index`: metadata at the head of a model card.

The hub shows them beside the model. Format: https://github.com/huggingface/hub-docs, modelcard.md: a model
has results; a result has a task, a data set and metrics. Strings are written as JSON, which YAML reads as the
same.
"""

from __future__ import annotations

import json

from levelhead.escaping import escaped
from levelhead.inference.contents import Contents, Reported, measurements
from levelhead.inference.heads_in_words import bias_text
from levelhead.inference.infos import info_of
from levelhead.measures.choices import RULE

_TASKS = {"nli": "text-classification", "causal": "text-generation", "mlm": "fill-mask"}  # by ability
MARK = "type: levelhead/"  # by which a card that begins with our metadata is known
_OTHER_TASK = "feature-extraction"


def model_index(contents: Contents) -> str:
    """YAML front matter with every number of the unmodified model, its interval and n beside it."""
    lines = ["---", "model-index:", f"- name: {json.dumps(contents.model)}", "  results:"]
    for each in measurements(contents):
        if each.measurement.value is not None:
            lines += _result(contents, each)
    return escaped("\n".join([*lines, "---", ""]))


def _result(contents: Contents, each: Reported) -> list[str]:
    measurement, info = each.measurement, info_of(contents, each.name)
    asked = contents.audit or contents.benchmark
    abilities = () if asked is None else asked.settings.abilities
    task = next((task for ability, task in _TASKS.items() if ability in abilities), _OTHER_TASK)
    data = str(measurement.settings.get("data") or bias_text(contents.heads) or contents.study)
    revision = measurement.settings.get("data_hash")
    stated = {
        "interval": measurement.interval,
        "n": measurement.n,
        "neutral": measurement.neutral,
        "rule": measurement.settings.get(RULE),
        "unscored": sum(measurement.unscored.values()) or None,
    }
    known = {name: value for name, value in stated.items() if value is not None}
    return [
        "  - task:",
        f"      type: {task}",
        "      name: Bias evaluation",
        "    dataset:",
        f"      type: levelhead/{contents.study}",
        f"      name: {json.dumps(data, ensure_ascii=False)}",
        *([f"      revision: {json.dumps(str(revision))}"] if revision else []),
        "    metrics:",
        f"    - type: {json.dumps(each.name)}",
        f"      name: {json.dumps(info.title, ensure_ascii=False)}",
        f"      value: {measurement.value!r}",
        f"      args: {json.dumps(known)}",
    ]
