"""Constant folding: finding the constant values of Programs, choosing which to keep, and caching them."""
