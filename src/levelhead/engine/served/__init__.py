"""A model behind a server: how it is sent requests, what it proves, and where its answers are kept."""
