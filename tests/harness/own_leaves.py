"""Leaf kinds that are not Plica's own, for tests, as a user would write them."""

from dataclasses import dataclass
from typing import Any

from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.parameters import (
    ComposedParameter,
    HadamardParameter,
    LeafRow,
    MatMulParameter,
    Parameter,
    ParameterInput,
    TensorParameter,
)


@dataclass(frozen=True, eq=False, init=False)
class LowRank(ComposedParameter):
    """A matrix that is the product of two thin ones; it says so itself."""

    shape: tuple[int, int]
    rank: int

    def __init__(self, rows: int, columns: int, *, rank: int) -> None:
        object.__setattr__(self, "shape", (rows, columns))
        object.__setattr__(self, "rank", rank)

    @property
    def config(self) -> dict[str, Any]:
        return {"rank": self.rank}

    def compose(self) -> Parameter:
        rows, columns = self.shape
        first = TensorParameter(rows, self.rank, initializer=NormalInitializer())
        second = TensorParameter(self.rank, columns, initializer=NormalInitializer())
        return Parameter.from_binary(MatMulParameter((rows, self.rank), (self.rank, columns)), first, second)


@dataclass(frozen=True, eq=False, init=False)
class Wide(ParameterInput):
    """Normal numbers of a given spread; only a context's row says what it holds."""

    shape: tuple[int, ...]
    spread: float

    def __init__(self, *shape: int, spread: float = 1.0) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "spread", spread)

    @property
    def config(self) -> dict[str, Any]:
        return {"spread": self.spread}


WIDE = LeafRow(Wide, lambda leaf: TensorParameter(*leaf.shape, initializer=NormalInitializer(0.0, leaf.spread)))


def _doubled(leaf: Wide) -> Parameter:
    half = TensorParameter(*leaf.shape, initializer=NormalInitializer(0.0, leaf.spread))
    return Parameter.from_binary(HadamardParameter(leaf.shape, leaf.shape), half, half)


WIDE_SQUARED = LeafRow(Wide, _doubled)
