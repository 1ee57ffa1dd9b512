"""Who owns an array: where an update may write over the array that it updates, because nobody else holds it.

    >>> from plica.ir.types import spec
    >>> from plica.tracing.control import trace_for
    >>> from plica.tracing.trace import trace
    >>> def filled(x):
    ...     return trace_for((0, 3, 1), lambda i, a: a.at[i].set(0), (x,), shared=True)
    >>> program = trace(filled, spec(3))
    >>> loop = program.equations[0]
    >>> found = owned(program)
    >>> list(found.written) == list(loop.params["body"].equations), found.copied[loop]
    (True, (0,))

An array is owned where it lies in memory that an equation of the Program made, all of it, and nothing that is read
later lies in any part of that memory. Arguments and captured arrays belong to the caller. What a loop carries is owned
if each iteration ends with arrays that are: the first one starts with a copy, unless it is given what is owned and not
read again. Branches and calls pass on what they are given.

Whether gradients are asked for is not known here. Then nothing may be written over: automatic differentiation keeps
arrays that the Program does not read again.

`memory_of_results` asks the same of what a Program returns (`results.py`): there nothing is written over, and a loop
returns what its iterations make, or what it was given where it may take none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from plica.ir.op import Memory, OpTable
from plica.ir.program import Equation, Literal, Operand, Program, Var, nested
from plica.ops import OPS
from plica.ops.control_operands import bounds_of, call_inputs, carries, explicit_outputs, returning
from plica.ops.regions import regions_of


@dataclass(frozen=True, slots=True)
class Owned:
    """What may be written over where no gradient is asked for.

    Args:
        written: The updates that may write over their first operand, and whether their values lie in it too, so that
            they are copied first.
        copied: For loops, the places among what they carry that start with a copy.
    """

    written: Mapping[Equation, bool] = field(default_factory=dict)
    copied: Mapping[Equation, tuple[int, ...]] = field(default_factory=dict)


def owned(program: Program, table: OpTable = OPS) -> Owned:
    """The updates of `program`, and of Programs nested in it, that may write over what they update.

    Args:
        program: The Program.
        table: Its operations, where a backend has private ones.

    Assumes:
        An equation stands in one place: a Program that is called twice has equations of its own in each.
    """
    if not _has_updates(program):
        return Owned()
    found = _analysed(program, table, writes=True)
    return Owned(found.written, found.copied)


def memory_of_results(program: Program) -> "Analysis":
    """Where the variables of `program`, and of Programs nested in it, lie where nothing is written over."""
    return _analysed(program, OPS, writes=False)


CALLERS = frozenset([0])
"""The memory of arguments and captured arrays."""


def _analysed(program: Program, table: OpTable, *, writes: bool) -> "Analysis":
    variables = (*program.consts, *program.inputs)
    caller = Held(CALLERS, is_whole=False)
    return _Block(program, dict.fromkeys(variables, caller), frozenset(), count(1), table, writes=writes).run()


def memory_of(equation: Equation, table: OpTable = OPS) -> Memory:
    """Where the results of an equation lie, as far as its operands say more than its operation."""
    if equation.op.name == "einsum" and len(equation.inputs) > 1:
        return Memory.NEW  # a sum of several operands returns none of them
    carriers = {one.type.dtype.carrier for one in (*equation.inputs, *equation.outputs)}
    if equation.op.name == "astype" and len(carriers) > 1:
        return Memory.NEW
    row = table.get(equation.op.name)
    return Memory.EITHER if row is None else row.memory  # one that a backend refuses


REPEATING = frozenset({"broadcast_to", "full"})
"""The operations whose results may have one element in many places."""


def _has_updates(program: Program) -> bool:
    return any(
        equation.op.name == "update" or any(map(_has_updates, nested(equation.params)))
        for equation in program.equations
    )


@dataclass(frozen=True, slots=True)
class Held:
    """Where an array lies.

    Args:
        memory: Numbers of pieces of memory; it lies in some of them.
        is_whole: Whether it is all that lies there, each element once: no view of a part.
        is_repeated: Whether an element may stand in several places.
    """

    memory: frozenset[int]
    is_whole: bool
    is_repeated: bool = False


NOWHERE = Held(frozenset(), is_whole=False)


@dataclass(slots=True)
class Analysis:
    """What is known of a block.

    Args:
        written: The updates, as in `Owned`.
        copied: The copies, as in `Owned`.
        touched: The memory that is written over.
        held: Where its variables lie.
        regions: For branches and calls, what is known of their Programs in order.
        origins: For loops, the places of what they carry whose results lie apart from everything else, and for each
            the places of the first operands that it may be.
    """

    written: dict[Equation, bool] = field(default_factory=dict)
    copied: dict[Equation, tuple[int, ...]] = field(default_factory=dict)
    touched: frozenset[int] = frozenset()
    held: dict[Var, Held] = field(default_factory=dict)
    regions: dict[Equation, list["Analysis"]] = field(default_factory=dict)
    origins: dict[Equation, Mapping[int, frozenset[int]]] = field(default_factory=dict)

    def where(self, operand: Operand) -> Held:
        """Where an operand lies; a literal lies nowhere."""
        return self.held.get(operand, NOWHERE) if isinstance(operand, Var) else NOWHERE

    def add(self, other: "Analysis") -> None:
        """Take over what was found in a nested Program."""
        self.written |= other.written
        self.copied |= other.copied
        self.touched |= other.touched


class _Block:
    """The equations of a Program, in order.

    Args:
        program: The Program.
        held: Where its consts and inputs lie.
        alive: Memory that is read after the Program, or while it runs by others.
        ids: New numbers of memory.
        table: The operations.
        writes: Whether updates write over what they may.
    """

    def __init__(
        self,
        program: Program,
        held: Mapping[Var, Held],
        alive: frozenset[int],
        ids: Iterator[int],
        table: OpTable,
        *,
        writes: bool,
    ) -> None:
        self._program = program
        self._alive = alive | CALLERS
        self._ids = ids
        self._table = table
        self._writes = writes
        self._found = Analysis(held=dict(held))
        self._last: dict[Operand, int] = {}
        for index, equation in enumerate(program.equations):
            self._last.update(dict.fromkeys(equation.inputs, index))
        self._last.update(dict.fromkeys(program.outputs, len(program.equations)))

    def run(self) -> Analysis:
        """Look at every equation once."""
        for index, equation in enumerate(self._program.equations):
            held = self._results(index, equation)
            self._found.held.update(zip(equation.outputs, held, strict=True))
        return self._found

    def _inside(self, program: Program, held: Mapping[Var, Held], alive: frozenset[int] = frozenset()) -> Analysis:
        """What is known of a nested Program."""
        return _Block(program, held, alive, self._ids, self._table, writes=self._writes).run()

    def _new(self) -> Held:
        return Held(frozenset([next(self._ids)]), is_whole=True)

    def _read_after(self, index: int) -> frozenset[int]:
        """The memory of what is read after an equation."""
        late = (held.memory for var, held in self._found.held.items() if self._last.get(var, -1) > index)
        return self._alive.union(*late)

    def _is_free(self, held: Held, index: int) -> bool:
        """Whether an equation is the last to read an array that is the Program's own."""
        return held.is_whole and held.memory.isdisjoint(self._read_after(index))

    # Equations

    def _results(self, index: int, equation: Equation) -> Sequence[Held]:
        name = equation.op.name
        if name == "update":
            return [self._update(index, equation)]
        if "body" in equation.params:
            return (self._loop if self._writes else self._returning_loop)(index, equation)
        if returning(equation):
            return self._branches(index, equation)
        memory = memory_of(equation, self._table)
        read = equation.inputs[:1] if memory is Memory.VIEW else equation.inputs
        operands = [self._found.where(one) for one in read]
        given = _together(operands)
        if memory is Memory.VIEW or (memory is Memory.EITHER and given):
            is_repeated = name in REPEATING or any(one.is_repeated for one in operands)
            return [Held(given, is_whole=False, is_repeated=is_repeated)] * len(equation.outputs)
        return [self._new() for _ in equation.outputs]

    def _update(self, index: int, equation: Equation) -> Held:
        x, values, *indices = map(self._found.where, equation.inputs)
        if not self._writes or not self._is_free(x, index) or not x.memory.isdisjoint(_together(indices)):
            return self._new()
        self._found.written[equation] = not x.memory.isdisjoint(values.memory)
        self._found.touched |= x.memory
        return x

    def _branches(self, index: int, equation: Equation) -> Sequence[Held]:
        """A result lies where one of the branches puts it."""
        regions = regions_of(equation)
        after = self._read_after(index)
        made = []
        for program, operands in regions:
            held = {var: self._found.where(one) for var, one in zip(program.consts, operands, strict=False)}
            if equation.op.name == "call":
                held |= {var: self._found.where(one) for var, one in call_inputs(equation)}
            found = self._inside(program, held, after)
            self._found.add(found)
            self._found.regions.setdefault(equation, []).append(found)
            results = [found.where(one) for one in program.results]
            made.append([replace(one, is_whole=_is_apart(place, results)) for place, one in enumerate(results)])
        joined = [_joined(alike, is_whole=all(one.is_whole for one in alike)) for alike in zip(*made, strict=True)]
        return [*[NOWHERE] * equation.params["num_implicit_outputs"], *joined]

    def _loop(self, index: int, equation: Equation) -> Sequence[Held]:
        carried = list(carries(equation))
        own, found = self._owned_by(equation, carried)
        self._found.add(found)
        given = [self._found.where(one) for one in equation.inputs]
        copied = []
        for place in own:
            first = carried[place][1]
            others = _together(held for one, held in zip(equation.inputs, given, strict=True) if one is not first)
            once = sum(one is first for one in equation.inputs) == 1
            held = self._found.where(first)
            if once and self._is_free(held, index) and held.memory.isdisjoint(others):
                self._found.touched |= held.memory
            else:
                copied.append(place)
        self._found.copied[equation] = tuple(copied)
        # an iteration's own arrays, or what the loop was given: any of it, for it may take no turn, or capture them
        shared = Held(CALLERS | _together(given), is_whole=False)
        results = [self._new() if place in own else shared for place in range(len(carried))]
        stacks = [self._new() for _ in explicit_outputs(equation)[len(carried) :]]
        return [*[NOWHERE] * equation.params["num_implicit_outputs"], *results, *stacks]

    def _owned_by(
        self, equation: Equation, carried: Sequence[tuple[Var, Operand, Operand, Var]]
    ) -> tuple[frozenset[int], Analysis]:
        """The places of what a loop carries and owns, for it writes over it, and what was found in its body."""
        body: Program = equation.params["body"]
        own = frozenset(place for place, (inner, _, _, _) in enumerate(carried) if inner.type.shape)
        while True:
            shared = Held(CALLERS, is_whole=False)
            held = dict.fromkeys((*body.consts, *body.inputs), shared)
            first = {place: self._new() for place in own}
            held |= {carried[place][0]: one for place, one in first.items()}
            found = self._inside(body, held)
            results = [found.where(one) for one in body.results]
            kept = frozenset(
                place for place in own if _is_apart(place, results) and results[place].memory.isdisjoint(CALLERS)
            )
            if kept == own:
                kept = self._useful(first, results, found.touched)
            if kept == own:
                return own, found
            own = kept

    def _returning_loop(self, index: int, equation: Equation) -> Sequence[Held]:
        """What a loop returns where nothing is written over: what iterations make, or first operands."""
        del index
        carried = list(carries(equation))
        origins = self._found.origins[equation] = self._origins(equation, carried)
        given = _together(map(self._found.where, equation.inputs))
        results = []
        for place in range(len(carried)):
            if place not in origins:  # captured arrays, or parts of one another
                results.append(Held(CALLERS | given, is_whole=False))
                continue
            first = [self._found.where(carried[origin][1]) for origin in origins[place]]
            results.append(_joined([self._new(), *first], is_whole=not first))
        stacks = [self._new() for _ in explicit_outputs(equation)[len(carried) :]]
        return [*[NOWHERE] * equation.params["num_implicit_outputs"], *results, *stacks]

    def _origins(
        self, equation: Equation, carried: Sequence[tuple[Var, Operand, Operand, Var]]
    ) -> Mapping[int, frozenset[int]]:
        """`Analysis.origins` of a loop: the largest set of places that each iteration hands on apart."""
        body: Program = equation.params["body"]
        apart = list(range(len(carried)))
        while True:
            first = {place: self._new() for place in apart}
            held = dict.fromkeys((*body.consts, *body.inputs), Held(CALLERS, is_whole=False))
            found = self._inside(body, held | {carried[place][0]: one for place, one in first.items()})
            results = {place: found.where(carried[place][2]) for place in apart}
            before, taken = apart, CALLERS
            apart = []
            for place, result in results.items():
                if not result.is_repeated and result.memory.isdisjoint(taken):
                    apart.append(place)
                    taken = taken | result.memory
            if apart == before:
                break
        handed_on = {
            place: frozenset(one for one in apart if not first[one].memory.isdisjoint(results[place].memory))
            for place in apart
        }
        return {
            place: _reached(place, handed_on) if _takes_a_turn(equation) else _reached(place, handed_on) | {place}
            for place in apart
        }

    @staticmethod
    def _useful(first: Mapping[int, Held], results: Sequence[Held], touched: frozenset[int]) -> frozenset[int]:
        """The places whose memory is written over in some iteration: others need not be owned."""
        useful: frozenset[int] = frozenset()
        while True:
            memory = touched | _together(results[place] for place in useful)
            found = frozenset(place for place, held in first.items() if not held.memory.isdisjoint(memory))
            if found == useful:
                return found
            useful = found


