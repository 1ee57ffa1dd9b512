"""A circuit whose derivatives are expected counts: what the E-step of expectation maximization runs.

The counted circuit computes what the model computes. Its weights and its tables of states are exponentials of leaves of
their own. So the derivative of a log-likelihood by such a leaf is the expected count of the weight (Darwiche 2003;
docs/adr/0032). An input layer whose statistics are sums over rows is multiplied by a factor 1 for each row. The
derivative by its logarithm is the flow of the unit. So an E-step costs one upward and one downward pass, and no
division by a weight or a value, which may be 0.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.exact import may_branch
from plica.errors import InputError
from plica.learn.graphs import Slot, Tensors
from plica.learn.sites import Kind, Site, Sites, numbers_of
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, ConstantValueLayer, HadamardLayer, Layer
from plica.symbolic.layers.states import TabulatedLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    CountedLogSoftmaxParameter,
    CountedSoftmaxParameter,
    ExpParameter,
    MixingWeightParameter,
    Parameter,
    ParameterOp,
    ReferenceParameter,
    SoftmaxParameter,
    TensorParameter,
    dereferenced,
)


class CountedCircuit:
    """The counted circuit of a model.

    Args:
        model: The compiled circuit.
        sites: Its sites.
        apart: Whether to count each term of the output's sum as if it were the circuit, see `apart`.

    Attributes:
        logs: The leaf that holds logarithms of weights or of states, by site.
        ones: The names of the factors 1 of each row, by layer.
        copies: Its own leaf for each other leaf of the model.
    """

    def __init__(self, model: TorchCircuit, sites: Sites, *, apart: bool = False) -> None:
        self.logs: dict[Site, TensorParameter] = {}
        self.ones: dict[Layer, str] = {}
        self.copies: dict[TensorParameter, TensorParameter] = {}
        self._sites, self._apart = sites, apart
        circuit = self._circuit(model.symbolic)
        with torch.random.fork_rng(devices=()):  # its tensors get their numbers from the model's
            self.module = TorchCompiler("lse-sum", dtype=model.dtype).compile(circuit)
        self.module.to(model.leaves.device)
        self._tensors, self._source = Tensors(self.module), Tensors(model)
        groups: dict[tuple[str, str], list[TensorParameter]] = {}
        for tensor, copied in self.copies.items():
            groups.setdefault((self._source.attribute(tensor), self._tensors.attribute(copied)), []).append(tensor)
        self._copied_places = [
            (self._source.slot(tensors), self._tensors.slot([self.copies[tensor] for tensor in tensors]))
            for tensors in groups.values()
        ]

    def slots(self, tensors: Sequence[TensorParameter]) -> list[tuple[Slot, tuple[int, ...]]]:
        """The places of some of its leaves: each with the positions in `tensors` that it holds."""
        positions: dict[str, list[int]] = {}
        for position, tensor in enumerate(tensors):
            positions.setdefault(self._tensors.attribute(tensor), []).append(position)
        return [(self._tensors.slot([tensors[at] for at in places]), tuple(places)) for places in positions.values()]

    def derivatives(
        self, x: Tensor, wanted: Sequence[str], *, waits: bool = False
    ) -> tuple[Tensor, dict[str, Tensor], dict[Layer, Tensor]]:
        """Log-likelihoods of rows and their derivatives, summed over rows.

        Args:
            x: `(B, D)` rows; NaN is missing.
            wanted: Attributes of leaves by which to differentiate.
            waits: Whether to wait for a device to say that a row has probability 0; on the CPU nothing waits.

        Returns:
            The log-likelihoods `(B,)`, the derivatives by each attribute `(F, *shape)`, and the flows of the units of
            each layer of `ones`, `(B, K)`.

        Raises:
            InputError: A row has probability 0; it is named. Else, on a device, its log-likelihood says so.
        """
        leaves = self.module.leaves
        ones = {
            name: torch.zeros(
                len(x), layer.num_output_units, dtype=self.module.dtype, device=x.device, requires_grad=True
            )
            for layer, name in self.ones.items()
        }
        with torch.enable_grad():
            outputs: Tensor = self.module(x, parameters=ones) if ones else self.module(x)  # (B, outputs, 1)
            logs = outputs[:, 0, 0]
            counted = outputs[:, 1:, 0] if self._apart else logs
            if waits or may_branch(logs):
                _check_possible(logs.detach())
            by = [getattr(leaves, name) for name in wanted]
            inputs = [*by, *ones.values()]
            gradients = torch.autograd.grad(counted.sum(), inputs, allow_unused=True) if inputs else ()
        filled = [
            torch.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(inputs, gradients, strict=True)
        ]
        flows = dict(zip(self.ones, filled[len(by) :], strict=True))
        return logs.detach(), dict(zip(wanted, filled, strict=False)), flows

    def differentiate_by(self, wanted: Sequence[str]) -> None:
        """Say by which attributes of leaves `derivatives` will be asked for; others need no record of operations."""
        for name, parameter in self.module.leaves.named_parameters():
            parameter.requires_grad_(name in wanted)

    def copy_leaves(self) -> None:
        """Take over the numbers of all leaves that are no site of weights or states."""
        with torch.no_grad():
            for source, target in self._copied_places:
                target.write(self.module.leaves, source.read(self._source.leaves))

    def place_of_copy(self, tensor: TensorParameter) -> tuple[str, int]:
        """The attribute that holds its own leaf for a leaf of the model, and which of its folds the leaf is."""
        return self._tensors.place(self.copies[tensor])

    def _circuit(self, circuit: Circuit) -> Circuit:
        replaced: dict[Layer, Layer] = {}
        edges: dict[Layer, list[Layer]] = {}
        for layer in circuit.layers:
            site = self._sites.of_layer.get(layer)
            inputs = [replaced[child] for child in circuit.layer_inputs(layer)]
            new = self._layer(layer, site)
            edges[new] = inputs
            if site is not None and site.kind is Kind.ROWS:
                name = f"ones.{len(self.ones)}"
                shape = (layer.num_output_units,)
                leaf = TensorParameter(*shape, initializer=ConstantTensorInitializer(0.0), learnable=False, name=name)
                ones = ConstantValueLayer(*shape, log_space=True, value=leaf)
                product = HadamardLayer(layer.num_output_units, 2)
                edges[ones], edges[product] = [], [new, ones]
                self.ones[layer], new = name, product
            replaced[layer] = new
        outputs = [replaced[output] for output in circuit.outputs]
        if self._apart:
            outputs += [replaced[term] for term in circuit.layer_inputs(circuit.outputs[0])]
        return Circuit(list(edges), edges, outputs, data_scope=circuit.data_scope)

    def _layer(self, layer: Layer, site: Site | None) -> Layer:
        if site is None or site.kind is Kind.ROWS:
            return layer.with_params({name: self._copied(graph) for name, graph in layer.all_params.items()})
        if site.kind is Kind.WEIGHT:
            weight = layer.params["weight"]
            numbers = numbers_of(weight)
            is_shares = isinstance(numbers.output, SoftmaxParameter)
            op = (CountedSoftmaxParameter if is_shares else ExpParameter)(numbers.shape)
            counted = Parameter.from_unary(op, self._logs(site, numbers.shape))
            if isinstance(weight.output, MixingWeightParameter):
                counted = Parameter.from_unary(MixingWeightParameter(numbers.shape), counted)
            return layer.with_params({"weight": counted})
        assert isinstance(layer, TabulatedLayer), "a site of states"
        count = int(layer.domain.num_states or 0)
        logits = Parameter.from_input(self._logs(site, (layer.num_output_units, count)))
        logits = Parameter.from_unary(CountedLogSoftmaxParameter(logits.shape), logits)
        return CategoricalLayer(layer.scope, layer.num_output_units, num_categories=count, logits=logits)

    def _logs(self, site: Site, shape: tuple[int, ...]) -> TensorParameter | ReferenceParameter:
        """The leaf of logarithms of a site."""
        if site in self.logs:
            return ReferenceParameter(self.logs[site])
        self.logs[site] = TensorParameter(*shape, initializer=ConstantTensorInitializer(0.0))
        return self.logs[site]

    def _copied(self, graph: Parameter) -> Parameter:
        """A parameter with leaves of its own."""
        nodes: dict[Any, Any] = {}
        for node in graph.nodes:
            target = dereferenced(node)
            if isinstance(node, ParameterOp):
                nodes[node] = copy.copy(node)
            elif isinstance(target, ConstantParameter):
                nodes[node] = target
            elif target in self.copies:
                nodes[node] = ReferenceParameter(self.copies[target])
            else:
                settings = target.config | {"initializer": ConstantTensorInitializer(0.0), "name": None}
                nodes[node] = self.copies[target] = TensorParameter(*target.shape, **settings)
        edges = {nodes[node]: [nodes[child] for child in graph.node_inputs(node)] for node in graph.nodes}
        return Parameter(edges, edges, [nodes[output] for output in graph.outputs])


def _check_possible(logs: Tensor) -> None:
    impossible = torch.isneginf(logs) | logs.isnan()
    if bool(impossible.any()):
        raise InputError(
            f"{int(impossible.sum())} of {len(logs)} rows have probability 0, the first one is row "
            f"{int(impossible.nonzero()[0])} of the batch, so that nothing explains them; take a pseudocount "
            "above 0, or start from other parameters"
        )
