"""Commands of this study."""
