"""Rules for nodes of parameters that a context has beside what their classes bring.

An operation brings `evaluate`; a leaf of one's own brings `compose` if it is a `ComposedParameter`. A row says the same
for one context, in front of what the class says.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from plica.symbolic.parameters.graph import ParameterLike
from plica.symbolic.parameters.nodes import Array, ParameterInput, ParameterOp


class ComposedParameter(ParameterInput):
    """A leaf kind of one's own, which stands for a parameter made of other leaves.

    A subclass is a `@dataclass(frozen=True, eq=False)` with a `shape` and a `config`; to be saved in a file it is made
    by `type(leaf)(*leaf.shape, **leaf.config)`.
    """

    __slots__ = ()

    @abstractmethod
    def compose(self) -> ParameterLike:
        """The parameter that the leaf stands for, of its shape.

        It is asked once for each leaf of a compiler, so that who shares the leaf shares its tensors.
        """


@dataclass(frozen=True, slots=True)
class OperationRow:
    """How an operation is evaluated.

    Rules of the optimizer know an operation by its class, and what it means; they leave those with a row alone.

    Args:
        operation: The class.
        evaluate: `(xp, operation, *arrays)`, each array `(F, *in_shape)`, to the result `(F, *operation.shape)`.
    """

    operation: type[ParameterOp]
    evaluate: Callable[..., Array]


@dataclass(frozen=True, slots=True)
class LeafRow:
    """What leaves of a class stand for.

    Args:
        leaf: The class.
        parameter: From a leaf to the parameter that it stands for, of its shape: `ComposedParameter.compose` says more.
    """

    leaf: type[ParameterInput]
    parameter: Callable[[Any], ParameterLike]


ParameterRow: TypeAlias = OperationRow | LeafRow
