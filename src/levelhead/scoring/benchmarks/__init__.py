"""Published benchmarks, one file each behind one protocol (docs/benchmarks.md)."""
