"""Weights that are a softmax of their leaves as leaves that are used as they are, and back.

>>> import torch
>>> import plica
>>> from plica.symbolic.layers import BernoulliLayer, SumLayer
>>> coins, mix = BernoulliLayer([0], 2), SumLayer(2, 1)
>>> model = plica.compile(plica.Circuit([coins, mix], {mix: [coins]}, [mix]))
>>> linear = to_linear(model)
>>> sorted(linear.state_dict())
['0.logits', '1.weight.linear']
>>> torch.allclose(linear(torch.tensor([[1]])), model(torch.tensor([[1]])))
True
>>> sorted(to_softmax(linear).state_dict())
['0.logits', '1.weight']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.learn.graphs import Tensors
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import DirichletInitializer, Initializer, NormalInitializer
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import (
    Parameter,
    ReferenceParameter,
    SoftmaxParameter,
    TensorParameter,
    dereferenced,
)

_SUFFIX = ".linear"  # of the key of a leaf that holds weights and no logarithms


def to_linear(model: Any) -> TorchCircuit:
    """A copy of a model whose softmax weights are leaves of the weights themselves.

    The values of circuits are equal up to rounding. The keys of converted leaves end in `.linear`, so that a state dict
    of one form is refused by a model of the other. Fixed leaves stay fixed, and the copy is in the model's mode.

    Args:
        model: A compiled circuit.

    Raises:
        UnsupportedError: It is none, or has no weight of this form.
    """
    return _converted(
        "to_linear", model, _softmax_leaf, Parameter.from_input, lambda leaf: leaf.softmax(-1), DirichletInitializer()
    )


def to_softmax(model: Any) -> TorchCircuit:
    """A copy of a model of `to_linear` whose weights are softmax again; weights of 0 become the smallest number.

    Args:
        model: A compiled circuit, whose weights may have been learned since.

    Raises:
        UnsupportedError: It is none, has no weight of this form, or the rows of one do not sum to 1.
    """
    return _converted("to_softmax", model, _linear_leaf, _as_softmax, _logarithms, NormalInitializer())


def _softmax_leaf(parameter: Parameter, node: Any) -> TensorParameter | None:
    """The leaf of a softmax over the last axis."""
    if not isinstance(node, SoftmaxParameter) or node.axis not in (-1, len(node.shape) - 1):
        return None
    target = dereferenced(parameter.node_inputs(node)[0])
    return target if isinstance(target, TensorParameter) else None


def _linear_leaf(parameter: Parameter, node: Any) -> TensorParameter | None:  # noqa: ARG001
    target = dereferenced(node)
    is_linear = isinstance(target, TensorParameter) and (target.name or "").endswith(_SUFFIX)
    return target if is_linear else None


def _as_softmax(leaf: Any) -> Parameter:
    return Parameter.from_unary(SoftmaxParameter(leaf.shape), leaf)


def _logarithms(weight: Tensor) -> Tensor:
    wrong = (weight < 0) | ((weight.sum(-1, keepdim=True) - 1).abs() > 1e-4)
    if bool(wrong.any()):
        raise UnsupportedError(
            "to_softmax: a weight is negative, or its row does not sum to 1, which no softmax gives; normalize the "
            "circuit first, by plica.symbolic.functional.normalize"
        )
    return weight.clamp(min=torch.finfo(weight.dtype).tiny).log()


def _converted(
    owner: str,
    model: Any,
    find: Callable[[Parameter, Any], TensorParameter | None],
    make: Callable[[Any], Parameter],
    value: Callable[[Tensor], Tensor],
    initializer: Initializer,
) -> TorchCircuit:
    """The copy.

    Args:
        owner: The function, for messages.
        model: The model.
        find: The leaf that a node of a parameter reads in the form that is replaced; None for other nodes.
        make: The parameter of the other form.
        value: The numbers of a leaf from those before.
        initializer: The first numbers of such leaves, should the parameters be reset: those of the other form may be
            none of this one.
    """
    if not isinstance(model, TorchCircuit):
        raise UnsupportedError(f"{owner}: expected a compiled circuit, found {type(model).__name__}")
    circuit, keys = model.symbolic, model.compiled.keys
    replaced: dict[TensorParameter, TensorParameter] = {}
    layers: dict[Layer, Layer] = {}
    for layer in circuit.layers:
        params = {
            name: _with_leaves(parameter, find, make, replaced, keys, initializer)
            for name, parameter in layer.all_params.items()
        }
        layers[layer] = layer.with_params(params) if params else layer
    if not replaced:
        form = "a softmax of a leaf" if find is _softmax_leaf else "made by to_linear"
        raise UnsupportedError(f"{owner}: no weight of the circuit is {form}, so that there is nothing to convert")
    edges = {new: [layers[child] for child in circuit.layer_inputs(old)] for old, new in layers.items()}
    outputs = [layers[output] for output in circuit.outputs]
    result = TorchCompiler(model.semiring, dtype=model.dtype).compile(
        Circuit(list(edges), edges, outputs, data_scope=circuit.data_scope)
    )
    state = model.state_dict()
    names = {keys[old]: str(result.compiled.keys[new]) for old, new in replaced.items()}
    keys_left = result.state_dict().keys()  # of leaves that are not replaced, or that are read otherwise too
    others = {key: tensor for key, tensor in state.items() if key in keys_left}
    result.load_state_dict(others | {names[key]: value(tensor) for key, tensor in state.items() if key in names})
    tensors = Tensors(model)
    sources = {new: old for old, new in replaced.items()}
    for name, leaf in result.leaves.attributes():
        getattr(result.leaves, name).requires_grad_(
            any(tensors.is_learned(sources.get(member, member)) for member in leaf.members)
        )
    return result.to(model.leaves.device).train(model.training)


def _with_leaves(
    parameter: Parameter,
    find: Callable[[Parameter, Any], TensorParameter | None],
    make: Callable[[Any], Parameter],
    replaced: dict[TensorParameter, TensorParameter],
    keys: Any,
    initializer: Initializer,
) -> Parameter:
    """A parameter with leaves of the other form; leaves of no form stay, and are shared as before."""
    nodes: dict[Any, Any] = {}
    edges: dict[Any, list[Any]] = {}
    for node in parameter.nodes:
        leaf = find(parameter, node)
        if leaf is None:
            nodes[node] = node
            edges[node] = [nodes[child] for child in parameter.node_inputs(node)]
            continue
        first = leaf not in replaced
        if first:
            name = keys[leaf]
            name = None if name.endswith(_SUFFIX) else f"{name}{_SUFFIX}"
            replaced[leaf] = TensorParameter(
                *leaf.shape, **{**leaf.config, "name": name, "initializer": leaf.initializer and initializer}
            )
        converted = make(replaced[leaf] if first else ReferenceParameter(replaced[leaf]))
        edges |= {inner: list(converted.node_inputs(inner)) for inner in converted.nodes}
        nodes[node] = converted.output
    used: dict[Any, list[Any]] = {}
    pending = [nodes[output] for output in parameter.outputs]
    while pending:
        node = pending.pop()
        if node not in used:
            used[node] = edges[node]
            pending += edges[node]
    return Parameter(used, used, [nodes[output] for output in parameter.outputs])
