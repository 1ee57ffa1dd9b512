"""The values of parameters: the graphs of all layers of a group, folded as one graph with several outputs.

Nodes fold with alike nodes of the same graph and of the graphs of other layers. A leaf that several layers share, or
that an earlier group has read, is evaluated once, and read again through a view or a gather (a pointer).
"""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import ShapeError
from plica.graph.fold import FoldIndex, FoldIndexInfo, InFoldIdx, order_folds, own_settings, schedule
from plica.graph.order import topological_order
from plica.ir.dtypes import DType
from plica.lower.call_parameters import CallParameters, RowAxis
from plica.lower.fold.read import read_folds
from plica.lower.leaves import Leaf, Owners
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ConstantParameter,
    IndexParameter,
    Parameter,
    ParameterOp,
    TensorParameter,
    dereferenced,
)
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

Node = Any

_MAX_LITERALS = 16  # constants of one shape with at most this many distinct numbers are literals, others one array


class ParameterValues:
    """Evaluated parameter nodes, each a fold of some array.

    Args:
        dtype: The dtype of real numbers.
        leaf: Captures a folded tensor of one shape, kind and learnability: `(F, *shape)`.
        owners: The leaves that exist already; tensors that they hold are read from them.
        constant: Captures an array.
        rows: The axis of rows of data.
        given: The leaves passed at call time.
        argument: Gives the value of such a leaf, `(*shape,)`, or `(B, *shape)` where each row of data has its own.
    """

    def __init__(
        self,
        dtype: DType,
        leaf: Callable[[Leaf], Tracer],
        owners: Owners,
        constant: Callable[[NDArray[Any], str], Tracer],
        rows: RowAxis = RowAxis(1),  # noqa: B008 (frozen)
        given: CallParameters | None = None,
        argument: Callable[[TensorParameter], Tracer] | None = None,
    ) -> None:
        self._dtype = dtype
        self._leaf = leaf
        self._owners = owners
        self._constant = constant
        self._given: CallParameters = given or {}
        self._argument = argument
        self._rows = rows
        self._by_row: dict[Node, None] = {}  # the nodes of which each row of data has its own value
        self._arrays: list[Tracer] = []
        self._members: list[tuple[Node, ...]] = []  # of each array
        self._reads: list[InFoldIdx] = []
        self._fold_of: dict[Node, FoldIndex] = {}

    def evaluate(self, parameters: Sequence[Parameter], others: Callable[[], Sequence[Parameter]] = tuple) -> Tracer:
        """The values of parameters of one output and one shape, `(len(parameters), *shape)`.

        Where one depends on a leaf with a value for each row of data they are `(len(parameters), B, *shape)`.

        Args:
            parameters: The parameters.
            others: Gives parameters that are read later, and are evaluated together with these.
        """
        (value,) = self.evaluate_outputs(parameters, others)
        return value

    def evaluate_outputs(
        self, parameters: Sequence[Parameter], others: Callable[[], Sequence[Parameter]] = tuple
    ) -> tuple[Tracer, ...]:
        """The values of each output of parameters with equal shapes, `(len(parameters), *shape)` each."""
        outputs = [tuple(map(dereferenced, parameter.outputs)) for parameter in parameters]
        if any(output not in self._fold_of for row in outputs for output in row):
            known = self._arrays_of(parameters)
            self._add([*parameters, *(parameter for parameter in others() if self._goes_with(parameter, known))])
        return tuple(self._read([self._fold_of[output] for output in column]) for column in zip(*outputs, strict=True))

    @property
    def info(self) -> FoldIndexInfo[Node]:
        """The (number of the array, fold) of each node, and those that it reads; a reference is its leaf."""
        return FoldIndexInfo(tuple(self._reads), (), tuple(self._members))

    def _arrays_of(self, parameters: Sequence[Parameter]) -> set[int]:
        """The numbers of the arrays of nodes that are evaluated already."""
        nodes = (dereferenced(node) for parameter in parameters for node in parameter.nodes)
        return {self._fold_of[node][0] for node in nodes if node in self._fold_of}

    def _goes_with(self, parameter: Parameter, known: set[int]) -> bool:
        """Whether a parameter is not evaluated yet, and reads only known arrays: joining folds of others would copy."""
        return dereferenced(parameter.output) not in self._fold_of and self._arrays_of([parameter]) <= known

    def _add(self, parameters: Sequence[Parameter]) -> None:
        outputs = [dereferenced(output) for parameter in parameters for output in parameter.outputs]
        parameter_of = {node: parameter for parameter in parameters for node in parameter.nodes}

        @cache
        def inputs(node: Node) -> tuple[Node, ...]:
            if node in self._fold_of or not isinstance(node, ParameterOp):
                return ()
            return tuple(dereferenced(child) for child in parameter_of[node].node_inputs(node))

        nodes = topological_order(outputs, inputs)
        for node in nodes:
            if self._given.get(node, False) or any(child in self._by_row for child in inputs(node)):
                self._by_row[node] = None
            if node in self._owners and node not in self._fold_of and node not in self._given:
                owner = self._owners[node]
                self._append(owner.members, self._leaf(owner), excluded=self._given)
        many = _many_numbers(nodes)
        often = _often_indexed(nodes, inputs)

        def settings(node: Node) -> Hashable:
            if isinstance(node, ConstantParameter) and _literal(node) in many and node not in self._fold_of:
                return "numbers", _literal(node)
            if isinstance(node, IndexParameter) and inputs(node) and inputs(node)[0] in often:
                return "entries", inputs(node)[0], node.in_shape, node.axis, len(node.indices)
            return self._settings(node)

        groups = order_folds(schedule(nodes, inputs, settings), outputs, inputs)
        for group in groups:
            if group[0] not in self._fold_of:
                reads = tuple(tuple(self._fold_of[child] for child in inputs(node)) for node in group)
                self._append(group, self._value(group, reads), reads)

    def _settings(self, node: Node) -> Hashable:
        """The key that alike nodes share."""
        if node in self._fold_of:
            return "known"
        return (own_settings(node), node in self._given, node in self._by_row) if self._given else own_settings(node)

    def _value(self, group: Sequence[Node], reads: InFoldIdx) -> Tracer:
        first = group[0]
        if isinstance(first, IndexParameter) and any(node.indices != first.indices for node in group):
            return self._entries(group, reads[0][0])
        if isinstance(first, ParameterOp):
            _check_shapes(group)
            operands = [self._read([fold[index] for fold in reads]) for index in range(len(first.in_shapes))]
            if first in self._by_row:
                shapes = zip(operands, first.in_shapes, strict=True)
                operands = [self._rows.merge_parameter(operand, len(group), len(shape)) for operand, shape in shapes]
            result: Tracer = first.evaluate(xp, *operands)
            result = xp.astype(result, real_width(result.dtype, self._dtype))
            return self._rows.split_parameter(result, len(group)) if first in self._by_row else result
        if first in self._given:
            assert self._argument is not None, "leaves passed at call time have values"
            return xp.stack([self._argument(node) for node in group])
        return self._leaf(Leaf(tuple(group))) if isinstance(first, TensorParameter) else self._constants(group)

    def _entries(self, group: Sequence[IndexParameter], source: FoldIndex) -> Tracer:
        """Different entries of one parameter, read by one gather; the fold of each comes first."""
        first = group[0]
        at = first.axis % len(first.in_shape)
        array = self._read([source])
        if first in self._by_row:
            array = self._rows.merge_parameter(array, 1, len(first.in_shape))
        indices = np.asarray([index for node in group for index in node.indices], dtype=np.int64)
        taken = xp.take(array, self._constant(indices, "index"), axis=at + 1, nonnegative=True)
        before, after = taken.dims[: at + 1], taken.dims[at + 2 :]
        by_node = xp.reshape(taken, (*before, len(group), len(first.indices), *after))
        folds: Tracer = xp.moveaxis(by_node, at + 1, 0)  # (len(group), 1 or B, *shape)
        return folds if first in self._by_row else folds[:, 0]

    def _constants(self, group: Sequence[ConstantParameter]) -> Tracer:
        # whole numbers in a constant are real parameters like any other
        complex_ = group[0].dtype == DataType.COMPLEX
        dtype = wide_dtype(DataType.COMPLEX, self._dtype) if complex_ else self._dtype
        if np.ndim(group[0].value) == 0 and any(node.value != group[0].value for node in group):
            values = [np.full(node.shape, node.value) for node in group]
            return self._constant(np.stack(values).astype(dtype.value), "constant")
        if np.ndim(group[0].value) == 0:
            number = complex(group[0].value) if complex_ else float(group[0].value)  # type: ignore[arg-type]
            return xp.full((len(group), *group[0].shape), number, dtype=dtype)
        return self._constant(np.stack([node.value for node in group]).astype(dtype.value), "constant")

    def _append(
        self, group: Sequence[Node], value: Tracer, reads: InFoldIdx = (), excluded: Container[Node] = ()
    ) -> None:
        sources = ((node, (len(self._arrays), fold)) for fold, node in enumerate(group))
        self._fold_of.update((node, source) for node, source in sources if node not in excluded)
        self._arrays.append(value)
        self._members.append(tuple(group))
        self._reads.append(reads or ((),) * len(group))

    def _read(self, folds: Sequence[FoldIndex]) -> Tracer:
        arrays: Sequence[Tracer] | Mapping[int, Tracer] = self._arrays
        if self._by_row:  # some may have values for each row, and others for all
            used = {number: self._arrays[number] for number, _ in folds}
            rank = max(array.ndim for array in used.values())
            arrays = {
                number: self._rows.repeat(array) if array.ndim < rank else array for number, array in used.items()
            }
        return read_folds(arrays, folds, lambda index: self._constant(index, "index"))


