"""A benchmark with a known truth: bias planted into chosen heads."""
