"""Loops as one dispatch each: what a loop does in all its turns runs without the host, which costs microseconds a turn.

A loop becomes one where all that its body needs has a loop nest (`loops/`), where no turn changes the size of what it
carries, and where the sizes of its memory follow from what is known before it begins. Others stay with the host.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plica.backend.native.loops.memory import Sizes, SizesAt
from plica.backend.native.loops.mlir import executable_text, fault_size
from plica.backend.native.loops.nest import Site
from plica.backend.native.loops.part import Part, part_of, sizes_of
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.rows.dispatch import braced
from plica.backend.native.mlir.rows.row import Call
from plica.backend.native.mlir.types import HOST, Value, tensor_type
from plica.backend.native.scalars import Scalar
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, OpRef, Var, size_variables
from plica.ir.types import SCALAR_SIZE
from plica.ops.places import carries, implicit_operand

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter

_MOST = 30
"""Arrays and numbers of a dispatch: the runtime takes 64 words, of which each is two, and the scratch and faults."""


def dispatch_of(emitter: Emitter, call: Call) -> LoopDispatch | None:
    """A loop as one dispatch; None where it stays with the host."""
    equation = Equation(OpRef(call.name), call.operands, call.outputs, call.params, call.source)
    kept = _kept(emitter, equation)
    if kept is None:
        return None
    wanted = [var for var in call.outputs if var not in kept]
    sizes = {var for one in wanted for var in size_variables(one.type)}
    if not wanted or any(0 in one.type.shape for one in (*call.operands, *wanted)) or sizes & set(call.outputs):
        return None
    try:
        part = part_of(equation, wanted, _same(emitter, equation))
    except UnsupportedError:
        return None
    if part is None or len(part.nest.parameters) + len(part.results) > _MOST:
        return None
    found = LoopDispatch(emitter, part, kept)
    return found if found.is_possible else None


def _kept(emitter: Emitter, equation: Equation) -> dict[Var, Value] | None:
    """The results that are what the loop begins with; None where it changes sizes."""
    body, found = equation.params["body"], {}
    count = equation.params["num_implicit_outputs"]
    for place, var in enumerate(equation.outputs[:count]):
        if body.outputs[place] is not body.inputs[place]:
            return None
        found[var] = emitter.scalar(emitter.read(implicit_operand(equation, place)))
    for inner, first, result, output in carries(equation):
        if result is inner:
            found[output] = emitter.read(first)
    return found


def _same(emitter: Emitter, equation: Equation) -> dict[Var, Hashable]:
    """Scalars that are numbers, or sizes."""
    found: dict[Var, Hashable] = {}
    operands = [one for one in equation.inputs if isinstance(one, Var)]
    for var in (*sizes_of(equation), *operands):
        if var.type == SCALAR_SIZE:
            size = emitter.read(var).size
            if size is not None:
                found[var] = size
    return found


class LoopDispatch:
    """The lines of the host around one dispatch.

    Attributes:
        wanted: The outputs that it computes.
        kept: The other outputs: what the loop begins with.
    """

    def __init__(self, emitter: Emitter, part: Part, kept: Mapping[Var, Value]) -> None:
        self._emitter, self._part, self._nest = emitter, part, part.nest
        self.wanted, self.kept = part.results, kept
        self._sizes = Sizes(part.nest)

    @property
    def is_possible(self) -> bool:
        """Whether the host can compute its memory, and whether its products are small."""
        part, bounds = self._part, (value for pair in self._part.small for value in pair)
        return self._sizes.are_known((*(one.count for one in part.memory), *bounds))

    def is_small(self) -> Value | None:
        """Whether its products are small, so that it may run: a scalar of the host; None where it always may."""
        code, sizes, holds = self._emitter.code, self._sizes_of_host(), ""
        for pair in self._part.small:
            less = code.op(f"arith.cmpi slt, {', '.join(map(sizes.count, pair))} : i64")
            holds = code.op(f"arith.andi {holds}, {less} : i1") if holds else less
        return Value(holds, (), DType.BOOL, is_scalar=True) if holds else None

    def _sizes_of_host(self) -> SizesAt:
        emitter, part = self._emitter, self._part
        given = {
            parameter.text: var
            for parameter, var in zip(part.nest.parameters, part.operands, strict=True)
            if isinstance(parameter, Scalar)
        }
        return self._sizes.at(
            emitter.code.op,
            lambda value: emitter.constant(value, DType.INT64).text,
            lambda name: emitter.scalar(emitter.read(given[name])).text,
        )

    def written(self) -> dict[Var, Value]:
        """What it computes."""
        emitter, nest, part = self._emitter, self._nest, self._part
        emitter.checks.settle()  # wrong numbers could turn loops for years
        code, arrays, numbers, hosted = emitter.code, [], [], []
        for parameter, var in zip(nest.parameters, part.operands, strict=True):
            value = emitter.read(var)
            if isinstance(parameter, Scalar) and value.is_scalar and value.dtype in HOST:
                numbers.append(self._wide(value))
                hosted.append(parameter)
            else:
                arrays.append(emitter.tensor(value))
        results = [Value(code.name(), var.type.shape, var.type.dtype) for var in part.results]
        types = [f"{one.type}{braced(emitter, one.shape)}" for one in results]
        if part.memory:
            _, size = self._sizes_of_host().places(part.memory)
            types.append(f"tensor<?xi8>{{{code.op(f'arith.index_cast {size} : i64 to index')}}}")
        length = fault_size(nest)
        if length:
            types.append(tensor_type((length,), DType.INT64))
        name = f"{emitter.name}.loop{len(code.executables)}"
        code.executables.append(executable_text(nest, name, hosted, part.memory))
        given = ", ".join([*(one.text for one in arrays), *numbers])
        taken = ", ".join([*(f"{one.type}{braced(emitter, one.shape)}" for one in arrays), *("i64" for _ in numbers)])
        made = code.name()
        several = len(types) > 1
        made_all = f"{made}:{len(types)}" if several else made
        code.put(f"{made_all} = flow.dispatch @{name}::@{name}({given}) : ({taken}) -> ({', '.join(types)})")
        texts = [f"{made}#{place}" if several else made for place in range(len(types))]
        if length:
            faults = Value(texts[-1], (length,), DType.INT64)
            emitter.checks.told(faults, [_fault(emitter, faults, site) for site in nest.sites])
        return {var: replace(one, text=text) for var, one, text in zip(part.results, results, texts, strict=False)}

    def _wide(self, value: Value) -> str:
        return (
            self._emitter.code.op(f"arith.extui {value.text} : i1 to i64") if value.dtype == DType.BOOL else value.text
        )


# Faults


class _Hole(int):
    """A number of a message, which stands for the place of one."""

    def __repr__(self) -> str:
        return f"\0{int(self):d}\0"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def _fault(emitter: Emitter, faults: Value, site: Site) -> Fault:
    """What a site fails with, as a text with places for the numbers that the dispatch left."""
    error = site.error([_Hole(place) for place in range(site.count)])
    parts = str(error).replace("{", "{{").replace("}", "}}").split("\0")
    told = [int(place) + 1 for place in parts[1::2]]
    message = "".join(f"{{{place // 2}}}" if place % 2 else part for place, part in enumerate(parts))

    def values() -> Sequence[Value]:
        return [emitter.checks.entry(faults, place) for place in told]

    return Fault(type(error).__name__, message, values, site.source)
