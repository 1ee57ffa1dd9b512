"""Parameter graphs of one structure, evaluated and inverted together on the tensors of a model.

>>> from plica.symbolic.parameters import softmax_normal
>>> structure_of(softmax_normal((2, 3))) == structure_of(softmax_normal((2, 3)))
True
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plica.backend.torch.eager import run
from plica.errors import UnsupportedError
from plica.ir.program import Bound
from plica.ir.types import spec
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    LogSoftmaxParameter,
    Parameter,
    ParameterOp,
    SoftmaxParameter,
    SoftplusParameter,
    SumParameter,
    TensorParameter,
    dereferenced,
)
from plica.tracing import namespace
from plica.tracing.trace import trace_function

_IN_TORCH: Mapping[type[Any], Callable[..., Tensor]] = {
    SumParameter: lambda _, a, b: a + b,
    HadamardParameter: lambda _, a, b: a * b,
    ExpParameter: lambda _, a: a.exp(),
    SoftplusParameter: lambda _, a: nn.functional.softplus(a),
    SoftmaxParameter: lambda op, a: a.softmax(op.axis + (op.axis >= 0)),
    LogSoftmaxParameter: lambda op, a: a.log_softmax(op.axis + (op.axis >= 0)),
}
"""Operations that most parameters have; others run in the interpreter."""


@lru_cache(maxsize=1024)
def indices(numbers: tuple[Any, ...], device: torch.device) -> Tensor:
    """Indices as a tensor of a device, to which they are copied once."""
    with torch.inference_mode(False):  # else they could not be used where there are derivatives
        return torch.tensor(numbers, device=device)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where some tensors of a model are: folds of one of its folded tensors.

    Args:
        attribute: The attribute of the model's leaves.
        folds: Their folds; None for all in order.
    """

    attribute: str
    folds: tuple[int, ...] | None

    def of(self, folded: Tensor) -> Tensor:
        """The part `(F, *shape)` of a folded tensor that belongs to the tensors."""
        return folded if self.folds is None else folded[indices(self.folds, folded.device)]

    def read(self, leaves: nn.Module) -> Tensor:
        """The tensors `(F, *shape)`, without derivatives."""
        return self.of(getattr(leaves, self.attribute).detach())

    def write(self, leaves: nn.Module, value: Tensor) -> None:
        """Replace the numbers of the tensors."""
        tensor: Tensor = getattr(leaves, self.attribute).detach()
        if self.folds is None:
            tensor.copy_(value)
        else:
            tensor[indices(self.folds, tensor.device)] = value.to(tensor.dtype)


class Tensors:
    """Where each symbolic tensor of a compiled circuit is.

    Args:
        circuit: The compiled circuit.
    """

    def __init__(self, circuit: Any) -> None:
        self.leaves: nn.Module = circuit.leaves
        self._places: dict[TensorParameter, tuple[str, int]] = {
            member: (name, fold)
            for name, leaf in circuit.leaves.attributes()
            for fold, member in enumerate(leaf.members)
        }
        self._sizes = {name: len(leaf.members) for name, leaf in circuit.leaves.attributes()}

    def has(self, tensor: TensorParameter) -> bool:
        """Whether a tensor is one of the circuit."""
        return tensor in self._places

    def place(self, tensor: TensorParameter) -> tuple[str, int]:
        """The attribute that holds a tensor, and which of its folds the tensor is."""
        return self._places[tensor]

    def attribute(self, tensor: TensorParameter) -> str:
        """The attribute that holds a tensor."""
        return self._places[tensor][0]

    def is_learned(self, tensor: TensorParameter) -> bool:
        """Whether training may change a tensor."""
        return bool(getattr(self.leaves, self.attribute(tensor)).requires_grad)

    def slot(self, tensors: Sequence[TensorParameter]) -> Slot:
        """The place of tensors that one attribute holds."""
        places = [self._places[tensor] for tensor in tensors]
        (name,) = {name for name, _ in places}
        folds = tuple(fold for _, fold in places)
        return Slot(name, None if folds == tuple(range(self._sizes[name])) else folds)


def tensors_of(parameter: Parameter) -> tuple[TensorParameter, ...]:
    """The tensors that a parameter reads, each once."""
    targets = (dereferenced(leaf) for leaf in parameter.leaves)
    return tuple(dict.fromkeys(target for target in targets if not isinstance(target, ConstantParameter)))


