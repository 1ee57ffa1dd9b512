"""Parameters passed at call time, called `given`: tensors of a call take the place of parameter tensors.

A call passes one tensor `(*shape,)` for all rows of data, or `(B, *shape)`, one for each row: a per-row parameter. Each
is an argument of the Program. Folds are alike layers or parameters, computed together along a first axis of F.

Operations on parameters, and the registry entries of layers, are written for `(F, *shape)`. Values that depend on a
per-row parameter are `(F, B, *shape)`. Those functions get them as `(F*B, *shape)`: one fold for each layer and row.
Other values stay `(F, *shape)`. They are repeated along B only where an operation reads them beside per-row values.
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
"""The parameter tensors passed at call time, in the order in which the circuit names them; True for per-row ones."""


@dataclass(frozen=True, slots=True)
class RowAxis:
    """Merges the axes of folds and of rows of data into one, and splits it again.

    Args:
        count: B, the number of rows.
    """

    count: Dim

    def merge_parameter(self, array: Tracer, folds: int, rank: int) -> Tracer:
        """A parameter `(F, *shape)` or `(F, B, *shape)` whose shape has `rank` axes, as `(F*B, *shape)`."""
        return self._merged(array if array.ndim == rank + 2 else xp.expand_dims(array, axis=1), folds)

    def repeat(self, array: Tracer) -> Tracer:
        """A parameter `(F, *shape)` as `(F, B, *shape)`."""
        folds, *shape = array.dims
        return xp.broadcast_to(xp.expand_dims(array, axis=1), (folds, self.count, *shape))

    def repeat_rows(self, array: Tracer) -> Tracer:
        """An array `(F, B, K)` or `(F, 1, K)` as `(F, B, K)`."""
        return xp.broadcast_to(array, (array.dims[0], self.count, array.dims[2]))

    def merge_array(self, array: Tracer, folds: int) -> Tracer:
        """An array `(F, B, ...)` or `(F, 1, ...)` as `(F*B, 1, ...)`: a batch of one row for each merged fold."""
        return xp.expand_dims(self._merged(array, folds), axis=1)

    def split_parameter(self, array: Tracer, folds: int) -> Tracer:
        """A parameter `(F*B, *shape)` as `(F, B, *shape)`: undoes `merge_parameter`."""
        return xp.reshape(array, (folds, self.count, *array.dims[1:]))

    def split_array(self, array: Tracer, folds: int) -> Tracer:
        """An array `(F*B, 1, ...)` as `(F, B, ...)`: undoes `merge_array`."""
        return xp.reshape(array, (folds, self.count, *array.dims[2:]))

    def _merged(self, array: Tracer, folds: int) -> Tracer:
        dims = array.dims[2:]
        return xp.reshape(xp.broadcast_to(array, (folds, self.count, *dims)), (folds * self.count, *dims))


def depends_on_rows(parameter: Parameter, given: CallParameters) -> bool:
    """Whether a parameter depends on a per-row parameter tensor."""
    return any(given.get(dereferenced(leaf), False) for leaf in parameter.leaves)


def parameters_by_row(layers: Iterable[Layer], given: CallParameters) -> tuple[str, ...]:
    """The names of the parameters of `layers` that differ from row to row, each name once, in order."""
    names = [
        name
        for layer in layers
        for name, parameter in layer.all_evaluated_params.items()
        if depends_on_rows(parameter, given)
    ]
    return tuple(dict.fromkeys(names))


def folded_by_row(folded: FoldedCircuit, given: CallParameters) -> FoldedCircuit:
    """The circuit with groups whose layers have the same per-row parameters, or the same object if it has such groups.

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

    def per_row_names(layer: Layer) -> Hashable:
        return parameters_by_row([layer], given)

    if not folded.folds or not any(given.values()):
        return folded
    if all(len(dict.fromkeys(map(per_row_names, group.members))) == 1 for group in folded.groups):
        return folded
    return replace(
        fold_circuit(folded.circuit, folded.described, folded.rows, per_row_names), rewriting=folded.rewriting
    )
