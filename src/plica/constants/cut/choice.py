"""The cut: which constant values are kept between calls, and which are computed at each call again.

What is chosen is the set E of constant operations that run at each call. A value that such an operation or the rest of
the Program reads is kept, unless an operation of E makes it; a source is kept if it is read so. Then

    growth(E) = bits of what is kept - bits of all sources
    work(E)   = work of the operations in E

    minimize (work(E), growth(E))  subject to  growth(E) <= budget  and  peak(E) <= limit

Up to `EXACT` operations all sets are searched that no bound excludes. Beyond, the operations fall into connected
components. Each has a front of choices, none of which is better than another in both growth and work: all of them for
small components; else those that a walk from the results to the sources finds, for several prices of a bit. Each bit
there is paid for where it is cheapest, a value that several read being shared by them (area flow: Manohararajah, Brown,
Vranesic, Heuristics for area minimization in LUT-based FPGA technology mapping, 2006). Where a component has up to
`_SEARCHED` operations, one after the other is changed as long as that is cheaper. The fronts together are walked
from least growth on, the most work saved for each bit first, once for each bound on the size of a single step. No list
depends on the budget, which only says how far along a list one may go: so a larger one never saves less.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from plica.forks import cached_property

EXACT = 12
_PRICES = tuple(16.0**power for power in range(-6, 7))  # work for each bit
_MARKS = 16
_SEARCHED = 32  # operations of a component whose choices are improved one operation at a time


@dataclass(frozen=True)
class Operation:
    """A constant operation.

    Args:
        reads: The values that it reads.
        makes: The values that it makes.
        work: What it costs at each call.
    """

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    work: int


@dataclass(frozen=True)
class Problem:
    """Constant operations and values, which are numbers.

    Args:
        operations: In order.
        bits: The bits of each value; None where it may not be kept.
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
        found: list[int | None] = [None] * len(self.bits)
        for place, operation in enumerate(self.operations):
            for value in operation.makes:
                found[value] = place
        return found

    @cached_property
    def baseline(self) -> int:
        """The bits of all sources."""
        return sum(self.bits[value] or 0 for value in self.sources)

    def must_run(self, operation: Operation, needed: Sequence[bool]) -> bool:
        """Whether a value is needed that may not be kept."""
        return any(needed[value] and self.bits[value] is None for value in operation.makes)

    def closed(self, chosen: Callable[[int, list[bool]], bool]) -> "Choice":
        """The choice where `chosen(place, needed)` decides, from the last operation to the first, of those needed."""
        needed = [False] * len(self.bits)
        for value in self.needed:
            needed[value] = True
        runs, kept, work = [], [], 0
        growth = -self.baseline
        for place in range(len(self.operations) - 1, -1, -1):
            operation = self.operations[place]
            wanted = [value for value in operation.makes if needed[value]]
            if not wanted:
                continue
            if self.must_run(operation, needed) or chosen(place, needed):
                runs.append(place)
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
    """One way to cut; choices are ordered by what is minimized.

    Args:
        work: The work that is left for each call.
        growth: By how many bits what is kept exceeds the sources.
        runs: The operations that run at each call.
        kept: The values that are kept, without sources.
    """

    work: int
    growth: int
    runs: tuple[int, ...]
    kept: tuple[int, ...]


def choose(problem: Problem, budget: int | None, fits: Callable[[Choice], bool] | None = None) -> Choice:
    """The best choice that is found; exactly the best for up to `EXACT` operations.

    Args:
        problem: What there is to choose.
        budget: The most bits of growth; None for no limit.
        fits: Whether a choice keeps to a further limit; keeping nothing always does.
    """

    def allowed(choice: Choice) -> bool:
        return (budget is None or choice.growth <= budget) and (fits is None or fits(choice))

    most = problem.closed(lambda *_: False)
    if allowed(most):  # nothing has less work
        return most
    if len(problem.operations) <= EXACT:
        candidates = _all(problem, budget)
    else:
        candidates = _listed(problem, budget, is_limited=fits is not None)
    nothing = problem.closed(lambda *_: True)
    return next((one for one in sorted(candidates) if allowed(one)), nothing)


def _all(problem: Problem, budget: int | None) -> Iterator[Choice]:
    """Every choice within the budget, but for parts whose growth alone exceeds it."""

    def search(place: int, needed: frozenset[int], runs: frozenset[int], bits: int) -> Iterator[Choice]:
        if budget is not None and bits - problem.baseline > budget:
            return
        while place >= 0 and needed.isdisjoint(problem.operations[place].makes):
            place -= 1
        if place < 0:
            yield problem.closed(lambda at, _: at in runs)
            return
        operation = problem.operations[place]
        wanted = needed.intersection(operation.makes)
        read = operation.reads
        kept_sources = sum(problem.bits[one] or 0 for one in {*read} - needed if problem.maker[one] is None)
        yield from search(place - 1, needed.union(read), runs | {place}, bits + kept_sources)
        if all(problem.bits[value] is not None for value in wanted):
            yield from search(place - 1, needed, runs, bits + sum(problem.bits[value] or 0 for value in wanted))

    needed = frozenset(problem.needed)
    sources = sum(problem.bits[one] or 0 for one in needed if problem.maker[one] is None)
    return search(len(problem.operations) - 1, needed, frozenset(), sources)


# Large problems