def _check_shapes(group: Sequence[ParameterOp]) -> None:
    first = group[0]
    for node in group:
        if (node.in_shapes, node.shape) != (first.in_shapes, first.shape):
            raise ShapeError(
                f"{type(first).__name__}: its fold_settings() fold operations of different shapes: {first.in_shapes} "
                f"with result {first.shape}, and {node.in_shapes} with result {node.shape}; return the shapes among "
                "the settings"
            )


def wide_dtype(kind: DataType, real: DType) -> DType:
    """The dtype of a leaf of a kind, where real leaves are of `real`."""
    complex_ = DType.COMPLEX128 if real == DType.FLOAT64 else DType.COMPLEX64
    return {DataType.REAL: real, DataType.INTEGER: DType.INT64, DataType.COMPLEX: complex_}[kind]


def real_width(dtype: DType, real: DType) -> DType:
    """`dtype`, with the width of `real` for floats and complex numbers."""
    return {"float": real, "complex": wide_dtype(DataType.COMPLEX, real)}.get(dtype.kind, dtype)


def _often_indexed(nodes: Iterable[Node], inputs: Callable[[Node], tuple[Node, ...]]) -> set[Node]:
    """The nodes of which many `IndexParameter`s read different entries: each would be a group of its own."""
    read: dict[Node, set[tuple[int, ...]]] = {}
    for node in nodes:
        if isinstance(node, IndexParameter) and inputs(node):
            read.setdefault(inputs(node)[0], set()).add(tuple(node.indices))
    return {source for source, indices in read.items() if len(indices) > _MAX_LITERALS}


def _literal(node: ConstantParameter) -> tuple[Hashable, ...] | None:
    """The key that constants of one number share, without the number; None for an array."""
    return (node.shape, node.dtype) if np.ndim(node.value) == 0 else None


def _many_numbers(nodes: Iterable[Node]) -> set[Hashable]:
    """The kinds of constants with many numbers, for example the means of many columns: each number would be a group."""
    numbers: dict[Hashable, set[complex]] = {}
    for node in nodes:
        if isinstance(node, ConstantParameter) and (literal := _literal(node)) is not None:
            numbers.setdefault(literal, set()).add(complex(node.value))
    return {literal for literal, values in numbers.items() if len(values) > _MAX_LITERALS}
