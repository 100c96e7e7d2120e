"""The command line: one short command a study. Parse, call, print."""