def _listed(problem: Problem, budget: int | None, *, is_limited: bool) -> Iterator[Choice]:
    """For each list the last choice within the budget; with a further limit, some choices of each list before it.

    These stand at places that do not depend on the budget, so that a larger one only adds to them.
    """
    parts = list(_components(problem))
    best = [_best(part) for part, _ in parts]
    fronts = [_front(one) for one in best]
    steps = _steps(fronts)
    every = max(1, len(steps) // _MARKS)

    def together(chosen: Iterable[Choice]) -> Choice:
        runs = {places[place] for (_, places), one in zip(parts, chosen, strict=True) for place in one.runs}
        return problem.closed(lambda place, _: place in runs)

    def choice(level: Sequence[int]) -> Choice:
        return together(front[at] for front, at in zip(fronts, level, strict=True))

    if len(parts) == 1:  # the best choice need not lie on the front
        yield from (together([one]) for one in best[0])
    largest = max((step.growth for step in steps), default=0)
    for bound in (2**power for power in range(largest.bit_length() + 1)):
        level = [0] * len(fronts)
        growth = sum(front[0].growth for front in fronts)
        for place, step in enumerate(steps):
            if step.growth > bound or step.place != level[step.part]:
                continue  # what stands behind a step that is left out is left out
            if budget is not None and growth + step.growth > budget:
                break
            if is_limited and place % every == 0:
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
        part: Which front.
        place: Which choice it starts from.
    """

    growth: int
    saved: int
    part: int
    place: int


def _steps(fronts: Sequence[Sequence[Choice]]) -> list[_Step]:
    """All steps, those that save most for each bit first; within a front that is their order."""
    steps = [
        _Step(after.growth - first.growth, first.work - after.work, part, place)
        for part, front in enumerate(fronts)
        for place, (first, after) in enumerate(pairwise(front))
    ]
    return sorted(steps, key=lambda step: (-Fraction(step.saved, step.growth), step.part, step.place))


def _components(problem: Problem) -> Iterator[tuple[Problem, list[int]]]:
    """The parts of a problem that share no value, each with the places of its operations."""
    leader = list(range(len(problem.bits)))

    def find(value: int) -> int:
        while leader[value] != value:
            leader[value] = leader[leader[value]]
            value = leader[value]
        return value

    for operation in problem.operations:
        first, *rest = map(find, (*operation.makes, *operation.reads))
        for one in rest:
            leader[one] = first
    places: dict[int, list[int]] = {}
    for place, operation in enumerate(problem.operations):
        places.setdefault(find(operation.makes[0]), []).append(place)
    members: dict[int, list[int]] = {root: [] for root in places}
    for value in range(len(problem.bits)):
        if (root := find(value)) in members:
            members[root].append(value)
    needed = set(problem.needed)
    for root, own in places.items():
        number = {value: place for place, value in enumerate(members[root])}
        operations = [
            Operation(
                tuple(number[one] for one in problem.operations[place].reads),
                tuple(number[one] for one in problem.operations[place].makes),
                problem.operations[place].work,
            )
            for place in own
        ]
        sources = [number[value] for value in number if problem.maker[value] is None]
        bits = [problem.bits[value] for value in number]
        yield Problem(operations, bits, sources, [number[value] for value in number if value in needed]), own


def _best(problem: Problem) -> list[Choice]:
    """Choices of growing growth and falling work."""
    found = [problem.closed(lambda *_: True), problem.closed(lambda *_: False)]
    if len(problem.operations) <= EXACT:
        found += _all(problem, None)
    else:
        found += [one for price in _PRICES for one in _near(problem, _priced(problem, price), price)]
    best: list[Choice] = []
    for one in sorted(found, key=lambda choice: (choice.growth, choice.work)):
        if not best or one.work < best[-1].work:
            best.append(one)
    return best


def _front(best: Sequence[Choice]) -> list[Choice]:
    """Those of growing growth and falling work that no mix of two others is better than."""
    front: list[Choice] = []
    for one in best:
        while len(front) > 1 and _is_above(front[-2], front[-1], one):
            front.pop()
        front.append(one)
    return front


def _near(problem: Problem, choice: Choice, price: float) -> Iterator[Choice]:
    """The choice, and those on the way to one that is best at its price among all that differ in one operation."""
    yield choice
    is_changed = len(problem.operations) <= _SEARCHED
    while is_changed:
        is_changed = False
        for place in range(len(problem.operations)):
            other = _changed(problem, choice, place)
            yield other
            if other.work + price * other.growth < choice.work + price * choice.growth:
                choice, is_changed = other, True


def _changed(problem: Problem, choice: Choice, place: int) -> Choice:
    """The choice where one operation runs again that did not, or the other way round."""
    runs = {*choice.runs} ^ {place}
    return problem.closed(lambda at, _: at in runs)


def _is_above(first: Choice, middle: Choice, last: Choice) -> bool:
    """Whether a choice lies on or above the line between two others."""
    return (middle.work - first.work) * (last.growth - first.growth) >= (last.work - first.work) * (
        middle.growth - first.growth
    )


def _priced(problem: Problem, price: float) -> Choice:
    """The choice where an operation runs again if that is cheaper than to keep its results at `price` for each bit."""
    readers = [0] * len(problem.bits)
    for value in (*problem.needed, *(one for operation in problem.operations for one in operation.reads)):
        readers[value] += 1
    flow = [price * (bits or 0) / max(1, count) for bits, count in zip(problem.bits, readers, strict=True)]
    again = [0.0] * len(problem.operations)
    for place, operation in enumerate(problem.operations):
        again[place] = operation.work + sum(flow[value] for value in dict.fromkeys(operation.reads))
        for value in operation.makes:
            share = again[place] / max(1, readers[value])
            flow[value] = share if problem.bits[value] is None else min(flow[value], share)

    def chosen(place: int, needed: list[bool]) -> bool:
        operation = problem.operations[place]
        rest = operation.work + sum(flow[value] for value in dict.fromkeys(operation.reads) if not needed[value])
        kept = price * sum(problem.bits[value] or 0 for value in operation.makes if needed[value])
        return rest < kept

    return problem.closed(chosen)
