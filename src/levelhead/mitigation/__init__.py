"""From a description of edits to a mitigated model: recipes, fitting, folding, export."""
