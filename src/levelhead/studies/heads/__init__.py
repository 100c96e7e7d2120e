"""Which attention heads carry a bias."""
