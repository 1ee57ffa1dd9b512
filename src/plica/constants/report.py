"""What became of each constant value, and why; and what that costs in bytes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum


class Fate(Enum):
    """What became of a constant value."""

    FOLDED = "folded"
    CUT = "cut"
    POSTPONED = "postponed"
    STATES = "by states"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ValueReport:
    """One constant value.

    Args:
        name: Its name in the Program that was folded.
        type: Its type.
        operation: What computes it.
        fate: What became of it: folded, it is computed once; cut, there is no room to keep it; postponed, it expands
            what is folded; by states, it is no constant, but computed of a looked-up row and constants, and so
            computed once for each state; refused, it may not be folded.
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
    """What became of all constant values.

    Args:
        values: One entry for each.
        before: The bytes of all constants that are given.
        after: The bytes of what is kept between calls.
        peak: The most bytes that are alive at once while folding, besides the constants; None of these three where a
            size is not known before the run.
        work_before: The estimated work of all constant operations.
        work_after: That of those that still run at each call.
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
        return (one for one in self.values if one.fate is Fate(fate))

    def __getitem__(self, name: str) -> ValueReport:
        """The value called `name`.

        Raises:
            KeyError: No constant value is called so.
        """
        found = [one for one in self.values if one.name == name]
        if not found:
            raise KeyError(f"no constant value is called {name!r}; there are {[one.name for one in self.values]}")
        return found[0]

    def __str__(self) -> str:
        counts = ", ".join(f"{sum(1 for _ in self.of(fate))} {fate.value}" for fate in Fate)
        sizes = f"bytes: {_shown(self.before)} before, {_shown(self.after)} after, {_shown(self.peak)} at the peak"
        work = f"work of constants at each call: {self.work_before} before, {self.work_after} after"
        return "\n".join([f"{len(self.values)} constant value(s): {counts}", sizes, work, *map(str, self.values)])


def _shown(number: int | None) -> str:
    return "not known" if number is None else str(number)
