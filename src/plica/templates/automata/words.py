"""Tables of automata that look for words: several in order, or any of several.

>>> in_order([(0, 0, 1)], 2).following.tolist()  # a a b
[[1, 0], [2, 0], [2, 3], [3, 3]]
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from plica.templates.automata.table import Integers, Table, minimal

Word = Sequence[int]


def in_order(words: Sequence[Word], num_symbols: int) -> Table:
    """The texts in which the words follow one another, with any symbols before, between and after them.

    A word begins after the end of the one before it. State q says how much of which word was just read.

    Source: Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977.
    """
    parts: list[Integers] = []
    first = 0
    for word in words:
        rows = np.zeros((len(word), num_symbols), dtype=np.int64)
        fallback = 0  # the state after the word without its first symbol
        for at, symbol in enumerate(word):
            if at:
                rows[at] = rows[fallback]
                fallback = int(rows[fallback, symbol])
            rows[at, symbol] = at + 1
        parts.append(rows + first)
        first += len(word)
    following = np.vstack([*parts, np.full((1, num_symbols), first)])
    return Table(following, np.arange(first + 1) == first, 0)


def any_of(words: Sequence[Word], num_symbols: int) -> Table:
    """The texts that have one of the words somewhere.

    Source: Aho and Corasick, "Efficient string matching: an aid to bibliographic search", 1975.
    """
    children: list[dict[int, int]] = [{}]
    ends = {0: False}
    for word in words:
        state = 0
        for symbol in word:
            if symbol not in children[state]:
                children[state][symbol] = len(children)
                children.append({})
            state = children[state][symbol]
        ends[state] = True
    following = np.zeros((len(children), num_symbols), dtype=np.int64)
    accepting = np.array([ends.get(state, False) for state in range(len(children))])
    waiting = deque([(0, 0)])  # a state, and the state of its longest proper suffix
    while waiting:
        state, suffix = waiting.popleft()
        accepting[state] |= accepting[suffix]
        if state:
            following[state] = following[suffix]
        for symbol, child in children[state].items():
            waiting.append((child, int(following[state, symbol])))
        for symbol, child in children[state].items():
            following[state, symbol] = child
    following[accepting] = np.flatnonzero(accepting)[0]
    return minimal(Table(following, accepting, 0))
