"""From the options of the command line to a circuit, and from a circuit to a compiled one.

>>> TABLE_REGION_GRAPHS["linear-tree"](3, 0).num_variables
3
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.cli.settings import Settings
from plica.errors import InputError
from plica.files.datasets import Dataset
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, InputLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    HadamardParameter,
    Parameter,
    Shape,
    SoftplusParameter,
    SumParameter,
    TensorParameter,
    mixing_weight_factory,
    softmax_normal,
)
from plica.symbolic.scope import Scope
from plica.templates.data_modalities import IMAGE_REGION_GRAPHS
from plica.templates.region_graph import LinearTree, RandomBinaryTree, RegionGraph

if TYPE_CHECKING:
    import torch

    from plica.backend.torch.circuits import TorchCircuit

InputFactory = Callable[[Scope, int], InputLayer]

# name: makes the graph from the number of columns and a seed
TABLE_REGION_GRAPHS: dict[str, Callable[[int, int], RegionGraph]] = {
    "random-binary-tree": lambda width, seed: RandomBinaryTree(width, seed=seed),
    "linear-tree": lambda width, seed: LinearTree(width, seed=seed),
}
REGION_GRAPHS = tuple(dict.fromkeys((*IMAGE_REGION_GRAPHS, *TABLE_REGION_GRAPHS)))

_LEAST_SPREAD = 0.01  # of a normal density, in units of the spread of the column: keeps likelihoods finite


def build_circuit(settings: Settings, data: Dataset) -> tuple[Circuit, str]:
    """The untrained circuit and the name of its region graph.

    Raises:
        InputError: The region graph does not fit the kind of data.
    """
    name = settings.region_graph or ("random-binary-tree" if data.shape is None else "quad-tree-2")
    circuit = _region_graph(name, data, settings.seed).build_circuit(
        input_factory=_gaussian(data) if data.num_values is None else _categorical(data.num_values),
        sum_product=settings.layer,
        nary_sum_weight_factory=partial(mixing_weight_factory, param_factory=softmax_normal),
        num_input_units=settings.units,
        num_sum_units=settings.units,
    )
    return circuit, name


def _region_graph(name: str, data: Dataset, seed: int) -> RegionGraph:
    if data.shape is not None and name in IMAGE_REGION_GRAPHS:
        return IMAGE_REGION_GRAPHS[name](data.shape)
    if name in TABLE_REGION_GRAPHS:
        return TABLE_REGION_GRAPHS[name](data.num_variables, seed)
    raise InputError(
        f"{data.name}: the region graph {name} is for images and these rows are not; "
        f"choose one of {', '.join(TABLE_REGION_GRAPHS)}, or say what images they are with --image-shape"
    )


def _categorical(num_values: int) -> InputFactory:
    return lambda scope, units: CategoricalLayer(scope, units, num_categories=num_values)


def _gaussian(data: Dataset) -> InputFactory:
    """Normal densities that start spread like their column, learned in units of its spread whatever its scale."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = data.train.mean(axis=0), data.train.std(axis=0)
    if not np.isfinite(spread).all():
        column = int(np.isfinite(spread).argmin())
        raise InputError(f"{data.name}: the values of column {column} (counted from 0) are too large; rescale them")
    spread = np.where(spread > 0, spread, 1.0)

    def factory(scope: Scope, units: int) -> InputLayer:
        (variable,) = scope
        shape = (units,)
        shift = ConstantParameter(*shape, value=float(mean[variable]))
        scale, floor = (ConstantParameter(*shape, value=float(spread[variable]) * c) for c in (1.0, _LEAST_SPREAD))
        scaled = Parameter.from_binary(HadamardParameter(shape, shape), scale, _normal(shape))
        wide = Parameter.from_binary(
            HadamardParameter(shape, shape), scale, Parameter.from_unary(SoftplusParameter(shape), _normal(shape))
        )
        return GaussianLayer(
            scope,
            units,
            mean=Parameter.from_binary(SumParameter(shape, shape), scaled, shift),
            stddev=Parameter.from_binary(SumParameter(shape, shape), wide, floor),
        )

    return factory


def _normal(shape: Shape) -> TensorParameter:
    return TensorParameter(*shape, initializer=NormalInitializer())


def compile_circuit(circuit: Circuit, options: Mapping[str, Any]) -> "TorchCircuit":
    """The circuit compiled with the options that a model file keeps: `semiring` and `dtype`."""
    import torch

    from plica.backend.torch.compiler import TorchCompiler

    dtype = {"float32": torch.float32, "float64": torch.float64}.get(options.get("dtype", "float32"))
    if dtype is None:
        raise InputError(f"the model was saved with dtype {options.get('dtype')!r}; expected float32 or float64")
    return TorchCompiler(semiring=options.get("semiring", "lse-sum"), dtype=dtype).compile(circuit)


def find_device(name: str) -> "torch.device":
    """The device of that name.

    Raises:
        InputError: There is no such device here.
    """
    import torch

    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # `meta` has no values
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"--device {name}: not available here ({reason}); try --device cpu") from error
    return device
