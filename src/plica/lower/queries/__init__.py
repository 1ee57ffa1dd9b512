"""Queries: each lowers a circuit to a Program of its own."""
