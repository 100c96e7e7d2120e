"""A model with edits inside, written by levelhead: it needs torch and transformers, and nothing of levelhead.

config.json says under "levelhead" where each edit acts; its numbers lie beside the weights. An edit is

    h' = scale h - (h readT) write + offset

on a layer's input or output; `index` picks the attention heads' coordinates out of it. README.md says what
was edited.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig as Config
from transformers import PreTrainedModel as Base


class Change(nn.Module):
    """One edit, and the hooks that apply it."""

    scale: Tensor | None
    read: Tensor | None
    write: Tensor | None
    offset: Tensor | None
    index: Tensor | None
    layers: "Layers"

    def __init__(self, place: dict[str, Any], layers: "Layers") -> None:
        super().__init__()
        self.layer: int | None = place.get("layer")
        self.first_token: bool = place.get("first_token", False)
        self.__dict__["layers"] = layers  # not a part of the weights
        for name in ("scale", "read", "write", "offset", "index"):
            shape = place["tensors"].get(name)
            kind = torch.long if name == "index" else torch.float32
            self.register_buffer(name, None if shape is None else torch.zeros(shape, dtype=kind))

    def forward(self, h: Tensor) -> Tensor:
        if self.first_token:
            return torch.cat([self.edit(h[:, :1]), h[:, 1:]], dim=1)
        if self.index is None:
            return self.edit(h)
        out, index = h.clone(), self.index.to(h.device)
        out[..., index] = self.edit(h[..., index])  # [..., head, dim]
        return out

    def edit(self, h: Tensor) -> Tensor:
        out = h if self.scale is None else h * self.scale.to(h)
        if self.read is not None and self.write is not None:
            out = out - ((h[..., None, :] @ self.read.to(h).mT) @ self.write.to(h))[..., 0, :]
        return out if self.offset is None else out + self.offset.to(h)

    def active(self) -> bool:
        """ALBERT runs one block at several layers; the edit belongs to one of them."""
        return self.layer is None or self.layer == self.layers.running

    def on_input(self, _: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        return (self(args[0]), *args[1:]) if self.active() else None

    def on_output(self, _: nn.Module, args: Any, out: Any) -> Any:
        if not self.active():
            return None
        return (self(out[0]), *out[1:]) if isinstance(out, tuple) else self(out)

    def on_pooler(self, _: nn.Module, args: Any, out: Any) -> Any:
        if isinstance(out, tuple):
            return (out[0], self(out[1]), *out[2:])
        out.pooler_output = self(out.pooler_output)
        return out


class Layers:
    """Which layer runs, where several share their weights."""

    running = -1

    def restart(self, *_: Any) -> None:
        self.running = -1

    def step(self, *_: Any) -> None:
        self.running += 1


class EditedConfig(Config):  # type: ignore[no-untyped-call]
    """Under another model type, so that no Auto class loads the weights without the edits by mistake."""

    model_type = "levelhead"


def attach(model: Any) -> None:
    """Put the edits into a model for good. A place that its class does not have, such as the next-sentence
    head in one that fills blanks, is read by nothing there."""
    layers = Layers()
    model.levelhead_edits = nn.ModuleList(Change(place, layers) for place in model.config.levelhead["edits"])
    if getattr(model.config, "quantization_config", None) is None:
        put_hooks(model, layers)
        return

    def at_first_call(*_: Any) -> None:
        handle.remove()
        put_hooks(model, layers)

    # a quantizer will put layers of its own in the place of those that are there now
    handle = model.register_forward_pre_hook(at_first_call)


def put_hooks(model: Any, layers: Layers) -> None:
    """Let each edit act at its place."""
    settings, changes = model.config.levelhead, model.levelhead_edits
    if settings["shared_blocks"]:
        model.base_model.register_forward_pre_hook(layers.restart)
    for path in settings["shared_blocks"]:
        model.get_submodule(path).register_forward_pre_hook(layers.step)
    modules = dict(model.named_modules())
    for place, change in zip(settings["edits"], changes, strict=True):
        module = modules.get(place["module"])
        if module is None:
            continue
        if place["side"] == "input":
            module.register_forward_pre_hook(change.on_input)
        else:
            module.register_forward_hook(change.on_pooler if place["side"] == "pooler" else change.on_output)


class EditedModel(Base):  # type: ignore[no-untyped-call]
    """The model as it was, with the edits attached for good."""

    config_class = EditedConfig

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        attach(self)
