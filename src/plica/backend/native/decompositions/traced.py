"""The Program of a decomposition, at operands of given types."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from plica.ir.program import Program
from plica.ir.sizes import Dim, Size
from plica.ir.types import ArrayType, spec
from plica.tracing import namespace
from plica.tracing.places import standing_at
from plica.tracing.trace import trace


def sizes_within(params: Mapping[str, Any]) -> list[Size]:
    """The sizes within parameters that are not known before the Program runs."""
    return list(dict.fromkeys(_sizes(tuple(params.values()))))


def _sizes(value: Any) -> Iterable[Size]:
    if isinstance(value, Size):
        return [value]
    return [size for one in value for size in _sizes(one)] if isinstance(value, tuple) else []


def traced_decomposition(
    decompose: Callable[..., Any],
    types: Sequence[ArrayType],
    params: Mapping[str, Any],
    sizes: Sequence[Size],
    source: str,
) -> Program:
    """The decomposition of an operation on operands of `types`, which comes from `source` in the user's code.

    Its further arguments are the numbers of `sizes`.
    """
    names: dict[Dim, str] = {}
    specs = [
        spec([dim if isinstance(dim, int) else names.setdefault(dim, f"n{len(names)}") for dim in one.shape], one.dtype)
        for one in types
    ]

    def run(*given: Any) -> Any:
        known = dict(zip(sizes, given[len(specs) :], strict=True))
        found = {name: _put(value, known) for name, value in params.items()}
        return decompose(namespace, *given[: len(specs)], **found)

    with standing_at(source):
        return trace(run, *specs, *[int] * len(sizes))


def _put(value: Any, known: Mapping[Size, Any]) -> Any:
    """A parameter with tracers in the place of sizes."""
    if isinstance(value, Size):
        return known[value]
    return tuple(_put(one, known) for one in value) if isinstance(value, tuple) else value
