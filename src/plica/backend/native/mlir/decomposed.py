"""Operations without a row, in terms of others: traced where they are met, and written in the place of the equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plica.backend.native.decompositions import DECOMPOSITIONS
from plica.ir.op import Unsupported
from plica.ir.program import Program
from plica.ir.signature import size_sources
from plica.ir.sizes import Dim, Size
from plica.ir.types import spec
from plica.ops import OPS
from plica.tracing import namespace
from plica.tracing.trace import trace

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter
    from plica.backend.native.mlir.rows.row import Call, Write
    from plica.backend.native.mlir.types import Value


def decomposed(name: str) -> Write | None:
    """What writes an operation by its decomposition; None where it has none."""
    decompose = DECOMPOSITIONS.get(name, OPS[name].decompose)
    if isinstance(decompose, Unsupported):
        return None

    def write(emitter: Emitter, call: Call) -> Sequence[Value]:
        sizes = list(dict.fromkeys(_sizes(tuple(call.params.values()))))
        program = _traced(decompose, call, sizes)
        inputs = [*call.inputs, *map(emitter.size_value, sizes)]
        implicit = [emitter.size_value(inputs[place].shape[axis]) for place, axis in size_sources(program).values()]
        return emitter.inline(program, [], [*implicit, *inputs])[program.num_implicit_outputs :]

    return write


def _sizes(value: Any) -> Sequence[Size]:
    """The sizes within a parameter that are not known before the Program runs."""
    if isinstance(value, Size):
        return [value]
    return [size for one in value for size in _sizes(one)] if isinstance(value, tuple) else []


def _traced(decompose: Callable[..., Any], call: Call, sizes: Sequence[Size]) -> Program:
    """The decomposition at operands of these types; it is given further sizes as numbers."""
    names: dict[Dim, str] = {}
    specs = [
        spec([dim if isinstance(dim, int) else names.setdefault(dim, f"n{len(names)}") for dim in one.shape], one.dtype)
        for one in call.inputs
    ]

    def run(*given: Any) -> Any:
        known = dict(zip(sizes, given[len(specs) :], strict=True))
        params = {name: _put(value, known) for name, value in call.params.items()}
        return decompose(namespace, *given[: len(specs)], **params)

    return trace(run, *specs, *[int] * len(sizes))


def _put(value: Any, known: Mapping[Size, Any]) -> Any:
    """A parameter with tracers in the place of sizes."""
    if isinstance(value, Size):
        return known[value]
    return tuple(_put(one, known) for one in value) if isinstance(value, tuple) else value
