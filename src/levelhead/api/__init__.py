"""What people call from Python: one way to call everything, and results that show themselves."""
