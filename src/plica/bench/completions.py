"""What every method of a table with holes is, and what its answers are.

A method learns the table as it is, holes included, and says what its missing cells may be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from plica.bench.sets import Array, MixedTable


class Completion(ABC):
    """What one method says of the missing cells of one table."""

    @abstractmethod
    def filled(self) -> Array:
        """`(N, D)`: known cells, and in the others means of numbers and the most probable categories."""

    @abstractmethod
    def log_probability(self, position: int, rows: Array, values: Array) -> Array | None:
        """`(R,)`: of values in missing cells of a column, given the known cells of their rows; None without one.

        Args:
            position: The column.
            rows: `(R,)` numbers of rows.
            values: `(R,)` the values that the cells have. Of real numbers the log-density, in units of the table.
        """

    @abstractmethod
    def interval(self, position: int, rows: Array, low: float, high: float) -> tuple[Array, Array] | None:
        """Quantiles `(R,)` of missing cells of a column of numbers; None if the method has none."""


class Method(ABC):
    """A way to learn a table; frozen settings."""

    @abstractmethod
    def complete(self, table: MixedTable, seed: int) -> Completion:
        """Learn from the known cells of a table."""


class Filled(Completion):
    """A completion of values alone."""

    def __init__(self, values: Array) -> None:
        self._values = values

    def filled(self) -> Array:
        """The values."""
        return self._values

    def log_probability(self, position: int, rows: Array, values: Array) -> None:
        """None: such methods have no distribution."""

    def interval(self, position: int, rows: Array, low: float, high: float) -> None:
        """None: such methods have no distribution."""
