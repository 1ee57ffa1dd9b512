"""Reports of an optimization: rules that fired, where, what they saved, near misses, and why the loop stopped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.lower.optimize.costs import ROWS, Cost, total

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One application of a rule; its saving is estimated when `saved` is read.

    Args:
        place: The layer that was replaced, by its name in the circuit as it was described.
        before: The nodes that the rule removed.
        after: The nodes that it added.
        cost: Gives the cost of nodes together.
    """

    place: str
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    cost: Callable[[Iterable[Any]], Cost]

    @property
    def saved(self) -> Cost:
        """The estimated work saved."""
        return self.cost(self.before) - self.cost(self.after)


@dataclass(frozen=True, slots=True)
class Fired:
    """One rule and the places where it was applied.

    Args:
        stage: `parameters`, `shatter` or `fuse`.
        rule: The name.
        equation: Its equation.
        changes: Its applications, one for each match.
    """

    stage: str
    rule: str
    equation: str
    changes: tuple[Change, ...]

    @property
    def count(self) -> int:
        """How often it was applied."""
        return len(self.changes)

    @property
    def places(self) -> tuple[str, ...]:
        """The layers that were replaced, by their names in the circuit as it was described."""
        return tuple(change.place for change in self.changes)

    @property
    def saved(self) -> Cost:
        """The estimated work saved."""
        return total(change.saved for change in self.changes)


@dataclass(frozen=True, slots=True)
class Missed:
    """A rule that nearly matched, for one reason, in the optimized circuit.

    Args:
        rule: The name.
        why: The reason.
        details: One line for each place.
    """

    rule: str
    why: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A rule that was not tried.

    Args:
        rule: The name.
        why: The reason, to be read after the name.
    """

    rule: str
    why: str

    @staticmethod
    def by_laws(rule: str, algebra: str, laws: tuple[str, ...]) -> "LeftOut":
        """A rule that needs laws which an algebra does not grant."""
        return LeftOut(rule, f"needs {'; '.join(laws)}, which the algebra {algebra} does not have")

    @staticmethod
    def by_row(rule: str, layer: str) -> "LeftOut":
        """A rule on layers that the context overrides with an entry of its own."""
        return LeftOut(rule, f"is for {layer}, and the context has its own row for that")


@dataclass(frozen=True, slots=True)
class Report:
    """The report of `optimize_circuit`.

    Args:
        layers: The numbers of layers before and after.
        fired: The rules that were applied, in order of their first application.
        missed: The near misses at the end, and why each is no match.
        steps: How many times the loop ran.
        limit: Which limit ended it, and which rules still fired; None where no rule matched any more.
        left_out: The rules that were not tried.
    """

    layers: tuple[int, int]
    fired: tuple[Fired, ...] = ()
    missed: tuple[Missed, ...] = ()
    steps: int = 0
    limit: str | None = None
    left_out: tuple[LeftOut, ...] = ()

    @property
    def saved(self) -> Cost:
        """The estimated work saved in all."""
        return total(fired.saved for fired in self.fired)

    @property
    def stopped(self) -> str:
        """Why the loop stopped."""
        return self.limit or "no rule matched any more"

    def text(self) -> str:
        """The report as lines."""
        before, after = self.layers
        lines = [f"optimized: {before} layers became {after} in {self.steps} step(s); stopped because {self.stopped}"]
        lines += [line for fired in self.fired for line in _fired_lines(fired)]
        if self.fired:
            lines.append(f"saved in all, estimated for {ROWS} rows in float32: {_amount(self.saved)}")
        if self.missed:
            lines.append("near matches:")
        lines += [line for missed in self.missed for line in _missed_lines(missed)]
        lines += [f"left out: {skipped.rule} {skipped.why}" for skipped in self.left_out]
        return "\n".join(lines)


def program_rules_text(fired: Mapping[str, Sequence[str]]) -> str:
    """The rules that fired on the Program, as lines.

    Args:
        fired: For each rule, by name and equation, the source of each equation where it fired.
    """
    lines = ["rules on the Program:" if fired else "rules on the Program: none fired"]
    for rule, sources in fired.items():
        lines.append(f"  program {rule}: {_times(len(sources))}")
        if named := tuple(dict.fromkeys(filter(None, sources))):
            lines.append(f"    at {_some(named)}")
    return "\n".join(lines)


def _fired_lines(fired: Fired) -> Iterable[str]:
    yield f"  {fired.stage} {fired.rule}: {fired.equation}: {_times(fired.count)}, saved {_amount(fired.saved)}"
    yield f"    at {_some(fired.places)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _missed_lines(missed: Missed) -> Iterable[str]:
    count = len(missed.details)
    yield f"  {missed.rule}, {count} place(s): {missed.why}"
    yield f"    {_some(missed.details)}"


def _some(texts: tuple[str, ...]) -> str:
    shown = "; ".join(texts[:_SHOWN])
    return shown if len(texts) <= _SHOWN else f"{shown}; and {len(texts) - _SHOWN} more"


def _amount(cost: Cost) -> str:
    return f"{cost.flops:,} FLOPs and {cost.bytes:,} bytes written"
