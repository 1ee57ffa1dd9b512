"""Programs of one layer, or of one parameter, without a circuit around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

from plica.ir.dtypes import DType
from plica.lower.fold.groups import FoldedCircuit, single_groups
from plica.lower.fold.settings import LayerRows
from plica.lower.leaves import Owners, leaf_keys
from plica.lower.lowering import LoweringScope
from plica.lower.programs import Programs
from plica.lower.queries.bottom_up import inner_value
from plica.lower.queries.score import Lowered
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers import InnerLayer, InputLayer
from plica.symbolic.parameters import Parameter, TensorParameter
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import SUM_PRODUCT, Semiring
from plica.tracing import namespace as xp


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartInput(InputLayer):
    """A placeholder for the inputs of a layer, or for the layer of a parameter, that is compiled alone."""

    scope: Scope
    num_output_units: int
    given: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def domain(self) -> Domain:
        """All numbers."""
        return REALS

    @property
    def config(self) -> dict[str, Any]:
        """The settings besides parameters."""
        return {"scope": self.scope, "num_output_units": self.num_output_units}

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameter that is compiled alone."""
        return dict(self.given)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LayerPart:
    """An inner layer alone.

    Args:
        folded: The layer, above a `PartInput` for each of its inputs.
        semiring: The semiring, with its number format.
        programs: Its Programs, by the dtypes of parameters and inputs.
    """

    folded: FoldedCircuit
    semiring: Semiring
    programs: Programs = field(default_factory=Programs)

    @staticmethod
    def of(layer: InnerLayer, semiring: Semiring, rows: LayerRows) -> "LayerPart":
        """The part for a layer and the rows of a context."""
        inputs = [PartInput(Scope([index]), width) for index, width in enumerate(layer.input_widths)]
        return LayerPart(single_groups(Circuit([*inputs, layer], {layer: inputs}, [layer]), rows=rows), semiring)

    @property
    def layer(self) -> InnerLayer:
        """The layer."""
        (layer,) = self.folded.circuit.inner_layers
        return layer

    @property
    def keys(self) -> dict[TensorParameter, str]:
        """The names of the tensors in a state dict: `weight`."""
        return _own_keys(self.folded.circuit)

    def lower(self, dtype: DType, input_dtype: DType) -> Lowered:
        """The Program from H inputs `(1, B, I)`, in the semiring's number format, to `(1, B, O)`, made once."""
        return self.programs.once((dtype, input_dtype), partial(self._lower, dtype, input_dtype))

    def _lower(self, dtype: DType, input_dtype: DType, owners: Owners) -> Lowered:
        scope = LoweringScope(self.folded, self.semiring, dtype, owners)
        with scope.trace.active():
            widths = enumerate(self.layer.input_widths)
            given = [scope.argument(f"x{index}", (1, "b", width), input_dtype) for index, width in widths]
            inputs = [self.semiring.from_result(xp, argument) for argument in given]
            group = self.folded.groups[-1]
            with scope.builder.at(repr(self.layer)):
                result = self.semiring.result(xp, inner_value(scope, group, inputs))
        return Lowered.of(scope, [result])


@final
@dataclass(frozen=True, slots=True, eq=False)
class ParameterPart:
    """A parameter alone.

    Args:
        folded: A `PartInput` that has it.
        programs: Its Programs, by dtype.
    """

    folded: FoldedCircuit
    programs: Programs = field(default_factory=Programs)

    @staticmethod
    def of(parameter: Parameter) -> "ParameterPart":
        """The part for a parameter."""
        layer = PartInput(Scope([0]), 1, {"value": parameter})
        return ParameterPart(single_groups(Circuit([layer], {}, [layer])))

    @property
    def keys(self) -> dict[TensorParameter, str]:
        """The names of the tensors in a state dict: `value`, or `value.0`, `value.1` where there are several."""
        return _own_keys(self.folded.circuit)

    def lower(self, dtype: DType, input_dtype: DType) -> Lowered:  # noqa: ARG002 (it has no inputs)
        """The Program without inputs that returns each output as `(1, *shape)`, made once."""
        return self.programs.once(dtype, partial(self._lower, dtype))

    def _lower(self, dtype: DType, owners: Owners) -> Lowered:
        scope = LoweringScope(self.folded, SUM_PRODUCT, dtype, owners)
        (layer,) = self.folded.circuit.layers
        with scope.trace.active(), scope.builder.at("parameter"):
            results = scope.outputs(layer.params["value"])
        return Lowered.of(scope, results)


def _own_keys(circuit: Circuit) -> dict[TensorParameter, str]:
    """The keys of a circuit without the number of the layer, which is the only one with tensors."""
    keys = leaf_keys(circuit).items()
    return {tensor: key if tensor.name else key.partition(".")[2] for tensor, key in keys}
