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
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from plica.ir.op import Memory
from plica.ir.program import Equation, Operand, Program, Var, nested
from plica.ops import OPS
from plica.ops.places import call_inputs, carries, explicit_outputs, returning
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


def owned(program: Program) -> Owned:
    """The updates of `program`, and of Programs nested in it, that may write over what they update.

    Assumes:
        An equation stands in one place: a Program that is called twice has equations of its own in each.
    """
    if not _has_updates(program):
        return Owned()
    ids = count()
    caller = _Held(frozenset([next(ids)]), is_whole=False)
    variables = (*program.consts, *program.inputs)
    found = _Block(program, dict.fromkeys(variables, caller), frozenset(), caller.memory, ids).run()
    return Owned(found.written, found.copied)


def _has_updates(program: Program) -> bool:
    return any(
        equation.op.name == "update" or any(map(_has_updates, nested(equation.params)))
        for equation in program.equations
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """Where an array lies.

    Args:
        memory: Numbers of pieces of memory; it lies in some of them.
        is_whole: Whether it is all that lies there, each element once: no view of a part.
    """

    memory: frozenset[int]
    is_whole: bool


_NOWHERE = _Held(frozenset(), is_whole=False)


@dataclass(slots=True)
class _Found:
    """What was found in a block: the updates and copies as in `Owned`, and the memory that is written over."""

    written: dict[Equation, bool] = field(default_factory=dict)
    copied: dict[Equation, tuple[int, ...]] = field(default_factory=dict)
    touched: frozenset[int] = frozenset()
    held: dict[Var, _Held] = field(default_factory=dict)

    def add(self, other: "_Found") -> None:
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
        callers: The memory of others, which is never written over.
        ids: New numbers of memory.
    """

    def __init__(
        self,
        program: Program,
        held: Mapping[Var, _Held],
        alive: frozenset[int],
        callers: frozenset[int],
        ids: Iterator[int],
    ) -> None:
        self._program = program
        self._alive = alive | callers
        self._callers = callers
        self._ids = ids
        self._found = _Found(held=dict(held))
        self._last: dict[Operand, int] = {}
        for index, equation in enumerate(program.equations):
            self._last.update(dict.fromkeys(equation.inputs, index))
        self._last.update(dict.fromkeys(program.outputs, len(program.equations)))

    def run(self) -> _Found:
        """Look at every equation once."""
        for index, equation in enumerate(self._program.equations):
            held = self._results(index, equation)
            self._found.held.update(zip(equation.outputs, held, strict=True))
        return self._found

    def _held(self, operand: Operand) -> _Held:
        return self._found.held.get(operand, _NOWHERE) if isinstance(operand, Var) else _NOWHERE

    def _new(self) -> _Held:
        return _Held(frozenset([next(self._ids)]), is_whole=True)

    def _read_after(self, index: int) -> frozenset[int]:
        """The memory of what is read after an equation."""
        late = (held.memory for var, held in self._found.held.items() if self._last.get(var, -1) > index)
        return self._alive.union(*late)

    def _is_free(self, held: _Held, index: int) -> bool:
        """Whether an equation is the last to read an array that is the Program's own."""
        return held.is_whole and held.memory.isdisjoint(self._read_after(index))

    # Equations

    def _results(self, index: int, equation: Equation) -> Sequence[_Held]:
        name = equation.op.name
        if name == "update":
            return [self._update(index, equation)]
        if OPS[name].repeats:
            return self._loop(index, equation)
        if returning(equation):
            return self._branches(index, equation)
        given = _together(map(self._held, equation.inputs))
        memory = OPS[name].memory
        if memory is Memory.VIEW or (memory is Memory.EITHER and given):
            return [_Held(given, is_whole=False)] * len(equation.outputs)
        new = self._new()
        return [replace(new, is_whole=len(equation.outputs) == 1)] * len(equation.outputs)

    def _update(self, index: int, equation: Equation) -> _Held:
        x, values, *indices = map(self._held, equation.inputs)
        if not self._is_free(x, index) or not x.memory.isdisjoint(_together(indices)):
            return self._new()
        self._found.written[equation] = not x.memory.isdisjoint(values.memory)
        self._found.touched |= x.memory
        return x

    def _branches(self, index: int, equation: Equation) -> Sequence[_Held]:
        """A result lies where one of the branches puts it."""
        regions = regions_of(equation)
        after = self._read_after(index)
        made = []
        for program, operands in regions:
            held = {var: self._held(one) for var, one in zip(program.consts, operands, strict=False)}
            if equation.op.name == "call":
                held |= {var: self._held(one) for var, one in call_inputs(equation)}
            found = _Block(program, held, after, self._callers, self._ids).run()
            self._found.add(found)
            results = [found.held.get(one, _NOWHERE) for one in program.results]  # type: ignore[arg-type]
            made.append([replace(one, is_whole=_is_apart(place, results)) for place, one in enumerate(results)])
        joined = [
            _Held(_together(alike), is_whole=all(one.is_whole for one in alike)) for alike in zip(*made, strict=True)
        ]
        return [*[_NOWHERE] * equation.params["num_implicit_outputs"], *joined]

    def _loop(self, index: int, equation: Equation) -> Sequence[_Held]:
        carried = list(carries(equation))
        own, found = self._owned_by(equation, carried)
        self._found.add(found)
        given = [self._held(one) for one in equation.inputs]
        copied = []
        for place in own:
            first = carried[place][1]
            others = _together(held for one, held in zip(equation.inputs, given, strict=True) if one is not first)
            once = sum(one is first for one in equation.inputs) == 1
            held = self._held(first)
            if once and self._is_free(held, index) and held.memory.isdisjoint(others):
                self._found.touched |= held.memory
            else:
                copied.append(place)
        self._found.copied[equation] = tuple(copied)
        # an iteration's own arrays, or what the loop was given: any of it, for it may take no turn, or capture them
        shared = _Held(self._callers | _together(given), is_whole=False)
        results = [self._new() if place in own else shared for place in range(len(carried))]
        stacks = [self._new() for _ in explicit_outputs(equation)[len(carried) :]]
        return [*[_NOWHERE] * equation.params["num_implicit_outputs"], *results, *stacks]

    def _owned_by(
        self, equation: Equation, carried: Sequence[tuple[Var, Operand, Operand, Var]]
    ) -> tuple[frozenset[int], _Found]:
        """The places of what a loop carries and owns, for it writes over it, and what was found in its body."""
        body: Program = equation.params["body"]
        own = frozenset(place for place, (inner, _, _, _) in enumerate(carried) if inner.type.shape)
        while True:
            shared = _Held(self._callers, is_whole=False)
            held = dict.fromkeys((*body.consts, *body.inputs), shared)
            first = {place: self._new() for place in own}
            held |= {carried[place][0]: one for place, one in first.items()}
            found = _Block(body, held, frozenset(), self._callers, self._ids).run()
            results = [found.held.get(one, _NOWHERE) for one in body.results]  # type: ignore[arg-type]
            kept = frozenset(
                place for place in own if _is_apart(place, results) and results[place].memory.isdisjoint(self._callers)
            )
            if kept == own:
                kept = self._useful(first, results, found.touched)
            if kept == own:
                return own, found
            own = kept

    @staticmethod
    def _useful(first: Mapping[int, _Held], results: Sequence[_Held], touched: frozenset[int]) -> frozenset[int]:
        """The places whose memory is written over in some iteration: others need not be owned."""
        useful: frozenset[int] = frozenset()
        while True:
            memory = touched | _together(results[place] for place in useful)
            found = frozenset(place for place, held in first.items() if not held.memory.isdisjoint(memory))
            if found == useful:
                return found
            useful = found


def _together(held: Iterable[_Held]) -> frozenset[int]:
    return frozenset().union(*(one.memory for one in held))


def _is_apart(place: int, results: Sequence[_Held]) -> bool:
    """Whether a result is whole, and no other one lies in its memory."""
    others = _together(one for other, one in enumerate(results) if other != place)
    return results[place].is_whole and results[place].memory.isdisjoint(others)
