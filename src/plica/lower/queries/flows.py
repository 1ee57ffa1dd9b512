"""The policy that passes probability down: for each row and each unit its *flow*.

The flow of a unit is the probability that sampling, given the known entries of the row, chooses the unit. The flow of
the output is 1. A sum divides its flow among its terms in proportion to their part of its value, `weight * unit / sum`.
A product passes its flow to every unit that it multiplies. So the flow of a unit is its value times the derivative of
the circuit's logarithm with respect to it. The flows of all units of the layers of one variable add up to 1.

Flows are ordinary numbers: one that underflows is a probability below the smallest number. The values of units may be
in another number format; `shares.py` has the rules of each.

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
    """The policy for one Program, and the flows that it has computed so far.

    Args:
        scope: The Program under construction.
        up: The value of every group, `(F, B, K)`, from the upward pass.
        count: B, the number of rows.
        routes: The result of `routes_of` for the circuit.
        shares: The rules by which sums share their flow, in the semiring's number format.

    Attributes:
        inputs: Each group of input layers with the flow of each unit, `(F, B, K)`.
        terms: Each group of sum layers with the flow of each of its N terms, summed over output units: `(F, B, N)`.
        invalid: For groups of sums, a scalar each: whether the logarithm of a weight is NaN, so the weight negative.
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
        """The function that divides a value by a total, as ordinary numbers."""
        return self.shares.ratio

    def are_flows(self) -> list[Tracer]:
        """Conditions of the bound, besides that flows add up to 1: none, as a negative number would get no share."""
        return []

    def start(self) -> Tracer:
        """The flow of the output, which has one unit: 1, or 0 in rows of probability zero."""
        value = self.scope.read(list(self.up), list(self.scope.folded.out_fold_idx))
        return xp.astype(self.shares.positive(value), self.scope.dtype)

    def nothing(self, group: FoldedLayer) -> Tracer:
        """The flow of a group that nothing reads: zeros."""
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
            routes = zip(self.routes[group], layer.input_widths, strict=True)
            messages = [self._gathered(flow, route, width) for route, width in routes]
        else:
            assert isinstance(row, SumRow), "a query checks its rows first"
            assert isinstance(row.choose, Choice), "a query checks its rows first"
            messages = self._shared(group, row.choose, flow)
        return [Message(content, always=True) for content in messages]

    def _shared(self, group: FoldedLayer, choice: Choice, flow: Tracer) -> list[Tracer]:
        """The flows from a group of sums to each of its H inputs, `(F, B, I)`.

        `reads (O or 1, N)` has the unit that each term reads, counted through all inputs; one row if all output units
        read the same. There are rules for three cases: each term reads the unit of its number, as in dense sums; only
        output unit k reads unit k of each input, as in mixing layers; terms read any units.
        """
        layer, index_of_group = group.representative, self.scope.folded.groups.index(group)
        log_weights = choice.log_weights(xp, layer, self.scope.parameters(group))  # (F, O, N)
        if not self._is_never_negative(group):
            self.invalid.append(xp.any(xp.isnan(log_weights)))
        reads = np.asarray(choice.reads(layer))
        inputs = [
            self.scope.read(list(self.up), [fold[index] for fold in group.in_fold_idx]) for index in range(layer.arity)
        ]
        sums = self.shares.sums(flow, self.up[index_of_group], inputs)
        units, width = layer.num_input_units, layer.arity * layer.num_input_units
        own_terms = _own_terms(reads, layer)
        if len(reads) == 1 and np.array_equal(reads[0], np.arange(width)):
            messages = [
                self.shares.all_units(sums.slope, read, log_weights[:, :, index * units : (index + 1) * units])
                for index, read in enumerate(sums.inputs)
            ]
            self.terms.append((group, xp.concat(messages, axis=2)))
        elif own_terms is not None:
            weights = self._columns(_flattened(log_weights), own_terms)
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
        """Whether weights need no check: the layer is built in, and none of its parameters can be negative."""
        layer = group.representative
        is_built_in = self.scope.folded.row(layer) is LAYER_ROWS.get(type(layer))
        return is_built_in and all(is_never_negative(group, name) for name in layer.all_evaluated_params)

    def _terms(self, group: FoldedLayer, sums: Sums, log_weights: Tracer, reads: NDArray[np.int64]) -> Tracer:
        """The flows from a group of sums to its inputs `(F, B, H*I)`, for terms that read any units."""
        layer, columns = group.representative, reads.ravel()
        units = self._columns(xp.concat(sums.inputs, axis=2), columns)
        if len(reads) == 1:
            terms = self.shares.all_units(sums.slope, units, log_weights)
            self.terms.append((group, terms))
        else:
            num_outputs, num_terms = reads.shape
            slope = self._columns(sums.slope, np.repeat(np.arange(num_outputs), num_terms))
            terms = self.shares.each_unit(slope, units, _flattened(log_weights))
            self.terms.append((group, self._gathered(terms, np.tile(np.arange(num_terms), num_outputs))))
        return self._gathered(terms, columns, layer.arity * layer.num_input_units)

    def _columns(self, array: Tracer, columns: NDArray[np.int64]) -> Tracer:
        """Columns of `(F, B, K)` by their indices; the array itself for all columns in order."""
        count = int(array.dims[2])
        if np.array_equal(columns, np.arange(count)):
            return array
        index = self.scope.constant(columns.astype(np.int64), "columns")
        return xp.take(array, index, axis=2, nonnegative=True)

    def _gathered(self, array: Tracer, receivers: NDArray[np.int64], width: int | None = None) -> Tracer:
        """The columns of `(F, B, M)` added up by `receivers (M,)`: `(F, B, width)`.

        For example, receivers (0, 1, 0) add columns 0 and 2 to column 0 of the result, and column 1 to column 1.
        """
        width = int(receivers.max()) + 1 if width is None else width
        folds, size = array.dims[0], len(receivers)
        # a regular order, such as (0, 0, 1, 1, 0, 0, 1, 1), is a sum over two axes of an array of five
        num_equal = max(1, int(np.argmax(receivers != receivers[0])))
        num_rounds = size // (width * num_equal)
        if np.array_equal(receivers, np.tile(np.repeat(np.arange(width), num_equal), max(num_rounds, 1))):
            if num_rounds == num_equal == 1:
                return array
            return xp.sum(xp.reshape(array, (folds, self.count, num_rounds, width, num_equal)), axis=(2, 4))
        counts = np.bincount(receivers, minlength=width)
        max_count = int(counts.max())
        sources = np.full((width, max_count), size)  # receivers of fewer columns also get a column of zeros
        order = np.argsort(receivers, kind="stable")
        sources[receivers[order], np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)] = order
        if (counts < max_count).any():
            array = xp.concat([array, xp.zeros((folds, self.count, 1), dtype=array.dtype)], axis=2)
        ordered = self._columns(array, sources.ravel())
        return ordered if max_count == 1 else xp.sum(xp.reshape(ordered, (folds, self.count, width, max_count)), axis=3)


def routes_of(folded: FoldedCircuit) -> dict[FoldedLayer, list[NDArray[np.int64]]]:
    """For each group of products and each of its inputs, the input unit that each output unit multiplies, `(K,)`.

    Call it outside of a trace: registry entries compute routes on arrays of numbers.
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
    """For sums in which only output unit k reads unit k of each input, as in mixing layers: who reads each unit.

    The result `(H*I,)` has, for each unit of all inputs, the number `o * N + n` of the term that reads it: term n of
    output unit o. It is None for other sums.
    """
    num_outputs, num_terms = reads.shape
    order = np.argsort(reads, axis=None, kind="stable")
    if num_outputs != layer.num_input_units or not np.array_equal(
        reads.ravel()[order], np.arange(layer.arity * layer.num_input_units)
    ):
        return None
    return order if np.array_equal(order // num_terms, np.tile(np.arange(num_outputs), layer.arity)) else None


def _flattened(log_weights: Tracer) -> Tracer:
    """`(F, O, N)` as `(F, 1, O*N)`."""
    folds, num_outputs, num_terms = log_weights.dims
    return xp.reshape(log_weights, (folds, 1, int(num_outputs) * int(num_terms)))
