"""Rules that are not Plica's own, for tests, and a circuit for them."""

import math
from dataclasses import replace
from typing import Any

import torch

from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.pipeline import PipelineContext
from plica.rules.view import made
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter

TIMES_ITSELF = Pattern(Entry("product", "multiply", ("x", "x")))
HADAMARD = Pattern(Entry("product", HadamardLayer, ("x", "y")))


def make_square(match: Any) -> Any:
    """The square of x."""
    return made(match, "square", "x")


def the_x(match: Any) -> Any:
    """x itself, in place of what was matched."""
    return Replacement.by(match["x"])


SQUARED = Rule("squared", "x * x -> square(x)", TIMES_ITSELF, make_square, laws=ORDINARY)


def gaussians(weight: Parameter | None = None) -> Circuit:
    """Two Gaussian variables, multiplied and summed."""
    leaves = [GaussianLayer([variable], 2) for variable in range(2)]
    product, total = HadamardLayer(2, 2), SumLayer(2, 1, weight=weight)
    return Circuit([*leaves, product, total], {product: leaves, total: [product]}, [total])


def _squared_distance(xp: Any, semiring: Any, layer: Any, params: Any, x: Any) -> Any:  # noqa: ARG001
    mean, stddev = (xp.expand_dims(params[name], axis=1) for name in ("mean", "stddev"))
    standard = (xp.astype(x, mean.dtype) - mean) / stddev
    return semiring.from_log(xp, standard * standard * -0.5 + (-xp.log(stddev) - 0.5 * math.log(2.0 * math.pi)))


MULTIPLYING = replace(GaussianLayer.row, body=_squared_distance)
"""The row of Gaussian layers written with products, for rules on Programs to find."""


def operations(compiled: Any) -> list[str]:
    """The operations of a compiled circuit's Program, in order."""
    return [equation.op.name for equation in compiled.program.equations]


def compiled_with(circuit: Circuit, **options: Any) -> Any:
    """The circuit compiled in a new context of these options; its parameters depend on the circuit alone."""
    torch.manual_seed(0)
    context = PipelineContext(**options)
    context.add_layer_compilation_rule(MULTIPLYING, override=True)
    return context.compile(circuit)
