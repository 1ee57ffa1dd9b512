"""Passes that make the private operations of this backend, before a Program is emitted."""
