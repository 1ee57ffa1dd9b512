"""The needs of a query, which circuits must meet: refusals and the table of the documentation follow from them.

>>> from plica.symbolic.layers import LAYER_ROWS, CPTLayer
>>> sampling = Needs("sample", "sampling", inputs=("marginal", "sample"), sums=("choose",), products=("route",))
>>> print(sampling.lacking(LAYER_ROWS[CPTLayer]).why.split(";")[0])
a query goes through sums and products, and this layer is both at once
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from plica.errors import ShapeError, UnsupportedError
from plica.ir.op import Unsupported
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import InputLayer, InputRow, Layer, LayerRow, SumRow
from plica.symbolic.semirings import COMPLEX_LSE_SUM, LSE_SUM, Semiring

RowOf = Callable[[Layer], LayerRow]


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a query of a circuit, which must be smooth and decomposable.

    Args:
        function: The function of `plica.queries`, or the class, by which users ask it.
        name: Its name in messages.
        inputs: The columns that it takes from the registry entries of input layers.
        sums: The columns that it takes from those of sum layers.
        products: The columns that it takes from those of products, and of layers that are both at once.
        one_unit: Whether the circuit must have one output of one unit.
        spared: Whether an input layer needs none of the columns; None if all need them.
        instead: A column of input layers that serves in place of `inputs`; empty for none.
        semiring: The semiring that it computes in; None for the circuit's own.
        signed: Whether it computes in log space of negative and complex numbers where the circuit's own semiring
            carries these.
    """

    function: str
    name: str
    inputs: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    one_unit: bool = True
    spared: Callable[[InputLayer], bool] | None = None
    semiring: Semiring | None = LSE_SUM
    signed: bool = False
    instead: str = ""

    def carrier(self, default: Semiring) -> Semiring:
        """The semiring that it computes in on a circuit compiled in `default`."""
        if self.semiring is None or (self.signed and default.negative and default.logarithmic):
            return default
        return COMPLEX_LSE_SUM if self.signed and default.negative else self.semiring

    def lacking(self, row: LayerRow, layer: Layer | None = None) -> Unsupported | None:
        """The column that a layer of this row lacks; None where it has all."""
        columns = self.inputs if isinstance(row, InputRow) else self.sums if isinstance(row, SumRow) else self.products
        if self.spared is not None and isinstance(layer, InputLayer) and self.spared(layer):
            return None
        if self.instead and getattr(row, self.instead, None) is not None:
            return None
        return next(
            (column for column in (getattr(row, name) for name in columns) if isinstance(column, Unsupported)), None
        )

    def check(self, circuit: Circuit, row_of: RowOf) -> None:
        """Refuse a circuit that does not meet the needs.

        Raises:
            UnsupportedError: A layer does not define what the query needs.
            StructuralPropertyError: The circuit is not smooth and decomposable.
            ShapeError: More than one output or unit, where the query needs one.
        """
        self.check_layers(circuit, row_of, circuit.live.layers)
        circuit.check_smooth_and_decomposable(self.name)
        (output, *others) = circuit.outputs
        if self.one_unit and (others or output.num_output_units != 1):
            raise ShapeError(
                f"{self.name} needs one output of one unit, found {len(circuit.outputs)} of "
                f"{output.num_output_units}; choose one with circuit.subgraph(...) and a SumLayer of one unit."
            )

    def check_layers(self, circuit: Circuit, row_of: RowOf, layers: Iterable[Layer]) -> None:
        """Refuse layers that do not define what the query needs."""
        for layer in layers:
            missing = self.lacking(row_of(layer), layer)
            if missing is not None:
                raise UnsupportedError(f"{self.name} does not support {circuit.layer_name(layer)}: {missing.why}.")
