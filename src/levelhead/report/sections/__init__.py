"""Chapters of the report."""
