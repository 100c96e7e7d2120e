"""What studies find: records, and the run folder that keeps them."""
