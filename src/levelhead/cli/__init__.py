"""The command line: one short command a study. Parse, call, print."""

STOPPED = "stopped; run the same command again to go on."
