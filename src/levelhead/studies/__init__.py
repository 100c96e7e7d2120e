"""One file a paper: what is varied, what is measured, which tables come out."""
