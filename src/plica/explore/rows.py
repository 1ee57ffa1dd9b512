"""A row of data in every layer of a circuit as described: values flow up, the most probable states down.

Two Programs are run by the interpreter. The first is the upward pass in the circuit's own semiring, and has the value
of every layer. The second is that of `plica.queries.mpe`, and has the unit that each layer was reached at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.errors import PlicaError, UnsupportedError
from plica.explore.tensors import data_entries, value_entries
from plica.ir.dtypes import DType
from plica.ir.interpret import interpret_program
from plica.lower.data import InputData, column_domains, input_width
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer, fold_circuit
from plica.lower.leaves import Leaf
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.choose import Choices
from plica.lower.queries.filled import FilledRows
from plica.lower.queries.mpe import MPE, mpe
from plica.lower.queries.top_down import Message, walk_down
from plica.ops import OPS
from plica.symbolic.semirings import Semiring
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit

_IMPOSSIBLE = "No states are most probable: every completion of this row has probability 0."
_UNKNOWN = "No states are most probable: the value of this row is not finite."

Array = NDArray[Any]
Texts: TypeAlias = Callable[[Array], Sequence[Sequence[str]]]


def row_records(
    circuit: TorchCircuit, tensors: Mapping[str, Array], x: Array, texts: Texts | None = None
) -> tuple[list[dict[str, Any]], str]:
    """The record of each row, and why they have no states where they have none.

    Args:
        circuit: The circuit.
        tensors: Its parameter tensors by key.
        x: `(B, D)`; NaN where a value is missing.
        texts: Gives rows of numbers, none of which is missing, as a table has them.

    Raises:
        PlicaError: As the circuit does of such rows; or a layer of it runs in torch alone.
    """
    x = np.asarray(x, dtype=np.float64)
    _check(circuit, x)
    described = circuit.compiled.folded.described
    folded = fold_circuit(described, rows=circuit.compiled.folded.rows)
    run = _Run(folded, {leaf: tensors[key] for leaf, key in circuit.compiled.keys.items() if key in tensors})
    values = run.values(circuit.semiring, x)
    records = [
        {
            "x": data_entries(row),
            "values": [None if layer is None else value_entries(layer[number]) for layer in values],
        }
        for number, row in enumerate(x)
    ]
    why = ""
    completed = np.where(np.isnan(x), [domain.inside for domain in column_domains(described)], x)
    try:
        logarithms = _logarithms(circuit, x)
        units, completed = run.states(x)
        for number, record in enumerate(records):
            if not np.isfinite(logarithms[number]):
                record["note"] = _IMPOSSIBLE if logarithms[number] < 0 else _UNKNOWN
                continue
            record["units"] = [-1 if layer is None else int(layer[number]) for layer in units]
            record["completed"] = data_entries(completed[number])
    except PlicaError as error:
        why = str(error)
    if texts is not None:
        for record, cells in zip(records, texts(completed), strict=True):
            record["cells"] = cells
    return records, why


def _check(circuit: TorchCircuit, x: Array) -> None:
    """Raise as the circuit does of rows; and where it is divided among processes, so that its tensors are not here."""
    from plica.backend.torch.array_calls import call_with_array

    if circuit.leaves.is_sharded:
        raise UnsupportedError("explore: the circuit is divided among processes; save it, and show rows in the file")
    call_with_array(circuit, circuit, x)


def _logarithms(circuit: TorchCircuit, x: Array) -> Array:
    """The logarithms `(B,)` of the most probable explanations; raises where the query refuses the circuit or a row."""
    from plica.backend.torch.array_calls import call_with_array

    return call_with_array(circuit, lambda rows: mpe(circuit, rows)[1], x)


@dataclass(frozen=True, slots=True)
class _Run:
    """Runs Programs of a circuit as described.

    Args:
        folded: The circuit.
        tensors: The value of each parameter tensor.
    """

    folded: FoldedCircuit
    tensors: Mapping[Any, Array]

    def values(self, semiring: Semiring, x: Array) -> list[Array | None]:
        """For each layer its value as the circuit returns it, `(B, K)`; None for layers that no output depends on."""
        scope = LoweringScope(self.folded, semiring, DType.FLOAT64)
        with scope.trace.active():
            _, data = _data(scope)
            results = [semiring.result(xp, value) for value in layer_values(scope, data)]
        return self._by_layer(self._run(scope, results, x), len(x))

    def states(self, x: Array) -> tuple[list[Array | None], Array]:
        """For each layer the unit that it was reached at, `(B,)`, -1 where it was not; and the completed rows."""
        scope = LoweringScope(self.folded, MPE.policy.semiring, DType.FLOAT64)
        with scope.trace.active():
            x_traced, data = _data(scope)
            up = layer_values(scope, data)
            filled = FilledRows(scope, x_traced.dims[0], DType.FLOAT64)
            policy = _Recorded(Choices(scope, MPE.policy.chooser, up, data, True, None, filled))
            walk_down(scope, policy)
            results = [*reversed(policy.units), filled.rows()]
        *units, rows = self._run(scope, results, x)
        completed = np.where(np.isnan(x), rows, x)
        return self._by_layer(units, len(x)), completed

    def _run(self, scope: LoweringScope, results: Sequence[Tracer], x: Array) -> tuple[Array, ...]:
        program = scope.build(results)
        leaves = [self._array(entry) for entry in scope.captured]
        return interpret_program(program, OPS, [x], leaves)

    def _array(self, entry: Any) -> Array:
        if isinstance(entry, Leaf):
            return np.stack([self.tensors[member] for member in entry.members])
        return np.asarray(entry.value)

    def _by_layer(self, of_groups: Sequence[Array], rows: int) -> list[Array | None]:
        """Arrays `(F, B, ...)` of groups by the layers of the circuit, in its order."""
        of_layer: dict[Any, Array] = {}
        for group, array in zip(self.folded.groups, of_groups, strict=True):
            for fold, layer in enumerate(group.members):
                of_layer[layer] = np.broadcast_to(array[fold], (rows, *array.shape[2:]))
        return [of_layer.get(layer) for layer in self.folded.described.layers]


def _data(scope: LoweringScope) -> tuple[Tracer, InputData]:
    x = scope.argument("x", ("b", input_width(scope.folded.described)), DType.FLOAT64)
    return x, InputData(scope, x)


@dataclass(slots=True)
class _Recorded:
    """A policy that keeps the message to each group that it visits.

    Args:
        choices: The policy.

    Attributes:
        units: The messages `(F, B)`, in the order of the visits: from the last group to the first.
    """

    choices: Choices
    units: list[Tracer] = field(default_factory=list)

    def start(self) -> Tracer:
        return self.choices.start()

    def nothing(self, group: FoldedLayer) -> Tracer:
        return self.choices.nothing(group)

    def merge(self, first: Tracer, second: Tracer) -> Tracer:
        return self.choices.merge(first, second)

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        self.units.append(message.content)
        return self.choices.visit(group, message)