def _takes_a_turn(equation: Equation) -> bool:
    """Whether it is known that a loop takes an iteration."""
    if equation.op.name == "scan":
        length = equation.params["length"]
        return isinstance(length, int) and length > 0
    if equation.op.name != "for_loop":
        return False
    lower, upper, step = (int(one.value.real) if isinstance(one, Literal) else 0 for one in bounds_of(equation))
    are_known = all(isinstance(one, Literal) for one in bounds_of(equation)) and step
    return bool(are_known and len(range(lower, upper, step)))


def _reached(start: int, following: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """What is reached from a place by one step or more."""
    found: frozenset[int] = frozenset()
    new = following[start]
    while new:
        found |= new
        new = frozenset().union(*(following[one] for one in new)) - found
    return found


def _joined(alike: Sequence[Held], *, is_whole: bool) -> Held:
    """Where an array lies that is one of several."""
    return Held(_together(alike), is_whole=is_whole, is_repeated=any(one.is_repeated for one in alike))


def _together(held: Iterable[Held]) -> frozenset[int]:
    return frozenset().union(*(one.memory for one in held))


def _is_apart(place: int, results: Sequence[Held]) -> bool:
    """Whether a result is whole, and no other one lies in its memory."""
    others = _together(one for other, one in enumerate(results) if other != place)
    return results[place].is_whole and results[place].memory.isdisjoint(others)
