"""The classification head refitted, so that exchanging groups changes less of what it says
(mitigation/fitting.py, docs/method/mitigations.md, Refitted head)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from levelhead.edits.output import Reweighted
from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.mitigation.fitting import refitted_heads
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.probes.training_text import training_text
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation
from levelhead.studies.mitigate.training import NO_MEANS, Means, pairs, why_no_text

WEIGHINGS = (3.0, 10.0, 30.0)
_TEXTS = 2_000


class RefittedHead:
    """The last linear layer, solved; the strength is how much a difference between the groups weighs."""

    name = "refitted head"
    quick = True
    cost = 2.0

    def why_not(self, model: Model, fit: Battery) -> str:
        if model.classification_head is None:
            return f"{model.name} has no classification head"
        return why_no_text(fit)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        names = [f"head refitted, {weighing:g} x" for weighing in WEIGHINGS]
        (heads,) = new_heads(model, fit, UNTOUCHED, WEIGHINGS)
        return [
            Candidate(name, self.name, weighing, (Reweighted(name, head),))
            for name, weighing, head in zip(names, WEIGHINGS, heads, strict=True)
        ]


def new_heads(
    model: Model,
    fit: Battery,
    variants: Sequence[Variant],
    weighings: Sequence[float],
    means: Means = NO_MEANS,
) -> list[list[Mapping[str, Tensor]]]:
    """The head of each variant at each weighing, refitted on pairs of sentences to train on."""
    swap = swap_for(fit.test)
    texts = pairs(training_text(means.text or None, swap, _TEXTS, means.seed))
    return refitted_heads(model, swap, texts, variants, weighings)


register_mitigation(RefittedHead())
