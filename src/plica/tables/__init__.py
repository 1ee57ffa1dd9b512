"""Models of tables."""
