"""Speed claims, each a ratio of two measurements in one run: `make bench`."""
