"""Subspaces projected out of a model."""
