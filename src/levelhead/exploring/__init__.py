"""`levelhead explore`: one sentence, its counterfactual, and what switched heads do to both."""
