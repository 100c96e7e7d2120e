"""Questions put to a model in any of its variants, answered with measurements."""
