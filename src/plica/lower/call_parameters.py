"""Parameters passed at call time: tensors of a call replace leaves, one for all rows of data or one for each row.

A leaf that is passed is an argument of the Program, `(*shape,)`, or `(B, *shape)` where each row has its own. Values
that depend on a leaf of each row have both axes: `(F, B, *shape)`. Operations on parameters and the rows of layers are
written for an axis of folds alone. They get both axes as one, `(F*B, ...)`, with one row of data each. Other values
keep an axis of folds, and are repeated only where they meet the former.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from plica.ir.sizes import Dim
from plica.lower.fold.groups import FoldedCircuit, fold_circuit
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import Parameter, TensorParameter, dereferenced
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

CallParameters: TypeAlias = Mapping[TensorParameter, bool]
"""The leaves passed at call time, in the order of a circuit's keys, and whether each row of data has its own tensor."""


@dataclass(frozen=True, slots=True)
class RowAxis:
    """Folds and rows as one axis.

    Args:
        count: B, the number of rows.
    """

    count: Dim

    def parameter(self, array: Tracer, folds: int, rank: int) -> Tracer:
        """A parameter `(F, *shape)` or `(F, B, *shape)` whose shape has `rank` axes, as `(F*B, *shape)`."""
        return self._joined(array if array.ndim == rank + 2 else xp.expand_dims(array, axis=1), folds)

    def repeated(self, array: Tracer) -> Tracer:
        """A parameter `(F, *shape)` as `(F, B, *shape)`."""
        folds, *shape = array.dims
        return xp.broadcast_to(xp.expand_dims(array, axis=1), (folds, self.count, *shape))

    def value(self, array: Tracer, folds: int) -> Tracer:
        """An array `(F, B, ...)` or `(F, 1, ...)` as `(F*B, 1, ...)`."""
        return xp.expand_dims(self._joined(array, folds), axis=1)

    def apart(self, array: Tracer, folds: int) -> Tracer:
        """An array `(F*B, ...)` as `(F, B, ...)`."""
        return xp.reshape(array, (folds, self.count, *array.dims[1:]))

    def value_apart(self, array: Tracer, folds: int) -> Tracer:
        """An array `(F*B, 1, ...)` as `(F, B, ...)`."""
        return xp.reshape(array, (folds, self.count, *array.dims[2:]))

    def _joined(self, array: Tracer, folds: int) -> Tracer:
        dims = array.dims[2:]
        return xp.reshape(xp.broadcast_to(array, (folds, self.count, *dims)), (folds * self.count, *dims))


def depends_on_rows(parameter: Parameter, given: CallParameters) -> bool:
    """Whether a parameter has a value for each row of data."""
    return any(given.get(dereferenced(leaf), False) for leaf in parameter.leaves)


def parameters_by_row(layers: Iterable[Layer], given: CallParameters) -> tuple[str, ...]:
    """The names of the parameters of layers that have a value for each row of data."""
    names = [
        name for layer in layers for name, part in layer.all_evaluated_params.items() if depends_on_rows(part, given)
    ]
    return tuple(dict.fromkeys(names))


def folded_by_row(folded: FoldedCircuit, given: CallParameters) -> FoldedCircuit:
    """The circuit with groups split where a parameter of some layers alone depends on the row of data.

    >>> from plica.symbolic.circuit import Circuit
    >>> from plica.symbolic.initializers import NormalInitializer
    >>> from plica.symbolic.layers import GaussianLayer, HadamardLayer
    >>> mean = TensorParameter(2, initializer=NormalInitializer())
    >>> x, y = GaussianLayer([0], 2, mean=mean), GaussianLayer([1], 2)
    >>> product = HadamardLayer(2)
    >>> folded = fold_circuit(Circuit([x, y, product], {product: [x, y]}, [product]))
    >>> [len(folded_by_row(folded, {mean: by_row}).groups) for by_row in (False, True)]
    [2, 3]
    """

    def apart(layer: Layer) -> Hashable:
        return parameters_by_row([layer], given)

    if not folded.folds or not any(given.values()):
        return folded
    if all(len(dict.fromkeys(map(apart, group.members))) == 1 for group in folded.groups):
        return folded
    return replace(fold_circuit(folded.circuit, folded.described, folded.rows, apart), rewriting=folded.rewriting)
