"""The cut: which constant values are kept between calls, and which are computed at each call again.

The search chooses a set E of constant operations that run at each call. A value that an operation of E or the rest of
the Program reads is kept, unless an operation of E makes it. A source that they read is kept too. Then

    growth(E) = bits of kept values - bits of all sources
    work(E)   = work of the operations in E

    minimize (work(E), growth(E))  subject to  growth(E) <= budget  and  peak(E) <= limit

For up to `EXACT` operations the search tries all sets that no bound excludes. More operations fall into connected
components. Each component has a front of choices, none of which is better than another in both growth and work. A
small component has all such choices. A larger one has those that a walk from the results to the sources finds, for
several prices of a bit. The walk pays for each value where that is cheapest; the readers of a value share its price
(area flow: Manohararajah, Brown, Vranesic, Heuristics for area minimization in LUT-based FPGA technology mapping,
2006). Up to `_SEARCHED` operations of a component are then changed one after the other, as long as that is cheaper.

The search starts at the choice of least growth on each front. It takes steps along all fronts, those that save the
most work for each bit first. It does so once for each bound on the growth of a single step. The order of steps does not
depend on the budget, which only says where to stop. So a larger budget never saves less.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from plica.forks import cached_property
from plica.graph.components import DisjointSets

EXACT = 12
_PRICES = tuple(16.0**power for power in range(-6, 7))  # work for each bit
_NUM_MARKS = 16  # choices of each list of steps that are tried where a further limit holds
_SEARCHED = 32  # operations of a component whose choices are improved one operation at a time


@dataclass(frozen=True)
class Operation:
    """A constant operation.

    Args:
        reads: The values that it reads.
        makes: The values that it makes.
        work: Its work at each call.
    """

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    work: int


@dataclass(frozen=True)
class Problem:
    """Constant operations and their values; a value is an index.

    Args:
        operations: In order.
        bits: The bits that each value takes; None where it may not be kept.
        sources: The values that no operation makes.
        needed: The values that the rest of the Program reads.
    """

    operations: Sequence[Operation]
    bits: Sequence[int | None]
    sources: Sequence[int]
    needed: Sequence[int]

    @cached_property
    def maker(self) -> list[int | None]:
        """The operation that makes each value."""
        makers: list[int | None] = [None] * len(self.bits)
        for index, operation in enumerate(self.operations):
            for value in operation.makes:
                makers[value] = index
        return makers

    @cached_property
    def baseline(self) -> int:
        """The bits of all sources."""
        return sum(self.bits[value] or 0 for value in self.sources)

    def must_run(self, operation: Operation, needed: Sequence[bool]) -> bool:
        """Whether a value is needed that may not be kept."""
        return any(needed[value] and self.bits[value] is None for value in operation.makes)

    def closed(self, runs_again: Callable[[int, list[bool]], bool]) -> "Choice":
        """The choice where `runs_again(index, needed)` decides for needed operations, from the last to the first."""
        needed = [False] * len(self.bits)
        for value in self.needed:
            needed[value] = True
        runs, kept, work = [], [], 0
        growth = -self.baseline
        for index in range(len(self.operations) - 1, -1, -1):
            operation = self.operations[index]
            wanted = [value for value in operation.makes if needed[value]]
            if not wanted:
                continue
            if self.must_run(operation, needed) or runs_again(index, needed):
                runs.append(index)
                work += operation.work
                for value in operation.reads:
                    needed[value] = True
            else:
                kept += wanted
                growth += sum(self.bits[value] or 0 for value in wanted)
        growth += sum(self.bits[value] or 0 for value in self.sources if needed[value])
        return Choice(work, growth, tuple(reversed(runs)), tuple(sorted(kept)))


@dataclass(frozen=True, order=True)
class Choice:
    """One way to cut; choices are ordered by work, then by growth.

    Args:
        work: The work that is left for each call.
        growth: By how many bits the kept values exceed the sources.
        runs: The operations that run at each call.
        kept: The values that are kept, without sources.
    """

    work: int
    growth: int
    runs: tuple[int, ...]
    kept: tuple[int, ...]


def choose(problem: Problem, budget: int | None, fits: Callable[[Choice], bool] | None = None) -> Choice:
    """The best choice that the search finds; exactly the best for up to `EXACT` operations.

    Args:
        problem: The operations and values.
        budget: The most bits of growth; None for no limit.
        fits: Whether a choice respects a further limit; to keep nothing always does.
    """

    def allowed(choice: Choice) -> bool:
        return (budget is None or choice.growth <= budget) and (fits is None or fits(choice))

    keep_all = problem.closed(lambda *_: False)
    if allowed(keep_all):  # nothing has less work
        return keep_all
    if len(problem.operations) <= EXACT:
        candidates = _all(problem, budget)
    else:
        candidates = _listed(problem, budget, is_limited=fits is not None)
    keep_nothing = problem.closed(lambda *_: True)
    return next((choice for choice in sorted(candidates) if allowed(choice)), keep_nothing)


def _all(problem: Problem, budget: int | None) -> Iterator[Choice]:
    """Every choice within the budget; the search leaves a partial choice that exceeds it already."""

    def search(index: int, needed: frozenset[int], runs: frozenset[int], bits: int) -> Iterator[Choice]:
        if budget is not None and bits - problem.baseline > budget:
            return
        while index >= 0 and needed.isdisjoint(problem.operations[index].makes):
            index -= 1
        if index < 0:
            yield problem.closed(lambda position, _: position in runs)
            return
        operation = problem.operations[index]
        wanted = needed.intersection(operation.makes)
        read = operation.reads
        kept_sources = sum(problem.bits[value] or 0 for value in {*read} - needed if problem.maker[value] is None)
        yield from search(index - 1, needed.union(read), runs | {index}, bits + kept_sources)
        if all(problem.bits[value] is not None for value in wanted):
            yield from search(index - 1, needed, runs, bits + sum(problem.bits[value] or 0 for value in wanted))

    needed = frozenset(problem.needed)
    sources = sum(problem.bits[value] or 0 for value in needed if problem.maker[value] is None)
    return search(len(problem.operations) - 1, needed, frozenset(), sources)


# Large problems


def _listed(problem: Problem, budget: int | None, *, is_limited: bool) -> Iterator[Choice]:
    """For each list of steps, the last choice within the budget; with a further limit, also some choices before it.

    Their positions in a list do not depend on the budget: a larger budget only adds choices.
    """
    parts = list(_components(problem))
    best = [_best(part) for part, _ in parts]
    fronts = [_front(choices) for choices in best]
    steps = _steps(fronts)
    interval = max(1, len(steps) // _NUM_MARKS)

    def joined(chosen: Iterable[Choice]) -> Choice:
        runs = {indices[index] for (_, indices), choice in zip(parts, chosen, strict=True) for index in choice.runs}
        return problem.closed(lambda index, _: index in runs)

    def choice(level: Sequence[int]) -> Choice:
        return joined(front[index] for front, index in zip(fronts, level, strict=True))

    if len(parts) == 1:  # the best choice need not lie on the front
        yield from (joined([choice]) for choice in best[0])
    largest = max((step.growth for step in steps), default=0)
    for bound in (2**power for power in range(largest.bit_length() + 1)):
        level = [0] * len(fronts)
        growth = sum(front[0].growth for front in fronts)
        for index, step in enumerate(steps):
            if step.growth > bound or step.index != level[step.part]:
                continue  # later steps of a front follow only the ones before them
            if budget is not None and growth + step.growth > budget:
                break
            if is_limited and index % interval == 0:
                yield choice(level)
            growth += step.growth
            level[step.part] += 1
        else:
            yield choice(level)
            continue
        if not is_limited:
            yield choice(level)


@dataclass(frozen=True)
class _Step:
    """From one choice of a front to the next.

    Args:
        growth: The bits that it adds.
        saved: The work that it saves.
        part: The index of the front.
        index: The index of the choice that it starts from.
    """

    growth: int
    saved: int
    part: int
    index: int


def _steps(fronts: Sequence[Sequence[Choice]]) -> list[_Step]:
    """All steps, those that save most for each bit first. Steps of one front stay in order, as it is convex."""
    steps = [
        _Step(after.growth - first.growth, first.work - after.work, part, index)
        for part, front in enumerate(fronts)
        for index, (first, after) in enumerate(pairwise(front))
    ]
    return sorted(steps, key=lambda step: (-Fraction(step.saved, step.growth), step.part, step.index))


def _components(problem: Problem) -> Iterator[tuple[Problem, list[int]]]:
    """The parts of a problem that share no value, each with the indices of its operations."""
    sets: DisjointSets[int] = DisjointSets()
    for operation in problem.operations:
        sets.join(*operation.makes, *operation.reads)
    groups: dict[int, list[int]] = {}
    for index, operation in enumerate(problem.operations):
        groups.setdefault(sets.find(operation.makes[0]), []).append(index)
    members: dict[int, list[int]] = {root: [] for root in groups}
    for value in range(len(problem.bits)):
        if (root := sets.find(value)) in members:
            members[root].append(value)
    needed = set(problem.needed)
    for root, indices in groups.items():
        local_index = {value: index for index, value in enumerate(members[root])}
        operations = [
            Operation(
                tuple(local_index[value] for value in problem.operations[index].reads),
                tuple(local_index[value] for value in problem.operations[index].makes),
                problem.operations[index].work,
            )
            for index in indices
        ]
        sources = [local_index[value] for value in local_index if problem.maker[value] is None]
        bits = [problem.bits[value] for value in local_index]
        yield (
            Problem(operations, bits, sources, [local_index[value] for value in local_index if value in needed]),
            indices,
        )


def _best(problem: Problem) -> list[Choice]:
    """The choices that no other beats in both growth and work, those of least growth first."""
    choices = [problem.closed(lambda *_: True), problem.closed(lambda *_: False)]
    if len(problem.operations) <= EXACT:
        choices += _all(problem, None)
    else:
        choices += [choice for price in _PRICES for choice in _near(problem, _priced(problem, price), price)]
    best: list[Choice] = []
    for choice in sorted(choices, key=lambda choice: (choice.growth, choice.work)):
        if not best or choice.work < best[-1].work:
            best.append(choice)
    return best


def _front(best: Sequence[Choice]) -> list[Choice]:
    """The convex front of choices: those that lie below the line between any two others."""
    front: list[Choice] = []
    for choice in best:
        while len(front) > 1 and _is_above(front[-2], front[-1], choice):
            front.pop()
        front.append(choice)
    return front


def _near(problem: Problem, choice: Choice, price: float) -> Iterator[Choice]:
    """Yield the choice and its neighbours, which differ in one operation; move on to cheaper ones until none is."""
    yield choice
    is_changed = len(problem.operations) <= _SEARCHED
    while is_changed:
        is_changed = False
        for index in range(len(problem.operations)):
            other = _changed(problem, choice, index)
            yield other
            if other.work + price * other.growth < choice.work + price * choice.growth:
                choice, is_changed = other, True


def _changed(problem: Problem, choice: Choice, index: int) -> Choice:
    """The choice where one operation runs again that did not, or the other way round."""
    runs = {*choice.runs} ^ {index}
    return problem.closed(lambda position, _: position in runs)


def _is_above(first: Choice, middle: Choice, last: Choice) -> bool:
    """Whether a choice lies on or above the line between two others."""
    return (middle.work - first.work) * (last.growth - first.growth) >= (last.work - first.work) * (
        middle.growth - first.growth
    )


def _priced(problem: Problem, price: float) -> Choice:
    """The choice where an operation runs again if that is cheaper than to keep its results at `price` for each bit."""
    readers = [0] * len(problem.bits)
    for value in (*problem.needed, *(value for operation in problem.operations for value in operation.reads)):
        readers[value] += 1
    flow = [price * (bits or 0) / max(1, count) for bits, count in zip(problem.bits, readers, strict=True)]
    rerun_costs = [0.0] * len(problem.operations)
    for index, operation in enumerate(problem.operations):
        rerun_costs[index] = operation.work + sum(flow[value] for value in dict.fromkeys(operation.reads))
        for value in operation.makes:
            share = rerun_costs[index] / max(1, readers[value])
            flow[value] = share if problem.bits[value] is None else min(flow[value], share)

    def runs_again(index: int, needed: list[bool]) -> bool:
        operation = problem.operations[index]
        recomputed = operation.work + sum(flow[value] for value in dict.fromkeys(operation.reads) if not needed[value])
        stored = price * sum(problem.bits[value] or 0 for value in operation.makes if needed[value])
        return recomputed < stored

    return problem.closed(runs_again)
