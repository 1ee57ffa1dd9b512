"""One layer, one parameter and one initializer in torch, each compiled without a circuit around it.

>>> from plica.backend.torch.compiler import TorchCompiler
>>> from plica.symbolic.layers import SumLayer
>>> layer = TorchCompiler("sum-product").compile_layer(SumLayer(3, 2))
>>> layer(torch.ones(1, 5, 3)).shape
torch.Size([1, 5, 2])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.constants import CircuitConstants
from plica.backend.torch.leaves import fill
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.program_module import ProgramModule
from plica.backend.torch.weights import WeightCheck
from plica.errors import DTypeError, ShapeError
from plica.ir.dtypes import as_dtype
from plica.lower.arrays import InitializerRows
from plica.lower.data import input_width
from plica.lower.parts import LayerPart, ParameterPart
from plica.lower.queries.score import Lowered
from plica.symbolic.initializers import Initializer
from plica.symbolic.parameters import TensorParameter

Key = tuple[torch.dtype, torch.dtype]  # inputs, parameters


class TorchPart(ProgramModule):
    """A part with its tensors, which it shares with the circuits of its compiler.

    Args:
        part: The layer or the parameter.
        dtype: The dtype of its real tensors.
        drawing: The registry entries of the context for initializers.
        constants: The cache of what eval mode computes once from the tensors.
    """

    def __init__(
        self,
        part: LayerPart | ParameterPart,
        dtype: torch.dtype,
        drawing: InitializerRows,
        constants: CircuitConstants,
    ) -> None:
        super().__init__(dtype, drawing, constants)
        self._part = part

    @property
    def _keys(self) -> Mapping[TensorParameter, str]:
        """The name of each symbolic tensor in a state dict."""
        return self._part.keys

    @property
    def _usual_key(self) -> Key:
        return self.dtype, self.dtype

    def _lower(self, key: Key) -> Lowered:
        return self._part.lower(as_dtype(key[1]), as_dtype(key[0]))

    def run(self, inputs: torch.dtype, *x: Tensor) -> Any:
        """The results for inputs of one dtype."""
        watch = None if any(map(is_abstract, x)) else self.constants.watching(self.leaves, training=self.training)
        return self._call((inputs, self.dtype), watch, x)


@final
class TorchParameter(TorchPart):
    """A compiled parameter; made by `TorchCompiler.compile_parameter`."""

    def forward(self) -> Tensor | tuple[Tensor, ...]:
        """The value, `(1, *shape)` with a fold axis ahead; a tuple of them where the parameter has several outputs."""
        value: Tensor | tuple[Tensor, ...] = self.run(self.dtype)
        return value


@final
class TorchLayer(TorchPart):
    """A compiled layer that reads others; made by `TorchCompiler.compile_layer`."""

    _part: LayerPart

    def __init__(
        self, part: LayerPart, dtype: torch.dtype, drawing: InitializerRows, constants: CircuitConstants
    ) -> None:
        super().__init__(part, dtype, drawing, constants)
        self._weights: WeightCheck | None = None

    def forward(self, *x: Tensor) -> Tensor:
        """The units of the layer.

        Args:
            x: The units of each input, `(1, B, I)` with a fold axis ahead. Where the layer has parameters, floats of
                fewer bits are taken as theirs.

        Shapes: (1, B, O).
        Values: In the semiring, as those of `x`.

        Raises:
            ShapeError: Another number of inputs than the layer's arity, or another shape.
            DTypeError: The inputs are no tensors of one dtype, or floats of more bits than the parameters.
            UnsupportedError: A learned weight has become negative, and the semiring carries no such numbers.
        """
        x = self._converted(x)
        if self._weights is None:
            weights = self._lower(self._usual_key).weights
            self._weights = WeightCheck(self._part.folded, self._part.semiring, weights)
        if x[0].device.type == "cpu":  # looking at weights waits for other devices
            self._weights.check(self.leaves)
        units: Tensor = self.run(x[0].dtype, *x)
        return units

    def _converted(self, x: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The inputs in the dtype of the parameters, checked."""
        layer = self._part.layer
        if not all(isinstance(tensor, Tensor) for tensor in x):
            kinds = ", ".join(type(tensor).__name__ for tensor in x)
            raise DTypeError(f"{layer!r}: inputs must be torch tensors, found {kinds}; use torch.as_tensor.")
        shapes = [tuple(tensor.shape) for tensor in x]
        rows = shapes[0][1] if shapes and len(shapes[0]) == 3 else "B"
        expected = [(1, rows, width) for width in layer.input_widths]
        if shapes != expected:
            listed = " and ".join(map(str, dict.fromkeys(expected)))
            raise ShapeError(
                f"{layer!r}: expected {layer.arity} input(s) of shape {listed}, found {shapes}; give one tensor for "
                "each input, with the fold axis of size 1 ahead"
            )
        if any(tensor.dtype != x[0].dtype or not (tensor.is_floating_point() or tensor.is_complex()) for tensor in x):
            raise DTypeError(
                f"{layer!r}: inputs must be floats of one dtype, found {', '.join(str(tensor.dtype) for tensor in x)}."
            )
        if not layer.all_params or not x[0].is_floating_point() or x[0].dtype == self.dtype:
            return x
        if torch.promote_types(x[0].dtype, self.dtype) != self.dtype:
            raise DTypeError(
                f"{layer!r}: the parameters are {self.dtype}, and the inputs {x[0].dtype}; convert the layer with "
                f".to({x[0].dtype}), or the inputs with .to({self.dtype})."
            )
        return tuple(tensor.to(self.dtype) for tensor in x)


