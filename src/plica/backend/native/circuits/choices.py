"""Queries that choose: completions that are drawn, and the most probable ones, each a Program of its own.

What a file cannot know of a row is drawn by the host: uniform numbers are further arguments. They compute in log space,
or in the largest of terms; what torch tries first in scaled numbers agrees to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from plica.backend.native.circuits.layers import join_layers
from plica.backend.native.circuits.scores import rows_of_piece
from plica.backend.native.circuits.updatable import NonNegative, UpdatableConstant
from plica.backend.native.circuits.with_constants import Array, with_constants
from plica.backend.native.questions import Question
from plica.errors import StructuralPropertyError
from plica.ir.dtypes import DType
from plica.ir.program import Var
from plica.ir.rewrite import rename
from plica.lower.fold.groups import FoldedCircuit, fold_circuit, single_groups
from plica.lower.leaves import Constant, Leaf, owners_of
from plica.lower.queries.choosing import lower_choices
from plica.lower.queries.query import Choosing, Query
from plica.tracing import namespace as xp

_ROWS = "n"  # the size of rows, as callers name it where no argument has it


def choice_question(
    query: Query[Choosing],
    folded: FoldedCircuit,
    dtype: DType,
    input_dtype: DType | None,
    leaves: Sequence[tuple[Leaf, Array | UpdatableConstant]],
    name: str,
    text: str,
) -> Question:
    """What answers a query that chooses: rows, and the logarithm of what the circuit gives for what is known of each.

    Args:
        query: The query.
        folded: The folded circuit.
        dtype: The dtype of its real numbers.
        input_dtype: That of the data, in which NaN is chosen; None where nothing is known of any row.
        leaves: Its tensors; those that are updatable may change.
        name: The name of the question.
        text: One sentence about it.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or a weight is negative.
    """
    arrays = dict(leaves)
    described = (fold_circuit if folded.folds else single_groups)(folded.described, rows=folded.rows)
    described = replace(described, rewriting=folded.rewriting)
    made = lower_choices(query, described, dtype, input_dtype=input_dtype, owners=owners_of(arrays), poisons=True)
    named = rename(made.program, lambda var: _ROWS if var.name == "b" and var.is_size else var.name)
    behind = [
        one.value if isinstance(one, Constant) else _in_dtype(arrays[one], var.type.dtype)
        for var, one in zip(named.consts, made.captured, strict=True)
    ]
    found = with_constants(named, behind)
    program = found.program
    invalid = program.results[3]
    updatable = found.updatable.get(invalid) if isinstance(invalid, Var) else None
    known = (
        updatable.array
        if updatable
        else found.constants[invalid]
        if isinstance(invalid, Var)
        else np.asarray(invalid.value)
    )
    if known.any():
        raise StructuralPropertyError(f"{name}: a weight is negative, so that the circuit describes no distribution.")
    sizes, arguments = program.inputs[: program.num_implicit_inputs], program.arguments
    outputs = program.outputs[: program.num_implicit_outputs]
    results = (program.results[0], program.results[2]) if input_dtype is not None else (program.results[0],)
    program = replace(program, inputs=(*sizes, *arguments[::-1]), outputs=(*outputs, *results))
    plain = found.rewritten(program, {})
    return Question(
        name,
        join_layers(plain),
        ("rows", "log_likelihood")[: len(results)],
        rows=_ROWS,
        chunk=rows_of_piece(folded, dtype),
        draws=1 if query.policy.chooser.draws else 0,
        are_places_known=True,
        text=text,
        floors=(_non_negative(updatable),) if updatable else (),
        plain=plain,
    )


def _in_dtype(array: Array | UpdatableConstant, dtype: DType) -> Array | UpdatableConstant:
    if not isinstance(array, UpdatableConstant):
        return array.astype(dtype.numpy)
    return array if array.array.dtype == dtype.numpy else array.through(lambda one: xp.astype(one, dtype))


def _non_negative(invalid: UpdatableConstant) -> NonNegative:
    """What is below 0 where weights describe no distribution: -inf, as none is known to be the wrong one."""
    return NonNegative(invalid.through(lambda one: xp.where(xp.reshape(one, (1,)), -np.inf, 0.0)), ("weights",))
