"""What a row of a layer has to bring so that tests can hold it to an independent reference."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plica.symbolic.layers import Layer
from tests.harness.layer_cases.numbers import Numbers
from tests.harness.spaces import Space

Array = Any
Params = Mapping[str, Array]


@dataclass(frozen=True)
class Refused:
    """Settings that a constructor refuses.

    Args:
        make: Calls the constructor.
        error: What it raises.
        message: A pattern in the message.
    """

    make: Callable[[], Any]
    error: type[Exception]
    message: str


@dataclass(frozen=True)
class Given:
    """Some variables given others, under one unit.

    Args:
        mean: `(V,)`.
        mode: `(V,)`, where the density is largest.
        covariance: `(V, V)`.
    """

    mean: Array
    mode: Array
    covariance: Array


@dataclass(frozen=True)
class InputCase:
    """An input layer in one of its parameterizations.

    Args:
        name: The layer, and what tells this case from others of the layer.
        row: Its row.
        build: `(scope, units)`: a layer, some of whose parameters are learnt.
        reference: `(space, layer, params, x)`: the value of each unit at `x (B, D)` as `(B, K)`, summed or integrated
            over the variables that are NaN.
        distributions: `(layer, params)`: the normalized distribution of each unit as SciPy has it; none for a layer
            without variables. None where numbers have any sign, so that units are no distributions.
        totals: `(layer, params)`: the sum or integral of each unit, `(K,)`; None where there is none.
        encode: `(layer, x (B, V))`: the numbers that the distributions give to rows of the layer's variables.
        decode: The other way round, for results of the distributions.
        draw: `(layer, rng, rows)`: data for the layer, `(rows, V)`.
        num_variables: The number of variables.
        alike: Further builders, of layers that must be computed together with those of `build`.
        refused: What its constructor refuses, beside wrong numbers and shapes.
        modes: `(layer, params)`: where each unit is largest, `(K, V)`; by default the largest of all states, or the
            mean of a symmetric density.
        means: `(layer, params)`: the mean of each unit, `(K, V)`; by default those of the distributions.
        variances: The variance, in the same way.
        covariances: The covariance matrix `(K, V, V)`, for layers of several variables.
        given: `(layer, params, row (V,), missing (V,))`: what a row lacks, given the rest, under each unit; for layers
            of several variables whose row has `partial_maximum` or `conditional`.
        shares: `(layer, params, low (B, V), high (B, V))`: what each unit, normalized, has in a box, `(B, K)`; by
            default from the distributions of one variable.
        may_be_zero: The settings that count something, and may be 0.
        parameters: What each parameter may be, by the names of `all_params`.
        points: `(layer)`: rows that are legal, at the ends of what they may be, `(N, V)`; of those that all layers over
            a variable take, the first is ordinary.
        wrong: Numbers that are no values of its variables.
        sampled: Settings of single units, at their extremes, whose samples are compared; parameters without their axis
            of units.
        starts: The means and the spreads of columns, where layers that are made for them lie; none for layers that are
            not made for columns, or whose data says nothing of where to start.
    """

    name: str
    row: Any  # an InputRow
    build: Callable[[Sequence[int], int], Any]
    reference: Callable[[Space, Any, Params, Array], Array]
    distributions: Any  # a function, or None
    totals: Any  # a function, or None
    draw: Callable[[Any, np.random.Generator, int], Array]
    encode: Callable[[Any, Array], Array] = lambda _, x: x[:, 0]
    decode: Callable[[Any, Array], Array] = lambda _, values: np.asarray(values)[:, None]
    num_variables: int = 1
    alike: tuple[Callable[[Sequence[int], int], Any], ...] = ()
    refused: tuple[Refused, ...] = ()
    modes: Callable[[Any, Params], Array] | None = None
    means: Callable[[Any, Params], Array] | None = None
    variances: Callable[[Any, Params], Array] | None = None
    covariances: Callable[[Any, Params], Array] | None = None
    given: Callable[[Any, Params, Array, Array], list[Given]] | None = None
    shares: Callable[[Any, Params, Array, Array], Array] | None = None
    may_be_zero: tuple[str, ...] = ()
    parameters: Mapping[str, Numbers] = field(kw_only=True)
    points: Callable[[Any], Array] = field(kw_only=True)
    wrong: tuple[float, ...] = field(kw_only=True)
    sampled: tuple[Mapping[str, Any], ...] = field(kw_only=True)
    starts: tuple[tuple[float, float], ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        _require_parameters(self, self.build(range(self.num_variables), 2))

    @property
    def signed(self) -> bool:
        """Whether numbers have any sign."""
        return self.distributions is None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class InnerCase:
    """A sum, a product or a fused layer in one of its forms.

    Args:
        name: The layer, and what tells this case from others of the layer.
        row: Its row.
        build: Makes a layer.
        reference: `(space, layer, params, inputs)`: its value, from those `(B, I)` of its inputs.
        refused: What its constructor refuses, beside wrong numbers and shapes.
        parameters: What each parameter may be, by the names of `all_evaluated_params`.
        multiplies_logs: Whether its row multiplies by weights as logarithms, which have no derivatives where they are
            0: circuits tell these beside (`plica.lower.logs`).
    """

    name: str
    row: Any  # a row of another kind
    build: Callable[[], Any]
    reference: Callable[[Space, Any, Params, list[Array]], Array]
    refused: tuple[Refused, ...] = ()
    parameters: Mapping[str, Numbers] = field(kw_only=True)
    multiplies_logs: bool = False

    def __post_init__(self) -> None:
        _require_parameters(self, self.build())

    def __str__(self) -> str:
        return self.name


LayerCase = InputCase | InnerCase


def _require_parameters(case: LayerCase, layer: Any) -> None:
    """Raise where a case does not say what a parameter may be."""
    if set(case.parameters) != set(layer.all_params):
        raise ValueError(f"the case {case.name!r} says what {list(case.parameters)} may be, of {[*layer.all_params]}")


def references(cases: Iterable[LayerCase]) -> dict[type[Layer], Callable[..., Array]]:
    """The reference of each class of layers."""
    return {case.row.layer: case.reference for case in cases}


def num_states(layer: Any) -> int | None:
    """The number of states of each variable of an input layer; None where they are not states."""
    found: int | None = layer.domain.num_states
    return found
