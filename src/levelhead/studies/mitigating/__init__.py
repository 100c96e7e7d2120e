"""Which mitigation lowers a bias, at what cost, and which of them is certified on held-out items."""
