"""The code that travels with an exported model; nothing of levelhead imports it."""
