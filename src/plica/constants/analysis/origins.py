"""Where each value of a Program comes from: a forward analysis over a lattice of four sources.

    origin  ::= a set of {literal, compile-time argument, run-time argument, not constant}
    join    ::= union
    result of an operation ::= the join of its operands, of the sizes in its parameters, and of the values that its
                               regions read; literal if it reads nothing; not constant where the operation is not pure

A value is constant if "not constant" is no member of its origin. Loops feed results back, so values that reach each
other through a loop have one origin: the analysis takes the strongly connected components of the graph of values, in
one walk, and joins each component once.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> program = trace(lambda x, w: x * (w + 1), spec(3), spec(3))
>>> origins = find_origins(program, run_time=("w",))
>>> [str(origins.of[equation.outputs[0]]) for equation in program.equations]
['literal | run-time', 'literal | run-time | not constant']
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import reduce
from operator import or_

from plica.graph.components import strongly_connected
from plica.ir.op import OpTable
from plica.ir.program import Equation, Literal, Operand, Program, Var, nested, print_program, size_variables
from plica.ir.sizes import Size
from plica.ops import OPS
from plica.ops.control_operands import (
    bounds_of,
    branch_programs,
    call_inputs,
    carries,
    explicit_outputs,
    implicit_operands,
    scanned,
)
from plica.ops.regions import regions_of


class Origin(Flag):
    """Where a value comes from: any of these together."""

    LITERAL = auto()
    COMPILE_TIME = auto()
    RUN_TIME = auto()
    VARYING = auto()

    @property
    def is_constant(self) -> bool:
        """Whether none of its sources changes between calls."""
        return Origin.VARYING not in self

    @property
    def is_known(self) -> bool:
        """Whether all its sources are known when the Program is compiled."""
        return not self & (Origin.RUN_TIME | Origin.VARYING)

    def __str__(self) -> str:
        return " | ".join(_WORDS[origin] for origin in self) or "nothing"


_WORDS = {
    Origin.LITERAL: "literal",
    Origin.COMPILE_TIME: "compile-time",
    Origin.RUN_TIME: "run-time",
    Origin.VARYING: "not constant",
}
_NOTHING = Origin(0)


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of all values of a Program.

    Args:
        of: The origin of each variable, those of nested Programs too. A Program that runs several times has the join.
        impure: The equations that are not pure, or run one that is not.
        num_visits: How many values were visited, each once.
    """

    of: Mapping[Var, Origin]
    impure: Collection[Equation]
    num_visits: int

    def foldable(self, program: Program) -> dict[Equation, None]:
        """The equations that may run once for all calls: they are pure, and read constants alone.

        A result may be constant though its equation is not among them. For example, one result of a call is, while
        the call reads other values too. An equation whose results nothing reads runs for its checks, at each call.
        """
        foldable: dict[Equation, None] = {}
        constant = {var: None for var in (*program.consts, *program.inputs) if self.of[var].is_constant}
        wanted = needed_by((), program.outputs)
        for equation in program.equations:
            wanted.update((operand, None) for operand in needed_by((equation,), ()) if operand not in equation.outputs)
        for equation in program.equations:
            read = (operand for operand in reads(equation) if isinstance(operand, Var))
            is_read = any(operand in wanted for operand in equation.outputs)
            if is_read and equation not in self.impure and all(operand in constant for operand in read):
                foldable[equation] = None
                constant.update(dict.fromkeys(equation.outputs))
        return foldable


def reads(equation: Equation) -> tuple[Operand, ...]:
    """The operands of an equation, and the sizes in its parameters."""
    return (*equation.inputs, *size_variables(tuple(equation.params.values())))


def needed_by(equations: Iterable[Equation], outputs: Iterable[Operand]) -> dict[Var, None]:
    """The variables that equations and results read, sizes in types among them."""
    variables: dict[Var, None] = {}
    for equation in equations:
        variables.update((operand, None) for operand in reads(equation) if isinstance(operand, Var))
        for var in (*equation.inputs, *equation.outputs):
            variables.update(dict.fromkeys(size_variables(var.type)))
    for operand in outputs:
        if isinstance(operand, Var):
            variables[operand] = None
        variables.update(dict.fromkeys(size_variables(operand.type)))
    return variables


