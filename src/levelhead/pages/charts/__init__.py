"""Charts of the report and of figures."""
