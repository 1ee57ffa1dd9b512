"""Passes: from a Program to a Program of the same meaning."""
