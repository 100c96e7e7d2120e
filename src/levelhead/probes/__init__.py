"""What we ask: texts and words, no tensors."""
