"""Tables of what many layers of a record share: texts and scopes, each stored once and referred to by its number."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts by number.

    >>> texts = Texts()
    >>> [texts.number(text) for text in ("a", "b", "a")], texts.values()
    ([0, 1, 0], ['a', 'b'])
    """

    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """The number of a text, a new one if it is new."""
        return self._numbers.setdefault(text, len(self._numbers))

    def values(self) -> list[str]:
        """The texts in the order of their numbers."""
        return list(self._numbers)


@dataclass(frozen=True, slots=True)
class Scopes:
    """Scopes by number, each as runs of variables: the first of a run, and its length, one after the other.

    >>> scopes = Scopes()
    >>> scopes.number([0, 1, 2, 5]), scopes.values()
    (0, [[0, 3, 5, 1]])
    """

    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)

    def number(self, variables: Iterable[int]) -> int:
        """The number of a scope, a new one if it is new."""
        return self._numbers.setdefault(_runs(variables), len(self._numbers))

    def values(self) -> list[list[int]]:
        """The scopes in the order of their numbers."""
        return list(map(list, self._numbers))


def _runs(variables: Iterable[int]) -> tuple[int, ...]:
    runs: list[int] = []
    for variable in sorted(variables):
        if runs and variable == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [variable, 1]
    return tuple(runs)
