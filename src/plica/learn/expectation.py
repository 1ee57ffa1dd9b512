"""The two steps of expectation maximization: expected statistics of rows, and the leaves that they make best.

>>> import torch
>>> import plica
>>> from plica.symbolic.layers import BernoulliLayer, SumLayer
>>> coin, mix = BernoulliLayer([0], 1), SumLayer(1, 1)
>>> model = plica.compile(plica.Circuit([coin, mix], {mix: [coin]}, [mix]))
>>> expectation = Expectation(model)
>>> statistics = expectation.of(torch.tensor([[1], [1], [1], [0]]))
>>> expectation.maximize(statistics, pseudocount=0.0)
>>> round(model(torch.tensor([[1]])).exp().item(), 4)
0.75
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import plica.eager.namespace as eager
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.exact import may_branch
from plica.distributed.ranks import Ranks
from plica.errors import UnsupportedError
from plica.learn.counted import CountedCircuit
from plica.learn.graphs import Graphs, Slot, Tensors, indices, tensors_of
from plica.learn.sites import Kind, Site, Sites, sites_of
from plica.symbolic.layers import LAYER_ROWS, Layer, SumLayer
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.layers.states import TabulatedLayer
from plica.symbolic.parameters import Parameter, TensorParameter
from plica.symbolic.semirings import Params

_WIDE = torch.float64
_LEAST_LOG = -80.0  # of a probability, where long steps are taken: far from where float32 ends


@dataclass(frozen=True, slots=True)
class Statistics:
    """Expected statistics of rows: sums, so that those of two parts of the rows add up.

    Args:
        groups: The statistics of each group of sites by name, each `(F, ...)`.
        num_rows: How many rows there were.
        log_likelihood: The sum of their log-likelihoods, a tensor on the device.
        gradients: The derivatives of this sum by the leaves that have no closed form.
    """

    groups: tuple[Mapping[str, Tensor], ...]
    num_rows: float
    log_likelihood: Tensor
    gradients: Mapping[TensorParameter, Tensor]

    def __add__(self, other: Statistics) -> Statistics:
        return self.combined(other, lambda a, b: a + b)

    def combined(self, other: Statistics, function: Callable[[Any, Any], Any]) -> Statistics:
        """A function of each number of two statistics."""
        pairs = zip(self.groups, other.groups, strict=True)
        return Statistics(
            tuple({name: function(mine[name], theirs[name]) for name in mine} for mine, theirs in pairs),
            function(self.num_rows, other.num_rows),
            function(self.log_likelihood, other.log_likelihood),
            {leaf: function(gradient, other.gradients[leaf]) for leaf, gradient in self.gradients.items()},
        )

    def scaled(self, factor: float) -> Statistics:
        """All numbers times a factor."""
        return self.combined(self, lambda a, _: a * factor)

    def moved_to(self, other: Statistics, share: float) -> Statistics:
        """A share of the way from these to others; the gradients of the others."""
        pairs = zip(self.groups, other.groups, strict=True)
        groups = tuple({name: mine[name].lerp(theirs[name], share) for name in mine} for mine, theirs in pairs)
        return Statistics(groups, other.num_rows, other.log_likelihood, other.gradients)

    def among(self, num_rows: int | None) -> Statistics:
        """The same sums, of some of so many rows; None: of all that there are."""
        return self if num_rows is None else replace(self, num_rows=float(num_rows))

    def summed(self, ranks: Ranks) -> Statistics:
        """The statistics of each group added up over processes, by one message; else those of this process."""
        sums = iter(ranks.sum([numbers for group in self.groups for numbers in group.values()]))
        return replace(self, groups=tuple({name: next(sums) for name in group} for group in self.groups))

    def state(self) -> dict[str, Any]:
        """Tensors and numbers, for a checkpoint."""
        return {
            "groups": [dict(group) for group in self.groups],
            "num_rows": self.num_rows,
            "log_likelihood": self.log_likelihood,
        }

    @staticmethod
    def of_state(state: Mapping[str, Any], device: torch.device) -> Statistics:
        """Statistics on a device from what `state` gave, maybe on another; their gradients are empty."""
        groups = tuple({name: numbers.to(device) for name, numbers in group.items()} for group in state["groups"])
        return Statistics(groups, state["num_rows"], state["log_likelihood"].to(device), {})


class Group:
    """Sites that are updated together: F of one kind and one structure.

    Args:
        sites: The sites.
        tensors: The places of the model's leaves.
        counted: The counted circuit.
    """

    def __init__(self, sites: Sequence[Site], tensors: Tensors, counted: CountedCircuit) -> None:
        self.sites, self.kind = sites, sites[0].kind
        self.layer: Any = sites[0].layers[0]
        self.graphs = {name: Graphs([site.parameters[name] for site in sites], tensors) for name in sites[0].parameters}
        self.slots: list[tuple[Slot, tuple[int, ...]]] = []
        self._table: Graphs | None = None
        self._is_log = True
        if self.kind is Kind.ROWS:
            every = {name: [site.layers[0].params[name] for site in sites] for name in self.layer.params}
            self._evaluated = {name: Graphs(graphs, tensors) for name, graphs in every.items()}
        else:
            self.slots = counted.slots([counted.logs[site] for site in sites])
        if self.kind is Kind.STATES:
            tables = [_state_table(site.layers[0]) for site in sites]
            self._table, self._is_log = Graphs([table for table, _ in tables], tensors), tables[0][1]

    def logarithms(self) -> Tensor:
        """The logarithms of weights or of states, `(F, *shape)`, as the model has them now."""
        if self._table is None:
            return self.graphs["weight"].logarithms()
        return self._table.value() if self._is_log else self._table.logarithms()

    def count(self, derivatives: Mapping[str, Tensor], wide: bool) -> dict[str, Tensor]:
        """The expected counts of weights or states."""
        name = "weight" if self.kind is Kind.WEIGHT else "states"
        (first, _), *others = self.slots
        counts = first.of(derivatives[first.attribute])
        if others:
            counts = counts.new_empty((len(self.sites), *counts.shape[1:]))
            for slot, positions in self.slots:
                counts[indices(positions, counts.device)] = slot.of(derivatives[slot.attribute])
        return {name: counts.to(_WIDE) if wide else counts}

    def params(self) -> Params:
        """The evaluated parameters of layers whose statistics are sums over rows, in float64."""
        return Params.of(eager, {name: graph.value().to(_WIDE) for name, graph in self._evaluated.items()})

    def expected(self, x: Tensor, flows: Mapping[Layer, Tensor]) -> dict[str, Tensor]:
        """The expected statistics of rows `(B, D)`: those of layers that share a site are added."""
        rule = closed_form_of(self.layer).expected or _count_states
        params = self.params()
        shared = max(len(site.layers) for site in self.sites)
        total: dict[str, Tensor] = {}
        for number in range(shared):
            layers: list[Any] = [
                site.layers[number] if number < len(site.layers) else site.layers[0] for site in self.sites
            ]
            weights = torch.stack(
                [
                    flows[layer].to(_WIDE) * float(number < len(site.layers))
                    for layer, site in zip(layers, self.sites, strict=True)
                ]
            )
            scopes = indices(tuple(tuple(layer.scope) for layer in layers), x.device)
            data = x.T[scopes].mT.to(_WIDE)  # (F, B, V)
            missing = data.isnan()
            sums = rule(eager, self.layer, params, data.where(~missing, 0.0), missing, weights)
            total = {name: total[name] + sums[name] if total else sums[name] for name in sums}
        return total

    def maximize(self, statistics: Mapping[str, Tensor], pseudocount: float, step: float = 1.0) -> None:
        """Give the leaves the numbers that make statistics most likely; units that nothing chose keep theirs."""
        if step != 1.0 and self.kind is not Kind.ROWS:
            statistics, pseudocount = self._relaxed(statistics, pseudocount, step), 0.0
        if self.kind is Kind.WEIGHT:
            counts = statistics["weight"]
            smoothed = counts + pseudocount / counts.shape[-1]
            total = smoothed.sum(-1, keepdim=True)
            self._set("weight", smoothed / total.where(total > 0, 1.0), total > 0)
            return
        targets = closed_form_of(self.layer).maximum(torch, self.layer, statistics, pseudocount)
        number = statistics["count"] if "count" in statistics else statistics["states"].sum(-1)
        for name in self.graphs:
            target = targets[name]
            chosen = number > 0
            while chosen.ndim < target.ndim:
                chosen = chosen[..., None]
            while chosen.ndim > target.ndim:
                chosen = chosen[..., 0]
            self._set(name, target, chosen)

    def _relaxed(self, statistics: Mapping[str, Tensor], pseudocount: float, step: float) -> dict[str, Tensor]:
        """Counts whose shares are `step` times as far from those of the model, in logarithms."""
        ((name, counts),) = statistics.items()
        total = counts.sum(-1, keepdim=True)
        before = self.logarithms().log_softmax(-1)
        least = torch.finfo(counts.dtype).smallest_normal
        after = (counts + pseudocount / counts.shape[-1]).clamp_(min=least).log_().log_softmax(-1)
        return {name: torch.lerp(before.clamp_(min=_LEAST_LOG), after, step).softmax(-1).mul_(total)}

    def _set(self, name: str, target: Tensor, chosen: Tensor) -> None:
        graph = self.graphs[name]
        if not (may_branch(chosen) and bool(chosen.all())):
            target = torch.where(chosen, target, graph.value().to(target.dtype))
        graph.invert(target)


def closed_form_of(layer: Layer) -> Any:
    """The closed form of an input layer of a site."""
    return LAYER_ROWS[type(layer)].closed_form  # type: ignore[union-attr]  # a layer of a site


def _count_states(
    xp: Any,  # noqa: ARG001
    layer: Any,
    params: Any,  # noqa: ARG001
    x: Tensor,
    missing: Tensor,
    weights: Tensor,
) -> dict[str, Tensor]:
    """The expected counts of states `(F, K, C)`, from the flows of rows."""
    states = torch.arange(layer.domain.num_states, device=x.device)
    chosen = (x == states) & ~missing  # (F, B, C)
    return {"states": weights.mT @ chosen.to(weights.dtype)}


def _state_table(layer: Layer) -> tuple[Parameter, bool]:
    """The table `(K, C)` of a layer, and whether it holds logarithms."""
    assert isinstance(layer, TabulatedLayer), "a site of states"
    table = layer.state_table(int(layer.domain.num_states or 0))
    return table.numbers, table.log_space


class Expectation:
    """The steps for one model.

    Args:
        model: A compiled circuit of one output of one unit, in the semiring `lse-sum`.
        apart: Whether each term of the output's sum counts all rows for itself, as a circuit of its own.

    Attributes:
        sites: Its sites, and which layers have none.
        groups: The sites that are updated together.
        rest: The leaves that are learned and have no closed form.

    Raises:
        UnsupportedError: The model is no such circuit.
    """

    def __init__(self, model: Any, *, apart: bool = False) -> None:
        check_model(model)
        if apart:
            check_terms(model)
        self.model: TorchCircuit = model
        tensors = Tensors(model)
        self.sites: Sites = sites_of(model.symbolic, tensors)
        self.counted = CountedCircuit(model, self.sites, apart=apart)
        groups: dict[Any, list[Site]] = {}
        for site in self.sites.closed:
            groups.setdefault(site.group(tensors), []).append(site)
        self.groups = [Group(sites, tensors, self.counted) for sites in groups.values()]
        closed = {leaf for site in self.sites.closed for leaf in site.tensors}
        self.rest = [leaf for leaf in self.counted.copies if tensors.is_learned(leaf) and leaf not in closed]
        self._places = {leaf: self.counted.place_of_copy(leaf) for leaf in self.rest}
        wanted = [slot.attribute for group in self.groups for slot, _ in group.slots]
        wanted += [attribute for attribute, _ in self._places.values()]
        self._wanted = list(dict.fromkeys(wanted))
        self.counted.differentiate_by(self._wanted)

    @torch.no_grad()
    def synchronize(self) -> None:
        """Take over the numbers that the model has now."""
        if (
            self.counted.module.dtype != self.model.dtype
            or self.counted.module.leaves.device != self.model.leaves.device
        ):
            self.counted.module.to(self.model.leaves.device, self.model.dtype)
        self.counted.copy_leaves()
        for group in self.groups:
            if group.kind is Kind.ROWS:
                continue
            try:
                logs = group.logarithms()
            except UnsupportedError as error:
                raise UnsupportedError(f"{self.model.symbolic.layer_name(group.layer)}: {error}") from None
            for slot, positions in group.slots:
                slot.write(
                    self.counted.module.leaves, logs if len(group.slots) == 1 else logs[indices(positions, logs.device)]
                )

    def of(self, x: Tensor, *, wide: bool = True, waits: bool = False) -> Statistics:
        """The expected statistics of rows under the model as it is.

        Args:
            x: `(B, D)`; NaN is missing.
            wide: Whether counts are in float64, to be added over many batches; else in the dtype of the model.
            waits: Whether to wait for a device to say that a row has probability 0. Training does not: the mean of an
                epoch says so (`plica.learn.run`).

        Raises:
            InputError: A row has probability 0.
        """
        self.synchronize()
        logs, derivatives, flows = self.counted.derivatives(x, self._wanted, waits=waits)
        with torch.no_grad():
            groups = tuple(
                group.expected(x, flows) if group.kind is Kind.ROWS else group.count(derivatives, wide)
                for group in self.groups
            )
        gradients = {leaf: derivatives[attribute][fold] for leaf, (attribute, fold) in self._places.items()}
        return Statistics(groups, float(len(x)), logs.to(_WIDE).sum(), gradients)

    @torch.no_grad()
    def maximize(self, statistics: Statistics, pseudocount: float, step: float = 1.0) -> None:
        """Give every leaf with a closed form the numbers that make statistics most likely.

        Args:
            statistics: As of `of`, maybe added up over parts of the rows.
            pseudocount: Imaginary rows for each distribution: spread evenly over states and terms of sums; of numbers,
                with the mean and the variance of the whole layer.
            step: How far the logarithms of weights and states go, in multiples of the way to these numbers.
        """
        for group, numbers in zip(self.groups, statistics.groups, strict=True):
            group.maximize(numbers, pseudocount, step)


def check_model(model: Any) -> None:
    """Refuse what has no expected counts.

    Raises:
        UnsupportedError: The model is no compiled circuit, is in another semiring, or has another number of outputs.
    """
    if not isinstance(model, TorchCircuit):
        raise UnsupportedError(
            f"expectation maximization needs a compiled circuit, found {type(model).__name__}; learn it by Adam"
        )
    if model.semiring.name != "lse-sum":
        raise UnsupportedError(
            f"expectation maximization needs a circuit of logarithms, found the semiring {model.semiring.name!r}; "
            "compile it by default settings, or learn it by Adam"
        )
    outputs = tuple(model.symbolic.outputs)
    if len(outputs) != 1 or outputs[0].num_output_units != 1:
        units = sum(output.num_output_units for output in outputs)
        raise UnsupportedError(
            f"expectation maximization needs one output of one unit, found {len(outputs)} output(s) of {units} units"
        )
    if not any(isinstance(layer, InputLayer) and layer.num_variables for layer in model.symbolic.layers):
        raise UnsupportedError("expectation maximization needs a circuit that reads variables, and this one has none")


def with_terms(model: Any) -> TorchCircuit:
    """A circuit of the same tensors whose outputs are the model's and each term of its sum, for terms that learn apart.

    Args:
        model: A compiled circuit of one output of one unit, in the semiring `lse-sum`.

    Raises:
        UnsupportedError: The model is no such circuit, or its terms cannot learn apart.
    """
    check_model(model)
    check_terms(model)
    (output,) = model.symbolic.outputs
    circuit = model.symbolic.subgraph(output, *model.symbolic.layer_inputs(output))
    compiled: TorchCircuit = model.compiler("apart").compile(circuit)
    return compiled


def check_terms(model: TorchCircuit) -> None:
    """Refuse a circuit whose output is no sum of circuits that may learn apart.

    Raises:
        UnsupportedError: The output is no sum of terms of one unit each, its weights are learned, or terms share
            leaves.
    """
    circuit = model.symbolic
    (output,) = circuit.outputs
    tensors = Tensors(model)
    hint = "give the sum weights that are not learned, and its terms one unit each, or leave apart out"
    if not isinstance(output, SumLayer) or any(term.num_output_units != 1 for term in circuit.layer_inputs(output)):
        raise UnsupportedError(f"terms learn apart where the output is a sum of terms of one unit; {hint}")
    if any(tensors.is_learned(tensor) for graph in output.all_params.values() for tensor in tensors_of(graph)):
        raise UnsupportedError(f"terms that learn apart have a sum whose weights are not learned; {hint}")
    owner: dict[TensorParameter, Layer] = {}
    for term in circuit.layer_inputs(output):
        for layer in circuit.subgraph(term).layers:
            for graph in layer.all_params.values():
                if any(owner.setdefault(tensor, term) is not term for tensor in tensors_of(graph)):
                    raise UnsupportedError(
                        f"terms that learn apart share no leaf, and {circuit.layer_name(layer)} belongs to two; leave "
                        "apart out"
                    )
