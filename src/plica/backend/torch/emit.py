"""Writes a Program as the source of a Python function that calls torch, and compiles that source.

A `for_loop` becomes a `for` statement, a branch an `if`. Each value is deleted after its last use. `linecache` has the
source, so that tracebacks show its lines. A scalar that only counts, such as an index, is a Python number in this code;
names with `host` are about these (`plan.py`).
"""

import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import FunctionType
from typing import Any
from weakref import finalize

import torch

from plica.backend.torch import kernels
from plica.backend.torch.bounds import Bounds
from plica.backend.torch.emit_control import CONTROL, INDENT, assigned_sizes
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.leaves import attribute_of
from plica.backend.torch.names import variables
from plica.backend.torch.operations import ROWS
from plica.backend.torch.operations.call import (
    Call,
    number_source,
    scalar_source,
    size_source,
)
from plica.backend.torch.operations.indexing import in_place, is_python_index, written
from plica.backend.torch.operations.private import TORCH_OPS
from plica.backend.torch.operations.subscripts import not_negative, parts_read, slices, subscript, unproven
from plica.backend.torch.operations.unsigned import UNSIGNED
from plica.backend.torch.plan import Plan
from plica.backend.torch.reading import Chain, joined_reads, sizes_read
from plica.backend.torch.run_products import multiply_in_runs
from plica.errors import UnsupportedError
from plica.ir.op import Unsupported
from plica.ir.program import Equation, Literal, Operand, Program, Var, size_variables
from plica.ir.signature import size_sources
from plica.ir.sizes import Dim
from plica.passes.clean import clean
from plica.passes.ownership import Owned, owned
from plica.passes.results import own_results
from plica.passes.reuse import overwritten
from plica.tracing.decomposition import sizes_within, traced_decomposition

_FILE_NUMBERS = count()
_OVERWRITABLE = {name: tuple(range(len(row.over))) for name, row in ROWS.items()}
"""For each operation the positions of operands that its text can write the result over."""

_MAX_FACTS = 8  # a block remembers so many of its first and of its last facts about bounds
_DIVISIONS = ("//", ")%(", " % ", "torch.div(", "kernels.remainder(")  # in lines that may divide integers by zero


@without_collection()
def emit(
    program: Program,
    name: str = "forward",
    *,
    is_checked: bool = False,
    numbers: frozenset[int] = frozenset(),
    constants: frozenset[int] = frozenset(),
    reuses: bool = False,
    shares: bool = False,
) -> Callable[..., Any]:
    """A Python function that computes `program`, called as `run(leaves, *arguments)`.

    `leaves` has an attribute for each array that the Program captures (`attribute_of`). The function returns the
    result, or a tuple of several. Callers may pass scalar arguments as Python numbers.

    Args:
        program: The Program.
        name: The name of the function.
        is_checked: Whether the function refuses arguments whose sizes differ although they have the same name.
        numbers: The positions of arguments that callers pass as Python numbers.
        constants: The positions of arguments that are always numbers without gradients, so that floats stay Python
            numbers too.
        reuses: Whether an operation may write its result over an operand that is not read later, if no gradient is
            needed.
        shares: Whether results may share memory with arguments and leaves; then callers must not write to results.

    Raises:
        UnsupportedError: An operation has no row here, and no decomposition.
    """
    text = source(
        program, name, is_checked=is_checked, numbers=numbers, constants=constants, reuses=reuses, shares=shares
    )
    return load(text, name)


def source(
    program: Program,
    name: str = "forward",
    *,
    is_checked: bool = False,
    numbers: frozenset[int] = frozenset(),
    constants: frozenset[int] = frozenset(),
    reuses: bool = False,
    shares: bool = False,
) -> str:
    """The source of that function; arguments as for `emit`."""
    program = multiply_in_runs(program if shares else own_results(program))
    plan = Plan.of(program, numbers, constants)
    named = plan.program
    names = [f"leaves.{attribute_of(var.name)}" for var in program.consts]
    leaves = dict(zip(named.consts, names, strict=True))
    leaves.update((var, var.name) for var in named.arguments if var.type.dtype.is_storage)
    overwriting = overwritten(named, _OVERWRITABLE, TORCH_OPS) if reuses else {}
    emitter = _Emitter(name, plan, leaves, owned(named, TORCH_OPS), Bounds(plan), overwriting)
    lines = list(emitter.function(is_checked))
    return "\n".join([*lines, *emitter.helpers]) + "\n"


