"""The command line: one short command a study. Parse, call, print."""

GOES_ON = "stopped; run the same command again to go on."  # of commands that keep what is done in a folder
STOPPED = "stopped; nothing was kept."