def makers_of(
    equations: Sequence[Equation], results: Iterable[Operand], given: Container[Var] = ()
) -> tuple[list[Equation], dict[Var, None]]:
    """The equations that compute `results`, the last first, and the variables that they read; none computes `given`."""
    needed, makers = needed_by((), results), []
    for equation in reversed(equations):
        if any(var in needed and var not in given for var in equation.outputs):
            makers.append(equation)
            needed.update(needed_by((equation,), ()))
    return makers, needed


def find_origins(
    program: Program, compile_time: Collection[str] = (), run_time: Collection[str] = (), table: OpTable = OPS
) -> Origins:
    """The origin of each value.

    Args:
        program: The Program.
        compile_time: The names of consts and arguments whose values are known when the Program is compiled.
        run_time: The names of those that have one value for all calls. Every other argument is not constant.
        table: The operations, whose rows say which are pure.
    """
    marks = dict.fromkeys(run_time, Origin.RUN_TIME) | dict.fromkeys(compile_time, Origin.COMPILE_TIME)
    graph = _Graph(table)
    scope: dict[Var, int] = {}
    for var in (*program.consts, *program.arguments):
        graph.add(scope, var, marks.get(var.name, Origin.VARYING))
    for var in program.inputs[: program.num_implicit_inputs]:
        graph.add(scope, var, _of_size(var, program, marks))
    graph.block(program, scope)
    return graph.solved()


def _of_size(size: Var, program: Program, marks: Mapping[str, Origin]) -> Origin:
    """The origin of an implicit size: that of the most constant argument that has it as an axis."""
    arrays = [var for var in program.arguments if Size.of(size) in var.type.shape]
    origins = [marks.get(var.name, Origin.VARYING) for var in arrays]
    return min(origins, key=lambda origin: origin.value, default=Origin.VARYING)


