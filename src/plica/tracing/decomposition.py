"""The Program of a decomposition, at operands of given types: backends write it where they have no row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from plica.ir.program import Program
from plica.ir.sizes import Dim, Size
from plica.ir.types import ArrayType, spec
from plica.tracing import namespace
from plica.tracing.locations import reported_at
from plica.tracing.trace import trace


def sizes_within(params: Mapping[str, Any]) -> list[Size]:
    """The symbolic sizes within parameters."""
    return list(dict.fromkeys(_sizes(tuple(params.values()))))


def _sizes(value: Any) -> Iterable[Size]:
    if isinstance(value, Size):
        return [value]
    return [size for item in value for size in _sizes(item)] if isinstance(value, tuple) else []


def traced_decomposition(
    decompose: Callable[..., Any],
    types: Sequence[ArrayType],
    params: Mapping[str, Any],
    sizes: Sequence[Size],
    source: str,
) -> Program:
    """The Program of a decomposition for operands of `types`, and for `source` in the user's code.

    Its arguments are the operands, followed by the numbers of `sizes`.
    """
    names: dict[Dim, str] = {}
    specs = [
        spec(
            [dim if isinstance(dim, int) else names.setdefault(dim, f"n{len(names)}") for dim in type_.shape],
            type_.dtype,
        )
        for type_ in types
    ]

    def run(*arguments: Any) -> Any:
        numbers = dict(zip(sizes, arguments[len(specs) :], strict=True))
        settings = {name: _with_numbers(value, numbers) for name, value in params.items()}
        return decompose(namespace, *arguments[: len(specs)], **settings)

    with reported_at(source):
        return trace(run, *specs, *[int] * len(sizes))


def _with_numbers(value: Any, numbers: Mapping[Size, Any]) -> Any:
    """A parameter in which the numbers replace the sizes."""
    if isinstance(value, Size):
        return numbers[value]
    return tuple(_with_numbers(item, numbers) for item in value) if isinstance(value, tuple) else value
