"""The report of a folding: the fate of each constant value, its reason, and the bytes of all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum


class Fate(Enum):
    """Whether and how a constant value was folded."""

    FOLDED = "folded"
    CUT = "cut"
    POSTPONED = "postponed"
    STATES = "by states"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ValueReport:
    """The fate of one constant value.

    Args:
        name: Its name in the Program that was folded.
        type: Its type.
        operation: The operation that computes it.
        fate: Folded: it is computed once. Cut: there is no room to keep it. Postponed: it expands a folded value at
            each call. By states: it is no constant, but is computed from a looked-up row and constants, and so once
            for each state. Refused: it may not be folded.
        why: The reason.
        source: The line of the user's code.
    """

    name: str
    type: str
    operation: str
    fate: Fate
    why: str
    source: str = ""

    def __str__(self) -> str:
        line = f"  {self.name}:{self.type} = {self.operation}: {self.fate.value}, {self.why}"
        return f"{line} ({self.source})" if self.source else line


@dataclass(frozen=True, slots=True)
class FoldReport:
    """The fates of all constant values, and their bytes and work.

    Args:
        values: The fate of each constant value.
        before: The bytes of all constants that are given; None where a size is not known before the run.
        after: The bytes of the values kept between calls; None as `before`.
        peak: The most bytes that are alive at once while folding, besides the constants; None as `before`.
        work_before: The estimated work of all constant operations.
        work_after: The estimated work of those that still run at each call.
    """

    values: tuple[ValueReport, ...]
    before: int | None
    after: int | None
    peak: int | None
    work_before: int
    work_after: int

    def with_values(self, values: Iterable[ValueReport]) -> "FoldReport":
        """The report with further values."""
        return replace(self, values=(*self.values, *values))

    def of(self, fate: Fate | str) -> Iterator[ValueReport]:
        """The values with this fate."""
        return (value for value in self.values if value.fate is Fate(fate))

    def __getitem__(self, name: str) -> ValueReport:
        """The value called `name`.

        Raises:
            KeyError: No constant value is called so.
        """
        matches = [value for value in self.values if value.name == name]
        if not matches:
            raise KeyError(f"no constant value is called {name!r}; there are {[value.name for value in self.values]}")
        return matches[0]

    def __str__(self) -> str:
        counts = ", ".join(f"{sum(1 for _ in self.of(fate))} {fate.value}" for fate in Fate)
        sizes = f"bytes: {_shown(self.before)} before, {_shown(self.after)} after, {_shown(self.peak)} at the peak"
        work = f"work of constants at each call: {self.work_before} before, {self.work_after} after"
        return "\n".join([f"{len(self.values)} constant value(s): {counts}", sizes, work, *map(str, self.values)])


def _shown(number: int | None) -> str:
    return "not known" if number is None else str(number)