@dataclass(slots=True)
class _Graph:
    """The graph of the values of all Programs; a value is an index.

    Args:
        table: The operations.
        variables: The variable of each value.
        sources: The values that each is computed from.
        own: The origin that each value has besides those of its sources.
        impure: The equations that are not pure.
    """

    table: OpTable
    variables: list[Var] = field(default_factory=list)
    sources: list[list[int]] = field(default_factory=list)
    own: list[Origin] = field(default_factory=list)
    impure: dict[Equation, None] = field(default_factory=dict)
    _pure: dict[int, bool] = field(default_factory=dict)

    def add(self, scope: dict[Var, int], var: Var, own: Origin = _NOTHING, sources: Iterable[int] = ()) -> int:
        """Add a value of a Program; a Program that several equations run has its values once for each."""
        scope[var] = len(self.sources)
        self.variables.append(var)
        self.sources.append(list(sources))
        self.own.append(own)
        return scope[var]

    def block(self, program: Program, scope: dict[Var, int]) -> None:
        """Add the values that the equations of a Program make; recursion is as deep as Programs are nested."""
        for equation in program.equations:
            own = _NOTHING if self.is_pure(equation) else Origin.VARYING
            if own:
                self.impure[equation] = None
            if next(nested(equation.params), None) is not None:
                self._control(equation, scope, own)
                continue
            operands = reads(equation)
            sources = [scope[operand] for operand in operands if isinstance(operand, Var)]
            if len(sources) < len(operands) or not operands:
                own |= Origin.LITERAL
            for var in equation.outputs:
                self.add(scope, var, own, sources)

    def is_pure(self, equation: Equation) -> bool:
        """Whether an operation is pure, and all that its regions run."""
        return self.table[equation.op.name].pure and all(map(self._is_pure, nested(equation.params)))

    def _is_pure(self, program: Program) -> bool:
        if id(program) not in self._pure:
            self._pure[id(program)] = all(map(self.is_pure, program.equations))
        return self._pure[id(program)]

    def _control(self, equation: Equation, scope: dict[Var, int], own: Origin) -> None:
        """Add an equation that runs Programs: its operands flow into them, and their results out of it."""
        scopes = [self._region(region, operands, scope) for region, operands in regions_of(equation)]
        for var in equation.outputs:
            self.add(scope, var, own, (scope[size] for size in size_variables(tuple(equation.params.values()))))
        if branch_programs(equation):
            self._returned(equation, scope, scopes)
        else:
            self._looped(equation, scope, scopes)

    def _region(self, program: Program, captured: tuple[Operand, ...], scope: dict[Var, int]) -> dict[Var, int]:
        """Add the values of a region, with the sources of its consts; its inputs get theirs later."""
        inner: dict[Var, int] = {}
        for var in (*program.consts, *program.inputs):
            self.add(inner, var)
        for var, operand in zip(program.consts, captured, strict=True):
            self._join(inner, var, scope, operand)
        self.block(program, inner)
        return inner

    def _join(self, scope: dict[Var, int], var: Var, outer: dict[Var, int], operand: Operand) -> None:
        """Make `operand` of one scope a source of `var` of another."""
        if isinstance(operand, Literal):
            self.own[scope[var]] |= Origin.LITERAL
        else:
            self.sources[scope[var]].append(outer[operand])

    def _returned(self, equation: Equation, scope: dict[Var, int], scopes: list[dict[Var, int]]) -> None:
        """Join results of branches and calls with those of their Programs, and with the predicates that choose one."""
        if equation.op.name == "call":
            program: Program = equation.params["program"]
            sizes = (equation.inputs[index] for index in implicit_operands(equation))
            for var, operand in (*zip(program.inputs, sizes, strict=False), *call_inputs(equation)):
                self._join(scopes[0], var, scope, operand)
            predicates: tuple[Operand, ...] = ()
        else:
            predicates = equation.inputs[: len(scopes) - 1]
        for program, inner in zip(branch_programs(equation), scopes, strict=True):
            for var, result in zip(equation.outputs, program.outputs, strict=True):
                self._join(scope, var, inner, result)
        for var in equation.outputs:
            for predicate in predicates:
                self._join(scope, var, scope, predicate)

    def _looped(self, equation: Equation, scope: dict[Var, int], scopes: list[dict[Var, int]]) -> None:
        """Join carries of a loop with their operands, results of the body, and the values that end the loop."""
        body: Program = equation.params["body"]
        inner = scopes[-1]
        sizes = zip(
            body.inputs[: body.num_implicit_inputs],
            (equation.inputs[index] for index in implicit_operands(equation)),
            body.outputs[: body.num_implicit_outputs],
            equation.outputs,
            strict=False,
        )
        ends: list[tuple[dict[Var, int], Operand]] = []  # the values that say how often the body runs
        if equation.op.name == "for_loop":
            ends = [(scope, bound) for bound in bounds_of(equation)]
            for _, bound in ends:
                self._join(inner, body.arguments[0], scope, bound)
        elif equation.op.name == "while_loop":
            ends = [(scopes[0], equation.params["cond"].outputs[0])]
        else:
            length = size_variables(equation.params["length"])
            ends = [(scope, size) for size in length]
            for var, operand in scanned(equation):
                self._join(inner, var, scope, operand)
            stacks = explicit_outputs(equation)[equation.params["num_carries"] :]
            for var, result in zip(stacks, body.results[equation.params["num_carries"] :], strict=True):
                self._join(scope, var, inner, result)
        for var, first, result, output in (*sizes, *carries(equation)):
            self._join(inner, var, scope, first)
            self._join(scope, output, scope, first)
            if result is not var:  # else it is the operand, however often the body runs
                self._join(inner, var, inner, result)
                self._join(scope, output, inner, result)
                for end_scope, end in ends:
                    self._join(scope, output, end_scope, end)
        if equation.op.name == "while_loop":
            for condition_input, var in zip(equation.params["cond"].inputs, body.inputs, strict=True):
                self.sources[scopes[0][condition_input]].append(inner[var])

    def solved(self) -> Origins:
        """The origin of each value, joined with those of all its sources."""
        joined = list(self.own)
        num_visits = 0

        def sources(value: int) -> list[int]:
            nonlocal num_visits
            num_visits += 1
            return self.sources[value]

        for group in strongly_connected(range(len(joined)), sources):
            member_origins = [joined[source] for value in group for source in self.sources[value]]
            origin = reduce(or_, member_origins, reduce(or_, (self.own[value] for value in group)))
            for value in group:
                joined[value] = origin
        of: dict[Var, Origin] = {}
        for var, origin in zip(self.variables, joined, strict=True):
            of[var] = of.get(var, _NOTHING) | origin
        return Origins(of, self.impure, num_visits)


def print_origins(program: Program, origins: Origins) -> str:
    """The text of a Program with the origin of each value at the end of its line, those of nested Programs too."""

    def note(variables: Sequence[Var]) -> str:
        texts = {var.name: str(origins.of[var]) for var in variables}
        if len(set(texts.values())) > 1:
            return ", ".join(f"{name}: {text}" for name, text in texts.items())
        return "".join(set(texts.values()))

    return print_program(program, note=note)
