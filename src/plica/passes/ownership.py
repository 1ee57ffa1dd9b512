"""Ownership of arrays: an update may write over the array that it updates if nothing else uses its memory.

    >>> from plica.ir.types import spec
    >>> from plica.tracing.control import trace_for
    >>> from plica.tracing.trace import trace
    >>> def filled(x):
    ...     return trace_for((0, 3, 1), lambda i, a: a.at[i].set(0), (x,), shared=True)
    >>> program = trace(filled, spec(3))
    >>> loop = program.equations[0]
    >>> over = owned(program)
    >>> list(over.written) == list(loop.params["body"].equations), over.copied[loop]
    (True, (0,))

An array is owned where it takes all of a piece of memory that an equation of the Program made, and no array in that
memory is read later. Arguments and captured arrays belong to the caller. A carry of a loop is owned if each iteration
ends with an owned array. Such a loop starts with a copy, unless its operand is owned and not read again. Branches and
calls pass arrays on.

Whether gradients are wanted is not known here. If they are, nothing may be written over: automatic differentiation
keeps arrays that the Program does not read again.

`memory_of_results` runs the same analysis for the results of a Program (`results.py`). There nothing is written over. A
loop returns arrays of its iterations, or its operands where it may take no iteration.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from plica.ir.op import Memory, OpTable
from plica.ir.program import Equation, Literal, Operand, Program, Var, nested
from plica.ops import OPS
from plica.ops.control_operands import bounds_of, branch_programs, call_inputs, carries, explicit_outputs
from plica.ops.regions import regions_of


@dataclass(frozen=True, slots=True)
class Owned:
    """The updates that write over arrays where no gradient is wanted.

    Args:
        written: The updates that may write over their first operand, and whether their values share its memory, so
            that these are copied first.
        copied: For each loop, the indices of carries that start with a copy.
    """

    written: Mapping[Equation, bool] = field(default_factory=dict)
    copied: Mapping[Equation, tuple[int, ...]] = field(default_factory=dict)


def owned(program: Program, table: OpTable = OPS) -> Owned:
    """The updates of `program`, and of Programs nested in it, that may write over their operand.

    Args:
        program: The Program.
        table: Its operations, where a backend has private ones.

    Assumes:
        Each equation is in the Program once: a Program that is called twice is copied for the second call.
    """
    if not _has_updates(program):
        return Owned()
    analysis = _analysed(program, table, writes=True)
    return Owned(analysis.written, analysis.copied)


def memory_of_results(program: Program) -> "Analysis":
    """The storage of the variables of `program`, and of Programs nested in it, if no update writes over an array."""
    return _analysed(program, OPS, writes=False)


CALLERS = frozenset([0])
"""The memory of arguments and captured arrays."""


def _analysed(program: Program, table: OpTable, *, writes: bool) -> "Analysis":
    variables = (*program.consts, *program.inputs)
    caller = Storage(CALLERS, is_whole=False)
    return _Block(program, dict.fromkeys(variables, caller), frozenset(), count(1), table, writes=writes).run()


def memory_of(equation: Equation, table: OpTable = OPS) -> Memory:
    """Where the results of an equation lie: as its operation says, unless its operands tell more."""
    if equation.op.name == "einsum" and len(equation.inputs) > 1:
        return Memory.NEW  # a sum of several operands returns none of them
    carriers = {operand.type.dtype.carrier for operand in (*equation.inputs, *equation.outputs)}
    if equation.op.name == "astype" and len(carriers) > 1:
        return Memory.NEW
    row = table.get(equation.op.name)
    return Memory.EITHER if row is None else row.memory  # an operation that the backend refuses


REPEATING = frozenset({"broadcast_to", "full"})
"""The operations whose results may have one element at many indices."""


def _has_updates(program: Program) -> bool:
    return any(
        equation.op.name == "update" or any(map(_has_updates, nested(equation.params)))
        for equation in program.equations
    )


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory of an array.

    Args:
        memory: Numbers of pieces of memory; the array lies in some of them.
        is_whole: Whether the array takes all of this memory, each element once: it is no view of a part.
        is_repeated: Whether an element may be at several indices.
    """

    memory: frozenset[int]
    is_whole: bool
    is_repeated: bool = False


