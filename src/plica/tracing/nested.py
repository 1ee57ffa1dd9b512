"""`bind_nested`: records an operation that runs functions, and traces these functions into nested Programs.

    bind_nested(functions, inputs, strategy):
        expanded inputs, input type  <-  expand_args(inputs)           puts sizes before the arrays that have them
        for each function:
            expanded arguments       <-  initialize(input type)        in a scope of its own
            arguments                <-  collapse(expanded arguments)  leaves out the sizes
            results                  <-  trace_nested(function, arguments)
        output types                 <-  expand_results(results)       by the strategy: which sizes stay, which are new
        expanded outputs             <-  initialize(output types)      by the Builder, as the operation's row says
        outputs                      <-  collapse(expanded outputs)

Sizes that were put before arrays are *implicit* inputs, the arrays are *explicit* ones. The strategies are `LoopSizes`
in `loop_sizes.py` and `BranchSizes` in `branch_sizes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from plica.errors import ShapeError, TraceError
from plica.ir.builder import Builder
from plica.ir.program import Operand, Program, Var
from plica.ir.sizes import Dim, Size, as_size, atoms, single_atom, substitute
from plica.ir.types import SCALAR_SIZE, ArrayType, DBIdx, array_type
from plica.tracing.locations import user_line
from plica.tracing.namespace.operands import as_tracer
from plica.tracing.scope import Trace, scope_of
from plica.tracing.tracer import Tracer
from plica.tracing.trees import Structure, flatten

InputType = tuple[tuple[ArrayType, bool], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function that an operation runs as a nested Program.

    Args:
        call: Takes the arguments one by one and returns a tree of results.
        name: The parameter of the equation that holds the Program.
        location: `file:line` of the function.
        leading: Types of arguments that come before the inputs, such as the index of a loop.
        names: Names for all arguments where these are known; None for others.
    """

    call: Callable[..., Any]
    name: str
    location: str
    leading: tuple[ArrayType, ...] = ()
    names: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Expanded:
    """The inputs of an operation, with the sizes that their types need before them.

    Args:
        sizes: The implicit inputs: sizes in terms of the enclosing scope.
        inputs: The explicit inputs.
        input_type: A pair `(type, is explicit)` for each input; `DBIdx(i)` in a type is implicit input i.
    """

    sizes: tuple[Dim, ...]
    inputs: tuple[Tracer, ...]
    input_type: InputType

    def size_indices(self, position: int) -> tuple[int | None, ...]:
        """For each axis of an explicit input the index of the implicit input that is its size; None if none is."""
        dims = self.input_type[len(self.sizes) + position][0].shape
        return tuple(_size_index(dim) for dim in dims)

    def axes(self) -> list[frozenset[tuple[int, int]]]:
        """For each implicit input the axes `(explicit input, axis)` whose size it is."""
        uses = [
            (size_index, (position, axis))
            for position in range(len(self.inputs))
            for axis, size_index in enumerate(self.size_indices(position))
        ]
        return [frozenset(use for index, use in uses if index == size) for size in range(len(self.sizes))]


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced function: its scope, its arguments and its results.

    Args:
        function: The function.
        scope: The scope in which it was traced, which knows what it captured.
        implicit: Its implicit inputs.
        arguments: Its explicit arguments, the leading ones first.
        results: The leaves of the tree that it returned.
        structure: The structure of that tree.
    """

    function: Function
    scope: Trace
    implicit: tuple[Var, ...]
    arguments: tuple[Tracer, ...]
    results: tuple[Tracer, ...]
    structure: Structure


@dataclass(frozen=True, slots=True)
class Region:
    """A nested Program, and the outer operand for each of its consts."""

    program: Program
    captured: tuple[Operand, ...]


@dataclass(slots=True)
class Retry(Exception):  # noqa: N818 - no error: the functions are traced again
    """Raised by a strategy to have the functions traced again with inputs of other types.

    Args:
        casts: Inputs by position, in another dtype.
        opened: Axes `(input, axis)` to *open*: each gets a size of its own as an implicit input, even if that is a
            number or stays the same elsewhere.
    """

    casts: Mapping[int, Tracer] = field(default_factory=dict)
    opened: frozenset[tuple[int, int]] = frozenset()


class Strategy(Protocol):
    """How an operation expands its arguments and results."""

    @property
    def shared(self) -> bool:
        """Whether a size that several axes have becomes one implicit input."""
        ...

    @property
    def keeps_arguments(self) -> bool:
        """Whether the functions get the operation's inputs unchanged, as in a call: then they may capture sizes."""
        ...

    def expand_results(self, expanded: Expanded, traced: Sequence[Traced]) -> list[Region]:
        """The Programs of the traced functions, with the output types that the operation needs."""
        ...

    def openable(self, inputs: Sequence[Tracer]) -> frozenset[tuple[int, int]]:
        """The axes `(input, axis)` that may be opened: their size is a number, and the operation may change it."""
        ...

    def numbers(self, expanded: Expanded, traced: Sequence[Traced]) -> Sequence[bool]:
        """For each explicit result whether it is a Python number, which takes the dtype of arrays that it meets."""
        ...


