"""Random nests of operators, each with the table of its values: an oracle by enumeration that knows no circuit.

A table holds the values of a circuit at all states, computed with torch from those of the operands' tables; so it has
derivatives. Tables of circuits that no operator made come from a compiled circuit without rewrites.

    nest = Nest(7, "signed-lse-sum")
    described, table = nest.result
    table.at(rows)     # (B, outputs, units), with NaN summed out
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.dtypes import DataType
from plica.symbolic.functional import (
    concatenate,
    condition,
    conjugate,
    evidence,
    integrate,
    marginal,
    mixture,
    multiply,
    normalize,
    power,
    rename,
    simplify,
    smooth,
)
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer, EmbeddingLayer, Layer, SumLayer
from plica.symbolic.parameters import (
    ExpParameter,
    Parameter,
    TensorParameter,
    mixing_weight_factory,
    softmax_normal,
)
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.operator_circuits import STATES, Draw, Tree, restricted, tree_of, variables_of

ALWAYS = (
    "multiply", "multiply", "power", "evidence", "mixture", "concatenate", "rename", "smooth", "simplify", "conjugate",
)  # fmt: skip
OPERATORS = (*ALWAYS, "integrate", "marginal", "condition", "normalize")
LARGEST = 1500
"""Entries of the largest table."""
_MOST_LAYERS = 4000
"""Layers of the largest circuit: one of 35,000 took minutes to compile."""


@dataclass(frozen=True)
class Table:
    """Values at all states.

    Args:
        values: `(outputs, units, *states)`, one axis for each variable of `scope`.
        scope: The variables, in ascending order.
        columns: The variables that have a column in the data.
        adds: Whether a variable that is missing is summed out; else the largest number is taken.
    """

    values: Tensor
    scope: tuple[int, ...]
    columns: tuple[int, ...]
    adds: bool = True

    @property
    def sizes(self) -> dict[int, int]:
        """The number of states of each variable."""
        return dict(zip(self.scope, self.values.shape[2:], strict=True))

    @property
    def units(self) -> int:
        return int(self.values.shape[1])

    def summed(self, variables: Sequence[int]) -> "Table":
        """The sums over some variables."""
        axes = [2 + self.scope.index(variable) for variable in variables]
        reduce = torch.sum if self.adds else torch.amax
        values = reduce(self.values, axes) if axes else self.values
        rest = tuple(variable for variable in self.scope if variable not in variables)
        return self.changed(values, rest)

    def changed(
        self, values: Tensor, scope: tuple[int, ...] | None = None, columns: Sequence[int] | None = None
    ) -> "Table":
        """A table of other values, and of other variables where these are given."""
        return replace(
            self,
            values=values,
            scope=self.scope if scope is None else scope,
            columns=self.columns if columns is None else tuple(columns),
        )

    def observed(self, values: Mapping[int, int]) -> "Table":
        """The table at some values."""
        index = tuple(values.get(variable, slice(None)) for variable in self.scope)
        rest = tuple(variable for variable in self.scope if variable not in values)
        return self.changed(self.values[(slice(None), slice(None), *index)], rest)

    def normalized(self) -> "Table":
        """Divided by the sums."""
        totals = self.summed(self.scope).values
        return self.changed(self.values / totals.reshape(*totals.shape, *[1] * len(self.scope)))

    def times(self, other: "Table") -> "Table":
        """The products of all pairs, those of this table slowest."""
        scope = tuple(sorted({*self.scope, *other.scope}))
        first, second = (self._spread(table, scope) for table in (self, other))
        common = [min(t.sizes.get(v, 99) for t in (self, other)) for v in scope]  # the states that both have
        crop = (slice(None), slice(None), *(slice(0, size) for size in common))
        first, second = first[crop], second[crop]
        pairs = first[:, None, :, None] * second[None, :, None, :]
        outputs, others, units, more, *states = pairs.shape
        columns = tuple(sorted({*self.columns, *other.columns}))
        return self.changed(pairs.reshape(outputs * others, units * more, *states), scope, columns)

    @staticmethod
    def _spread(table: "Table", scope: Sequence[int]) -> Tensor:
        sizes = [table.sizes.get(variable, 1) for variable in scope]
        return table.values.reshape(*table.values.shape[:2], *sizes)

    def renamed(self, names: Mapping[int, int]) -> "Table":
        """Over other variables."""
        new = [names.get(variable, variable) for variable in self.scope]
        order = sorted(range(len(new)), key=new.__getitem__)
        columns = tuple(sorted(names.get(variable, variable) for variable in self.columns))
        values = self.values.permute(0, 1, *(2 + axis for axis in order))
        return self.changed(values, tuple(new[axis] for axis in order), columns)

    def at(self, rows: Any) -> Tensor:
        """The values `(B, outputs, units)` of rows; variables that are NaN are summed out."""
        found = []
        for row in np.asarray(rows, float):
            known = {variable: int(row[variable]) for variable in self.scope if not np.isnan(row[variable])}
            gone = [variable for variable in self.scope if variable not in known]
            found.append(self.observed(known).summed(gone).values)
        return torch.stack(found) if found else self.values.new_zeros(0, *self.values.shape[:2])


class LeafDraw(Draw):
    """Circuits of leaves that suit a semiring."""

    def __init__(self, rng: np.random.Generator, kind: str) -> None:
        super().__init__(rng, 0.0)
        self.kind = kind
        self.shared: dict[tuple[int, ...], Parameter] = {}

    def parameter(self, shape: tuple[int, ...]) -> Parameter:
        """A parameter; now and then one that another layer has."""
        known = self.shared.get(shape)
        if known is not None and self.chance(0.2):
            return known.ref()
        self.shared[shape] = self._new(shape)
        return self.shared[shape]

    def _new(self, shape: tuple[int, ...]) -> Parameter:
        if self.kind == "positive":
            if self.chance(0.5):
                return softmax_normal(shape)
            leaf = TensorParameter(*shape, initializer=NormalInitializer())
            return Parameter.from_unary(ExpParameter(shape), leaf)
        is_complex = self.kind == "complex" and self.chance(0.7)
        dtype = DataType.COMPLEX if is_complex else DataType.REAL
        return Parameter.from_input(TensorParameter(*shape, initializer=NormalInitializer(), dtype=dtype))

    def _leaf(self, variable: int, units: int) -> Layer:
        states = STATES[variable]
        if self.chance(0.3):
            return self.add(CategoricalLayer([variable], units, num_categories=states))
        return self.add(EmbeddingLayer([variable], units, num_states=states, weight_factory=self.parameter))

    def _weighted(self, units: int, terms: Sequence[Layer]) -> Layer:
        width = terms[0].num_output_units
        weight: Any = self.parameter
        if width == units and self.chance(0.3):
            weight = lambda shape: mixing_weight_factory(shape, param_factory=self.parameter)  # noqa: E731
        return self.add(SumLayer(width, units, len(terms), weight_factory=weight), *terms)


Made = tuple[Circuit, Table]


@dataclass
class Nest:
    """A nest of operators to some depth.

    Args:
        seed: Draws it.
        semiring: The semiring of the circuits.
        depth: How many operators are applied one after another.
        dtype: That of the circuits; tables have double precision.
        fold: As of a context.
        optimize: As of a context.
    """

    seed: int
    semiring: str
    depth: int = 4
    dtype: torch.dtype = torch.float64
    fold: bool = True
    optimize: bool = True
    rng: np.random.Generator = field(init=False)
    adds: bool = field(init=False)
    steps: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 31])
        torch.manual_seed(self.seed)
        self.adds = SEMIRINGS[self.semiring].algebra.name == "real"
        kind = {"complex-lse-sum": "complex", "sum-product": "complex" if self.chance(0.3) else "real"}
        self.kind = kind.get(self.semiring, "real" if self.semiring.startswith("signed") else "positive")
        self.context = PipelineContext(semiring=self.semiring, dtype=self.dtype, fold=self.fold, optimize=self.optimize)
        self.plain = PipelineContext(
            semiring="sum-product" if self.adds else "max-product", dtype=torch.float64, fold=False, optimize=False
        )
        count = int(self.rng.integers(1, 5))
        self.tree: Tree = tree_of(self.rng, [int(v) for v in self.rng.permutation(len(STATES))[:count]])
        self.bases: list[Made] = [self._base() for _ in range(2)]
        self.pool: list[Made] = list(self.bases)
        for _ in range(self.depth):
            self.pool.append(self._applied())
        self.result = self.pool[-1]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, things: Sequence[Any]) -> Any:
        return things[int(self.rng.integers(len(things)))]

    def _base(self) -> Made:
        draw = LeafDraw(self.rng, self.kind)
        tree = self.tree
        if self.chance(0.3) and not isinstance(tree, int):
            kept = variables_of(tree)
            kept = kept[: int(self.rng.integers(1, len(kept) + 1))]
            tree = restricted(tree, kept)
        units = int(self.rng.integers(1, 3))
        outputs = [draw.region(tree, units) for _ in range(int(self.rng.integers(1, 3)))]
        described = draw.circuit(*outputs)
        plain = self.plain.compile(described)
        compiled = self.context.compile(described)
        state = {
            key: value.to(torch.float64 if not value.is_complex() else torch.complex128)
            for key, value in compiled.state_dict().items()
        }
        plain.load_state_dict(state)
        scope = tuple(described.scope)
        sizes = [STATES[variable] for variable in scope]
        rows = torch.zeros(prod(sizes), max(scope) + 1, dtype=torch.int64)
        rows[:, list(scope)] = torch.tensor(list(product(*map(range, sizes))))
        values = plain(rows)  # (N, O, K)
        values = values.permute(1, 2, 0).reshape(*values.shape[1:], *sizes)
        return described, Table(values, scope, scope, self.adds)

    def _applied(self) -> Made:
        """The result of an operator on results so far; another one is drawn where it does not apply."""
        while True:
            name = self.pick(OPERATORS if self.adds else ALWAYS)
            made: Made | None = getattr(self, f"_{name}")()
            if (
                made is not None
                and made[1].values.numel() <= LARGEST
                and made[1].units <= 20
                and len(made[0].layers) <= _MOST_LAYERS
            ):
                self.steps.append(f"{name}#{len(self.pool)}")
                return made

    def _last(self) -> Made:
        return self.pool[-1] if self.chance(0.7) else self.pick(self.pool)

    def _multiply(self) -> Made | None:
        (first, table), (second, other) = self._last(), self.pick(self.pool)
        if self.chance(0.5):
            (first, table), (second, other) = (second, other), (first, table)
        size = table.values.numel() * other.values.numel()
        if size > 20 * LARGEST or not are_compatible(first, second):
            return None
        self.steps.append("x")
        return multiply(first, second), table.times(other)

    def _power(self) -> Made | None:
        c, table = self._last()
        n = int(self.rng.integers(1, 4))
        if (table.values.shape[0] * table.units) ** n > 30:
            return None
        exponent, square, total = n, table, None  # units in the order of repeated squaring: c^3 is c times c^2
        while exponent:
            if exponent % 2:
                total = square if total is None else total.times(square)
            exponent //= 2
            if exponent:
                square = square.times(square)
        return power(c, n), total or table

    def _some(self, table: Table) -> list[int]:
        return [variable for variable in table.scope if self.chance(0.5)]

    def _integrate(self) -> Made | None:
        c, table = self._last()
        gone = list(table.scope) if self.chance(0.3) else self._some(table)
        return integrate(c, gone), table.summed(gone)

    def _marginal(self) -> Made | None:
        c, table = self._last()
        kept = self._some(table)
        return marginal(c, kept), table.summed([v for v in table.scope if v not in kept])

    def _evidence(self) -> Made | None:
        c, table = self._last()
        seen = {v: int(self.rng.integers(table.sizes[v])) for v in self._some(table)}
        return evidence(c, seen), table.observed(seen)

    def _divides(self, table: Table) -> bool:
        """Whether the integrals are far from zero, and positive where a quotient is NaN otherwise."""
        totals = table.summed(table.scope).values.detach()
        if totals.is_complex():
            return False
        return bool((totals > 1e-2).all())

    def _condition(self) -> Made | None:
        c, table = self._last()
        seen = {v: int(self.rng.integers(table.sizes[v])) for v in self._some(table)}
        observed = table.observed(seen)
        if not self._divides(observed):
            return None
        return condition(c, seen), observed.normalized()

    def _normalize(self) -> Made | None:
        c, table = self._last()
        return (normalize(c), table.normalized()) if self._divides(table) else None

    def _alike(self, same_shape: Callable[[Table, Table], bool]) -> list[Made]:
        _, table = first = self._last()
        others = [made for made in self.pool if same_shape(made[1], table)]
        return [first, self.pick(others)]

    def _mixture(self) -> Made | None:
        both = self._alike(lambda a, b: a.scope == b.scope and a.values.shape == b.values.shape)
        if len(both[0][0].outputs) > 1 and any(
            len({tuple(c.layer_scope(out)) for out in c.outputs}) > 1 for c, _ in both
        ):
            return None
        weights = self.rng.random(2) + 0.1
        terms = torch.stack([weight * table.values for weight, (_, table) in zip(weights, both, strict=True)])
        values = terms.sum(0) if self.adds else terms.amax(0)
        columns = tuple(sorted({v for _, table in both for v in table.columns}))
        return mixture([c for c, _ in both], weights), both[0][1].changed(values, columns=columns)

    def _concatenate(self) -> Made | None:
        both = self._alike(lambda a, b: a.scope == b.scope and a.values.shape[1:] == b.values.shape[1:])
        columns = tuple(sorted({v for _, table in both for v in table.columns}))
        values = torch.cat(
            [
                table.values.to(torch.complex128) if any(t.values.is_complex() for _, t in both) else table.values
                for _, table in both
            ]
        )
        return concatenate([c for c, _ in both]), both[0][1].changed(values, columns=columns)

    def _rename(self) -> Made | None:
        c, table = self._last()
        names = {}
        if self.chance(0.5):
            names = {v: v + 9 for v in self._some(table)}
        elif len(table.scope) > 1:
            a, b = (int(v) for v in self.rng.permutation(table.scope)[:2])
            names = {a: b, b: a}
        news = [names.get(v, v) for v in table.scope]
        columns = [names.get(v, v) for v in table.columns]
        if max([*news, *columns], default=0) > 25 or len(set(columns)) < len(columns):
            return None
        return rename(c, names), table.renamed(names)

    def _smooth(self) -> Made | None:
        c, table = self._last()
        return smooth(c), table

    def _simplify(self) -> Made | None:
        c, table = self._last()
        return simplify(c), table

    def _conjugate(self) -> Made | None:
        c, table = self._last()
        return conjugate(c), table.changed(table.values.conj())
