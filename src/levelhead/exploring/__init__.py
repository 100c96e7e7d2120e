"""`levelhead explore`: one sentence, its swapped twin, and what switched heads do to both."""
