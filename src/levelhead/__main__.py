"""`python -m levelhead` is the command `levelhead`."""

from levelhead.cli.entry import main

main()
