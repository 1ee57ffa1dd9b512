"""The arrays of a native file that users may replace: tensors of a circuit, arguments and captures of a Program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plica.backend.native.circuits.updatable import NonNegative, UpdatableConstant
from plica.backend.native.circuits.with_constants import Array, with_constants
from plica.errors import DTypeError, InputError, ShapeError
from plica.ir.dtypes import DType
from plica.ir.interpret import interpret_program
from plica.ir.program import Bound, Program, Var
from plica.lower.arrays import CircuitArrays
from plica.lower.checks import lower_least, refuse_weight
from plica.lower.compiled import CompiledCircuit
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, leaf_keys, owners_of
from plica.lower.queries.score import lower_score
from plica.ops import OPS
from plica.runtime.decode import word
from plica.symbolic.layers import Layer
from plica.symbolic.semirings import Semiring
from plica.tracing import namespace as xp
from plica.tracing.scope import Reference

Weights = tuple[tuple[FoldedLayer, str], ...]
"""Weights, each by its folded group and its name there."""
Updatable = bool | str | Sequence[str] | Mapping[str, Any]
"""The arrays that may be replaced: all, none, names, or names with arrays."""


def array_of(leaf: Any) -> Array:
    """An array of any library as numpy's; a reference, for example to a circuit's weights, is read now."""
    if isinstance(leaf, Reference):
        leaf = leaf.read()
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
    return np.asarray(leaf)


def updatable_leaves(
    folded: FoldedCircuit, leaves: Sequence[tuple[Leaf, Array]], updatable: Updatable
) -> list[tuple[Leaf, Array | UpdatableConstant]]:
    """The tensors of a circuit; updatable ones are `UpdatableConstant`s, with parts named as in its state dict.

    Raises:
        InputError: The circuit has no tensor with a name in `updatable`.
        NativeFileError: A name has characters that names in files cannot have.
    """
    keys = leaf_keys(folded.described)
    known = [keys[member] for leaf, _ in leaves for member in leaf.members if member in keys]
    if isinstance(updatable, Mapping):
        raise InputError(
            "updatable: a circuit has its tensors already, found a mapping; give their names, or True for all of them."
        )
    wanted = dict.fromkeys(known if updatable is True else _names(updatable))
    for name in wanted:
        if name not in known:
            raise InputError(f"updatable: the circuit has no tensor {name!r}; it has {', '.join(known) or 'none'}.")
    arrays: list[tuple[Leaf, Array | UpdatableConstant]] = []
    for leaf, array in leaves:
        keys_of_members = [keys.get(member, "") for member in leaf.members]
        parts = tuple(word(name, "updatable") if name in wanted else "" for name in keys_of_members)
        arrays.append((leaf, UpdatableConstant(array, parts=parts) if any(parts) else array))
    return arrays


def check_weights(circuit: CircuitArrays) -> None:
    """Refuse weights that training has made negative, if the semiring carries no negative numbers.

    Raises:
        UnsupportedError: A weight is negative; the message names its layer.
    """
    compiled = circuit.compiled
    weights, program, leaves = _least_weights(compiled, compiled.semiring, circuit.dtype, circuit.leaves)
    if program is None:
        return
    (least,) = interpret_program(program, OPS, [], leaves)
    for (layer, name), value in zip(_layers_of(weights), least, strict=True):
        if value < 0:
            refuse_weight(compiled.folded.circuit, layer, name, compiled.semiring, float(value))


def non_negative_checks(
    compiled: CompiledCircuit,
    semiring: Semiring,
    dtype: DType,
    leaves: Sequence[tuple[Leaf, Array | UpdatableConstant]],
) -> Iterator[NonNegative]:
    """Checks of the weights that an update could make negative, if the semiring carries no negative numbers."""
    weights, program, arrays = _least_weights(compiled, semiring, dtype, leaves)
    if program is None:
        return
    block = with_constants(program, arrays)
    (least,) = block.program.results
    if isinstance(least, Var) and least in block.updatable:
        layers = compiled.folded.circuit.layers
        names = tuple(f"{name}_of_layer_{layers.index(layer)}" for layer, name in _layers_of(weights))
        yield NonNegative(block.updatable[least].mapped(lambda values: xp.astype(values, DType.FLOAT64)), names)


def _least_weights(
    compiled: CompiledCircuit, semiring: Semiring, dtype: DType, leaves: Sequence[tuple[Leaf, Any]]
) -> tuple[Weights, Program | None, list[Any]]:
    """The weights that may become negative, the Program of their least entries (None without any), and its arrays."""
    arrays = dict(leaves)
    owners = owners_of(arrays)
    weights = lower_score(compiled.folded, semiring, dtype, dtype, owners).weights
    if not weights:
        return (), None, []
    program, captured = lower_least(compiled.folded, semiring, dtype, weights, owners)
    return weights, program, [leaf.value if isinstance(leaf, Constant) else arrays[leaf] for leaf in captured]


def _layers_of(weights: Weights) -> Iterator[tuple[Layer, str]]:
    return ((layer, name) for group, name in weights for layer in group.members)


def updatable_program(bound: Bound, updatable: Updatable) -> tuple[Program, list[Array | UpdatableConstant]]:
    """A Program whose updatable arguments became consts, and the arrays of all its consts.

    Raises:
        InputError: There is no such argument or captured array, or its sizes are not known.
        ShapeError: An array does not fit its argument.
        DTypeError: An array has another dtype than its argument.
        NativeFileError: A name has characters that names in files cannot have.
    """
    program = bound.program
    arrays: list[Array | UpdatableConstant] = [array_of(leaf) for leaf in bound.leaves]
    consts = {var.name: index for index, var in enumerate(program.consts)}
    arguments = {var.name: var for var in program.arguments}
    first_values = updatable if isinstance(updatable, Mapping) else {}
    new_consts: list[Var] = []
    for name in consts if updatable is True else first_values or _names(updatable):
        if name in first_values and name in arguments:
            arrays.append(UpdatableConstant(_checked(arguments[name], first_values[name]), word(name, "updatable")))
            new_consts.append(arguments[name])
            continue
        matching = [
            index for index, leaf in enumerate(bound.leaves) if name in first_values and leaf is first_values[name]
        ]
        index = matching[0] if matching else consts.get(name)
        if index is None or (name in first_values and not matching):
            hint = (
                "give its first value, as updatable={name: array}"
                if name in arguments
                else f"its arguments are {', '.join(arguments) or 'none'}, and it captures {len(consts)} array(s)"
            )
            raise InputError(f"updatable: {name!r} is no array that the Program captures; {hint}.")
        if isinstance(arrays[index], UpdatableConstant):
            raise InputError(f"updatable: the array {name!r} has another name already; give each array one name.")
        arrays[index] = UpdatableConstant(array_of(bound.leaves[index]), word(name, "updatable"))
    _check_parts(arrays)
    inputs = tuple(var for var in program.inputs if var not in new_consts)
    return replace(program, consts=(*program.consts, *new_consts), inputs=inputs), arrays


def _check_parts(arrays: Sequence[Array | UpdatableConstant]) -> None:
    """Refuse captured views of updatable arrays: numpy made them before tracing, so updates would not reach them."""
    for constant in (array for array in arrays if isinstance(array, UpdatableConstant)):
        for array in arrays:
            if not isinstance(array, UpdatableConstant) and np.shares_memory(array, constant.array):
                raise InputError(
                    f"updatable: the Program captures a part of {constant.name}, which no update would change; compute "
                    "it with plica.numpy, or make the array an argument of the function."
                )


def _names(updatable: Any) -> Sequence[str]:
    if isinstance(updatable, str):
        return (updatable,)
    return tuple(updatable or ())


def _checked(var: Var, value: Any) -> Array:
    array = array_of(value)
    if not all(isinstance(dim, int) for dim in var.type.shape):
        raise InputError(f"updatable: {var!r} has sizes that are not known; trace the function with numbers for them.")
    if array.shape != var.type.shape:
        raise ShapeError(f"updatable: {var.name} has shape {array.shape}, but the program expects {var!r}.")
    if array.dtype != var.type.dtype.numpy:
        raise DTypeError(f"updatable: {var.name} is {array.dtype}, but the program expects {var!r}; use astype.")
    return array
