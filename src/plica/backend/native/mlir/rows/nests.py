"""Loop nests as dispatches: loops, of which all turns run without the host, and runs of equations.

Equations become one under four conditions. Each operation has a loop nest (`loops/`). No turn of a loop changes the
size of a carried array. No number is complex. The sizes of its memory are known before it begins. Others are written on
tensors, loops turn by turn on the host, and so are all on graphics processors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from plica.backend.native.loops.memory import Arithmetic, Sizes
from plica.backend.native.loops.mlir import executable_text, fault_size
from plica.backend.native.loops.nest import Check, Index, Site, all_of
from plica.backend.native.loops.part import Part, operands_of, part_of, sizes_of
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


def _turns_rows(equation: Equation) -> bool:
    """Whether rows become columns, which IREE does in tiles."""
    axes = equation.params["axes"]
    return bool(axes) and axes[-1] != len(axes) - 1


ON_TENSORS: Mapping[str, Callable[[Equation], bool]] = {
    "log_einsum_exp": lambda _: True,  # its nest takes an exponential for each term
    "log_matmul_exp": lambda _: True,
    "permute_dims": _turns_rows,
}
"""Operations that are a fifth faster on tensors, where a condition holds (`python -m benchmarks.native_rows`)."""
_CONTROL = ("call", "cond", "for_loop", "scan", "while_loop")
"""Operations of nested Programs: loops are dispatches of their own, the equations of others may be."""
_MOVES = ("reshape", "expand_dims", "squeeze", "slice", "split", "unstack", "assert_shape")
"""Operations that compute nothing, of which alone no dispatch is made."""


def dispatch_of(emitter: Emitter, call: Call) -> NestDispatch | None:
    """A loop as one dispatch; None where it stays with the host."""
    if emitter.is_gpu:  # whose kernels are not nests
        return None
    equation = Equation(OpRef(call.name), call.operands, call.outputs, call.params, call.source)
    kept = _kept(emitter, equation)
    if kept is None:
        return None
    wanted = [var for var in call.outputs if var not in kept]
    sizes = {var for output in wanted for var in size_variables(output.type)}
    return None if sizes & set(call.outputs) else _dispatch(emitter, [equation], wanted, kept)


def write_runs(emitter: Emitter, program: Program, write: Callable[[Equation], None]) -> None:
    """Write the equations of a Program: those that have nests in runs, each of which is one dispatch.

    Args:
        emitter: Where lines go.
        program: The Program, whose inputs are bound.
        write: Writes one equation as an operation on tensors.
    """
    readers: dict[Var, set[int]] = {}
    for place, equation in enumerate(program.equations):
        for var in (*operands_of([equation]), *sizes_of([equation])):
            readers.setdefault(var, set()).add(place)
    for output in program.outputs:
        if isinstance(output, Var):
            readers.setdefault(output, set()).add(len(program.equations))
    run: dict[int, Equation] = {}
    made: set[Var] = set()

    def end() -> None:
        wanted = [var for var in made if readers.get(var, set()) - run.keys()]
        _write_run(emitter, [*run.values()], sorted(wanted, key=order.__getitem__), write)
        run.clear()
        made.clear()

    order: dict[Var, int] = {}
    for place, equation in enumerate(program.equations):
        sizes = {*sizes_of([equation])}
        joins = _has_nest(equation) and not made & sizes
        if not joins and made & {*operands_of([equation]), *sizes}:
            end()
            joins = _has_nest(equation)
        if joins and not _is_of_host(emitter, equation, made):
            run[place] = equation
            made.update(equation.outputs)
            order.update({var: len(order) for var in equation.outputs})
        else:
            write(equation)
    end()


def _has_nest(equation: Equation) -> bool:
    """Whether an equation may be part of a run: it makes no size, and its nest is not slower than its tensors."""
    values = (*equation.inputs, *equation.outputs)
    types = [value.type for value in values]
    made = {var for output in equation.outputs for var in size_variables(output.type)}
    return (
        equation.op.name in ROWS
        and equation.op.name not in _CONTROL
        and not (equation.op.name in ON_TENSORS and ON_TENSORS[equation.op.name](equation))
        and not made & {*equation.outputs}
        and not any(type_.dtype.is_storage or type_.dtype.kind == "complex" or 0 in type_.shape for type_ in types)
    )


def _is_of_host(emitter: Emitter, equation: Equation, made: Collection[Var]) -> bool:
    """Whether the host computes an equation: numbers that sizes or branches may be made of."""
    if any(output.type.shape or output.type.dtype not in HOST for output in equation.outputs):
        return False
    values = [emitter.read(operand) for operand in equation.inputs if operand not in made]
    return len(values) == len(equation.inputs) and all(value.is_scalar and value.dtype in HOST for value in values)


def _write_run(
    emitter: Emitter, run: Sequence[Equation], wanted: Sequence[Var], write: Callable[[Equation], None]
) -> None:
    """Write equations as one dispatch, else in halves, at last each on tensors."""
    dispatch = _dispatch(emitter, run, wanted, {}) if any(one.op.name not in _MOVES for one in run) else None
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
    emitter: Emitter, equations: Sequence[Equation], wanted: Sequence[Var], kept: Mapping[Var, Value]
) -> NestDispatch | None:
    """Equations as one dispatch; None where they have no nest, or one that the runtime does not take."""
    given = operands_of(equations)
    if not wanted or any(0 in operand.type.shape for operand in (*given, *wanted)):
        return None
    try:
        part = part_of(equations, wanted, _same(emitter, equations))
    except UnsupportedError:
        return None
    if part is None or len(part.nest.parameters) + len(part.results) > _MOST:
        return None
    dispatch = NestDispatch(emitter, part, kept)
    return dispatch if dispatch.is_possible else None


def _kept(emitter: Emitter, equation: Equation) -> dict[Var, Value] | None:
    """The results that are what the loop begins with; None where it changes sizes."""
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
    """Scalars that are numbers, or sizes."""
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
        wanted: The outputs that it computes.
        kept: The other outputs: what the loop begins with.
    """

    def __init__(self, emitter: Emitter, part: Part, kept: Mapping[Var, Value]) -> None:
        self._emitter, self._part, self._nest = emitter, part, part.nest
        self.wanted, self.kept = part.results, kept
        self._sizes = Sizes(part.nest)

    @property
    def is_possible(self) -> bool:
        """Whether the host can compute how much memory it needs."""
        return self._sizes.are_known(allocation.count for allocation in self._part.memory)

    def written(self) -> dict[Var, Value]:
        """Its results, by variable."""
        emitter, nest, part, code = self._emitter, self._nest, self._part, self._emitter.code
        emitter.checks.settle()  # wrong numbers could turn loops for years
        arrays, numbers = self._operands()
        sizes = {dim for var in part.results for dim in var.type.shape if isinstance(dim, Size)}
        doubtful = [dim for dim in sizes if not is_nonnegative_by_cases(dim)]
        empty = [self._memory_of(var.type, doubtful) for var in part.results]
        if part.memory:
            _, size = self._arithmetic().offsets(part.memory)
            empty.append(f"tensor<?xi8>{{{code.op(f'arith.index_cast {size} : i64 to index')}}}")
        faults = Value("", (fault_size(nest),), DType.INT64)
        if nest.sites:
            empty.append(faults.type)
        name = f"{emitter.name}.loop{len(code.executables)}"
        code.executables.append(executable_text(nest, name, [*numbers], part.memory))
        given = ", ".join([*(array.text for array in arrays), *numbers.values()])
        types = ", ".join([*(_tensor(emitter, array) for array in arrays), *("i64" for _ in numbers)])
        results = code.several(
            f"flow.dispatch @{name}::@{name}({given}) : ({types}) -> ({', '.join(empty)})", len(empty)
        )
        if nest.sites:
            told = replace(faults, text=results[-1])
            checks = [statement for statement in all_of(nest.body) if isinstance(statement, Check)]
            by_number = {
                check.site + 1: _fault(emitter, told, nest.sites[check.site], check.numbers) for check in checks
            }
            emitter.checks.told(told, by_number)
            if doubtful:
                emitter.checks.settle()
        made_of = zip(part.results, results, strict=False)
        return {var: Value(text, var.type.shape, var.type.dtype) for var, text in made_of}

    def _memory_of(self, type_: ArrayType, doubtful: Collection[Size]) -> str:
        """The type of a result with its sizes; of one that is negative there is none, and the dispatch says so."""
        emitter, sizes = self._emitter, []
        for dim in type_.shape:
            if isinstance(dim, Size):
                size = emitter.size(dim)
                least = index_constant(emitter.code, 0)
                sizes.append(emitter.code.op(f"arith.maxsi {size}, {least} : index") if dim in doubtful else size)
        braces = f"{{{', '.join(sizes)}}}" if sizes else ""
        return f"{tensor_type(type_.shape, type_.dtype)}{braces}"

    def _operands(self) -> tuple[list[Value], dict[Scalar, str]]:
        """Its operands: arrays, and numbers of the host."""
        code, arrays, numbers = self._emitter.code, [], {}
        for parameter, var in zip(self._nest.parameters, self._part.operands, strict=True):
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
        emitter, part = self._emitter, self._part
        pairs = zip(part.nest.parameters, part.operands, strict=True)
        given = {parameter.text: var for parameter, var in pairs if isinstance(parameter, Scalar)}
        return Arithmetic(
            self._sizes,
            emitter.code.op,
            lambda value: emitter.constant(value, DType.INT64).text,
            lambda name: emitter.scalar(emitter.read(given[name])).text,
        )


def _tensor(emitter: Emitter, value: Value) -> str:
    """The type of an array, with its sizes."""
    return f"{value.type}{braced(emitter, value.shape)}"


# Faults


class _Hole(int):
    """A number of a message, which stands for the place of one."""

    def __repr__(self) -> str:
        return f"\0{int(self):d}\0"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def _fault(emitter: Emitter, faults: Value, site: Site, numbers: Sequence[Index]) -> Fault:
    """The error of a site, as a text with places for numbers that are known only when it fails."""
    shown = [number if isinstance(number, int) else _Hole(index) for index, number in enumerate(numbers)]
    error = site.error(shown)
    parts = str(error).replace("{", "{{").replace("}", "}}").split("\0")
    told = [int(place) + 1 for place in parts[1::2]]
    message = "".join(f"{{{index // 2}}}" if index % 2 else part for index, part in enumerate(parts))

    def values() -> Sequence[Value]:
        return [emitter.checks.entry(faults, place) for place in told]

    return Fault(type(error).__name__, message, values, site.source)