NO_STORAGE = Storage(frozenset(), is_whole=False)


@dataclass(slots=True)
class Analysis:
    """The analysis of a Program.

    Args:
        written: The updates, as in `Owned`.
        copied: The copies, as in `Owned`.
        touched: The memory that is written over.
        storages: The storage of its variables.
        regions: For branches and calls, the analyses of their Programs in order.
        origins: For loops, the carries whose results share memory with no array but first operands, by index. Each has
            the indices of the first operands that it may return.
    """

    written: dict[Equation, bool] = field(default_factory=dict)
    copied: dict[Equation, tuple[int, ...]] = field(default_factory=dict)
    touched: frozenset[int] = frozenset()
    storages: dict[Var, Storage] = field(default_factory=dict)
    regions: dict[Equation, list["Analysis"]] = field(default_factory=dict)
    origins: dict[Equation, Mapping[int, frozenset[int]]] = field(default_factory=dict)

    def storage(self, operand: Operand) -> Storage:
        """The storage of an operand; a literal has none."""
        return self.storages.get(operand, NO_STORAGE) if isinstance(operand, Var) else NO_STORAGE

    def add(self, other: "Analysis") -> None:
        """Add the analysis of a nested Program."""
        self.written |= other.written
        self.copied |= other.copied
        self.touched |= other.touched


