"""How classifiers are trained."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.options import Settings, option


@dataclass(frozen=True)
class Hyperparameters(Settings):
    """How a classifier is trained; the learning rate goes by the model's size where none is given."""

    epochs: int = option(3, "Times that all examples are trained on.", least=1)
    batch_size: int = option(32, "Examples in a step, on all GPUs together.", least=1)
    learning_rate: float | None = option(
        None, "Default: 2e-5; 3e-4 below 50 M parameters; 5e-4 with --lora.", above=0, most=1
    )
    warmup: float = option(0.1, "Share of steps in which the learning rate rises.", least=0, most=1)
    weight_decay: float = option(0.01, "Of all weights but those of ablated heads.", least=0, most=1)
    max_length: int = option(128, "Tokens; longer texts are cut.", least=8)
    lora: bool = option(False, "Train low-rank adapters instead of all weights (needs peft).")
    bf16: bool = option(False, "Compute in bfloat16: faster where the chip has it; weights stay float32.")

    def rate(self, large: bool) -> float:
        """The learning rate: as given, else by the size of the model."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 5e-4 if self.lora else 2e-5 if large else 3e-4