def structure_of(parameter: Parameter) -> Hashable:
    """A key that is equal for parameters that compute alike from tensors and constants of equal shapes."""
    numbers: dict[Any, int] = {}
    tensors: dict[Any, int] = {}
    nodes: list[Hashable] = []
    for number, node in enumerate(parameter.nodes):
        numbers[node] = number
        if isinstance(node, ParameterOp):
            inputs = tuple(numbers[child] for child in parameter.node_inputs(node))
            nodes.append((type(node), node.fold_settings(), inputs))
        elif isinstance(dereferenced(node), ConstantParameter):
            nodes.append(("constant", node.shape))
        else:
            nodes.append(("tensor", node.shape, tensors.setdefault(dereferenced(node), len(tensors))))
    return tuple(nodes)


class Graphs:
    """Parameters of one structure, whose tensors at each place are in one attribute of the model.

    Args:
        parameters: F parameters.
        tensors: The places of their tensors.
    """

    def __init__(self, parameters: Sequence[Parameter], tensors: Tensors) -> None:
        self.first = parameters[0]
        self.leaves = tensors.leaves
        every = [tensors_of(parameter) for parameter in parameters]
        self.slots = [tensors.slot(members) for members in zip(*every, strict=True)]
        numbers = {target: number for number, target in enumerate(every[0])}
        self._tensor_number = {
            node: numbers[dereferenced(node)] for node in self.first.leaves if dereferenced(node) in numbers
        }
        self._constants = {
            node: np.stack(
                [np.broadcast_to(dereferenced(graph.nodes[place]).value, node.shape) for graph in parameters]
            )
            for place, node in enumerate(self.first.nodes)
            if isinstance(dereferenced(node), ConstantParameter)
        }
        self._depends = self._dependence()
        self._reads_operands = any(isinstance(node, SumParameter | HadamardParameter) for node in self.first.nodes)
        self._chain = self._unary_chain()

    def _unary_chain(self) -> list[Any] | None:
        """The operations from the output down to a tensor, if each has one input and keeps its shape."""
        nodes: list[Any] = list(reversed(self.first.nodes))
        *operations, leaf = nodes
        is_chain = leaf in self._tensor_number and all(
            len(self.first.node_inputs(node)) == 1 and type(node).inverse is not None and node.in_shape == node.shape
            for node in operations
        )
        return operations if is_chain else None

    def values(self) -> dict[Any, Tensor]:
        """The value `(F, *shape)` of every node."""
        values: dict[Any, Tensor] = {}
        for node in self.first.nodes:
            if node in self._tensor_number:
                values[node] = self.slots[self._tensor_number[node]].read(self.leaves)
            elif node in self._constants:
                like = self.slots[0].read(self.leaves) if self.slots else torch.empty(0)
                values[node] = torch.as_tensor(self._constants[node]).to(like)
            else:
                values[node] = _evaluated(node, [values[child] for child in self.first.node_inputs(node)])
        return values

    def value(self) -> Tensor:
        """The value of the parameters, `(F, *shape)`."""
        return self.values()[self.first.output]

    def logarithms(self) -> Tensor:
        """The logarithms of the value; a softmax gives what it is the softmax of, as only differences count."""
        output: Any = self.first.output
        if isinstance(output, SoftmaxParameter | ExpParameter):
            return self.values()[self.first.node_inputs(output)[0]]
        value = self.value()
        if bool((value < 0).any()):
            raise UnsupportedError(
                "expected counts need weights that are not negative, and a weight is "
                f"{float(value.min())}; take softmax, softplus or clamped weights"
            )
        return value.log()

    @property
    def is_invertible(self) -> bool:
        """Whether any value, or the nearest one that there is, comes from some numbers of the tensors."""
        return self._targets(None) is not None

    def invert(self, target: Tensor) -> None:
        """Give the tensors the numbers from which the parameters have a value, or the nearest one."""
        if self._chain is not None:
            for node in self._chain:
                target = type(node).inverse(node, torch, target)
            self.slots[0].write(self.leaves, target)
            return
        targets = self._targets(target)
        assert targets is not None, "the caller asks first"
        for number, (value, mask) in targets.items():
            slot = self.slots[number]
            if mask is not None:
                value = torch.where(mask, value.to(slot.read(self.leaves).dtype), slot.read(self.leaves))
            slot.write(self.leaves, value)

    def _targets(self, target: Tensor | None) -> dict[int, tuple[Tensor, Tensor | None]] | None:
        """The numbers of each tensor, and where they are needed (None: everywhere); None without an inverse.

        A node gets a target, and the mask of entries that matter. In a sum each entry depends on one input alone.
        """
        inputs = self.first.node_inputs
        depends = self._depends
        values = None if target is None or not self._reads_operands else self.values()
        first = torch.zeros(()) if target is None else target
        pending: dict[Any, list[tuple[Tensor, np.ndarray]]] = {self.first.output: [(first, depends[self.first.output])]}
        results: dict[int, tuple[Tensor, Tensor | None]] = {}
        for node in reversed(tuple(self.first.nodes)):
            asked = pending.pop(node, [])
            if not asked or not depends[node].any():
                continue
            if np.sum([mask for _, mask in asked], axis=0).max() > 1:
                return None
            value, mask = asked[0]
            for other, other_mask in asked[1:]:
                if target is not None:
                    value = torch.where(torch.as_tensor(other_mask, device=value.device), other, value)
                mask = mask | other_mask
            if node in self._tensor_number:
                number = self._tensor_number[node]
                if number in results:
                    return None
                results[number] = value, None if mask.all() else torch.as_tensor(mask, device=value.device)
                continue
            sent = self._sent(node, inputs(node), value, mask, depends, values)
            if sent is None:
                return None
            for child, child_value, child_mask in sent:
                pending.setdefault(child, []).append((child_value, child_mask))
        return results

    def _sent(
        self,
        node: Any,
        children: Sequence[Any],
        value: Tensor,
        mask: np.ndarray,
        depends: Mapping[Any, np.ndarray],
        values: Mapping[Any, Tensor] | None,
    ) -> list[tuple[Any, Tensor, np.ndarray]] | None:
        """The targets of a node's inputs."""
        if isinstance(node, FlattenParameter):
            shape = (-1, *node.in_shape)
            return [(children[0], value.reshape(shape) if value.ndim else value, mask.reshape(shape))]
        if isinstance(node, SumParameter | HadamardParameter):
            sent = []
            a, b = children
            if (depends[a] & depends[b]).any() or a is b:
                return None
            for child, other in ((a, b), (b, a)):
                if not depends[child].any():
                    continue
                child_value, child_mask = value, mask & depends[child]
                if values is not None and isinstance(node, SumParameter):
                    child_value = value - values[other]
                elif values is not None:
                    child_value = torch.where(values[other] == 0, 0.0, value / values[other])
                sent.append((child, child_value, child_mask))
            return sent
        if len(children) != 1 or type(node).inverse is None or node.in_shape != node.shape:
            return None
        if not mask.all() and isinstance(node, SoftmaxParameter | LogSoftmaxParameter):
            return None
        return [(children[0], node.inverse(torch, value), mask)]

    def _dependence(self) -> dict[Any, np.ndarray]:
        """Which entries of every node depend on a tensor: `(F, *shape)` booleans."""
        depends: dict[Any, np.ndarray] = {}
        folds = len(next(iter(self._constants.values()))) if self._constants else 1
        for node in self.first.nodes:
            shape = (folds, *node.shape)
            children = [depends[child] for child in self.first.node_inputs(node)]
            if node in self._tensor_number:
                depends[node] = np.ones(shape, bool)
            elif node in self._constants:
                depends[node] = np.zeros(shape, bool)
            elif isinstance(node, HadamardParameter):
                a, b = self.first.node_inputs(node)
                factors = [self._constants[child] != 0 if child in self._constants else True for child in (a, b)]
                depends[node] = (depends[a] & factors[1]) | (depends[b] & factors[0])
            elif all(child.shape == shape for child in children):
                depends[node] = np.logical_or.reduce(children)
            else:
                some = any(child.any() for child in children)
                depends[node] = (
                    children[0].reshape(shape) if isinstance(node, FlattenParameter) else np.full(shape, some)
                )
        return depends


def _evaluated(node: Any, arrays: Sequence[Tensor]) -> Tensor:
    """The result of an operation."""
    if type(node) in _IN_TORCH:
        return _IN_TORCH[type(node)](node, *arrays)
    types = tuple((tuple(array.shape), str(array.dtype).removeprefix("torch.")) for array in arrays)
    (result,) = run(_program(node, types), arrays, frozenset(), arrays[0].device)
    return result  # type: ignore[no-any-return]  # a tensor


@lru_cache(maxsize=1024)
def _program(node: Any, types: tuple[tuple[tuple[int, ...], str], ...]) -> Bound:
    """The Program of an operation on arrays of these shapes and dtypes."""
    specs = [spec(shape, dtype) for shape, dtype in types]
    function = partial(node.evaluate, namespace)
    return trace_function(function, specs, lambda tracers: (tracers, {}), specs).bound
