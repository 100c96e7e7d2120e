"""The command line: one short command a study. Parse, call, print."""

from levelhead.cli.app import app, main

__all__ = ["app", "main"]
