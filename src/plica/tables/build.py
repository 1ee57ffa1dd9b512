"""Builds the circuit of a recipe for a data set, and compiles it.

>>> TABLE_REGION_GRAPHS["linear-tree"](3, 0).num_variables
3
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.errors import InputError
from plica.files.columns import check_domain
from plica.files.datasets import Dataset
from plica.files.encoding import Encoding
from plica.files.kinds import KINDS
from plica.files.tables import Array
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import DISTRIBUTIONS, Column, InputLayer
from plica.symbolic.parameters import mixing_weight_factory, softmax_normal
from plica.symbolic.scope import Scope
from plica.tables.recipe import HIDDEN_TREE, NORMAL_MIXTURES, SMOOTH_CATEGORICAL, Recipe, vector_columns
from plica.tables.scales import on_log_scale
from plica.templates import hclt
from plica.templates.averages import average
from plica.templates.data_modalities import IMAGE_REGION_GRAPHS
from plica.templates.normal_mixtures import normal_mixtures
from plica.templates.parameterization import InputFactory
from plica.templates.region_graph import LinearTree, RandomBinaryTree, RegionGraph
from plica.templates.smooth_states import smooth_categorical
from plica.templates.softened import soften

if TYPE_CHECKING:
    import torch

    from plica.backend.torch.circuits import TorchCircuit

# name: makes the graph from the number of columns and a seed
TABLE_REGION_GRAPHS: dict[str, Callable[[int, int], RegionGraph]] = {
    "random-binary-tree": lambda width, seed: RandomBinaryTree(width, seed=seed),
    "linear-tree": lambda width, seed: LinearTree(width, seed=seed),
}
# name: settings of input layers whose default start may be negative; with these they start as probabilities
NORMALIZED: dict[str, dict[str, Any]] = {"embedding": {"weight_factory": softmax_normal}}
REGION_GRAPHS = tuple(dict.fromkeys((*IMAGE_REGION_GRAPHS, *TABLE_REGION_GRAPHS, HIDDEN_TREE, NORMAL_MIXTURES)))


def build_circuit(recipe: Recipe, data: Dataset, *, seed: int, dtype: str, target: int | None = None) -> Circuit:
    """The untrained circuit of a recipe.

    Args:
        recipe: What to build.
        data: The data set; its training rows, or a sample of them, give structures and input layers their start.
        seed: The seed of random structures.
        dtype: The dtype of weights, `float32` or `float64`.
        target: The variable that the model is to predict; None for all alike.

    Raises:
        InputError: The region graph does not fit the kind of data, or its numbers do not fit the dtype.
        UnsupportedError: Inputs that are not categorical are to be softened.
    """
    return soften(_built(recipe, data, seed=seed, dtype=dtype, target=target), recipe.softening)


def _built(recipe: Recipe, data: Dataset, *, seed: int, dtype: str, target: int | None) -> Circuit:
    if recipe.structure == NORMAL_MIXTURES:
        return _normal_mixtures(recipe, data, seed=seed, dtype=dtype, target=target)
    factory = _input_factory(recipe, data, dtype)
    if recipe.structure == HIDDEN_TREE:
        members = [
            hclt(
                data.train,
                units,
                input_layers=factory,
                num_trees=recipe.trees,
                start=recipe.start,
                seed=seed + number * recipe.trees,  # as each tree has a seed of its own
            )
            for number, units in enumerate(recipe.members or (recipe.units,))
        ]
        return average(members) if recipe.members else members[0]
    return _region_graph(recipe.structure, data, seed).build_circuit(
        input_factory=factory,
        sum_product=recipe.layer,
        nary_sum_weight_factory=partial(mixing_weight_factory, param_factory=softmax_normal),
        num_input_units=recipe.units,
        num_sum_units=recipe.units,
    )


def rows_of(recipe: Recipe, data: Dataset) -> Any:
    """The rows that are learned from: an array, or a stream where they are not held."""
    if data.streamed is None:
        return held_rows_of(recipe, data)
    return data.streamed.train if recipe.holds_out else data.streamed.with_valid


def held_rows_of(recipe: Recipe, data: Dataset) -> Array:
    """The rows that are learned from, or a sample where they are not held."""
    return data.train if recipe.holds_out else np.concatenate([data.train, data.valid])


def _normal_mixtures(recipe: Recipe, data: Dataset, *, seed: int, dtype: str, target: int | None) -> Circuit:
    """Mixtures of vectors of the columns of numbers that have no input distribution of their own."""
    if data.encoding is None:
        raise InputError(f"{data.name}: {NORMAL_MIXTURES} takes a table of typed columns, found rows of one kind")
    columns, described = data.encoding.modelled, describe_columns(data, dtype)
    factory, rows = _typed_factory(data.encoding, described), held_rows_of(recipe, data).astype(np.float64)
    vectors = vector_columns(data.encoding)
    if not vectors:
        raise InputError(f"{data.name}: {NORMAL_MIXTURES} needs a column of numbers, found none; choose hidden-tree")
    return normal_mixtures(
        rows,
        vectors,
        members=recipe.members or (recipe.units,),
        input_layers=factory,
        steps=[float(columns[v].kind != "real") for v in vectors],
        logs=on_log_scale([columns[v] for v in vectors], rows[:, vectors]) if recipe.logs else None,
        target=target if target is not None and KINDS[columns[target].kind].closed else None,
        seed=seed,
    )


def _region_graph(name: str, data: Dataset, seed: int) -> RegionGraph:
    if data.shape is not None and name in IMAGE_REGION_GRAPHS:
        return IMAGE_REGION_GRAPHS[name](data.shape)
    if name in TABLE_REGION_GRAPHS:
        return TABLE_REGION_GRAPHS[name](data.num_variables, seed)
    if name not in IMAGE_REGION_GRAPHS:
        raise InputError(f"there is no structure {name!r}; there are {', '.join(REGION_GRAPHS)}")
    raise InputError(
        f"{data.name}: the region graph {name} takes images, found rows without an image shape; "
        f"choose one of {', '.join((*TABLE_REGION_GRAPHS, HIDDEN_TREE))}, or give the shape with --image-shape"
    )


def describe_columns(data: Dataset, dtype: str) -> list[Column]:
    """Mean and spread of each column of the training rows.

    Args:
        data: The data set.
        dtype: The dtype of weights, in which densities read the data.

    Raises:
        InputError: `dtype` cannot hold the values of a column, or cannot tell them apart.
    """
    names = [f"{position} (counted from 0)" for position in range(data.num_variables)]
    if data.encoding is not None:
        names = [repr(column.name) for column in data.encoding.modelled]
    return [
        _describe(f"{data.name}: the values of column {name}", _present(data.train[:, variable]), dtype)
        for variable, name in enumerate(names)
    ]


def _present(values: Array) -> Array:
    """The values that are not missing, or a single 0 if all are."""
    present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return present if len(present) else np.zeros(1)


def _describe(where: str, values: Array, dtype: str) -> Column:
    column = Column.of(values)
    column.check(where, dtype, "rescale them" if dtype == "float64" else "rescale them or train with --dtype float64")
    return column


def _input_factory(recipe: Recipe, data: Dataset, dtype: str) -> InputFactory:
    """A function that makes input layers of the chosen distribution, fitted to each column if it can be fitted."""
    if data.encoding is not None:
        return _typed_factory(data.encoding, describe_columns(data, dtype))
    if recipe.input == SMOOTH_CATEGORICAL:
        return smooth_categorical(data.train, _num_values(data))
    distribution = DISTRIBUTIONS[recipe.input]
    keywords = {**distribution.settings_for(data.num_values), **NORMALIZED.get(recipe.input, {})}
    fitted = distribution.fitted
    if fitted is None:
        return partial(distribution.layer, **keywords)
    columns = describe_columns(data, dtype)

    def factory(scope: Scope, units: int) -> InputLayer:
        (variable,) = scope
        return distribution.layer(scope, units, **keywords, **fitted(columns[variable]))

    return factory


def _num_values(data: Dataset) -> int:
    if data.num_values is None:
        raise InputError(f"{data.name}: the input {SMOOTH_CATEGORICAL} counts values, found numbers; choose a density")
    return data.num_values


def _typed_factory(encoding: Encoding, columns: Sequence[Column]) -> InputFactory:
    """A function that makes input layers, for each column of its chosen distribution or of that of its kind."""

    def factory(scope: Scope, units: int) -> InputLayer:
        (variable,) = scope
        column = encoding.modelled[variable]
        name = column.input or KINDS[column.kind].input_layer
        distribution = DISTRIBUTIONS.get(name)
        if distribution is None:
            raise InputError(
                f"column {column.name!r}: there is no input distribution {name!r}; there are {', '.join(DISTRIBUTIONS)}"
            )
        if distribution.settings is not None and not column.categories:
            raise InputError(
                f"column {column.name!r}: the input distribution {name!r} is for categories, and a column of the kind "
                f"{column.kind!r} has none; choose another kind or distribution"
            )
        keywords = {**distribution.settings_for(len(column.categories) or None), **NORMALIZED.get(name, {})}
        if distribution.fitted is not None:
            keywords |= distribution.fitted(columns[variable])
        layer = distribution.layer(scope, units, **keywords)
        check_domain(column, layer.domain)
        return layer

    return factory


def compile_circuit(circuit: Circuit, options: Mapping[str, Any]) -> "TorchCircuit":
    """The circuit compiled with the options of a model file: `semiring` and `dtype`."""
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
