"""Tracing: Python functions become Programs by running once on tracers, which record what is done to them."""

from plica.tracing import namespace

__all__ = ["namespace"]
