"""What may be said of a run: claims, verdicts, comparisons, thresholds; shows nothing, asks no model."""
