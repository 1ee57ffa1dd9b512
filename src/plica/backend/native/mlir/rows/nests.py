"""Loops as dispatches, whose iterations run without the host.

A loop becomes one dispatch under four conditions. Each operation has a loop nest (`loops/`). No iteration changes the
size of a carried array. No number is complex. The sizes of the memory are known before the dispatch begins. The host
runs the iterations of other loops. Graphics processors run no nests.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from plica.backend.native.loops.equation_nest import EquationNest, equation_nest_of, operands_of, sizes_of
from plica.backend.native.loops.faults import fault_of
from plica.backend.native.loops.memory import Arithmetic, Sizes
from plica.backend.native.loops.mlir import executable_text, fault_size
from plica.backend.native.loops.nest import Check, Index, Site, all_of
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.rows.dispatch import braced
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.types import HOST, Value, tensor_type
from plica.backend.native.scalars import Scalar
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, OpRef, Var, size_variables
from plica.ir.sizes import Size, is_nonnegative_by_cases
from plica.ir.types import SCALAR_SIZE, ArrayType
from plica.ops.control_operands import carries, implicit_operand

_MOST = 30
"""Arrays and numbers of a dispatch: the runtime takes 64 words, of which each is two, and the scratch and faults."""


def dispatch_of(emitter: Emitter, call: Call) -> NestDispatch | None:
    """A loop as one dispatch; None if the host runs it."""
    if emitter.is_gpu:  # kernels of graphics processors are not nests
        return None
    equation = Equation(OpRef(call.name), call.operands, call.outputs, call.params, call.source)
    unchanged = _unchanged(emitter, equation)
    if unchanged is None:
        return None
    wanted = [var for var in call.outputs if var not in unchanged]
    sizes = {var for output in wanted for var in size_variables(output.type)}
    return None if sizes & set(call.outputs) else _dispatch(emitter, [equation], wanted, unchanged)


def _dispatch(
    emitter: Emitter, equations: Sequence[Equation], wanted: Sequence[Var], unchanged: Mapping[Var, Value]
) -> NestDispatch | None:
    """Equations as one dispatch; None if they have no nest, or one with more operands than the runtime takes."""
    operands = operands_of(equations)
    if not wanted or any(0 in operand.type.shape for operand in (*operands, *wanted)):
        return None
    try:
        equation_nest = equation_nest_of(equations, wanted, _same(emitter, equations))
    except UnsupportedError:
        return None
    if equation_nest is None or len(equation_nest.nest.parameters) + len(equation_nest.results) > _MOST:
        return None
    dispatch = NestDispatch(emitter, equation_nest, unchanged)
    return dispatch if dispatch.is_possible else None


def _unchanged(emitter: Emitter, equation: Equation) -> dict[Var, Value] | None:
    """The results that equal initial values, since no iteration changes them; None if the loop changes sizes."""
    body, values = equation.params["body"], {}
    count = equation.params["num_implicit_outputs"]
    for index, var in enumerate(equation.outputs[:count]):
        if body.outputs[index] is not body.inputs[index]:
            return None
        values[var] = emitter.scalar(emitter.read(implicit_operand(equation, index)))
    for inner, first, result, output in carries(equation):
        if result is inner:
            values[output] = emitter.read(first)
    return values


def _same(emitter: Emitter, equations: Sequence[Equation]) -> dict[Var, Hashable]:
    """The scalars whose values are known numbers or sizes."""
    same: dict[Var, Hashable] = {}
    for var in (*sizes_of(equations), *operands_of(equations)):
        if var.type == SCALAR_SIZE:
            size = emitter.read(var).size
            if size is not None:
                same[var] = size
    return same


class NestDispatch:
    """The lines of the host around one dispatch.

    Attributes:
        unchanged: The outputs of a loop that equal its initial values.
    """

    def __init__(self, emitter: Emitter, equation_nest: EquationNest, unchanged: Mapping[Var, Value]) -> None:
        self._emitter, self._equation_nest, self._nest = emitter, equation_nest, equation_nest.nest
        self.unchanged = unchanged
        self._sizes = Sizes(equation_nest.nest)

    @property
    def is_possible(self) -> bool:
        """Whether the host can compute how much memory it needs."""
        return self._sizes.are_known(allocation.count for allocation in self._equation_nest.memory)

    def written(self) -> dict[Var, Value]:
        """Its results, by variable."""
        emitter, nest, equation_nest, code = self._emitter, self._nest, self._equation_nest, self._emitter.code
        emitter.checks.settle()  # a wrong number could be a huge trip count
        arrays, numbers = self._operands()
        sizes = {dim for var in equation_nest.results for dim in var.type.shape if isinstance(dim, Size)}
        possibly_negative = [dim for dim in sizes if not is_nonnegative_by_cases(dim)]
        empty = [self._memory_of(var.type, possibly_negative) for var in equation_nest.results]
        if equation_nest.memory:
            _, size = self._arithmetic().offsets(equation_nest.memory)
            empty.append(f"tensor<?xi8>{{{code.op(f'arith.index_cast {size} : i64 to index')}}}")
        faults = Value("", (fault_size(nest),), DType.INT64)
        if nest.sites:
            empty.append(faults.type)
        name = f"{emitter.name}.loop{len(code.executables)}"
        code.executables.append(executable_text(nest, name, [*numbers], equation_nest.memory))
        arguments = ", ".join([*(array.text for array in arrays), *numbers.values()])
        types = ", ".join([*(_tensor(emitter, array) for array in arrays), *("i64" for _ in numbers)])
        results = code.several(
            f"flow.dispatch @{name}::@{name}({arguments}) : ({types}) -> ({', '.join(empty)})", len(empty)
        )
        if nest.sites:
            reported = replace(faults, text=results[-1])
            checks = [statement for statement in all_of(nest.body) if isinstance(statement, Check)]
            by_number = {
                check.site + 1: _fault(emitter, reported, nest.sites[check.site], check.numbers) for check in checks
            }
            emitter.checks.require_of_dispatch(reported, by_number)
            if possibly_negative:
                emitter.checks.settle()
        pairs = zip(equation_nest.results, results, strict=False)
        return {var: Value(text, var.type.shape, var.type.dtype) for var, text in pairs}

    def _memory_of(self, type_: ArrayType, possibly_negative: Collection[Size]) -> str:
        """The type of a result with its sizes. A negative size counts as 0 here, and the dispatch reports it."""
        emitter, sizes = self._emitter, []
        for dim in type_.shape:
            if isinstance(dim, Size):
                size = emitter.size(dim)
                zero = index_constant(emitter.code, 0)
                sizes.append(
                    emitter.code.op(f"arith.maxsi {size}, {zero} : index") if dim in possibly_negative else size
                )
        braces = f"{{{', '.join(sizes)}}}" if sizes else ""
        return f"{tensor_type(type_.shape, type_.dtype)}{braces}"

    def _operands(self) -> tuple[list[Value], dict[Scalar, str]]:
        """Its operands: arrays, and numbers of the host."""
        code, arrays, numbers = self._emitter.code, [], {}
        for parameter, var in zip(self._nest.parameters, self._equation_nest.operands, strict=True):
            value = self._emitter.read(var)
            if not isinstance(parameter, Scalar) or not value.is_scalar or value.dtype not in HOST:
                arrays.append(self._emitter.tensor(value))
            elif value.dtype == DType.BOOL:
                numbers[parameter] = code.op(f"arith.extui {value.text} : i1 to i64")
            else:
                numbers[parameter] = value.text
        return arrays, numbers

    def _arithmetic(self) -> Arithmetic:
        """Sizes, computed by the host."""
        emitter, equation_nest = self._emitter, self._equation_nest
        pairs = zip(equation_nest.nest.parameters, equation_nest.operands, strict=True)
        variables = {parameter.text: var for parameter, var in pairs if isinstance(parameter, Scalar)}
        return Arithmetic(
            self._sizes,
            emitter.code.op,
            lambda value: emitter.constant(value, DType.INT64).text,
            lambda name: emitter.scalar(emitter.read(variables[name])).text,
        )


def _tensor(emitter: Emitter, value: Value) -> str:
    """The type of an array, with its sizes."""
    return f"{value.type}{braced(emitter, value.shape)}"


# Faults


def _fault(emitter: Emitter, faults: Value, site: Site, numbers: Sequence[Index]) -> Fault:
    """The error of a site, as a format for numbers that are known only when the check fails."""
    fault = fault_of(site, numbers)
    indices = [part + 1 for part in fault.message if isinstance(part, int)]
    places = iter(range(len(indices)))
    message = "".join(
        part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else f"{{{next(places)}}}"
        for part in fault.message
    )

    def values() -> Sequence[Value]:
        return [emitter.checks.entry(faults, index) for index in indices]

    return Fault(fault.error, message, values, site.source)
