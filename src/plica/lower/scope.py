"""`LoweringScope`: the Program under construction, its captured leaves, and the values of parameters.

The parts that the score and the sampling Program have in common: seed 002's walk over a parameter graph, node by node,
each node once however many layers share it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.ir.builder import Builder, const_key
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Program
from plica.ir.types import array_type
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer, FoldIndex
from plica.lower.leaves import Constant, Leaf, constant_value, leaf_keys
from plica.ops import OPS
from plica.passes.dead_code import eliminate_dead_code
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import ConstantParameter, Parameter, ParameterOp, ReferenceParameter, TensorParameter
from plica.symbolic.semirings import Semiring, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Trace, Tracer, literal


@dataclass(slots=True)
class LoweringScope:
    """What lowering carries from layer to layer.

    Args:
        folded: The circuit.
        semiring: How its numbers are carried.
        dtype: The dtype of real parameters.
    """

    folded: FoldedCircuit
    semiring: Semiring
    dtype: DType
    builder: Builder = field(default_factory=lambda: Builder(OPS))
    captured: list[Leaf | Constant] = field(default_factory=list)
    trace: Trace = field(init=False)
    _keys: dict[TensorParameter, str] = field(init=False)
    _nodes: dict[Any, Tracer] = field(default_factory=dict)
    _constants: dict[str, Tracer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trace = Trace(self.builder)
        self._keys = leaf_keys(self.folded.circuit)

    def argument(self, name: str, shape: tuple[int | str, ...], dtype: DType) -> Tracer:
        """A new input of the Program."""
        return Tracer(self.builder.argument(name, shape, dtype), self.trace)

    def number(self, value: complex, dtype: DType | None = None) -> Tracer:
        """A scalar written in the Program."""
        return Tracer(literal(value, dtype or self.dtype), self.trace)

    def constant(self, value: NDArray[Any], name: str = "index") -> Tracer:
        """A captured array that nobody changes; equal arrays are one, under one name in every Program."""
        constant = Constant(np.ascontiguousarray(value))
        key = f"{name}_{constant.digest}"
        if key not in self._constants:
            self.captured.append(constant)
            var = self.builder.const(key, array_type(value.shape, as_dtype(value.dtype)))
            self._constants[key] = Tracer(var, self.trace)
        return self._constants[key]

    def build(self, results: Iterable[Tracer]) -> Program:
        """The Program that returns `results`, without what they do not need."""
        return eliminate_dead_code(self.builder.build([result.operand for result in results]))

    def parameters(self, group: FoldedLayer) -> dict[str, Tracer]:
        """The evaluated parameters of a group, each `(F, *shape)`."""
        names = group.representative.evaluated_params
        return {
            name: xp.concat([self._evaluate(layer.evaluated_params[name]) for layer in group.members]) for name in names
        }

    def _evaluate(self, parameter: Parameter) -> Tracer:
        for node in parameter.nodes:
            if node not in self._nodes:
                self._nodes[node] = self._node(node, parameter)
        return self._nodes[parameter.output]

    def _node(self, node: Any, parameter: Parameter) -> Tracer:
        if isinstance(node, ParameterOp):
            result = node.evaluate(xp, *[self._nodes[one] for one in parameter.node_inputs(node)])
            assert isinstance(result, Tracer), "the namespace makes tracers"
            return result
        target = node.deref() if isinstance(node, ReferenceParameter) else node
        if target not in self._nodes:
            self._nodes[target] = self._constant(target) if isinstance(target, ConstantParameter) else self._leaf(target)
        return self._nodes[target]

    def _constant(self, parameter: ConstantParameter) -> Tracer:
        value = constant_value(parameter)
        # whole numbers in a constant are real parameters like any other
        kind = DataType.REAL if parameter.dtype == DataType.INTEGER else parameter.dtype
        dtype = self._dtype_of(kind)
        if np.ndim(parameter.value) == 0:
            with self.trace.active():
                return xp.full(value.shape, parameter.value, dtype=dtype)
        return self.constant(value.astype(dtype.value), "constant")

    def _leaf(self, tensor: TensorParameter) -> Tracer:
        leaf = Leaf((tensor,), (self._keys[tensor],))
        self.captured.append(leaf)
        name = const_key("_".join(reversed(leaf.keys[0].split(".", 1))))
        return Tracer(self.builder.const(name, array_type(leaf.shape, self._dtype_of(leaf.kind))), self.trace)

    def _dtype_of(self, kind: DataType) -> DType:
        wide = DType.COMPLEX128 if self.dtype == DType.FLOAT64 else DType.COMPLEX64
        return {DataType.REAL: self.dtype, DataType.INTEGER: DType.INT64, DataType.COMPLEX: wide}[kind]

    def read(self, values: list[Value], places: list[FoldIndex]) -> Value:
        """The folds at `places` of the groups' values, joined along the fold axis: `(len(places), B, K)`."""
        runs: list[tuple[int, list[int]]] = []
        for group, fold in places:
            if runs and runs[-1][0] == group:
                runs[-1][1].append(fold)
            else:
                runs.append((group, [fold]))
        parts = [self._select(values[group], folds) for group, folds in runs]
        return tuple(xp.concat([part[place] for part in parts]) for place in range(len(parts[0])))

    def _select(self, value: Value, folds: list[int]) -> Value:
        first, count = folds[0], len(folds)
        if folds == list(range(first, first + count)):
            return self.semiring.map(xp, lambda array: array[first : first + count], value)
        index = self.constant(np.asarray(folds, dtype=np.int64))
        return self.semiring.map(xp, lambda array: xp.take(array, index, axis=0), value)
