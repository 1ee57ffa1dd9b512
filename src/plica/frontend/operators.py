"""The operators of `plica.symbolic.functional` on compiled circuits, as functions: `integrate(circuit, ctx=None)`.

They work in `ctx`, else in the active context, else where their first compiled operand was compiled, else in a new
context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import Parameter
from typing import Any

from plica.frontend.contexts import PipelineContext, given_context
from plica.lower.operators import OPERATORS, Operator, OperatorMethods

_CTX = Parameter("ctx", Parameter.KEYWORD_ONLY, default=None)


def _apply(operator: Operator, *arguments: Any, ctx: PipelineContext | None = None, **settings: Any) -> Any:
    operands = (item for item in _items((*arguments, *settings.values())) if isinstance(item, OperatorMethods))
    where = given_context(ctx) or next(operands, None) or PipelineContext()
    return where.apply_operator(operator, *arguments, **settings)


def _items(arguments: Iterable[Any]) -> Iterator[Any]:
    """The arguments, with the items of those that are sequences."""
    for argument in arguments:
        yield from argument if isinstance(argument, list | tuple) else (argument,)


def operator_function(name: str) -> Callable[..., Any]:
    """The function of an operator; KeyError if there is none of this name."""
    return OPERATORS[name].calling(_apply, (_CTX,))
