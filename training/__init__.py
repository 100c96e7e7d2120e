"""How lh:bert-mini, lh:gpt-mini and lh:nli-mini were made. Not a part of the installed package."""
