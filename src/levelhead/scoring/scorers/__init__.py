"""What generated texts are scored by: one file per scorer, behind one protocol."""
