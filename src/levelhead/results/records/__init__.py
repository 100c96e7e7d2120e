"""Records of all that studies find, one module a study."""
