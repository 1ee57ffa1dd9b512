"""The forms of operations that patterns name: names of settings and numbers of operands, read off the table.

>>> operation_form("softmax"), operation_form("multiply").most
(Form(config=frozenset({'axis'}), graphs=frozenset(), least=1, most=1), 2)
>>> operation_form("sofmax") is None
True
"""

import inspect
from collections.abc import Hashable, Mapping
from functools import cache

from plica.graph.kinds import Form
from plica.ops import ELEMENTWISE, OPS
from plica.rules.view import CONSTANT

_NOTHING: frozenset[str] = frozenset()
_OTHERS: Mapping[Hashable, Form] = {
    CONSTANT: Form(frozenset({"value"}), _NOTHING, 0, 0),
    "Literal": Form(frozenset({"value"}), _NOTHING, 0, 0),
    "Var": Form(_NOTHING, _NOTHING, 0, 0),
    "Equation": Form(None, _NOTHING),
}
"""The kinds that patterns may name beside operations."""

_ENTRYWISE = frozenset(row.name for row in ELEMENTWISE)


@cache
def operation_form(kind: Hashable) -> Form | None:
    """The form of all equations of an operation; None where patterns may not name it."""
    row = OPS.get(kind) if isinstance(kind, str) else None
    if row is None:
        return _OTHERS.get(kind)
    if row.regions:
        return Form(None, _NOTHING)
    arguments = inspect.signature(row.type_rule).parameters.values()
    operands = sum(argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for argument in arguments)
    variadic = any(argument.kind is inspect.Parameter.VAR_POSITIONAL for argument in arguments)
    config = frozenset(argument.name for argument in arguments if argument.kind is inspect.Parameter.KEYWORD_ONLY)
    if (
        row.name in _ENTRYWISE and variadic
    ):  # operations share a type rule: their samples tell how many operands they take
        numbers = {len(sample.inputs) for sample in row.samples()}
        operands, variadic = min(numbers), len(numbers) > 1
    return Form(config, _NOTHING, operands, None if variadic else operands)
