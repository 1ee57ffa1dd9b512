"""Where a circuit has distributions that expectation maximization learns: its *sites*.

A site is a set of leaves that one distribution reads, and every layer that reads them. The weight of a sum layer is a
site, and so are the parameters of an input layer. A site has a closed form if its leaves belong to nothing else, and
numbers of them give any value of its parameters.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from plica.ir.op import Unsupported
from plica.learn.graphs import Graphs, Tensors, structure_of, tensors_of
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, InputRow, Layer
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.layers.states import TabulatedLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ExpParameter,
    LogSoftmaxParameter,
    MixingWeightParameter,
    Parameter,
    ReferenceParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    TensorParameter,
)

_MOST_STATES = 4096
"""States of a variable whose counts are one array; with more, the table would be larger than the rows."""
_WEIGHTS = (
    *(ClampParameter, ExpParameter, SoftmaxParameter, SoftplusParameter, SquareParameter),
    *(TensorParameter, ReferenceParameter),
)
"""What weights are made by that are not negative; leaves may be, and each step checks theirs."""


class Kind(Enum):
    """What is counted at a site.

    Attributes:
        WEIGHT: The terms of sums.
        STATES: The states of a variable, of units that sum to 1.
        ROWS: Sums over rows, weighted with the flow of each unit.
    """

    WEIGHT = "weight"
    STATES = "states"
    ROWS = "rows"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A set of leaves that one distribution reads.

    Args:
        kind: What is counted.
        parameters: The parameters that an update sets, by name.
        layers: The layers that read them.
    """

    kind: Kind
    parameters: Mapping[str, Parameter]
    layers: list[Layer] = field(default_factory=list)

    @property
    def tensors(self) -> tuple[TensorParameter, ...]:
        """Its leaves."""
        return tuple(dict.fromkeys(leaf for graph in self.parameters.values() for leaf in tensors_of(graph)))

    def group(self, tensors: Tensors) -> Hashable:
        """A key that is equal for sites that are updated together."""
        layer = self.layers[0]
        names = tuple((name, structure_of(graph)) for name, graph in self.parameters.items())
        where = tuple(tensors.attribute(tensor) for tensor in self.tensors)
        return self.kind, type(layer), _settings(layer, self.kind), names, where


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """The sites of a circuit.

    Args:
        closed: Those with a closed form.
        of_layer: The site of each layer that has one.
        refused: Why a layer with learned leaves has none, by layer.
    """

    closed: Sequence[Site]
    of_layer: Mapping[Layer, Site]
    refused: Mapping[Layer, str]


def _settings(layer: Layer, kind: Kind) -> Hashable:
    """What the statistics of a layer depend on beside its parameters: its settings but the scope; none of weights."""
    if kind is Kind.WEIGHT:
        return ()
    return tuple((name, repr(value)) for name, value in layer.config.items() if name != "scope")


def sites_of(circuit: Circuit, tensors: Tensors) -> Sites:
    """The sites of a described circuit whose leaves are among `tensors`."""
    sites: dict[Hashable, Site] = {}
    of_layer: dict[Layer, Site] = {}
    refused: dict[Layer, str] = {}
    readers: dict[TensorParameter, dict[object, None]] = {}
    for layer in circuit.layers:
        learned = _learned(layer, tensors)
        reason = _reason(layer, tensors) if learned else None
        if learned and reason is None:
            site = _site(layer, tensors)
            structures = tuple(structure_of(graph) for graph in site.parameters.values())
            key = (site.kind, type(layer), _settings(layer, site.kind), site.tensors, structures)
            site = sites.setdefault(key, site)
            site.layers.append(layer)
            of_layer[layer] = site
        elif learned:
            refused[layer] = str(reason)
        for tensor in _tensors(layer):
            readers.setdefault(tensor, {})[of_layer.get(layer, layer)] = None
    shared = {site for site in sites.values() if any(len(readers[tensor]) > 1 for tensor in site.tensors)}
    for layer, site in of_layer.items():
        if site in shared:
            refused[layer] = "it shares a leaf with a parameter of another form"
    closed = [site for site in sites.values() if site not in shared]
    return Sites(closed, {layer: site for layer, site in of_layer.items() if site not in shared}, refused)


def _tensors(layer: Layer) -> Iterable[TensorParameter]:
    return dict.fromkeys(tensor for graph in layer.all_params.values() for tensor in tensors_of(graph))


def _learned(layer: Layer, tensors: Tensors) -> list[TensorParameter]:
    return [tensor for tensor in _tensors(layer) if tensors.has(tensor) and tensors.is_learned(tensor)]


def _site(layer: Layer, tensors: Tensors) -> Site:
    """The site of a layer that has one."""
    if not isinstance(layer, InputLayer):
        return Site(Kind.WEIGHT, {"weight": numbers_of(layer.params["weight"])})
    learned = {
        name: graph
        for name, graph in layer.params.items()
        if any(tensors.is_learned(tensor) for tensor in tensors_of(graph))
    }
    row = LAYER_ROWS[type(layer)]
    assert isinstance(row, InputRow), "an input layer"
    assert not isinstance(row.closed_form, Unsupported), "_reason has seen it"
    # the total of a table that is not normalized has derivatives too, which would count rows that lack the variable
    is_table = row.closed_form.expected is None and getattr(layer, "normalized", False)
    return Site(Kind.STATES if is_table else Kind.ROWS, learned)


def numbers_of(weight: Parameter) -> Parameter:
    """The numbers of a weight, without the zeros around those of a mixing layer."""
    if isinstance(weight.output, MixingWeightParameter):
        return weight.subgraph(weight.node_inputs(weight.output)[0])
    return weight


def _reason(layer: Layer, tensors: Tensors) -> str | None:
    """Why a layer with learned leaves has no site; None if it has one."""
    row = LAYER_ROWS.get(type(layer))
    if row is None or layer.sub_layers or layer.opaque:
        return "it is a layer of your own, or holds others"
    if any(not tensors.has(tensor) for tensor in _tensors(layer)):
        return "it has a leaf that a context replaces"
    if isinstance(row, InputRow):
        if isinstance(row.closed_form, Unsupported):
            return row.closed_form.why
        names = row.closed_form.names
        if row.closed_form.expected is None and (
            not isinstance(layer, TabulatedLayer) or (layer.domain.num_states or _MOST_STATES + 1) > _MOST_STATES
        ):
            return f"its variable has more than {_MOST_STATES} states"
        graphs = dict(layer.params)
    else:
        if set(layer.params) != {"weight"} or len(layer.params["weight"].shape) != 2:
            return "its parameters are no weights of sums"
        names, graphs = ("weight",), {"weight": numbers_of(layer.params["weight"])}
        output = graphs["weight"].output
        if not isinstance(output, _WEIGHTS) and tensors_of(graphs["weight"]):
            return f"its weight is made by {type(output).__name__}, which may be negative"
    for name, graph in graphs.items():
        read = tensors_of(graph)
        if name in names and not (read and all(map(tensors.is_learned, read))):
            return f"its {name} is not learned, but others of its parameters are"
        if name not in names and read:
            return f"its {name} has no closed form"
        if name in names and not _is_normalized_last(graph):
            return f"its {name} is normalized along another axis than the last"
        if name in names and not Graphs([graph], tensors).is_invertible:
            return f"its {name} has no inverse"
    return None


def _is_normalized_last(graph: Parameter) -> bool:
    softmax = (node for node in graph.nodes if isinstance(node, SoftmaxParameter | LogSoftmaxParameter))
    return all(node.axis in (-1, len(node.shape) - 1) for node in softmax)
