"""How a model fills in a group, and what knowledge before the question does to that."""
