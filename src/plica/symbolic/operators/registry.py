"""Which rules of operators apply: those of the context that is active, else the built-in ones.

>>> current_registry() is BUILT_IN
True
"""

from contextvars import ContextVar
from typing import final

from plica.arguments import found
from plica.errors import DTypeError
from plica.symbolic.layers import OPERATOR_ROWS, OperatorKey, OperatorRegistry, OperatorRow


@final
class BuiltInRules:
    """The table of the rules that Plica brings."""

    def find(self, key: OperatorKey) -> OperatorRow | None:
        """The row for exactly these classes; None where there is none."""
        return OPERATOR_ROWS.get(key)


BUILT_IN = BuiltInRules()

ACTIVE_REGISTRY: ContextVar[OperatorRegistry | None] = ContextVar("plica_operators", default=None)
"""The rules of the innermost active context, which sets this; None where no context is active."""


def current_registry(registry: OperatorRegistry | None = None) -> OperatorRegistry:
    """The given rules, else those of the active context, else the built-in ones.

    Raises:
        DTypeError: `registry` finds no rows.
    """
    if registry is None:
        return ACTIVE_REGISTRY.get() or BUILT_IN
    if not callable(getattr(registry, "find", None)):
        raise DTypeError(
            f"registry must find rows of operators by a method `find(key)`, {found(registry)}; leave it out for the "
            "rules of the active context"
        )
    return registry
