"""The policy that passes probability down: the probability that a unit takes part in a row.

The flow of a unit is the probability that sampling chooses it, given the known entries of a row. The flow of the output
is 1. A sum divides its flow among its terms in proportion to their part of its value, `weight * unit / sum`. A product
passes its flow to every unit that it multiplies. The flow of a unit is its value times the derivative of the circuit's
logarithm with respect to it. The flows of all units of the layers of one variable add up to 1.

Flows are ordinary numbers: one that underflows is a probability below the smallest number. `shares.py` computes the
shares, for values of any size.

Source: Darwiche, "A differential approach to inference in Bayesian networks", 2003; Poon and Domingos, "Sum-product
networks: a new deep architecture", 2011; Peharz et al., "On the latent variable interpretation in sum-product
networks", 2016.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plica.eager import namespace
from plica.ir.op import Unsupported
from plica.ir.sizes import Dim
from plica.lower.checks import is_never_negative
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.lowering import LoweringScope
from plica.lower.queries.shares import LOGARITHMS, Shares, Sums
from plica.lower.queries.top_down import Message
from plica.lower.queries.units import Ratio
from plica.symbolic.layers import LAYER_ROWS, Choice, InputRow, Layer, ProductRow, SumRow
from plica.symbolic.semirings import Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(slots=True)
class Flows:
    """The policy for one Program, and the flows that it found.

    Args:
        scope: The Program under construction.
        up: The value of every group, `(F, B, K)`.
        count: B, the number of rows.
        routes: The result of `routes_of` for the circuit.
        shares: The rules by which sums share their flow, in the semiring's number format.

    Attributes:
        inputs: Of each group of input layers, the flow of each unit, `(F, B, K)`.
        terms: Of each group of sum layers, the flow of each of its N terms, of all output units together: `(F, B, N)`.
        invalid: For each group of sums, `()`, whether a weight has no logarithm.
    """

    scope: LoweringScope
    up: Sequence[Value]
    count: Dim
    routes: Mapping[FoldedLayer, Sequence[NDArray[np.int64]]]
    shares: Shares = LOGARITHMS
    inputs: list[tuple[FoldedLayer, Tracer]] = field(default_factory=list)
    terms: list[tuple[FoldedLayer, Tracer]] = field(default_factory=list)
    invalid: list[Tracer] = field(default_factory=list)

    @property
    def ratio(self) -> Ratio:
        """The ratio of parts to totals, as ordinary numbers."""
        return self.shares.ratio

    def are_flows(self) -> list[Tracer]:
        """No further conditions: a negative number has no share, so flows would not add up to 1."""
        return []

    def start(self) -> Tracer:
        """1 for the one unit of the output; 0 in rows of probability zero."""
        value = self.scope.read(list(self.up), list(self.scope.folded.out_fold_idx))
        return xp.astype(self.shares.positive(value), self.scope.dtype)

    def nothing(self, group: FoldedLayer) -> Tracer:
        """No flow."""
        return xp.zeros((1, self.count, group.representative.num_output_units), dtype=self.scope.dtype)

    def merge(self, first: Tracer, second: Tracer) -> Tracer:
        """Add the flows from two readers of a unit."""
        return first + second

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        """Share the flow of a group among the units that it reads."""
        layer, flow = group.representative, message.content
        row = self.scope.folded.row(layer)
        if isinstance(row, InputRow):
            self.inputs.append((group, flow))
            return ()
        if isinstance(row, ProductRow):
            messages = [self._gathered(flow, route, layer.num_input_units) for route in self.routes[group]]
        else:
            assert isinstance(row, SumRow), "a query checks its rows first"
            assert isinstance(row.choose, Choice), "a query checks its rows first"
            messages = self._shared(group, row.choose, flow)
        return [Message(content, always=True) for content in messages]

    def _shared(self, group: FoldedLayer, choice: Choice, flow: Tracer) -> list[Tracer]:
        """The flows of sums to each of their H inputs, `(F, B, I)`."""
        layer, number = group.representative, self.scope.folded.groups.index(group)
        log_weights = choice.log_weights(xp, layer, self.scope.parameters(group))  # (F, O, N)
        if not self._is_never_negative(group):
            self.invalid.append(xp.any(xp.isnan(log_weights)))
        reads = np.asarray(choice.reads(layer))
        inputs = [
            self.scope.read(list(self.up), [fold[index] for fold in group.in_fold_idx]) for index in range(layer.arity)
        ]
        sums = self.shares.sums(flow, self.up[number], inputs)
        units, width = layer.num_input_units, layer.arity * layer.num_input_units
        own_terms = _own_terms(reads, layer)
        if len(reads) == 1 and np.array_equal(reads[0], np.arange(width)):
            messages = [
                self.shares.all_units(sums.slope, read, log_weights[:, :, index * units : (index + 1) * units])
                for index, read in enumerate(sums.inputs)
            ]
            self.terms.append((group, xp.concat(messages, axis=2)))
        elif own_terms is not None:
            weights = self._columns(_in_a_row(log_weights), own_terms)
            messages = [
                self.shares.each_unit(sums.slope, read, weights[:, :, index * units : (index + 1) * units])
                for index, read in enumerate(sums.inputs)
            ]
            self.terms.append((group, self._gathered(xp.concat(messages, axis=2), own_terms % reads.shape[1])))
        else:
            gathered = self._terms(group, sums, log_weights, reads)
            messages = [gathered[:, :, index * units : (index + 1) * units] for index in range(layer.arity)]
        return messages

    def _is_never_negative(self, group: FoldedLayer) -> bool:
        """Whether weights need no check: those of built-in layers whose parameters cannot be negative."""
        layer = group.representative
        is_built_in = self.scope.folded.row(layer) is LAYER_ROWS.get(type(layer))
        return is_built_in and all(is_never_negative(group, name) for name in layer.all_evaluated_params)

    def _terms(self, group: FoldedLayer, sums: Sums, log_weights: Tracer, reads: NDArray[np.int64]) -> Tracer:
        """The flows of sums to their inputs `(F, B, H*I)`, for terms that read any units."""
        layer, columns = group.representative, reads.ravel()
        read = self._columns(xp.concat(sums.inputs, axis=2), columns)
        if len(reads) == 1:
            terms = self.shares.all_units(sums.slope, read, log_weights)
            self.terms.append((group, terms))
        else:
            outputs, number = reads.shape
            slope = self._columns(sums.slope, np.repeat(np.arange(outputs), number))
            terms = self.shares.each_unit(slope, read, _in_a_row(log_weights))
            self.terms.append((group, self._gathered(terms, np.tile(np.arange(number), outputs))))
        return self._gathered(terms, columns, layer.arity * layer.num_input_units)

    def _columns(self, array: Tracer, columns: NDArray[np.int64]) -> Tracer:
        """Some columns of `(F, B, K)`, a view or a repetition where their order allows it."""
        count = int(array.dims[2])
        if np.array_equal(columns, np.arange(count)):
            return array
        index = self.scope.constant(columns.astype(np.int64), "columns")
        return xp.take(array, index, axis=2, nonnegative=True)

    def _gathered(self, array: Tracer, receivers: NDArray[np.int64], width: int | None = None) -> Tracer:
        """`(F, B, M)` added up where `receivers (M,)` are the same: `(F, B, width)`."""
        width = int(receivers.max()) + 1 if width is None else width
        folds, size = array.dims[0], len(receivers)
        inner = max(1, int(np.argmax(receivers != receivers[0])))  # equal receivers in a row
        outer = size // (width * inner)
        if np.array_equal(receivers, np.tile(np.repeat(np.arange(width), inner), max(outer, 1))):
            if outer == inner == 1:
                return array
            return xp.sum(xp.reshape(array, (folds, self.count, outer, width, inner)), axis=(2, 4))
        counts = np.bincount(receivers, minlength=width)
        most = int(counts.max())
        sources = np.full((width, most), size)  # a column of zeros fills up receivers of fewer entries
        order = np.argsort(receivers, kind="stable")
        sources[receivers[order], np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)] = order
        if (counts < most).any():
            array = xp.concat([array, xp.zeros((folds, self.count, 1), dtype=array.dtype)], axis=2)
        ordered = self._columns(array, sources.ravel())
        return ordered if most == 1 else xp.sum(xp.reshape(ordered, (folds, self.count, width, most)), axis=3)


def routes_of(folded: FoldedCircuit) -> dict[FoldedLayer, list[NDArray[np.int64]]]:
    """For each group of products and each of its inputs, the unit that each output unit multiplies, `(K,)`.

    Call it while nothing is traced: the rows compute routes on arrays of numbers.
    """
    routes = {}
    for group in folded.groups:
        layer, row = group.representative, folded.row(group.representative)
        if isinstance(row, ProductRow):
            assert not isinstance(row.route, Unsupported), "a query checks its rows first"
            units = np.arange(layer.num_output_units)[None]
            routes[group] = [np.asarray(route)[0] for route in row.route(namespace, layer, units)]
    return routes


def _own_terms(reads: NDArray[np.int64], layer: Layer) -> NDArray[np.int64] | None:
    """The one term that reads each unit of all inputs, if only output unit k reads unit k of each, as in mixing layers.

    Terms are counted as `o * N + n`. None where sums read otherwise.
    """
    outputs, number = reads.shape
    order = np.argsort(reads, axis=None, kind="stable")
    if outputs != layer.num_input_units or not np.array_equal(
        reads.ravel()[order], np.arange(layer.arity * layer.num_input_units)
    ):
        return None
    return order if np.array_equal(order // number, np.tile(np.arange(outputs), layer.arity)) else None


def _in_a_row(log_weights: Tracer) -> Tracer:
    """`(F, O, N)` as `(F, 1, O*N)`."""
    folds, outputs, number = log_weights.dims
    return xp.reshape(log_weights, (folds, 1, int(outputs) * int(number)))
