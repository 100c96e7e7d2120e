"""The command line: one short command a study. Parse, call, print."""

STOPPED = "stopped."
GOES_ON = "stopped. Run the same command again; it goes on."  # where a run folder keeps what was computed