def number_arguments(program: Program, numbers: frozenset[int] = frozenset()) -> frozenset[int]:
    """The positions of arguments that the generated code reads as Python numbers; it converts tensors."""
    plan = Plan.of(program, numbers)
    return frozenset(index for index, var in enumerate(plan.program.arguments) if var in plan.sizes)


def load(code: str, name: str, **names: Any) -> Callable[..., Any]:
    """Compile `code` and return its function `name`.

    The code may use `torch`, `kernels`, `inf`, `nan` and the values in `names`. Tracebacks show its lines while the
    function exists.
    """
    filename = f"<plica {name} {next(_FILE_NUMBERS)}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"torch": torch, "kernels": kernels, "inf": float("inf"), "nan": float("nan"), **names}
    exec(compile(code, filename, "exec"), scope)  # `code` is text that Plica generated
    function: FunctionType = scope.pop(name)  # else its globals hold it, a cycle until the next garbage collection
    finalize(function.__code__, linecache.cache.pop, filename, None).atexit = False
    return function


@dataclass(frozen=True, slots=True)
class _Emitter:
    """Writes the lines of one function.

    Args:
        name: The name of the function.
        plan: The live equations, and which scalars are Python numbers.
        leaves: The text that reads a value from outside: each const, and each argument that must be unpacked.
        owned: The updates that may write in place if no gradient is needed.
        bounds: The names of bounds of slices that are computed before a loop.
        overwriting: For each equation that may write its result over an operand, the position of that operand.
        helpers: The sources of functions that the text calls for operations without a row.
    """

    name: str
    plan: Plan
    leaves: Mapping[Var, str]
    owned: Owned
    bounds: Bounds
    overwriting: Mapping[Equation, int]
    helpers: list[str] = field(default_factory=list)

    def function(self, is_checked: bool) -> Iterator[str]:
        """The lines of the whole function."""
        program = self.plan.program
        body = list(self._body(program))
        yield f"def {self.name}(leaves{''.join(f', {var.name}' for var in program.arguments)}):"
        if any("device=device" in line for line in body):
            yield f"{INDENT}device = leaves.device"
        sources = size_sources(program)
        for var, (index, axis) in sources.items():
            yield f"{INDENT}{var.name} = {program.arguments[index].name}.shape[{axis}]"
        for var in program.arguments:
            if var in self.plan.sizes:
                yield f"{INDENT}{var.name} = {self.plan.python_type(var)}({var.name})"
        if is_checked:
            yield from self._checks(program, list(sources.values()))
        if any("in_place" in line for line in body):
            yield f"{INDENT}in_place = kernels.may_write({', '.join(self._differentiable(program))})"
        divides = any(sign in line for line in body for sign in _DIVISIONS)
        if divides or any(is_python_index(self._as_call(equation)) for equation in self.plan.live):
            kinds = "(IndexError, ArithmeticError, RuntimeError)" if divides else "IndexError"
            body = [f"{INDENT}try:", *(f"{INDENT}{line}" for line in body)]
            body += [f"{INDENT}except {kinds} as error:", f"{INDENT * 2}raise kernels.user_error(error) from None"]
        yield from body

    def _differentiable(self, program: Program) -> Iterator[str]:
        """The texts of consts and arguments that may require a gradient."""
        for var in (*program.consts, *program.arguments):
            if var.type.dtype.kind in ("float", "complex") and not self.plan.is_host(var):
                yield self.leaves.get(var, var.name)

    def _checks(self, program: Program, sources: list[tuple[int, int]]) -> Iterator[str]:
        """Compare the sizes of arguments with those of their types, but for the axes `sources` that defined them."""
        for var in dict.fromkeys(size_variables(tuple(argument.type for argument in program.arguments))):
            if var in self.leaves:
                yield f"{INDENT}{var.name} = int({self.leaves[var]})"
        for index, var in enumerate(program.arguments):
            for axis, dim in enumerate(var.type.shape):
                if (index, axis) not in sources and not isinstance(dim, int):
                    actual, wanted = f"{var.name}.shape[{axis}]", size_source(dim)
                    yield f"{INDENT}if {actual} != {wanted}:"
                    yield f"{INDENT * 2}kernels.refuse_size({var.name!r}, {axis}, {actual}, {str(dim)!r}, {wanted})"

    def _body(self, program: Program) -> Iterator[str]:
        yield from self.block(program, INDENT)
        for operand in program.results:  # a leaf that no equation reads
            if operand in self.leaves and operand not in self._operands_of(program):
                assert isinstance(operand, Var), "leaves are variables"
                yield f"{INDENT}{operand.name} = {self._leaf(operand)}"
        results = ", ".join(map(self._result, program.results))
        yield f"{INDENT}return {results}" if len(program.results) == 1 else f"{INDENT}return ({results})"

    def _result(self, operand: Operand) -> str:
        text, dtype = self.tensor(operand), operand.type.dtype
        return f"kernels.packed({text}, {dtype.value!r})" if dtype.is_storage else text

    def _operands_of(self, program: Program) -> dict[Operand, None]:
        """The operands of live equations."""
        return dict.fromkeys(
            operand for equation in program.equations if equation in self.plan.live for operand in equation.inputs
        )

    def _leaf(self, var: Var) -> str:
        text = self.leaves[var]
        if var.type.dtype.is_storage:
            return f"kernels.unpacked({text})"
        return f"{self.plan.python_type(var)}({text})" if self.plan.is_host(var) else text

    # Blocks

    def block(
        self, program: Program, indent: str, sizes: Iterable[Operand] = (), known: Iterable[Dim] = ()
    ) -> Iterator[str]:
        """The lines of a Program's equations; lines before them have assigned its inputs.

        Args:
            program: The Program.
            indent: The indentation of its lines.
            sizes: Operands that lines after the block read.
            known: Sizes that are not negative.
        """
        equations = [equation for equation in program.equations if equation in self.plan.live]
        deletable = self._last_uses(equations, (*program.results, *sizes))
        assigned_leaves: dict[Operand, None] = {}
        known = list(known)
        source = ""
        for chain, unused in joined_reads(equations, deletable, self.plan):  # `x[i][j]` is a chain of two equations
            equation = chain[-1]
            if equation.source != source:
                source = equation.source
                yield f"{indent}# {source or 'the whole circuit'}"
            for operand in (operand for link in chain for operand in (*link.inputs, *sizes_read(link))):
                if operand in self.leaves and operand not in assigned_leaves:
                    assert isinstance(operand, Var), "leaves are variables"
                    assigned_leaves[operand] = None
                    yield f"{indent}{operand.name} = {self._leaf(operand)}"
            for link in chain:
                yield from self._bounds_checks(link, known, indent)
            yield from self._equation(chain, indent)
            names = dict.fromkeys(var.name for var in unused)
            if names:
                yield f"{indent}del {', '.join(names)}"

    def _last_uses(self, equations: list[Equation], results: tuple[Operand, ...]) -> list[list[Var]]:
        """For each equation the variables of this block that nothing after it reads; inputs belong to the caller."""
        last_use: dict[Operand, int] = {}
        defined_here: dict[Operand, None] = dict.fromkeys(self.leaves)
        for index, equation in enumerate(equations):
            outputs = equation.outputs
            if equation.op.name in CONTROL:
                outputs = tuple(var for var in outputs if var in self.plan.reads or var in self.plan.sizes)
            defined_here.update(dict.fromkeys(outputs))
            sizes = list(sizes_read(equation))
            if equation.op.name == "scan":  # a scan of no rows makes empty results of these sizes
                sizes += (size for var in outputs for size in size_variables(var.type))
            last_use.update(dict.fromkeys((*equation.inputs, *outputs, *sizes), index))
        deletable: list[list[Var]] = [[] for _ in equations]
        for var, index in last_use.items():
            if isinstance(var, Var) and var in defined_here and var not in results:
                deletable[index].append(var)
        return deletable

    def _bounds_checks(self, equation: Equation, known: list[Dim], indent: str) -> Iterator[str]:
        """Checks that slices lie within their axes, unless this follows from `known`; each check adds to `known`."""
        if equation.op.name == "update" and not (self._may_be_in_place(equation) and written(self._as_call(equation))):
            return  # the kernel of the update checks them
        for axis, size, bounds in slices(equation):
            condition = unproven(size, bounds, known, self.bounds.text)
            if condition:
                numbers = ", ".join(map(self.bounds.text, (size, *bounds)))
                yield f"{indent}if not ({condition}):"
                yield f"{indent}{INDENT}kernels.refuse_slice({axis}, {numbers})"
                known += not_negative(size, *bounds)
                del known[_MAX_FACTS:-_MAX_FACTS]  # so that the work is linear in the text

    def _equation(self, chain: Chain, indent: str) -> Iterator[str]:
        equation = chain[-1]
        control = CONTROL.get(equation.op.name)
        if control is not None:
            yield from control(self, equation, indent)
            yield from assigned_sizes(self, equation, indent)
            return
        results = ", ".join(var.name for var in equation.outputs)
        if self._may_be_in_place(equation):
            yield f"{indent}if in_place:"
            is_copied = self.owned.written[equation]
            lines = in_place(self._as_call(equation), results, self.bounds.text, is_copied=is_copied)
            yield from (f"{indent}{INDENT}{line}" for line in lines)
            yield f"{indent}else:"
            indent += INDENT
        text = self._expression(chain)
        if equation in self.overwriting:
            over = ROWS[equation.op.name].over[self.overwriting[equation]].format(*map(self.text, equation.inputs))
            text = f"{over} if in_place else {text}"
        yield f"{indent}{results} = {text}"
        if len(equation.outputs) > 1:
            for var in equation.outputs:
                if var in self.plan.sizes:
                    yield f"{indent}{var.name} = {self.plan.python_type(var)}({var.name})"

    def _expression(self, chain: Chain) -> str:
        """The expression that computes the last equation of a chain."""
        plan, equation = self.plan, chain[-1]
        row = plan.row(equation)
        if row is not None:
            return row.format(*map(self.host, equation.inputs))
        entry = ROWS.get(equation.op.name)
        if entry is None:
            text = self._decomposed(equation)
        elif equation.op.name == "slice" or len(chain) > 1:
            text = self._subscripted(chain)
        else:
            text = entry.text(self._as_call(equation))
        if len(equation.outputs) == 1 and equation.outputs[0] in plan.sizes:
            return f"{plan.python_type(equation.outputs[0])}({text})"
        return text

    def _decomposed(self, equation: Equation) -> str:
        """A call of a helper, which computes an operation by its decomposition into others."""
        op, sizes = TORCH_OPS.get(equation.op.name), sizes_within(equation.params)
        if op is None or isinstance(op.decompose, Unsupported):
            raise UnsupportedError(f"the torch backend has no row for the operation {equation.op.name!r}.")
        types, results = ([operand.type for operand in group] for group in (equation.inputs, equation.outputs))
        program = clean(
            traced_decomposition(op.name, op.decompose, types, results, equation.params, sizes, equation.source)
        )
        used_names = {var.name for var in variables(self.plan.program)}
        names = (f"{self.name}_{op.name}_{number}" for number in count(len(self.helpers)))
        name = next(name for name in names if name not in used_names)
        self.helpers.append(source(program, name))
        arguments = ["leaves", *map(self.tensor, equation.inputs), *map(self.bounds.text, sizes)]
        return f"{name}({', '.join(arguments)})"

    def _subscripted(self, chain: Chain) -> str:
        """A chain of reads as one subscript: `x[i, 2:5]`."""
        parts = parts_read(chain, self.text)
        assert parts is not None, "equations are joined where they are one subscript"
        return f"{self.text(chain[0].inputs[0])}[{subscript(parts, self.bounds.text)}]"

    def _as_call(self, equation: Equation) -> Call:
        hosts = frozenset(index for index, operand in enumerate(equation.inputs) if self.plan.is_host(operand))
        return Call(equation, tuple(map(self.text, equation.inputs)), hosts)

    def _may_be_in_place(self, equation: Equation) -> bool:
        """Whether an update is written in place and as a copy; `in_place` chooses one of them at each call."""
        x = equation.inputs[0] if equation in self.owned.written else None
        return x is not None and not self.plan.is_host(x) and x.type.dtype not in UNSIGNED

    # Operands

    def text(self, operand: Operand) -> str:
        """An operand as it is: a Python number or a tensor."""
        return number_source(operand.value) if isinstance(operand, Literal) else operand.name

    def tensor(self, operand: Operand) -> str:
        """An operand as a tensor."""
        text = self.text(operand)
        return scalar_source(text, operand.type.dtype) if self.plan.is_host(operand) else text

    def host(self, operand: Operand) -> str:
        """An operand as a Python number."""
        if isinstance(operand, Literal) or self.plan.is_host(operand):
            return self.text(operand)
        return f"{self.plan.python_type(operand)}({operand.name})"
