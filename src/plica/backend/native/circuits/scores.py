"""Programs of a circuit's log-likelihood in eval mode: up to three, each the fallback of the one before.

    bounded     the bound holds for these weights and any row: the file needs no other
    scaled      a bound for each row; rows whose bound fails go to the exact Program
    exact       in log space, or in the number format of the circuit's semiring

The stages are those of `lower/cascade.py`, for any number of rows. The torch backend uses log space for few rows, since
calls cost more there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from plica.backend.native.circuits.layers import join_layers
from plica.backend.native.circuits.trees import join_trees
from plica.backend.native.circuits.updatable import UpdatableConstant
from plica.backend.native.circuits.with_constants import Array, ProgramWithConstants, with_constants
from plica.backend.native.entry_programs import EntryProgram
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Program, Var, size_variables
from plica.lower.cascade import cascade
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Constant, Leaf, opaque_keys, owners_of
from plica.lower.queries.score import lower_score
from plica.runtime.manifest import Fallback
from plica.symbolic.semirings import Bound, Semiring

_CHUNK_BYTES = 2**22  # bytes of the widest activation of a chunk of rows: a larger one leaves the cache
_MIN_ROWS, _MAX_ROWS = 64, 512  # rows of a chunk
_ALONE = 3 * 2**23  # multiplications that one thread finishes before other threads would have started
_ENTRY = 16  # multiplications of layers that take as long as an entry of another operation
_RESULT, _BOUND = "log_likelihood", "proven"


def require_no_opaque_modules(folded: FoldedCircuit, name: str) -> None:
    """Refuse circuits with layers that run objects of another library, which no file can hold.

    Raises:
        UnsupportedError: A layer runs an opaque module, for example a `torch.nn.Module`.
    """
    opaque = opaque_keys(folded.described)
    if opaque:
        key, module = next(iter(opaque.items()))
        raise UnsupportedError(
            f"{name}: {key} calls a {type(module).__name__}, which is code of another library and cannot be compiled; "
            "write it as a custom layer with plica.numpy, or use the torch backend."
        )


def score_entry_programs(
    folded: FoldedCircuit,
    semiring: Semiring,
    dtype: DType,
    input_dtype: DType,
    leaves: Sequence[tuple[Leaf, Array | UpdatableConstant]],
    name: str,
    text: str,
) -> Iterator[EntryProgram]:
    """The functions of a file for a score: the public one first, then its fallback.

    Args:
        folded: The folded circuit.
        semiring: Its number format.
        dtype: The dtype of its real numbers.
        input_dtype: The dtype of the data; in floats NaN means missing.
        leaves: The array of each leaf; users may replace updatable ones.
        name: The name of the entry point.
        text: One sentence about it.
    """
    arrays = dict(leaves)
    owners = owners_of(arrays)
    folded = folded.for_rows(complete=input_dtype.kind != "float")

    def lowered(number_format: Semiring) -> ProgramWithConstants:
        scores = lower_score(folded, number_format, dtype, input_dtype, owners)
        return with_constants(
            scores.program,
            [source.value if isinstance(source, Constant) else arrays[source] for source in scores.captured],
        )

    chunk = rows_per_chunk(folded, dtype)
    rows = _rows_axis(folded)
    stages = cascade(semiring) if rows else cascade(semiring)[-1:]  # no rows: one number is not worth a bound

    def entry_program(entry: str, body: ProgramWithConstants, *results: str) -> EntryProgram:
        return EntryProgram(entry, join_layers(body), results, rows, chunk, text=text)

    exact = name if len(stages) == 1 else f"{name}_exact"
    for stage in stages:
        body = lowered(stage.semiring)
        if stage.bound is Bound.OF_WEIGHTS:
            bounded = _without_bound(body)
            if bounded is not None:
                yield entry_program(name, bounded, _RESULT)
                return
        elif stage.bound is Bound.OF_ROWS:
            yield replace(entry_program(name, body, _RESULT, _BOUND), fallback=Fallback(exact, _BOUND))
        else:
            exact_program = entry_program(exact, body, _RESULT)
            yield exact_program if exact == name else exact_program.as_fallback(exact)


def _without_bound(body: ProgramWithConstants) -> ProgramWithConstants | None:
    """The Program without its second result, if that is a constant which says that the bound holds; else None."""
    result, bound = body.program.results
    holds = body.constants.get(bound) if isinstance(bound, Var) else None
    if holds is None or holds.shape != (1,) or not holds.all():
        return None
    return body.rewritten(replace(body.program, outputs=(*body.program.outputs[:-2], result)), {})


def _rows_axis(folded: FoldedCircuit) -> str:
    return "b" if folded.described.scope else ""


def rows_per_chunk(folded: FoldedCircuit, dtype: DType) -> int:
    """How many rows of data one call of the code takes."""
    widest = max(group.num_folds * group.representative.num_output_units for group in folded.groups)
    rows = _CHUNK_BYTES // (widest * dtype.numpy.itemsize)
    return min(max(rows // _MIN_ROWS * _MIN_ROWS, _MIN_ROWS), _MAX_ROWS)


def with_joined_trees(entry_program: EntryProgram) -> EntryProgram:
    """An entry point with its trees joined into `tree_of_sums`, and how many rows the calling thread computes alone."""
    body = join_trees(entry_program.body)
    work = _num_multiplications(entry_program.body) + _ENTRY * _num_entries(body.program)
    joined = replace(entry_program, body=body, alone=_ALONE // max(work, 1))
    return joined if body is entry_program.body else replace(joined, chunk=_rows_per_joined_chunk(body.program))


def _rows_per_joined_chunk(program: Program) -> int:
    """How many rows a call takes once trees are joined; intermediate values are smaller then."""
    widest = max(
        prod(dim for dim in var.type.shape if isinstance(dim, int)) * var.type.dtype.numpy.itemsize
        for equation in program.equations
        for var in equation.outputs
    )
    return min(max(_CHUNK_BYTES // widest // _MIN_ROWS * _MIN_ROWS, _MIN_ROWS), _MAX_ROWS)


def _num_entries(program: Program) -> int:
    """How many entries operations give for one row."""
    outputs = (var for equation in program.equations for var in equation.outputs if size_variables(var.type))
    return sum(prod(dim for dim in var.type.shape if isinstance(dim, int)) for var in outputs)


def _num_multiplications(body: ProgramWithConstants) -> int:
    """About how many multiplications one row takes: the entries of the constants that each row is multiplied by."""
    constants = {*body.constants, *body.updatable}
    read = dict.fromkeys(
        operand
        for equation in body.program.equations
        for operand in (equation.inputs[:1] if equation.op.name == "sum_of_products" else equation.inputs)
        if operand in constants and equation.op.name not in ("take", "look_up")
    )
    return sum(
        prod(dim for dim in operand.type.shape if isinstance(dim, int))
        for operand in read
        if operand.type.dtype.kind == "float"
    )
