"""What a paper prints beside what a run measured, cell by cell: read from run folders, never from a model."""
