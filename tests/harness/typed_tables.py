"""Random tables of typed columns: text, numbers, dates and times, some of whose cells are missing."""

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Random = np.random.Generator
Table = dict[str, list[Any]]

_FIRST = datetime.datetime(2024, 1, 1)

KINDS: Mapping[str, Callable[[Random], Any]] = {
    "categorical": lambda random: str(random.choice(["cat", "dog", "eel é", 'say "a, b"', "1.50"])),
    "codes": lambda random: str(random.choice(["007", "7", "070"])),
    "boolean": lambda random: bool(random.random() < 0.5),
    "count": lambda random: int(random.poisson(3)),
    "whole": lambda random: int(random.normal(0, 300)),
    "real": lambda random: round(float(random.normal(10, 2)), 2),
    "date": lambda random: _FIRST.date() + datetime.timedelta(days=int(random.integers(900))),
    "timestamp": lambda random: _FIRST + datetime.timedelta(seconds=int(random.integers(10**6))),
    "time": lambda random: datetime.time(int(random.integers(24)), int(random.integers(60))),
    "ignored": lambda random: f"x{random.integers(10**9)}",
}
"""By its kind, a function that draws a cell of a column."""


def typed_table(random: Random, kinds: Mapping[str, str], rows: int, *, unknown: float = 0.15) -> Table:
    """Columns of Python's values, None where a cell is missing.

    Args:
        random: The generator.
        kinds: The kind of each column, by its name.
        rows: The number of rows.
        unknown: The probability that a cell is missing.
    """
    return {
        name: [KINDS[kind](random) if kind == "ignored" or random.random() >= unknown else None for _ in range(rows)]
        for name, kind in kinds.items()
    }


def texts(table: Table, random: Random, words: tuple[str, ...] = ("",)) -> list[list[str]]:
    """A table as the lines of a text: its names, then its rows, with one of `words` for a missing cell."""
    rows = zip(*table.values(), strict=True)
    return [
        list(table),
        *([str(random.choice(words)) if cell is None else _text(cell) for cell in row] for row in rows),
    ]


def _text(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)
