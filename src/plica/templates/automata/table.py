"""Tables of deterministic finite automata, and what is computed of them: reachable states, products, minimal tables.

>>> import numpy as np
>>> ends_in_b = Table(np.array([[0, 1], [2, 1], [2, 3], [2, 3]]), np.array([False, True, False, True]), 0)
>>> minimal(ends_in_b).following.tolist()
[[0, 1], [0, 1]]
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.errors import InputError

Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]

MAX_STATES = 10_000
"""The most states of automata that regular expressions and products make."""


class Table(NamedTuple):
    """A deterministic finite automaton whose states and symbols are numbers.

    Args:
        following: `(Q, S)`, the state that follows state q at symbol s; -1 where the automaton rejects.
        accepting: `(Q,)`, whether a word may end in a state.
        start: The state before the first symbol.
    """

    following: Integers
    accepting: Booleans
    start: int


def symbol_classes(following: Integers) -> tuple[Integers, Integers]:
    """The columns of a table that differ, in the order of their first symbols; and the class of each symbol."""
    _, first, inverse = np.unique(following, axis=1, return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))
    return following[:, np.sort(first)], rank[inverse.reshape(-1)]


def complete(table: Table) -> Table:
    """The table with a state for what it rejects, if it has no such state and needs one."""
    following, accepting, start = table
    if (following >= 0).all():
        return table
    sink = len(following)
    rows = np.vstack([following, np.full((1, following.shape[1]), sink)])
    return Table(np.where(rows < 0, sink, rows), np.append(accepting, False), start)


def trimmed(table: Table) -> Table:
    """The states that a word leads to, and from which a word leads to acceptance; the start stays in any case.

    States are numbered as a breadth-first search from the start finds them, and the start is state 0.
    """
    classes, class_of = symbol_classes(table.following)
    alive = _alive(classes, table.accepting)
    kept, seen = [table.start], {-1, table.start}
    for state in kept:  # which grows
        for target in dict.fromkeys(classes[state].tolist()):
            if target not in seen and alive[target]:
                seen.add(target)
                kept.append(target)
    number = np.full(len(classes) + 1, -1)  # of the state -1 too
    number[kept] = np.arange(len(kept))
    return Table(number[classes[kept]][:, class_of], table.accepting[kept], 0)


def _alive(following: Integers, accepting: Booleans) -> Booleans:
    """From which states a word leads to acceptance, `(Q,)`: a search against the transitions, from accepting states."""
    sources: list[dict[int, None]] = [{} for _ in following]
    for state, row in enumerate(following.tolist()):
        for target in row:
            if target >= 0:
                sources[target][state] = None
    alive = accepting.tolist()
    waiting = np.flatnonzero(accepting).tolist()
    for target in waiting:  # which grows
        for state in sources[target]:
            if not alive[state]:
                alive[state] = True
                waiting.append(state)
    return np.array(alive)


def minimal(table: Table) -> Table:
    """The trimmed table of fewest states that accepts the same words."""
    full = complete(trimmed(table))
    classes, class_of = symbol_classes(full.following)
    block = np.array(_blocks(classes, full.accepting))
    _, first = np.unique(block, return_index=True)
    return trimmed(Table(block[classes[first]][:, class_of], full.accepting[first], int(block[full.start])))


def _blocks(following: Integers, accepting: Booleans) -> list[int]:
    """The number of the block of each state: states of one block accept the same words.

    Source: Hopcroft, "An n log n algorithm for minimizing states in a finite automaton", 1971: a block is split where
    some of its states lead to a block and others do not, and of two halves the smaller one alone splits others.
    """
    sources: list[list[list[int]]] = [[[] for _ in following] for _ in following.T]
    for state, row in enumerate(following.tolist()):
        for column, target in enumerate(row):
            sources[column][target].append(state)
    block_of = accepting.astype(np.int64).tolist()
    blocks = [dict.fromkeys(np.flatnonzero(accepting == accepts).tolist()) for accepts in (False, True)]
    waiting = {0: None, 1: None}  # the keys are the blocks that may split others
    while waiting:
        splitter = list(blocks[waiting.popitem()[0]])
        for before in sources:
            parts: dict[int, list[int]] = {}
            for state in (source for target in splitter for source in before[target]):
                parts.setdefault(block_of[state], []).append(state)
            for number, part in parts.items():
                if len(part) == len(blocks[number]):
                    continue
                fresh = len(blocks)
                blocks.append(dict.fromkeys(part))
                for state in part:
                    block_of[state] = fresh
                    del blocks[number][state]
                smaller = fresh if number in waiting or len(part) <= len(blocks[number]) else number
                waiting[smaller] = None
    _, numbers = np.unique(block_of, return_inverse=True)
    return list(numbers.tolist())


def product(what: str, first: Table, second: Table, accepts: Callable[[Booleans, Booleans], Booleans]) -> Table:
    """The minimal table of the words that `accepts(in the first, in the second)`.

    Raises:
        InputError: It has more than `MAX_STATES` states before it is made minimal.
    """
    tables = [complete(first), complete(second)]
    classes, class_of = symbol_classes(np.vstack([table.following for table in tables]))
    upper, lower = np.split(classes, [len(tables[0].following)])
    pairs = [(tables[0].start, tables[1].start)]
    number, rows = {pairs[0]: 0}, []
    for in_first, in_second in pairs:  # which grows
        following = list(zip(upper[in_first].tolist(), lower[in_second].tolist(), strict=True))
        for pair in following:
            if pair not in number:
                number[pair] = len(pairs)
                pairs.append(pair)
        rows.append([number[pair] for pair in following])
        check_size(what, len(pairs))
    accepting = [table.accepting[states] for table, states in zip(tables, np.array(pairs).T, strict=True)]
    return minimal(Table(np.array(rows)[:, class_of], accepts(*accepting), 0))


def check_size(what: str, states: int) -> None:
    """Refuse automata that are too large.

    Raises:
        InputError: There are more than `MAX_STATES` states.
    """
    if states > MAX_STATES:
        raise InputError(
            f"{what}: the automaton has more than {MAX_STATES:,} states; split the constraint, and multiply the "
            "circuits of its parts"
        )
