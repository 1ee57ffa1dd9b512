"""The parameters of all layers of a circuit as a Program, for drivers that compute layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.symbolic.semirings import COMPLEX_LSE_SUM
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class LoweredParameters:
    """The Program of parameters, and its captured leaves.

    Args:
        program: The Program, without arguments; each result is `(F, *shape)`.
        captured: The leaf or constant of each captured variable.
        names: The names of the parameters of each group; the results are in this order.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    names: tuple[tuple[str, ...], ...]


def lower_parameters(folded: FoldedCircuit, dtype: DType, owners: Owners | None = None) -> LoweredParameters:
    """The Program of the parameters of all groups of layers.

    Args:
        folded: The circuit.
        dtype: The dtype of real parameters.
        owners: The leaves that exist already.

    Raises:
        UnsupportedError: A layer has a parameter of several outputs, or runs a module.
    """
    scope = LoweringScope(folded, COMPLEX_LSE_SUM, dtype, owners or {})
    results: list[Tracer] = []
    names: list[tuple[str, ...]] = []
    with scope.trace.active():
        for group in folded.groups:
            params = scope.parameters(group)
            names.append(tuple(params))
            for name in params:
                value = params[name]
                if isinstance(value, tuple) or group.representative.opaque:
                    raise UnsupportedError(
                        f"{folded.circuit.layer_name(group.representative)}: a query that computes layer by layer needs "
                        "parameters of one output, and no modules; use other layers"
                    )
                results.append(value)
    return LoweredParameters(scope.build(results), tuple(scope.captured), tuple(names))