class _Block:
    """The analysis of the equations of a Program, in order.

    Args:
        program: The Program.
        storages: The storage of its consts and inputs.
        alive: Memory that other equations read after the Program, or while it runs.
        ids: New numbers of memory.
        table: The operations.
        writes: Whether updates may write over their operands.
    """

    def __init__(
        self,
        program: Program,
        storages: Mapping[Var, Storage],
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
        self._analysis = Analysis(storages=dict(storages))
        self._last: dict[Operand, int] = {}
        for index, equation in enumerate(program.equations):
            self._last.update(dict.fromkeys(equation.inputs, index))
        self._last.update(dict.fromkeys(program.outputs, len(program.equations)))

    def run(self) -> Analysis:
        """Look at every equation once."""
        for index, equation in enumerate(self._program.equations):
            storages = self._results(index, equation)
            self._analysis.storages.update(zip(equation.outputs, storages, strict=True))
        return self._analysis

    def _inside(
        self, program: Program, storages: Mapping[Var, Storage], alive: frozenset[int] = frozenset()
    ) -> Analysis:
        """The analysis of a nested Program."""
        return _Block(program, storages, alive, self._ids, self._table, writes=self._writes).run()

    def _new(self) -> Storage:
        return Storage(frozenset([next(self._ids)]), is_whole=True)

    def _read_after(self, index: int) -> frozenset[int]:
        """The memory of variables that are read after an equation."""
        late = (storage.memory for var, storage in self._analysis.storages.items() if self._last.get(var, -1) > index)
        return self._alive.union(*late)

    def _is_free(self, storage: Storage, index: int) -> bool:
        """Whether an array is the Program's own, and no equation after this one reads its memory."""
        return storage.is_whole and storage.memory.isdisjoint(self._read_after(index))

    # Equations

    def _results(self, index: int, equation: Equation) -> Sequence[Storage]:
        """The storage of each result of an equation."""
        name = equation.op.name
        if name == "update":
            return [self._update(index, equation)]
        if "body" in equation.params:
            return (self._loop if self._writes else self._returning_loop)(index, equation)
        if branch_programs(equation):
            return self._branches(index, equation)
        memory = memory_of(equation, self._table)
        read = equation.inputs[:1] if memory is Memory.VIEW else equation.inputs
        operands = [self._analysis.storage(operand) for operand in read]
        memory_read = _memory_of_all(operands)
        if memory is Memory.VIEW or (memory is Memory.EITHER and memory_read):
            is_repeated = name in REPEATING or any(storage.is_repeated for storage in operands)
            return [Storage(memory_read, is_whole=False, is_repeated=is_repeated)] * len(equation.outputs)
        return [self._new() for _ in equation.outputs]

    def _update(self, index: int, equation: Equation) -> Storage:
        x, values, *indices = map(self._analysis.storage, equation.inputs)
        if not self._writes or not self._is_free(x, index) or not x.memory.isdisjoint(_memory_of_all(indices)):
            return self._new()
        self._analysis.written[equation] = not x.memory.isdisjoint(values.memory)
        self._analysis.touched |= x.memory
        return x

    def _branches(self, index: int, equation: Equation) -> Sequence[Storage]:
        """The storage of results of branches and calls: that of a result of one of the Programs."""
        regions = regions_of(equation)
        after = self._read_after(index)
        results_by_region = []
        for program, operands in regions:
            storages = {
                var: self._analysis.storage(operand) for var, operand in zip(program.consts, operands, strict=False)
            }
            if equation.op.name == "call":
                storages |= {var: self._analysis.storage(operand) for var, operand in call_inputs(equation)}
            analysis = self._inside(program, storages, after)
            self._analysis.add(analysis)
            self._analysis.regions.setdefault(equation, []).append(analysis)
            results = [analysis.storage(operand) for operand in program.results]
            results_by_region.append(
                [replace(storage, is_whole=_is_apart(number, results)) for number, storage in enumerate(results)]
            )
        joined = [
            _joined(same_result, is_whole=all(storage.is_whole for storage in same_result))
            for same_result in zip(*results_by_region, strict=True)
        ]
        return [*[NO_STORAGE] * equation.params["num_implicit_outputs"], *joined]

    def _loop(self, index: int, equation: Equation) -> Sequence[Storage]:
        carried = list(carries(equation))
        owned_indices, analysis = self._owned_by(equation, carried)
        self._analysis.add(analysis)
        operands = [self._analysis.storage(operand) for operand in equation.inputs]
        copied = []
        for number in owned_indices:
            first = carried[number][1]
            others = _memory_of_all(
                storage for operand, storage in zip(equation.inputs, operands, strict=True) if operand is not first
            )
            is_read_once = sum(operand is first for operand in equation.inputs) == 1
            storage = self._analysis.storage(first)
            if is_read_once and self._is_free(storage, index) and storage.memory.isdisjoint(others):
                self._analysis.touched |= storage.memory
            else:
                copied.append(number)
        self._analysis.copied[equation] = tuple(copied)
        # arrays of an iteration, or operands: the loop may take no iteration, or return captured arrays
        shared = Storage(CALLERS | _memory_of_all(operands), is_whole=False)
        results = [self._new() if number in owned_indices else shared for number in range(len(carried))]
        stacks = [self._new() for _ in explicit_outputs(equation)[len(carried) :]]
        return [*[NO_STORAGE] * equation.params["num_implicit_outputs"], *results, *stacks]

    def _owned_by(
        self, equation: Equation, carried: Sequence[tuple[Var, Operand, Operand, Var]]
    ) -> tuple[frozenset[int], Analysis]:
        """The indices of carries that a loop owns and writes over, and the analysis of its body."""
        body: Program = equation.params["body"]
        owned_indices = frozenset(number for number, (inner, _, _, _) in enumerate(carried) if inner.type.shape)
        while True:
            shared = Storage(CALLERS, is_whole=False)
            storages = dict.fromkeys((*body.consts, *body.inputs), shared)
            first = {number: self._new() for number in owned_indices}
            storages |= {carried[number][0]: storage for number, storage in first.items()}
            analysis = self._inside(body, storages)
            results = [analysis.storage(operand) for operand in body.results]
            still_owned = frozenset(
                number
                for number in owned_indices
                if _is_apart(number, results) and results[number].memory.isdisjoint(CALLERS)
            )
            if still_owned == owned_indices:
                still_owned = self._useful(first, results, analysis.touched)
            if still_owned == owned_indices:
                return owned_indices, analysis
            owned_indices = still_owned

    def _returning_loop(self, index: int, equation: Equation) -> Sequence[Storage]:
        """The storage of a loop's results if nothing is written over: arrays of iterations, or first operands."""
        del index
        carried = list(carries(equation))
        origins = self._analysis.origins[equation] = self._origins(equation, carried)
        memory_read = _memory_of_all(map(self._analysis.storage, equation.inputs))
        results = []
        for number in range(len(carried)):
            if number not in origins:  # captured arrays, or views of each other
                results.append(Storage(CALLERS | memory_read, is_whole=False))
                continue
            first = [self._analysis.storage(carried[origin][1]) for origin in origins[number]]
            results.append(_joined([self._new(), *first], is_whole=not first))
        stacks = [self._new() for _ in explicit_outputs(equation)[len(carried) :]]
        return [*[NO_STORAGE] * equation.params["num_implicit_outputs"], *results, *stacks]

    def _origins(
        self, equation: Equation, carried: Sequence[tuple[Var, Operand, Operand, Var]]
    ) -> Mapping[int, frozenset[int]]:
        """`Analysis.origins` of a loop: the largest set of carries that share no memory after each iteration."""
        body: Program = equation.params["body"]
        apart = list(range(len(carried)))
        while True:
            first = {number: self._new() for number in apart}
            storages = dict.fromkeys((*body.consts, *body.inputs), Storage(CALLERS, is_whole=False))
            analysis = self._inside(body, storages | {carried[number][0]: storage for number, storage in first.items()})
            results = {number: analysis.storage(carried[number][2]) for number in apart}
            before, occupied = apart, CALLERS
            apart = []
            for number, result in results.items():
                if not result.is_repeated and result.memory.isdisjoint(occupied):
                    apart.append(number)
                    occupied = occupied | result.memory
            if apart == before:
                break
        handed_on = {
            number: frozenset(other for other in apart if not first[other].memory.isdisjoint(results[number].memory))
            for number in apart
        }
        return {
            number: _reached(number, handed_on)
            if _surely_iterates(equation)
            else _reached(number, handed_on) | {number}
            for number in apart
        }

    @staticmethod
    def _useful(first: Mapping[int, Storage], results: Sequence[Storage], touched: frozenset[int]) -> frozenset[int]:
        """The indices of carries whose memory some iteration writes over: others need not be owned."""
        useful: frozenset[int] = frozenset()
        while True:
            memory = touched | _memory_of_all(results[number] for number in useful)
            grown = frozenset(number for number, storage in first.items() if not storage.memory.isdisjoint(memory))
            if grown == useful:
                return grown
            useful = grown


def _surely_iterates(equation: Equation) -> bool:
    """Whether a loop is known to take an iteration."""
    if equation.op.name == "scan":
        length = equation.params["length"]
        return isinstance(length, int) and length > 0
    if equation.op.name != "for_loop":
        return False
    lower, upper, step = (int(bound.value.real) if isinstance(bound, Literal) else 0 for bound in bounds_of(equation))
    are_known = all(isinstance(bound, Literal) for bound in bounds_of(equation)) and step
    return bool(are_known and len(range(lower, upper, step)))


def _reached(start: int, following: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """The carries that `start` leads to in one step or more."""
    reached: frozenset[int] = frozenset()
    new = following[start]
    while new:
        reached |= new
        new = frozenset().union(*(following[step] for step in new)) - reached
    return reached


def _joined(storages: Sequence[Storage], *, is_whole: bool) -> Storage:
    """The storage of an array that is one of several."""
    is_repeated = any(storage.is_repeated for storage in storages)
    return Storage(_memory_of_all(storages), is_whole=is_whole, is_repeated=is_repeated)


def _memory_of_all(storages: Iterable[Storage]) -> frozenset[int]:
    return frozenset().union(*(storage.memory for storage in storages))


def _is_apart(index: int, results: Sequence[Storage]) -> bool:
    """Whether a result takes all of its memory, and no other result shares this."""
    others = _memory_of_all(result for other, result in enumerate(results) if other != index)
    return results[index].is_whole and results[index].memory.isdisjoint(others)
