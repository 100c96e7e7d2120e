"""Questions in the form that an instruction-tuned model was taught to read: its tokenizer's chat template.

what the model is told     the user's turn
what the model says        behind the generation prompt, with which the template opens the model's own turn
"""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.errors import CannotDo
from levelhead.models.chat_sandbox import CHARACTERS, MEMORY, SECONDS, Exceeded, render
from levelhead.models.checkpoint_files import one_line
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.once import once_a_model


def require_chat(model: Model) -> None:
    """Refuse a model that is not causal, or whose tokenizer has no chat template."""
    model.require("causal", "questions through a chat template")
    if not model.tokenizer.chat_template:
        raise CannotDo(
            f"The tokenizer of {model.name} has no chat template. Ask it in plain text: leave chat out."
        )


def chat_texts(model: Model, turns: Sequence[tuple[str, str]]) -> list[Text]:
    """Chats in which the user told the model something, and the model has said the last characters.

    What the model says comes after a space where the generation prompt ends in neither a blank nor a special
    token, as after Llama 2's [/INST].
    """
    told = tuple(dict.fromkeys(told for told, _ in turns))
    opened = dict(zip(told, _opened(model, told), strict=True))
    return [Text(f"{opened[told]}{said}", whole=True) for told, said in turns]


@once_a_model
def _opened(model: Model, told: tuple[str, ...]) -> tuple[str, ...]:
    """Chats up to where the model begins to speak, rendered together in one process of their own."""
    tokenizer = model.tokenizer
    try:
        chats = render(tokenizer.get_chat_template(), tokenizer.special_tokens_map, told)
    except Exceeded as error:
        raise CannotDo(
            f"The chat template of {model.name} does not end, or fills the memory: more than {SECONDS} s, "
            f"{MEMORY >> 20} MiB or {CHARACTERS} characters. Ask it in plain text: leave chat out."
        ) from error
    except (CannotDo, ValueError) as error:  # it has several templates and no default, or raises an error
        raise CannotDo(
            f"The chat template of {model.name} cannot take a user's turn: {one_line(error)}."
        ) from error
    ends = tuple(tokenizer.all_special_tokens)
    return tuple(chat if chat[-1:].isspace() or chat.endswith(ends) else f"{chat} " for chat in chats)
