"""Sets of variables; they live in `symbolic/scope.py`."""

from plica.symbolic.scope import Scope

__all__ = ["Scope"]
