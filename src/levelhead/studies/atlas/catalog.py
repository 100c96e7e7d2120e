"""All localizers: the built-in ones, and those of a user's own."""

from __future__ import annotations

from levelhead.errors import BadOption
from levelhead.studies.atlas.head_ablation import HeadAblation
from levelhead.studies.atlas.head_gradient import HeadGradient
from levelhead.studies.atlas.neuron_gradient import NeuronGradient
from levelhead.studies.atlas.neuron_integration import NeuronIntegration
from levelhead.studies.atlas.protocol import LOCALIZERS, ComponentKind, Localizer

BUILT_IN: tuple[Localizer, ...] = (HeadGradient(), HeadAblation(), NeuronGradient(), NeuronIntegration())
for _each in BUILT_IN:
    LOCALIZERS.register(_each)


def localizers(component: ComponentKind | None = None) -> dict[str, Localizer]:
    """Every localizer by its name, or those of one component."""
    return {name: each for name, each in LOCALIZERS.known().items() if component in (None, each.component)}


def localizer_of(name: str, component: ComponentKind) -> Localizer:
    """The localizer of this name, which must score this component."""
    known = localizers(component)
    if name not in known:
        raise BadOption(f"No localizer of {component} is called {name!r}. There are: {', '.join(known)}.")
    return known[name]
