"""The policy that passes probability down: how probable it is, given a row, that a unit takes part in it.

Were a row drawn from the circuit given what is known of it, some units would be chosen on the way; the flow of a unit is
the probability that it is among them. The flow of the output is 1. A sum hands its flow to its terms in the shares that
they have in its value, `weight * unit / sum`; a product hands its flow to every unit that it multiplies. The flow of a
unit is its value times the derivative of the circuit's logarithm with respect to it. All units of the layers of one
variable have flows that add up to 1.

Flows are ordinary numbers: one that underflows is a probability below the smallest number. The shares are computed from
logarithms, so that values may be as small as they like.

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
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.lowering import LoweringScope
from plica.lower.queries.top_down import Message
from plica.symbolic.layers import Choice, InputRow, ProductRow, SumRow
from plica.symbolic.semirings import Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(slots=True)
class Flows:
    """The policy for one Program, and the flows that it found.

    Args:
        scope: The Program under construction, in a semiring of logarithms.
        up: The value of every group, `(F, B, K)`.
        count: B, the number of rows.
        routes: What `routes_of` says of the circuit.

    Attributes:
        inputs: Of each group of input layers, the flow of each unit, `(F, B, K)`.
        terms: Of each group of sum layers, the flow of each of its N terms, of all output units together: `(F, B, N)`.
        invalid: For each group of sums, `()`, whether a weight has no logarithm.
    """

    scope: LoweringScope
    up: Sequence[Value]
    count: Dim
    routes: Mapping[FoldedLayer, Sequence[NDArray[np.int64]]]
    inputs: list[tuple[FoldedLayer, Tracer]] = field(default_factory=list)
    terms: list[tuple[FoldedLayer, Tracer]] = field(default_factory=list)
    invalid: list[Tracer] = field(default_factory=list)

    def start(self) -> Tracer:
        """1 for the one unit of the output, 0 in rows that cannot be."""
        value = self._logs(self.scope.read(list(self.up), list(self.scope.folded.out_fold_idx)))
        return xp.astype(xp.isfinite(value), value.dtype)

    def nothing(self, group: FoldedLayer) -> Tracer:
        """No flow."""
        return xp.zeros((1, self.count, group.representative.num_output_units), dtype=self.scope.dtype)

    def merge(self, one: Tracer, other: Tracer) -> Tracer:
        """Whatever reads a unit adds to its flow."""
        return one + other

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        """Share the flow of a group among what it reads."""
        layer, flow = group.representative, message.content
        row = self.scope.folded.row(layer)
        if isinstance(row, InputRow):
            self.inputs.append((group, flow))
            return ()
        if isinstance(row, ProductRow):
            told = [self._gathered(flow, route, layer.num_input_units) for route in self.routes[group]]
        else:
            assert isinstance(row, SumRow), "a query checks its rows first"
            assert isinstance(row.choose, Choice), "a query checks its rows first"
            told = self._shared(group, row.choose, flow)
        return [Message(one, always=True) for one in told]

    def _shared(self, group: FoldedLayer, choice: Choice, flow: Tracer) -> list[Tracer]:
        """What each of the H inputs of sums is told, `(F, B, I)`."""
        layer, number = group.representative, self.scope.folded.groups.index(group)
        log_weights = choice.log_weights(xp, layer, self.scope.parameters(group))  # (F, O, N)
        self.invalid.append(xp.any(xp.isnan(log_weights)))
        reads = np.asarray(choice.reads(layer))
        value = self._logs(self.up[number])
        flows = xp.greater(flow, 0.0)
        # the logarithm of the derivative of the circuit's logarithm; -inf where nothing flows, whatever the value is
        slope = xp.where(flows, xp.log(xp.where(flows, flow, 1.0)) - xp.where(flows, value, 0.0), -np.inf)
        width, columns = layer.arity * layer.num_input_units, reads.ravel()
        inputs = self._columns(self._inputs(group), columns)
        if len(reads) == 1:
            weights = xp.matrix_transpose(log_weights)
            terms = xp.exp(inputs + xp.log_matmul_exp(slope, xp.exp(weights), weights, "log"))
            self.terms.append((group, terms))
        else:
            outputs, number_of_terms = reads.shape
            of_output = self._columns(slope, np.repeat(np.arange(outputs), number_of_terms))
            weights = xp.reshape(log_weights, (log_weights.dims[0], 1, len(columns)))
            terms = xp.exp(inputs + weights + of_output)
            self.terms.append((group, self._gathered(terms, np.tile(np.arange(number_of_terms), outputs))))
        told = self._gathered(terms, columns, width)
        units = layer.num_input_units
        return [told[:, :, place * units : (place + 1) * units] for place in range(layer.arity)]

    def _inputs(self, group: FoldedLayer) -> Tracer:
        """The logarithms of the units of all inputs, `(F, B, H*I)`."""
        values = [
            self._logs(self.scope.read(list(self.up), [fold[place] for fold in group.in_fold_idx]))
            for place in range(group.representative.arity)
        ]
        return xp.concat(values, axis=2)

    def _logs(self, value: Value) -> Tracer:
        found: Tracer = self.scope.semiring.to_log(xp, value)
        return found

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
        inner = max(1, int(np.argmax(receivers != receivers[0])))  # so many of one receiver follow each other
        outer = size // (width * inner)
        if np.array_equal(receivers, np.tile(np.repeat(np.arange(width), inner), max(outer, 1))):
            if outer == inner == 1:
                return array
            return xp.sum(xp.reshape(array, (folds, self.count, outer, width, inner)), axis=(2, 4))
        counts = np.bincount(receivers, minlength=width)
        most = int(counts.max())
        places = np.full((width, most), size)  # a column of zeros fills the rows of those that receive less
        order = np.argsort(receivers, kind="stable")
        places[receivers[order], np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)] = order
        if (counts < most).any():
            array = xp.concat([array, xp.zeros((folds, self.count, 1), dtype=array.dtype)], axis=2)
        found = self._columns(array, places.ravel())
        return found if most == 1 else xp.sum(xp.reshape(found, (folds, self.count, width, most)), axis=3)


def routes_of(folded: FoldedCircuit) -> dict[FoldedLayer, list[NDArray[np.int64]]]:
    """For each group of products and each of its inputs, the unit that each output unit multiplies, `(K,)`.

    To be asked while nothing is traced: the rows compute it with numbers at hand.
    """
    found = {}
    for group in folded.groups:
        layer, row = group.representative, folded.row(group.representative)
        if isinstance(row, ProductRow):
            assert not isinstance(row.route, Unsupported), "a query checks its rows first"
            units = np.arange(layer.num_output_units)[None]
            found[group] = [np.asarray(one)[0] for one in row.route(namespace, layer, units)]
    return found
