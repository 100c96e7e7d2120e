"""Questions in the form that an instruction-tuned model was taught to read: its tokenizer's chat template.

what the model is told     the user's turn
what the model says        behind the generation prompt, with which the template opens the model's own turn
"""

from __future__ import annotations

from levelhead.errors import CannotDo
from levelhead.models.checkpoint_files import one_line
from levelhead.models.encoding import Text
from levelhead.models.model import Model


def require_chat(model: Model) -> None:
    """Refuse a model that is not causal, or whose tokenizer has no chat template."""
    model.require("causal", "questions through a chat template")
    if not model.tokenizer.chat_template:
        raise CannotDo(
            f"The tokenizer of {model.name} has no chat template. Ask it in plain text: leave chat out."
        )


def chat_text(model: Model, told: str, said: str) -> Text:
    """A chat in which the user told the model something, and the model has said the last characters.

    What the model says comes after a space where the generation prompt ends in neither a blank nor a special
    token, as after Llama 2's [/INST].
    """
    turns = [{"role": "user", "content": told}]
    try:
        opened = model.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program of its maker's, which may raise anything
        raise CannotDo(
            f"The chat template of {model.name} cannot take a user's turn: {one_line(error)}."
        ) from error
    apart = opened[-1:].isspace() or opened.endswith(tuple(model.tokenizer.all_special_tokens))
    return Text(f"{opened}{'' if apart else ' '}{said}", whole=True)
