"""What a case of a rule is, and the parameters that cases are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import SumLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    KroneckerParameter,
    Parameter,
)
from tests.harness.circuits import chain, coin

S = (2, 3)
BOTH = ("lse-sum", "sum-product")
LINEAR = ("sum-product",)


@dataclass(frozen=True)
class RuleCase:
    """A circuit where one rule fires, or where it nearly does.

    Args:
        rule: The name of the rule.
        name: What this case is about.
        build: Makes the circuit.
        near: Whether the rule must not fire.
        why: A part of the reason that the report gives for a near miss; empty where the pattern itself does not fit.
        semirings: Those in which the circuit can be evaluated, and the rule is tried.
    """

    rule: str
    name: str
    build: Callable[[], Circuit]
    near: bool = False
    why: str = ""
    semirings: tuple[str, ...] = BOTH

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def of(parameter: Any, *ops: Any) -> Parameter:
    """Operations one after another."""
    return Parameter.from_sequence(parameter, *ops)


def pair(op: Any, first: Any, second: Any) -> Parameter:
    """An operation of two."""
    return Parameter.from_binary(op, first, second)


def kronecker(*factors: Parameter) -> Parameter:
    """The Kronecker product of several weights."""
    product = factors[0]
    for factor in factors[1:]:
        product = pair(KroneckerParameter(product.shape, factor.shape), product, factor)
    return product


def fixed(value: Any, shape: tuple[int, ...] = S) -> ConstantParameter:
    """One number everywhere, or an array."""
    return ConstantParameter(*shape, value=value)


def array(seed: int) -> ConstantParameter:
    """Constant normal draws."""
    return ConstantParameter(*S, value=np.random.default_rng(seed).normal(size=S))


def entries(units: int, count: int, empty: int = 0) -> ConstantParameter:
    """A constant weight of `count` numbers in each row but the first `empty` ones; all others are 0."""
    rng = np.random.default_rng(units)
    value = np.zeros((units, units))
    for row in value[empty:]:
        row[rng.choice(units, count, replace=False)] = rng.uniform(0.5, 2.0, count)
    return ConstantParameter(units, units, value=value)


def weighted(weight: Any) -> Circuit:
    """A sum layer with a weight, over one input layer."""
    weight = Parameter.from_input(weight)
    sums, units = weight.shape
    return chain(coin([0], units, 3), SumLayer(units, sums, weight=weight))
