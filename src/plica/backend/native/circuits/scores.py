"""The log-likelihood of a compiled circuit, as eval mode computes it: up to three Programs, one way out of another.

    bounded     weights prove all rows right: it stands alone
    scaled      a bound of each row decides; rows that are not proven ask the exact one
    exact       in log space, or in whatever numbers the circuit's semiring has

As the torch backend does (`backend/torch/circuits.py`), but for any number of rows: native code has no cost of calls
that would make log space the faster one for few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from plica.backend.native.circuits.layers import join_layers
from plica.backend.native.circuits.trees import join_trees
from plica.backend.native.circuits.updatable import UpdatableConstant
from plica.backend.native.circuits.with_constants import Array, ProgramWithConstants, with_constants
from plica.backend.native.questions import Question
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Program, Var
from plica.lower.cascade import Bound, cascade
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Constant, Leaf, opaque_keys, owners_of
from plica.lower.queries.score import lower_score
from plica.symbolic.semirings import Semiring

_WIDE = 2**22  # bytes of the widest activation of a piece: what is larger fits no cache
_FEWEST, _MOST = 64, 512  # rows of a piece
_ALONE = 3 * 2**22  # multiplications that one thread does faster than it has others help
_SHARED = 2**23  # multiplications of one row from which threads share it
_ROOTS = 8  # folds that threads share
_RESULT, _PROVEN = "log_likelihood", "proven"


def check_is_closed(folded: FoldedCircuit, name: str) -> None:
    """Refuse circuits that compute with what no file holds.

    Raises:
        UnsupportedError: A layer runs an object of the user's.
    """
    opaque = opaque_keys(folded.described)
    if opaque:
        key, module = next(iter(opaque.items()))
        raise UnsupportedError(
            f"{name}: {key} runs a {type(module).__name__}, which is code of another library; write it with "
            "plica.numpy, as a layer of its own, or use the torch backend."
        )


def score_questions(
    folded: FoldedCircuit,
    semiring: Semiring,
    dtype: DType,
    input_dtype: DType,
    leaves: Sequence[tuple[Leaf, Array | UpdatableConstant]],
    name: str,
    text: str,
) -> Iterator[Question]:
    """What answers a score: the public question first, then its ways out.

    Args:
        folded: The folded circuit.
        semiring: How its numbers are carried.
        dtype: The dtype of its real numbers.
        input_dtype: That of the data; in floats NaN means missing.
        leaves: Its tensors; those that are updatable may change.
        name: The name of the question.
        text: One sentence about it.
    """
    arrays = dict(leaves)
    owners = owners_of(arrays)

    def lowered(carrier: Semiring) -> ProgramWithConstants:
        made = lower_score(folded, carrier, dtype, input_dtype, owners)
        return with_constants(
            made.program, [one.value if isinstance(one, Constant) else arrays[one] for one in made.captured]
        )

    chunk = rows_of_piece(folded, dtype)
    rows = _rows(folded)

    def question(own: str, made: ProgramWithConstants, *results: str) -> Question:
        return Question(own, join_layers(made), results, rows, chunk, are_places_known=True, text=text, plain=made)

    stages = cascade(semiring)
    exact = name if len(stages) == 1 else f"{name}_exact"
    for stage in stages:
        made = lowered(stage.semiring)
        if stage.bound is Bound.OF_WEIGHTS:
            bounded = _proven(made)
            if bounded is not None:
                yield question(name, bounded, _RESULT)
                return
        elif stage.bound is Bound.OF_ROWS:
            yield replace(question(name, made, _RESULT, _PROVEN), proven=(_PROVEN, exact))
        else:
            answer = question(exact, made, _RESULT)
            yield answer if exact == name else answer.asked_when_not_proven(exact)


def _proven(made: ProgramWithConstants) -> ProgramWithConstants | None:
    """The Program without its second result, where weights prove all rows right; else None."""
    result, proven = made.program.results
    known = made.constants.get(proven) if isinstance(proven, Var) else None
    if known is None or known.shape != (1,) or not known.all():
        return None
    return made.rewritten(replace(made.program, outputs=(*made.program.outputs[:-2], result)), {})


def _rows(folded: FoldedCircuit) -> str:
    return "b" if folded.described.scope else ""


def rows_of_piece(folded: FoldedCircuit, dtype: DType) -> int:
    """How many rows are computed together."""
    widest = max(group.num_folds * group.representative.num_output_units for group in folded.groups)
    rows = _WIDE // (widest * dtype.numpy.itemsize)
    return min(max(rows // _FEWEST * _FEWEST, _FEWEST), _MOST)


def walked(question: Question) -> Question:
    """A question with its trees walked, and how many of its rows one thread answers.

    Where one row is work for several threads, the folds of the layers above stay theirs to share.
    """
    work = _num_operations(question.body)
    is_shared = work > _SHARED
    made = join_trees(question.body, _ROOTS if is_shared else 1)
    joined = replace(question, body=made, alone=0 if is_shared else _ALONE // max(work, 1))
    return joined if made is question.body else replace(joined, chunk=_rows_of(made.program))


def _rows_of(program: Program) -> int:
    """How many rows are computed together where trees are walked: what is between is small then."""
    widest = max(
        prod(dim for dim in var.type.shape if isinstance(dim, int)) * var.type.dtype.numpy.itemsize
        for equation in program.equations
        for var in equation.outputs
    )
    return min(max(_WIDE // widest // _FEWEST * _FEWEST, _FEWEST), _MOST)


def _num_operations(body: ProgramWithConstants) -> int:
    """About how many multiplications one row takes: entries of the constants that all rows are multiplied by."""
    known = {*body.constants, *body.updatable}
    read = dict.fromkeys(
        one
        for equation in body.program.equations
        for one in (equation.inputs[:1] if equation.op.name == "sum_of_products" else equation.inputs)
        if one in known and equation.op.name not in ("take", "look_up")
    )
    return sum(
        prod(dim for dim in one.type.shape if isinstance(dim, int)) for one in read if one.type.dtype.kind == "float"
    )
