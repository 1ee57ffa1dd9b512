"""The errors of a nest as text with gaps for numbers, which are known only when a check fails."""

from collections.abc import Sequence

from plica.backend.native.loops.nest import Check, Index, Nest, Site, all_of
from plica.runtime.manifest import Fault


class _Gap(int):
    """The index of a number that a check reports; in a message it stands for that number."""

    def __repr__(self) -> str:
        return f"\0{int(self):d}\0"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def fault_of(site: Site, numbers: Sequence[Index]) -> Fault:
    """The error of a site whose check reports these numbers; the message does not name the line of the user's code."""
    numbers_or_gaps = [number if isinstance(number, int) else _Gap(index) for index, number in enumerate(numbers)]
    error = site.error(numbers_or_gaps)
    parts = str(error).split("\0")
    return Fault(type(error).__name__, tuple(int(part) if index % 2 else part for index, part in enumerate(parts)))


def faults_of(nest: Nest) -> tuple[Fault, ...]:
    """The errors of all sites, in order; each message begins with the line of the user's code."""
    numbers = {statement.site: statement.numbers for statement in all_of(nest.body) if isinstance(statement, Check)}
    faults = []
    for index, site in enumerate(nest.sites):
        fault = fault_of(site, numbers.get(index, range(site.count)))
        source = (f"{site.source}: ",) if site.source else ()
        faults.append(Fault(fault.error, tuple(part for part in (*source, *fault.message) if part != "")))
    return tuple(faults)
