"""Native files of queries that choose values: sampled completions and the most probable ones.

The host draws uniform numbers, which are further arguments of the Program. The Programs compute in log space; for the
most probable rows the largest term replaces a sum. The torch backend may use scaled numbers; both agree to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from plica.backend.native.circuits.layers import join_layers
from plica.backend.native.circuits.scores import rows_per_chunk
from plica.backend.native.circuits.updatable import NonNegative, UpdatableConstant
from plica.backend.native.circuits.with_constants import Array, with_constants
from plica.backend.native.entry_programs import EntryProgram
from plica.errors import StructuralPropertyError
from plica.ir.dtypes import DType
from plica.ir.program import Var
from plica.ir.rewrite import rename
from plica.lower.fold.groups import FoldedCircuit, fold_circuit, single_groups
from plica.lower.leaves import Constant, Leaf, owners_of
from plica.lower.queries.choosing import lower_choices
from plica.lower.queries.query import Choosing, Query
from plica.tracing import namespace as xp

_ROWS = "n"  # the number of rows, as callers name it if no argument has that size


def choice_entry_program(
    query: Query[Choosing],
    folded: FoldedCircuit,
    dtype: DType,
    input_dtype: DType | None,
    leaves: Sequence[tuple[Leaf, Array | UpdatableConstant]],
    name: str,
    text: str,
) -> EntryProgram:
    """The function of a file for a query that chooses: it returns rows, and the log-likelihood of each row's evidence.

    Args:
        query: The query.
        folded: The folded circuit.
        dtype: The dtype of its real numbers.
        input_dtype: The dtype of the data, whose NaNs are chosen; None if there is no evidence.
        leaves: The array of each leaf; users may replace updatable ones.
        name: The name of the entry point.
        text: One sentence about it.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or a weight is negative.
    """
    arrays = dict(leaves)
    described = (fold_circuit if folded.folds else single_groups)(folded.described, rows=folded.rows)
    described = replace(described, rewriting=folded.rewriting)
    lowered = lower_choices(query, described, dtype, input_dtype=input_dtype, owners=owners_of(arrays), poisons=True)
    named = rename(lowered.program, lambda var: _ROWS if var.name == "b" and var.is_size else var.name)
    arrays_of_consts = [
        source.value if isinstance(source, Constant) else _in_dtype(arrays[source], var.type.dtype)
        for var, source in zip(named.consts, lowered.captured, strict=True)
    ]
    body = with_constants(named, arrays_of_consts)
    program = body.program
    invalid = program.results[3]
    updatable = body.updatable.get(invalid) if isinstance(invalid, Var) else None
    first_flags = (
        updatable.array
        if updatable
        else body.constants[invalid]
        if isinstance(invalid, Var)
        else np.asarray(invalid.value)
    )
    if first_flags.any():
        raise StructuralPropertyError(
            f"{name}: expected weights that are not negative, found a negative one; keep the weights positive "
            "(softmax, for example), or export scores alone: files do not sample squares."
        )
    sizes, arguments = program.inputs[: program.num_implicit_inputs], program.arguments
    outputs = program.outputs[: program.num_implicit_outputs]
    results = (program.results[0], program.results[2]) if input_dtype is not None else (program.results[0],)
    program = replace(program, inputs=(*sizes, *arguments[::-1]), outputs=(*outputs, *results))
    return EntryProgram(
        name,
        join_layers(body.rewritten(program, {})),
        ("rows", "log_likelihood")[: len(results)],
        rows=_ROWS,
        chunk=rows_per_chunk(folded, dtype),
        draws=1 if query.policy.chooser.draws else 0,
        text=text,
        non_negative=(_non_negative(updatable),) if updatable else (),
    )


def _in_dtype(array: Array | UpdatableConstant, dtype: DType) -> Array | UpdatableConstant:
    if not isinstance(array, UpdatableConstant):
        return array.astype(dtype.numpy)
    return array if array.array.dtype == dtype.numpy else array.mapped(lambda values: xp.astype(values, dtype))


def _non_negative(invalid: UpdatableConstant) -> NonNegative:
    """A number below 0 if weights describe no distribution: -inf, since it is not known which weight is wrong."""
    return NonNegative(invalid.mapped(lambda flags: xp.where(xp.reshape(flags, (1,)), -np.inf, 0.0)), ("weights",))
