"""Figures of a run as SVG files."""
