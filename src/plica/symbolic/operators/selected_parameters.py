"""Parameters of some of the units of a layer, with the values that their tensors have, for resized circuits.

>>> from plica.symbolic.initializers import NormalInitializer
>>> leaf = TensorParameter(2, 3, initializer=NormalInitializer())
>>> selection = Selection({leaf: np.arange(6.0).reshape(2, 3)})
>>> (half,) = selection.units(Parameter.from_input(leaf), np.array([1])).leaves
>>> half.initializer.value.tolist()
[[3.0, 4.0, 5.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from plica.errors import InputError
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    HadamardParameter,
    IndexParameter,
    LogSoftmaxParameter,
    Parameter,
    ParameterInput,
    ParameterOp,
    ScaledSigmoidParameter,
    SoftmaxParameter,
    SumParameter,
    TensorParameter,
    dereferenced,
)
from plica.symbolic.parameters.elementwise import EntrywiseOp, EntrywisePairOp

Array: TypeAlias = NDArray[Any]
Node: TypeAlias = ParameterInput | ParameterOp

_ENTRYWISE = (EntrywiseOp, EntrywisePairOp, ScaledSigmoidParameter, ClampParameter)
_NORMALIZED = (SoftmaxParameter, LogSoftmaxParameter)


@final
@dataclass(slots=True, eq=False)
class Selection:
    """Makes parameters of some units; tensors that layers share stay shared where the same units are taken.

    Args:
        values: The values of tensors; other tensors need a `ConstantTensorInitializer`.
        noise: The standard deviation of the noise that learned numbers get.
        rng: Draws the noise.
    """

    values: Mapping[TensorParameter, Array]
    noise: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    _leaves: dict[Any, TensorParameter] = field(default_factory=dict)

    def whole(self, parameter: Parameter) -> Parameter:
        """The parameter with all its entries."""
        return self._by_entries(parameter, ())

    def units(self, parameter: Parameter, rows: Array) -> Parameter:
        """The parameter with the entries `rows` of its first axis."""
        if _is_by_entries(parameter, normalized_columns=True):
            return self._by_entries(parameter, (rows,))
        whole = self.whole(parameter)
        return Parameter.from_unary(IndexParameter(whole.shape, indices=rows.tolist(), axis=0), whole)

    def weight(self, weight: Parameter, rows: Array, columns: Array, copies: Array) -> Parameter:
        """A weight `(O, I)` with some rows and columns.

        A weight that is not negative keeps the sum of each row, where it is a tensor or a softmax. So copies share what
        the original has, and what is left of a row takes over what was dropped.

        Args:
            weight: `(O, I)`.
            rows: The chosen rows.
            columns: The chosen columns.
            copies: For each chosen column, how often its input unit occurs.
        """
        leaf = dereferenced(weight.output)
        if isinstance(leaf, TensorParameter):
            return Parameter.from_input(self._leaf(leaf, (rows, columns), False, copies))
        is_entrywise = _is_by_entries(weight, normalized_columns=False)
        if isinstance(weight.output, SoftmaxParameter) and _is_last_axis(weight.output):
            (source,) = weight.node_inputs(weight.output)
            logits = weight.subgraph(source)
            if _is_by_entries(logits, normalized_columns=False):
                chosen = self._by_entries(logits, (rows, columns), under_softmax=True)
                if (copies != copies[0]).any():  # softmax shares evenly by itself where all occur equally often
                    minus = np.broadcast_to(-np.log(copies), chosen.shape)
                    shift = ConstantParameter(*chosen.shape, value=minus)
                    chosen = Parameter.from_binary(SumParameter(chosen.shape, chosen.shape), chosen, shift)
                return Parameter.from_unary(SoftmaxParameter(chosen.shape), chosen)
        if is_entrywise:
            chosen = self._by_entries(weight, (rows, columns))
        else:
            whole = self.whole(weight)
            some = Parameter.from_unary(IndexParameter(whole.shape, indices=rows.tolist(), axis=0), whole)
            chosen = Parameter.from_unary(IndexParameter(some.shape, indices=columns.tolist(), axis=1), some)
        if (copies == 1).all():
            return chosen
        shares = ConstantParameter(*chosen.shape, value=np.broadcast_to(1.0 / copies, chosen.shape))
        return Parameter.from_binary(HadamardParameter(chosen.shape, chosen.shape), chosen, shares)

    def _by_entries(self, parameter: Parameter, indices: tuple[Array, ...], under_softmax: bool = False) -> Parameter:
        """The parameter with some entries of each of its leaves, and the same operations; all of them if none is named.

        Args:
            parameter: The parameter.
            indices: The chosen entries of the first axes.
            under_softmax: Whether a softmax reads the result.
        """
        normalized = under_softmax or any(isinstance(node, _NORMALIZED) for node in parameter.nodes)
        images: dict[Node, Node] = {}
        for node in parameter.nodes:
            leaf = dereferenced(node)
            if isinstance(leaf, TensorParameter):
                images[node] = self._leaf(leaf, indices, normalized, None, len(parameter.nodes) > 1)
            elif isinstance(leaf, ConstantParameter):
                value = np.broadcast_to(leaf.value, leaf.shape) if np.ndim(leaf.value) else leaf.value
                shape = tuple(len(part) for part in indices) + leaf.shape[len(indices) :]
                images[node] = ConstantParameter(*shape, value=_taken(value, indices) if np.ndim(value) else value)
            elif isinstance(node, ParameterOp):
                shapes = [images[child].shape for child in parameter.node_inputs(node)]
                images[node] = type(node)(*shapes, **node.config)
            else:
                raise InputError(f"a resized circuit needs tensors as leaves of its parameters, found {node!r}")
        edges = {images[node]: [images[child] for child in parameter.node_inputs(node)] for node in parameter.nodes}
        return Parameter(edges, edges, [images[node] for node in parameter.outputs])

    def _leaf(
        self,
        leaf: TensorParameter,
        indices: tuple[Array, ...],
        is_logit: bool,
        copies: Array | None,
        is_free: bool = False,
    ) -> TensorParameter:
        """The tensor of some entries of another one.

        Args:
            leaf: The tensor.
            indices: The chosen entries of its first axes.
            is_logit: Whether its exponentials count, so that noise is added and not multiplied.
            copies: As of `weight`; None for other tensors than weights.
            is_free: Whether its entries may take any value, since operations follow.
        """
        key = (leaf, *(part.tobytes() for part in indices), None if copies is None else copies.tobytes())
        if key not in self._leaves:
            before = self._value(leaf)
            value = _taken(before, indices)
            is_weight = copies is not None and not np.iscomplexobj(value) and bool((before >= 0).all())
            if copies is not None:
                value = value / copies
            if self.noise and leaf.learnable and (is_logit or is_weight or is_free):
                draws = self.noise * self.rng.standard_normal(value.shape)
                value = value + draws if is_logit else value * np.exp(draws)
            if is_weight:
                former, now = before.sum(axis=1)[indices[0]], value.sum(axis=1)
                value = value * np.where(now > 0, former / np.where(now > 0, now, 1.0), 1.0)[:, None]
            self._leaves[key] = TensorParameter(
                *value.shape,
                initializer=ConstantTensorInitializer(value),
                learnable=leaf.learnable,
                dtype=leaf.dtype,
                name=leaf.name,
            )
        return self._leaves[key]

    def _value(self, leaf: TensorParameter) -> Array:
        if leaf in self.values:
            return np.asarray(self.values[leaf])
        if isinstance(leaf.initializer, ConstantTensorInitializer):
            return np.array(np.broadcast_to(leaf.initializer.value, leaf.shape))
        raise InputError(
            f"the tensor {leaf.name or leaf!r} has no value; pass the compiled circuit, whose tensors have values, "
            "or give it a ConstantTensorInitializer"
        )


def _taken(value: Any, indices: tuple[Array, ...]) -> Array:
    array = np.asarray(value)
    for axis, part in enumerate(indices):
        array = array.take(part, axis=axis)
    return array


def _is_last_axis(op: Any) -> bool:
    return bool(op.axis % len(op.shape) == len(op.shape) - 1)


def _is_by_entries(parameter: Parameter, *, normalized_columns: bool) -> bool:
    """Whether entries follow from entries of the leaves at the same indices, or rows if columns normalize."""
    return all(
        node.shape == parameter.shape
        and (
            isinstance(node, (ParameterInput, *_ENTRYWISE))
            or (normalized_columns and isinstance(node, _NORMALIZED) and len(node.shape) > 1 and _is_last_axis(node))
        )
        for node in parameter.nodes
    )
