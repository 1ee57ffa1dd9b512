"""What a stage tells the command that started it: one line of JSON for each event, on its standard output.

>>> read(line(Begin("operation exp")))
Begin(check='operation exp')
>>> read("a warning of torch") is None
True
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

_MARK = "@plica "


@dataclass(frozen=True, slots=True)
class Planned:
    """Titles of what the stage is about to measure, in order."""

    titles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """A check begins; where nothing follows, the process died in it."""

    check: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A check has ended; `error` is empty if it passed, and `note` says what it found beside."""

    check: str
    error: str
    note: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement, under the title that was planned."""

    title: str
    value: Any


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not measured, and why."""

    title: str
    why: str


Event: TypeAlias = Planned | Begin | Checked | Measured | Skipped
_EVENTS = {kind.__name__: kind for kind in (Planned, Begin, Checked, Measured, Skipped)}


def line(event: Event) -> str:
    """The event as text."""
    return f"{_MARK}{json.dumps([type(event).__name__, asdict(event)])}"


def read(text: str) -> Event | None:
    """The event of a line; None if it is none."""
    if not text.startswith(_MARK):
        return None
    name, fields = json.loads(text.removeprefix(_MARK))
    if "titles" in fields:
        fields["titles"] = tuple(fields["titles"])
    event: Event = _EVENTS[name](**fields)
    return event


def tell(event: Event) -> None:
    """Hand an event to the command."""
    print(line(event), flush=True)
    sys.stdout.flush()
