"""The checks of a device, by name: each compares what the device computes with what the CPU does.

They are made from Plica's own tables, so a new operation, layer or semiring is checked without an edit here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.gpu.devices import Device


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Args:
        name: What the report calls it; the first word is its group.
        run: Compares; what it returns is a note for the report.

    Raises:
        AssertionError: The device computes something else.
    """

    name: str
    run: Callable[[Device], str | None]


def all_checks() -> Iterator[Check]:
    """Every check, in the same order each time."""
    from benchmarks.gpu.checks import circuits, functions, learning, operations, queries

    for module in (circuits, learning, queries, functions, operations):
        yield from module.checks()