def bind_nested(
    op: str,
    functions: Sequence[Function],
    inputs: Sequence[Tracer],
    strategy: Strategy,
    record: Callable[[Trace, Expanded, Sequence[Region]], tuple[Tracer, ...]],
) -> tuple[tuple[Tracer, ...], Structure]:
    """Trace `functions` at the types of `inputs` and record the operation.

    Args:
        op: The operation, for messages.
        functions: The functions that become its nested Programs.
        inputs: The inputs of the operation.
        strategy: Says which sizes become implicit inputs and outputs.
        record: Adds the equation to the scope, from the expanded inputs and the Programs. It returns all results.

    Returns:
        The explicit results, and the structure of what the last function returned.
    """
    scope, line = scope_of(), user_line()
    attempts, refused = [_Attempt([scope.receive(tracer) for tracer in inputs])], None
    for _ in range(_MOST_RETRIES):
        attempt = attempts.pop(0)
        expanded = expand_args(
            attempt.inputs, shared=strategy.shared, opened=attempt.opened, are_outer=attempt.are_outer
        )
        try:
            captures = attempt.are_outer and strategy.keeps_arguments
            traced = [abstract_evaluation(function, expanded, scope, captures=captures) for function in functions]
            regions = strategy.expand_results(expanded, traced)
            with scope.builder.at(line):
                outputs = record(scope, expanded, regions)
        except Retry as retry:
            attempts.insert(0, attempt.changed(retry))
        except ShapeError as error:
            if refused is not None and str(error) == str(refused):  # the sizes that stay make no difference
                attempts = [pending for pending in attempts if not pending.are_outer]
            refused = refused or error
            attempts = attempts or attempt.alternatives(expanded, strategy)
            if not attempts:
                raise refused from None
        else:
            return _explicit(outputs, strategy.numbers(expanded, traced)), traced[-1].structure
    raise TraceError(
        f"{line}: the types that {op} carries change in each iteration; give its arguments explicit dtypes and shapes."
    )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One way to trace the functions of an operation.

    Args:
        inputs: The inputs, cast where an earlier attempt needed it.
        opened: Axes whose sizes are known to change. Their sizes are implicit inputs, even if they are numbers.
        are_outer: Whether all other sizes are those of the enclosing scope, not inputs. This is tried if the functions
            refuse fresh sizes, which may be anything.
    """

    inputs: list[Tracer]
    opened: frozenset[tuple[int, int]] = frozenset()
    are_outer: bool = False

    def alternatives(self, expanded: Expanded, strategy: Strategy) -> list[_Attempt]:
        """The attempts after a refusal: with all outer sizes, with all but one, and with all openable axes opened."""
        opened = strategy.openable(self.inputs)
        attempts = []
        if expanded.sizes and not self.are_outer:
            attempts.append(replace(self, are_outer=True))
            if strategy.shared and 1 < len(expanded.sizes) <= _MOST_SIZES:
                attempts += [replace(self, are_outer=True, opened=self.opened | axes) for axes in expanded.axes()]
        if not opened <= self.opened:
            attempts.append(replace(self, opened=self.opened | opened, are_outer=False))
        return attempts

    def changed(self, retry: Retry) -> _Attempt:
        """This attempt with the inputs that a strategy asked for."""
        inputs = [retry.casts.get(position, tracer) for position, tracer in enumerate(self.inputs)]
        return replace(self, inputs=inputs, opened=self.opened | retry.opened)


def _explicit(outputs: Sequence[Tracer], numbers: Sequence[bool]) -> tuple[Tracer, ...]:
    """The explicit results; those that stand for Python numbers are weak."""
    explicit = collapse(outputs, len(outputs) - len(numbers))
    return tuple(
        Tracer(result.value, result.trace, weak=is_weak) for result, is_weak in zip(explicit, numbers, strict=True)
    )


_MOST_RETRIES = 50
_MOST_SIZES = 3  # with more sizes, leaving out each in turn would trace the functions too often


def expand_args(
    inputs: Sequence[Tracer],
    *,
    shared: bool,
    opened: frozenset[tuple[int, int]] = frozenset(),
    are_outer: bool = False,
) -> Expanded:
    """Put the sizes of `inputs` before them.

    Args:
        inputs: Tracers of one scope.
        shared: Whether a size that several axes have becomes one implicit input. Otherwise each axis has its own.
        opened: Axes `(input, axis)` whose sizes are inputs in any case; each number among them is an input of its own.
        are_outer: Whether all other sizes stay those of the enclosing scope.
    """
    sizes: list[Dim] = []
    indices: dict[Dim, int] = {}
    types: list[ArrayType] = []
    for position, tracer in enumerate(inputs):
        dims: list[Dim] = []
        for axis, dim in enumerate(tracer.dims):
            if (isinstance(dim, int) or are_outer) and (position, axis) not in opened:
                dims.append(dim)
                continue
            is_new = not shared or isinstance(dim, int) or dim not in indices
            if is_new:
                sizes.append(dim)
                indices[dim] = len(sizes) - 1
            dims.append(Size.of(DBIdx(len(sizes) - 1 if is_new else indices[dim])))
        types.append(array_type(dims, tracer.dtype))
    implicit = tuple((SCALAR_SIZE, False) for _ in sizes)
    return Expanded(tuple(sizes), tuple(inputs), (*implicit, *((type_, True) for type_ in types)))


def abstract_evaluation(function: Function, expanded: Expanded, outer: Trace, *, captures: bool = False) -> Traced:
    """Trace `function` at the input type, in a scope of its own.

    Args:
        function: The function.
        expanded: The expanded inputs that it is called with.
        outer: The enclosing scope.
        captures: Whether inputs that are sizes of the enclosing scope are captured from there instead of passed. Then
            the function knows which other sizes they equal.
    """
    scope = Trace(Builder(outer.builder.table), locate=outer.locate, parent=outer, location=function.location)
    variables = initialize(expanded, scope, function)
    arguments = collapse(variables, len(expanded.sizes))
    weak = [True] * len(function.leading) + [tracer.weak for tracer in expanded.inputs]
    values = list(arguments)
    if captures:
        for position, tracer in enumerate(expanded.inputs, len(function.leading)):
            if as_size(tracer.value) is not None:
                values[position] = scope.lift(tracer.value, outer)
    tracers = tuple(Tracer(value, scope, weak=is_weak) for value, is_weak in zip(values, weak, strict=True))
    results, structure = trace_nested(function, tracers, scope)
    return Traced(function, scope, variables[: len(expanded.sizes)], tracers, results, structure)


def initialize(expanded: Expanded, scope: Trace, function: Function) -> tuple[Var, ...]:
    """The expanded arguments in a new scope: sizes, leading arguments, and arrays whose `DBIdx` are those sizes."""
    count = len(expanded.sizes)
    names = [*function.names, *[None] * len(expanded.input_type)]
    sizes: list[Var] = []
    for dim in expanded.sizes:
        size = scope.builder.implicit(_hint(dim))
        sizes.append(size)
    variables = list(sizes)
    types = [*function.leading, *(type_ for type_, _ in expanded.input_type[count:])]
    for name, type_ in zip(names, types, strict=False):
        dims = [_inner(dim, sizes, scope) for dim in type_.shape]
        variables.append(scope.builder.argument(name, dims, type_.dtype))
    return tuple(variables)


def _inner(dim: Dim, sizes: Sequence[Var], scope: Trace) -> Dim:
    """A size of an input type in the new scope: `DBIdx(i)` is `sizes[i]`, and other variables are captured."""
    assert scope.parent is not None, "a nested function has an enclosing scope"

    def value(atom: Any) -> Dim:
        if isinstance(atom, DBIdx):
            return Size.of(sizes[atom.val])
        lifted: Dim = scope.lift(Size.of(atom), scope.parent)  # type: ignore[arg-type]
        return lifted

    return substitute(dim, value)


def _hint(dim: Dim) -> str | None:
    """A name for a size: the name of the first variable in it."""
    return next((atom.name for atom in atoms(dim) if isinstance(atom, Var)), None)


def collapse(expanded: Sequence[Any], num_implicit: int) -> tuple[Any, ...]:
    """The explicit inputs or outputs of an expanded list."""
    return tuple(expanded[num_implicit:])


def trace_nested(function: Function, arguments: Sequence[Tracer], scope: Trace) -> tuple[tuple[Tracer, ...], Structure]:
    """Run the function on tracers. Returns the leaves of its results as tracers of `scope`, and their structure."""
    with scope.active():
        leaves, structure = flatten(function.call(*arguments))
        results = tuple(scope.receive(as_tracer(f"the result of {function.name}", leaf)) for leaf in leaves)
    return results, structure


def build_region(traced: Traced, results: Sequence[Operand], implicit: Sequence[Operand]) -> Region:
    """The Program of a traced function with these outputs, and what it captured."""
    program = traced.scope.builder.build(results, implicit)
    return Region(program, tuple(traced.scope.captured))


def _size_index(dim: Dim) -> int | None:
    """The i of `DBIdx(i)`; None for other sizes."""
    atom = None if isinstance(dim, int) else single_atom(dim)
    return atom.val if isinstance(atom, DBIdx) else None
