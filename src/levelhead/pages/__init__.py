"""Reads run folders, never a model."""
