"""A model behind the protocol that other clients speak: OpenAI's completions and chat completions."""