@final
class TorchInputLayer(nn.Module):
    """A compiled layer without inputs; made by `TorchCompiler.compile_layer`.

    Args:
        circuit: The circuit of the layer alone.
    """

    def __init__(self, circuit: TorchCircuit) -> None:
        super().__init__()
        self.circuit = circuit

    def forward(self, x: Tensor | None = None) -> Tensor:
        """The units of the layer, `(1, B, K)` with a fold axis ahead, in the semiring; B is 1 without variables.

        Args:
            x: `(B, D)` as for a circuit: column v is variable v, NaN is missing. Columns after the layer's variables
                are those of other layers. Nothing for a layer without variables.
        """
        width = input_width(self.circuit.symbolic)
        units: Tensor = self.circuit(x[:, :width] if isinstance(x, Tensor) and x.ndim == 2 else x)
        return units.permute(1, 0, 2) if width else units[None]


@final
@dataclass(frozen=True, slots=True)
class TorchInitializer:
    """A compiled initializer; made by `TorchCompiler.compile_initializer`.

    Args:
        initializer: The initializer.
        drawing: The rows of the context.
    """

    initializer: Initializer
    drawing: InitializerRows

    def __call__(self, tensor: Tensor, seed: int | None = None) -> Tensor:
        """Fill a tensor in place, and return it.

        Args:
            tensor: The tensor to fill; gradients do not see it.
            seed: Draws depend on it alone; by default it is drawn from torch's global generator.

        Raises:
            ShapeError: The initializer does not fill such a shape.
            DTypeError: `tensor` is no tensor, or of a dtype that cannot hold the draws.
            InputError: `tensor` cannot be written to in place.
        """
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"an initializer fills a torch tensor, found {type(tensor).__name__}; use torch.empty.")
        shape = tuple(tensor.shape)
        if not self.initializer.allows_shape(shape):
            raise ShapeError(
                f"{type(self.initializer).__name__} with {self.initializer.config} cannot fill shape {shape}; change "
                "the shape, or the value, axis or number of concentrations of the initializer"
            )
        number = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
        return fill(tensor, self.initializer, np.random.default_rng(number), self.drawing)
