"""First and second derivatives of every column of a layer's row, at the ends of what its parameters and data may be.

    check_derivatives(case)

Those of values are compared with differences of the case's reference in extended precision, those of other columns with
differences of themselves in float64, and those in float32 with those in float64. All have to be finite, but where the
truth is too large for the dtype.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import plica
import plica.numpy as pnp
from plica.ir.op import Unsupported
from plica.symbolic.layers import LAYER_ROWS, BinomialLayer
from plica.symbolic.layers.rows import independent, with_sub_layers
from plica.symbolic.semirings import SEMIRINGS, Params
from tests.harness.derivatives import (
    NARROW_EXACT,
    OWN_EXACT,
    WIDE_EXACT,
    Derivatives,
    differences,
    disagreements,
    rounded,
    torch_derivatives,
)
from tests.harness.layer_cases import InnerCase, InputCase
from tests.harness.pairwise import pairwise
from tests.harness.spaces import LINEAR, LOG, WIDE
from tests.harness.sum_derivatives import check_sums

Array = Any
Values = Callable[[Mapping[str, Array]], Array]  # (B, K) at parameters (K, ...), and data (B, V) as "x"
LSE, ORDINARY = SEMIRINGS["lse-sum"], SEMIRINGS["sum-product"]
_MIXED = 2  # directions along which everything moves
_LEAST_SHARE = -9.0  # a logarithm
_MOST_ENTRIES = 2  # of what a column gives for each unit


@dataclass(frozen=True)
class Rule:
    """A column as a function, of `point` alone: `(cells,)` of parameters `(cells, 1, ...)`, data `(cells, 1, V)`."""

    name: str
    run: Callable[[Mapping[str, Tensor]], Tensor]
    reads: bool
    reference: Values | None
    rows: int | None = 1  # at most, of those that there are; None for all
    orders: int = 2
    largest: float = np.inf  # of units of larger numbers it has kinks closer together than differences reach


@dataclass(frozen=True)
class Cells:
    """Each unit at each row: what is moved, and how far, such that steps are of the size of the numbers.

    Args:
        units: Parameters `(K, ...)`; shared ones without that axis.
        x: Data `(B, V)`.
        free: The names of what is moved.
        shared: Those of parameters that all units have in common.
        inner: Which entries of `x` may be moved to both sides, `(B, V)`.
    """

    units: Mapping[str, Array]
    x: Array
    free: Sequence[str]
    shared: Sequence[str]
    inner: Array

    @property
    def shape(self) -> tuple[int, int]:
        """B and K."""
        own = [value for name, value in self.units.items() if name not in self.shared]
        return len(self.x), len(own[0]) if own else 1

    def directions(self, reads: bool) -> list[dict[str, Array]]:
        """Each entry of parameters and data, and all of them together."""
        found: list[dict[str, Array]] = []
        for name in self.free:
            value = np.abs(self.units[name])
            step = np.where(value == 0, 1.0, value)
            shape = value.shape if name in self.shared else value.shape[1:]
            for entry in np.ndindex(shape):
                place = entry if name in self.shared else (slice(None), *entry)
                direction = np.zeros_like(step)
                direction[place] = step[place]
                found.append({name: direction})
        if reads:
            size = np.abs(np.where(np.isfinite(self.x), self.x, 1.0))
            step = np.where(self.inner, np.where(size == 0, 1.0, size), 0.0)
            for variable in range(self.x.shape[1]):
                found.append({"x": np.where(np.arange(self.x.shape[1]) == variable, step, 0.0)})
        rng = np.random.default_rng(0)
        mixed: list[dict[str, Array]] = []
        for _ in range(_MIXED if len(found) > 1 else 0):
            together: dict[str, Array] = {}
            for moves in found:
                for name, step in moves.items():
                    together[name] = together.get(name, 0.0) + 0.5 * rng.choice([-1, 1]) * step
            mixed.append(together)
        return found + mixed

    def sizes(self, directions: Sequence[Mapping[str, Array]]) -> Array:
        """The largest step of each direction, `(directions, B, K)`."""
        return np.stack([self._size(one) for one in directions])

    def _size(self, direction: Mapping[str, Array]) -> Array:
        found = np.zeros(self.shape)
        for name, step in direction.items():
            if name == "x":
                size = np.abs(step).max(axis=1)[:, None]
            elif name in self.shared:
                size = np.abs(step).max()
            else:
                size = np.abs(step).reshape(len(step), -1).max(axis=1)[None]
            found = np.maximum(found, size)
        return found

    @property
    def spread(self) -> Array:
        """How many times larger the largest number of a point is than the smallest that is not 0, `(B, K)`."""
        low, high = self.ends
        return high / low

    @property
    def ends(self) -> tuple[Array, Array]:
        """The smallest size of a number of a point that is not 0, and the largest one, `(B, K)` each."""
        low, high = np.full(self.shape, np.inf), np.zeros(self.shape)
        for name, value in {**self.units, "x": self.x}.items():
            size = np.abs(np.where(np.isfinite(value), value, 0.0))
            size = size[None, None] if name in self.shared else size
            size = size.reshape(len(size), -1)
            least, most = np.where(size == 0, np.inf, size).min(axis=1, initial=np.inf), size.max(axis=1, initial=0.0)
            axis = (slice(None), None) if name == "x" else (None,)
            low, high = np.minimum(low, least[axis]), np.maximum(high, most[axis])
        return low, high

    def some(self, rows: Sequence[int]) -> "Cells":
        """Some rows alone."""
        return replace(self, x=self.x[rows], inner=self.inner[rows])

    def laid_out(self, values: Mapping[str, Array], dtype: torch.dtype) -> dict[str, Tensor]:
        """Parameters, data or steps for folds of one unit and one row."""
        rows, units = self.shape
        found = {}
        for name, value in values.items():
            array = np.asarray(value)
            if name == "x":
                every = np.repeat(array[:, None, None], units, axis=1)
            elif name in self.shared:
                every = np.broadcast_to(array, (rows, units, *array.shape))
            else:
                every = np.broadcast_to(array[None, :, None], (rows, units, 1, *array.shape[1:]))
            found[name] = torch.tensor(every.reshape(rows * units, *every.shape[2:]), dtype=dtype)
        return found


def check_derivatives(case: InputCase | InnerCase, most_units: int = 2) -> None:
    """Derivatives of all columns that have some are finite and right, of some of the combinations of parameters."""
    if isinstance(case, InnerCase):
        check_sums(case)
        return
    for shared in _combinations({name: one.extremes for name, one in case.parameters.items() if one.shared}):
        own = {name: one.extremes for name, one in case.parameters.items() if not one.shared}
        units = list(pairwise(own)) if len(own) > 1 else list(_combinations(own))
        units = units[:: -(-len(units) // most_units)]
        layer = case.build(range(case.num_variables), len(units))
        values = {name: rounded([unit[name] for unit in units]) for name in own}
        values |= {name: rounded(value) for name, value in shared.items()}
        x, domain = rounded(case.points(layer)), layer.domain
        cells = Cells(
            values,
            x,
            [name for name, one in case.parameters.items() if not one.fixed],
            list(shared),
            np.isfinite(x) & (x > domain.least) & (x < domain.most),
        )
        for rule in _rules(case, layer):
            check_rule(
                case, cells if rule.rows is None else cells.some(range(len(x))[:: -(-len(x) // rule.rows)]), rule
            )


def has(column: Any) -> bool:
    """Whether a row has a column."""
    return column is not None and not isinstance(column, Unsupported)


def reads_constants(row: Any) -> bool:
    """Whether a row makes arrays of NumPy, which meet arrays of others where they are traced alone."""
    return row.layer is BinomialLayer


def _combinations(choices: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    return (dict(zip(choices, chosen, strict=True)) for chosen in itertools.product(*choices.values()))


def _rules(case: InputCase, layer: Any) -> Iterator[Rule]:
    """The columns of a row that have derivatives."""
    single, row = case.build(range(case.num_variables), 1), case.row
    semiring, space = (ORDINARY, LINEAR) if case.signed else (LSE, LOG)
    whole = layer.domain.whole

    def params_of(point: Mapping[str, Tensor]) -> Any:
        params = Params.of(pnp, {name: point[name] for name in case.parameters})
        return with_sub_layers(params, single, lambda one: LAYER_ROWS[type(one)])

    def data_of(point: Mapping[str, Tensor]) -> Tensor:
        return pnp.astype(point["x"], pnp.int64) if whole else point["x"]

    def reference(point: Mapping[str, Array]) -> Array:
        params = {name: point[name] for name in case.parameters}
        return case.reference(space, layer, params, np.asarray(point["x"], WIDE))

    def of_values(column: str, *arrays: Callable[[Mapping[str, Tensor]], Tensor]) -> Callable[..., Tensor]:
        rule = getattr(row, column)

        def values(point: Mapping[str, Tensor]) -> Any:
            value = rule(pnp, semiring, single, params_of(point), *(one(point) for one in arrays))
            return semiring.to_linear(pnp, value) if case.signed else semiring.to_log(pnp, value)

        computed = plica.jit(values) if reads_constants(row) else values
        return lambda point: computed(point).reshape(-1)

    if case.num_variables:
        yield Rule("body", of_values("body", data_of), not whole, reference, None)
    if has(row.marginal):
        yield Rule("marginal", of_values("marginal"), False, reference if not case.num_variables else None)
    if has(row.maximum) and not case.signed:
        # that of whole numbers has a kink where the likeliest becomes another one
        yield Rule("maximum", of_values("maximum"), False, None, 1, 1, largest=1e3 if whole else np.inf)
    if has(row.interval) and case.num_variables and not case.signed:
        ends = (lambda point: point["x"], lambda point: 2.0 * pnp.abs(point["x"]) + 1.0)
        yield Rule("interval", of_values("interval", *ends), False, None, 8, 1)
    if has(row.partial):
        hidden = torch.arange(case.num_variables) == 0
        masked = of_values("partial", data_of, lambda point: hidden.expand(point["x"].shape))
        yield Rule("partial", masked, not whole, None, 4)
    moments: dict[str, Callable[[Mapping[str, Tensor]], Any]] = {"": params_of}
    if has(row.conditional) and row.conditional is not independent:
        hidden = torch.arange(case.num_variables) == 0
        moments[" given the rest"] = lambda point: row.conditional(
            pnp, single, params_of(point), point["x"], pnp.broadcast_to(hidden, point["x"].shape)
        )
    for (suffix, given), column in itertools.product(moments.items(), ("mean", "variance", "covariance")):
        rule = getattr(row, column)
        if has(rule) and case.num_variables and not case.signed:
            entries = case.num_variables ** (2 if column == "covariance" else 1)
            for entry in range(min(entries, _MOST_ENTRIES)):
                yield Rule(
                    f"{column}{suffix}[{entry}]", _entry(rule, single, given, entry, not suffix), bool(suffix), None, 2
                )


def _entry(
    rule: Any, single: Any, given: Callable[[Any], Any], entry: int, is_eager: bool
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    def moments(point: Mapping[str, Tensor]) -> Any:
        return rule(pnp, single, given(point))

    computed = moments if is_eager else plica.jit(moments)
    return lambda point: computed(point).reshape(len(point["x"]), -1)[:, entry]


def check_rule(case: Any, cells: Cells, rule: Rule) -> None:
    """Derivatives of one column, in both dtypes."""
    directions, (rows, units) = cells.directions(rule.reads), cells.shape
    sizes = cells.sizes(directions)
    lengths = np.where(sizes == 0, 1.0, sizes)

    def by_torch(dtype: torch.dtype) -> Derivatives:
        # along directions of length 1, so that nothing overflows but what is too large itself
        laid_out = [
            {
                name: (one / torch.from_numpy(size).reshape(-1, *[1] * (one.ndim - 1))).to(dtype)
                for name, one in steps.items()
            }
            for steps, size in zip((cells.laid_out(one, torch.float64) for one in directions), lengths, strict=True)
        ]
        found = torch_derivatives(rule.run, cells.laid_out({**cells.units, "x": cells.x}, dtype), laid_out)
        value, first, second = (one.double().numpy().reshape(*one.shape[:-1], rows, units) for one in found)
        return Derivatives(value, first * lengths, second * lengths**2, np.zeros((2, len(directions), rows, units)))

    def own_values(points: Sequence[Mapping[str, Array]]) -> Sequence[Array]:
        laid_out = [cells.laid_out(one, torch.float64) for one in points]
        with torch.no_grad():
            values = rule.run({name: torch.cat([one[name] for one in laid_out]) for name in laid_out[0]})
        return list(values.numpy().reshape(len(points), rows, units))

    def by_reference(points: Sequence[Mapping[str, Array]]) -> Sequence[Array]:
        assert rule.reference is not None, "asked for where there is one"
        return [rule.reference(one) for one in points]

    point = {**cells.units, "x": cells.x}
    unknown = np.zeros((rows, units), bool)
    if rule.reference is None:
        wanted, exact = differences(own_values, point, directions, np.float64), OWN_EXACT
        unknown |= cells.spread > 1e9  # steps of the smallest would be lost beside the largest
        unknown |= cells.ends[1] > rule.largest
        if rule.name == "interval":  # one of little probability is a difference of rounded numbers
            unknown |= wanted.value < _LEAST_SHARE
    else:
        wanted, exact = differences(by_reference, point, directions, WIDE), WIDE_EXACT
    wide, narrow = by_torch(torch.float64), by_torch(torch.float32)
    plain = len(directions) - (_MIXED if len(directions) > 1 else 0)
    for dtype, found, expected, limit in (
        (torch.float64, wide, wanted, exact),
        (torch.float32, narrow, wide, NARROW_EXACT),
    ):
        own = 0.0 if rule.reference is not None else 1.0
        expected.errors[:, :, unknown] = np.inf
        expected.errors[:, plain:, cells.spread > 1e20] = np.inf
        faults = disagreements(found, expected, sizes, plain, limit, torch.finfo(dtype), own, rule.orders)
        shown = [
            f"{what} along {sorted(directions[at[0]]) if len(at) == 3 else 'nothing'} of unit "
            f"{ {name: one if name in cells.shared else one[at[-1]] for name, one in cells.units.items()} } at "
            f"{cells.x[at[-2]]}: {numbers}"
            for what, at, numbers in faults[:3]
        ]
        assert not faults, f"{case}: {rule.name} in {dtype}, {len(faults)} faults:\n" + "\n".join(shown)
