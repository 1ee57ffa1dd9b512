"""Conditional distributions of single variables, layer by layer: what samples and posteriors of squares are made of.

The value of a circuit is linear in the units of the layers of one variable, since it is smooth and decomposable:

    c(x) = sum over layers l of the variable, units k, of  d[l, k] u[l, k](x_v)

The coefficients d are derivatives, and depend on the other variables alone. So `c(., x_v)`, which is proportional to
the distribution of the variable given the rest, is a mixture of the units, whose weights may have any sign.

Each layer keeps its value, and its derivative, until a variable of its scope, or one outside of it, gets a value. So
variables that are drawn in the order of a depth-first walk cost a few evaluations of each layer together, where
products split their variables alike. In all other circuits the layers above a variable are computed anew for it.

Source: Darwiche, "A differential approach to inference in Bayesian networks", 2003; Ferris and Vidal, "Perfect sampling
with unitary tensor networks", 2012, on the chain rule for squares of tensor networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

import torch
from torch import Tensor

from plica.backend.torch.queries.layer_numbers import (
    Node,
    Numbers,
    Scaled,
    defined,
    total_of,
    with_one_scale,
)
from plica.eager import namespace as xp
from plica.graph.order import topological_order
from plica.symbolic.domains import Domain


@final
class Rows:
    """Values and derivatives of all layers for some rows, which get the values of more and more variables.

    Args:
        numbers: What the layers compute with.
        x: Rows `(B, D)`, float64; NaN where a value is missing. They are written into.
    """

    def __init__(self, numbers: Numbers, x: Tensor) -> None:
        self.graph, self.numbers, self.x = numbers.graph, numbers, x
        self._known = x.isnan().logical_not_()
        self._whole = 0  # the variables that got their values here, as bits
        self._values: dict[Node, tuple[int, Scaled]] = {}
        self._derivatives: dict[Node, tuple[int, Scaled]] = {}

    def log_value(self) -> Tensor:
        """The logarithm of the value of each row, `(B,)`; NaN where it is negative."""
        output = self._value(self.graph.output)
        return (output.mantissa.real.log() + output.log_scale)[:, 0].expand(len(self.x))

    def set(self, variable: int, values: Tensor) -> None:
        """Give all rows a value `(B,)` of a variable; rows that have one keep it."""
        column = self.x[:, variable]
        self.x[:, variable] = torch.where(column.isnan(), values, column)
        self._known[:, variable] = True
        self._whole |= 1 << variable

    def mixture(self, variable: int) -> Mixture:
        """The distribution of a variable given the other values of each row; its own value is not read."""
        nodes = self.graph.of_variable[variable]
        self._update_derivatives(nodes)
        return Mixture(self, variable, nodes, [self._derivatives[node][1] for node in nodes])

    # Values, inputs first.

    def _value(self, node: Node) -> Scaled:
        def outdated(node: Node) -> Sequence[Node]:
            return () if self._is_current(node) else self.graph.children[node]

        for visited in topological_order([node], outdated):
            if not self._is_current(visited):
                children = self.graph.children[visited]
                stamp = self._whole & self.graph.scopes[visited]
                inputs = [self._values[child][1] for child in children]
                self._values[visited] = stamp, self.numbers.inner(visited, inputs) if children else self._input(visited)
        return self._values[node][1]

    def _is_current(self, node: Node) -> bool:
        return node in self._values and self._values[node][0] == self._whole & self.graph.scopes[node]

    def _input(self, node: Node) -> Scaled:
        """The units of an input layer at the known values; summed or integrated where there is none."""
        total = self.numbers.total(node)
        if not self.graph.scopes[node]:
            return total
        variable = self.graph.scopes[node].bit_length() - 1
        known = self._known[:, variable, None]
        if not bool(known.any()):
            return total
        layer, _ = self.graph.input_of(node)
        values = torch.where(known[:, 0], self.x[:, variable], float(layer.domain.inside))
        own = self.numbers.at(node, values)
        return (
            own if bool(known.all()) else Scaled(*(torch.where(known, *pair) for pair in zip(own, total, strict=True)))
        )

    # Derivatives, outputs first.

    def _update_derivatives(self, nodes: Iterable[Node]) -> None:
        """Compute the derivatives of the output with respect to some layers, and to what reads them."""
        graph = self.graph

        def outdated(node: Node) -> Sequence[Node]:
            return () if self._has_derivative(node) else tuple(graph.readers[node])

        for node in topological_order(nodes, outdated):
            if self._has_derivative(node):
                continue
            terms = [self._passed_on(reader, node) for reader in graph.readers[node]]
            if node == graph.output:
                terms.append(self._one())
            mantissas, log_scale = with_one_scale(terms)
            self._derivatives[node] = self._stamp_outside(node), Scaled.of(total_of(mantissas), log_scale)

    def _has_derivative(self, node: Node) -> bool:
        return node in self._derivatives and self._derivatives[node][0] == self._stamp_outside(node)

    def _stamp_outside(self, node: Node) -> int:
        return self._whole & ~self.graph.scopes[node]

    def _one(self) -> Scaled:
        device = self.x.device
        return Scaled(
            torch.ones((1, 1), dtype=self.numbers.dtype, device=device),
            torch.zeros((1, 1), dtype=torch.float64, device=device),
        )

    def _passed_on(self, reader: Node, node: Node) -> Scaled:
        """The part of the derivative of a layer that comes from one of its readers."""
        derivative, children = self._derivatives[reader][1], self.graph.children[reader]
        own = [place for place, child in enumerate(children) if child == node]
        log_scale = derivative.log_scale
        read = [self._ones(child) for child in children]  # the derivative of a sum is the same everywhere
        if not self.graph.adds[reader]:
            others = [(place, self._value(child)) for place, child in enumerate(children) if child != node]
            for place, value in others:
                read[place] = value.mantissa
            log_scale = total_of([log_scale, *(value.log_scale for _, value in others)])
        count = max(len(derivative.mantissa), *map(len, read))
        with torch.enable_grad():
            inputs = [array.expand(count, -1).detach() for array in read]
            for place in own:
                inputs[place] = inputs[place].clone().requires_grad_()
            result = self.numbers.body(reader, inputs)
            given = derivative.mantissa.expand(count, -1).conj()
            grads = torch.autograd.grad(result, [inputs[place] for place in own], given)
        return Scaled.of(total_of([grad.conj() for grad in grads]), log_scale)

    def _ones(self, node: Node) -> Tensor:
        return torch.ones((1, self.graph.layer(node).num_output_units), dtype=self.numbers.dtype, device=self.x.device)


@final
class Mixture:
    """A distribution of one variable for each row: a mixture of units of its layers, with weights of any sign.

    Args:
        rows: The rows.
        variable: The variable.
        nodes: Its layers.
        derivatives: The derivatives with respect to them.
    """

    def __init__(self, rows: Rows, variable: int, nodes: Sequence[Node], derivatives: Sequence[Scaled]) -> None:
        self._numbers, self._nodes = rows.numbers, nodes
        self.domain: Domain = rows.graph.folded.described.domains[variable]
        self.count = len(rows.x)
        states = self.domain.num_states
        if states is None:
            totals = [rows.numbers.total(node) for node in nodes]
            self._tables = [total.mantissa for total in totals]
            self._sizes = [total.log_scale for total in totals]
        else:
            tables = [rows.numbers.table(node) for node in nodes]
            self._tables, self._sizes = [table[:states] for table, _ in tables], [size for _, size in tables]
        pairs = zip(derivatives, self._sizes, strict=True)
        self._weights, _ = with_one_scale([Scaled(number.mantissa, number.log_scale + size) for number, size in pairs])

    def masses(self) -> Tensor:
        """Numbers `(B, C)` that are proportional to the probabilities of states; rounding leaves none below 0."""
        return self._mixed(self._tables).clamp_(min=0)

    def up_to(self, ends: Tensor) -> Tensor:
        """Numbers `(B, P)` proportional to the probabilities of values up to `ends (B, P)`.

        Raises:
            UnsupportedError: A layer does not define the mass of an interval.
        """
        columns = []
        for end in ends.unbind(1):
            tables = [self._numbers.up_to(node, end, size) for node, size in zip(self._nodes, self._sizes, strict=True)]
            terms = [(weights * table).sum(1) for weights, table in zip(self._weights, tables, strict=True)]
            columns.append(total_of(terms).real.expand(self.count))
        return torch.stack(columns, 1)

    def moments(self) -> tuple[Tensor, Tensor]:
        """The mean and the variance of the variable, `(B,)` each.

        Raises:
            UnsupportedError: A layer does not define them.
        """
        if self.domain.num_states is not None:
            masses = self.masses()
            shares = masses / masses.sum(1, keepdim=True)
            states = torch.arange(shares.shape[1], dtype=shares.dtype, device=shares.device)
            mean = shares @ states
            return mean, (shares * (states - mean[:, None]).square()).sum(1)
        pairs = zip(self._weights, self._tables, strict=True)
        weights = torch.cat([(weights * table).real.expand(self.count, -1) for weights, table in pairs], 1)
        weights = weights / weights.sum(1, keepdim=True)
        means, variances = (
            torch.cat([self._moment(node, name) for node in self._nodes], 1) for name in ("mean", "variance")
        )
        centre = means[:, :1]
        mean = centre[:, 0] + (weights * (means - centre)).sum(1)
        return mean, (weights * (variances + (means - mean[:, None]).square())).sum(1).clamp_(min=0)

    def _moment(self, node: Node, name: str) -> Tensor:
        """A moment of each unit, `(1, K)`."""
        layer, row = self._numbers.graph.input_of(node)
        moment: Tensor = defined(self._numbers, node, getattr(row, name))(xp, layer, self._numbers.params(node))
        return moment[:, :, 0].to(torch.float64)

    def _mixed(self, tables: Sequence[Tensor]) -> Tensor:
        """The weighted sums of the columns of tables `(C, K)`, as real numbers `(B, C)`."""
        terms = [weights @ table.T for weights, table in zip(self._weights, tables, strict=True)]
        return total_of(terms).real.expand(self.count, -1).clone()
