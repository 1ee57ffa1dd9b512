"""Rules for nodes of parameters that a context adds to the methods of their classes.

The class of an operation has `evaluate`, the class of a custom leaf, a `ComposedParameter`, has `compose`. A row takes
the place of this method in one context.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from plica.symbolic.parameters.graph import ParameterLike
from plica.symbolic.parameters.nodes import Array, ParameterInput, ParameterOp


class ComposedParameter(ParameterInput):
    """A custom leaf: one that is replaced by a parameter made of other leaves.

    A subclass is a `@dataclass(frozen=True, eq=False)` with a `shape` and a `config`. A file can hold it if
    `type(leaf)(*leaf.shape, **leaf.config)` makes the same leaf.
    """

    __slots__ = ()

    @abstractmethod
    def compose(self) -> ParameterLike:
        """The parameter that replaces the leaf, of its shape.

        A compiler calls it once for each leaf, so that layers that share the leaf share its tensors.
        """


@dataclass(frozen=True, slots=True)
class OperationRow:
    """Evaluates an operation.

    Rules of the optimizer know what an operation computes by its class; they leave operations with a row alone.

    Args:
        operation: The class.
        evaluate: `(xp, operation, *arrays)`, each array `(F, *in_shape)`, to the result `(F, *operation.shape)`.

    >>> from plica.pipeline import PipelineContext
    >>> from plica.symbolic.parameters import ConstantParameter, Parameter, SoftplusParameter
    >>> context = PipelineContext()
    >>> row = OperationRow(SoftplusParameter, lambda xp, operation, x: xp.maximum(x, 0.0))
    >>> context.add_parameter_compilation_rule(row, override=True)
    >>> x = ConstantParameter(2, value=[-1.0, 2.0])
    >>> context.compile_parameter(Parameter.from_unary(SoftplusParameter((2,)), x))()
    tensor([[0., 2.]])
    """

    operation: type[ParameterOp]
    evaluate: Callable[..., Array]


@dataclass(frozen=True, slots=True)
class LeafRow:
    """Replaces the leaves of a class.

    Args:
        leaf: The class.
        parameter: From a leaf to the parameter that replaces it, of its shape, as `ComposedParameter.compose` does.
    """

    leaf: type[ParameterInput]
    parameter: Callable[[Any], ParameterLike]


ParameterRow: TypeAlias = OperationRow | LeafRow
