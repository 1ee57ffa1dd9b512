"""Loop nests as dispatches: loops whose iterations run without the host, and runs of consecutive equations.

Equations become one dispatch under four conditions. Each operation has a loop nest (`loops/`). No iteration of a loop
changes the size of a carried array. No number is complex. The sizes of the memory are known before the dispatch begins.
Other equations are operations on tensors, and the host runs the iterations of other loops. Graphics processors run no
nests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from plica.backend.native.loops.equation_nest import EquationNest, equation_nest_of, operands_of, sizes_of
from plica.backend.native.loops.memory import Arithmetic, Sizes
from plica.backend.native.loops.mlir import executable_text, fault_size
from plica.backend.native.loops.nest import Check, Index, Site, all_of
from plica.backend.native.loops.rows import ROWS
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.rows.dispatch import braced
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.types import HOST, Value, tensor_type
from plica.backend.native.scalars import Scalar
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, OpRef, Program, Var, size_variables
from plica.ir.sizes import Size, is_nonnegative_by_cases
from plica.ir.types import SCALAR_SIZE, ArrayType
from plica.ops.control_operands import carries, implicit_operand

_MOST = 30
"""Arrays and numbers of a dispatch: the runtime takes 64 words, of which each is two, and the scratch and faults."""


def _moves_last_axis(equation: Equation) -> bool:
    """Whether a permutation moves the last axis, which IREE does in tiles."""
    axes = equation.params["axes"]
    return bool(axes) and axes[-1] != len(axes) - 1


ON_TENSORS: Mapping[str, Callable[[Equation], bool]] = {
    "log_einsum_exp": lambda _: True,  # its nest takes an exponential for each term
    "log_matmul_exp": lambda _: True,
    "permute_dims": _moves_last_axis,
}
"""Operations that are a fifth faster on tensors, where a condition holds (`python -m benchmarks.native_rows`)."""
_CONTROL = ("call", "cond", "for_loop", "scan", "while_loop")
"""Operations with nested Programs: a loop is its own dispatch, and the equations of other Programs may be."""
_MOVES = ("reshape", "expand_dims", "squeeze", "slice", "split", "unstack", "assert_shape")
"""Operations that compute nothing: a run of these alone becomes no dispatch."""


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


def write_runs(emitter: Emitter, program: Program, write: Callable[[Equation], None]) -> None:
    """Write the equations of a Program: those that have nests in runs, each of which is one dispatch.

    Args:
        emitter: Where lines go.
        program: The Program, whose inputs are bound.
        write: Writes one equation as an operation on tensors.
    """
    readers: dict[Var, set[int]] = {}
    for index, equation in enumerate(program.equations):
        for var in (*operands_of([equation]), *sizes_of([equation])):
            readers.setdefault(var, set()).add(index)
    for output in program.outputs:
        if isinstance(output, Var):
            readers.setdefault(output, set()).add(len(program.equations))
    run: dict[int, Equation] = {}
    defined: dict[Var, None] = {}  # in order, so that the text is the same in each process

    def end() -> None:
        wanted = [var for var in defined if readers.get(var, set()) - run.keys()]
        _write_run(emitter, [*run.values()], wanted, write)
        run.clear()
        defined.clear()

    for index, equation in enumerate(program.equations):
        sizes = {*sizes_of([equation])}
        joins = _has_nest(equation) and not defined.keys() & sizes
        if not joins and defined.keys() & {*operands_of([equation]), *sizes}:
            end()
            joins = _has_nest(equation)
        if joins and not _is_of_host(emitter, equation, defined):
            run[index] = equation
            defined.update(dict.fromkeys(equation.outputs))
        else:
            write(equation)
    end()


def _has_nest(equation: Equation) -> bool:
    """Whether an equation may be part of a run: it defines no size, and its nest is not slower than its tensors."""
    values = (*equation.inputs, *equation.outputs)
    types = [value.type for value in values]
    sizes = {var for output in equation.outputs for var in size_variables(output.type)}
    return (
        equation.op.name in ROWS
        and equation.op.name not in _CONTROL
        and not (equation.op.name in ON_TENSORS and ON_TENSORS[equation.op.name](equation))
        and not sizes & {*equation.outputs}
        and not any(type_.dtype.is_storage or type_.dtype.kind == "complex" or 0 in type_.shape for type_ in types)
    )


def _is_of_host(emitter: Emitter, equation: Equation, defined: Collection[Var]) -> bool:
    """Whether the host computes an equation, since sizes or branches may depend on its numbers.

    Args:
        emitter: Has the values of variables outside the run.
        equation: The equation.
        defined: The variables that the run defines.
    """
    if any(output.type.shape or output.type.dtype not in HOST for output in equation.outputs):
        return False
    values = [emitter.read(operand) for operand in equation.inputs if operand not in defined]
    return len(values) == len(equation.inputs) and all(value.is_scalar and value.dtype in HOST for value in values)


def _write_run(
    emitter: Emitter, run: Sequence[Equation], wanted: Sequence[Var], write: Callable[[Equation], None]
) -> None:
    """Write equations as one dispatch; if that is impossible, each half of them; single equations on tensors."""
    dispatch = _dispatch(emitter, run, wanted, {}) if any(equation.op.name not in _MOVES for equation in run) else None
    if dispatch is not None:
        values = dispatch.written()
        emitter.bind([*values], [*values.values()])
        return
    if len(run) < 2:
        for equation in run:
            write(equation)
        return
    middle = len(run) // 2
    later = {*operands_of(run[middle:]), *wanted}
    first = [var for equation in run[:middle] for var in equation.outputs if var in later]
    _write_run(emitter, run[:middle], first, write)
    own = {var for equation in run[middle:] for var in equation.outputs}
    _write_run(emitter, run[middle:], [var for var in wanted if var in own], write)


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


class _Placeholder(int):
    """Stands in a message for a number that is known only when the check fails: the index of the number."""

    def __repr__(self) -> str:
        return f"\0{int(self):d}\0"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def _fault(emitter: Emitter, faults: Value, site: Site, numbers: Sequence[Index]) -> Fault:
    """The error of a site, as a format for numbers that are known only when the check fails."""
    shown = [number if isinstance(number, int) else _Placeholder(index) for index, number in enumerate(numbers)]
    error = site.error(shown)
    parts = str(error).replace("{", "{{").replace("}", "}}").split("\0")
    indices = [int(part) + 1 for part in parts[1::2]]
    message = "".join(f"{{{index // 2}}}" if index % 2 else part for index, part in enumerate(parts))

    def values() -> Sequence[Value]:
        return [emitter.checks.entry(faults, index) for index in indices]

    return Fault(type(error).__name__, message, values, site.source)
