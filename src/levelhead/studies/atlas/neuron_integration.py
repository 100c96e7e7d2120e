"""Neurons by integrated gradients of their gates from 0 to 1: their scores add up to J(1) − J(0)."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.studies.atlas.neuron_gradient import NeuronGradient


@dataclass(frozen=True)
class NeuronIntegration(NeuronGradient):
    """The midpoint rule in so many steps. Reference: Sundararajan et al. 2017."""

    name: str = "integrated gradients"
    steps: int = 8
