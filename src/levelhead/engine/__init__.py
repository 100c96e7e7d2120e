"""How we ask: the only place that runs a model."""
