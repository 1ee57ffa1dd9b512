"""Products of joined runs become one operation, which writes each product where it belongs.

`concat(a, b) * concat(c, d)` copies all of both operands, reads the copies, and differentiates through all of it. But
the product is made of runs: neighbours of one array times neighbours of another.

Joins of products, `concat(a * b, c * d)`, or of parts of them become runs too, where only such joins read these.

The rule fires where a join along the first axis has no other reader, where parts and product are of one float dtype and
of known sizes along that axis, and where runs are eight entries long or more on average. It never adds work: there are
at most as many products as the joins have parts, each entry is multiplied once, and joins, parts that nobody else
reads, and the zeros that fill up their derivatives go.

An array is read as a whole where this product reads at least half of it. Otherwise the operands are the parts: the
derivative of an operand has its whole size, and a source of many small parts would be written once for each.

>>> import plica.numpy as pnp
>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> program = trace(lambda x: pnp.concat([x[8:], x[:8]]) * pnp.concat([x[4:12], x[:8]]), spec((16, 3)))
>>> print(multiply_in_runs(program))
{ lambda ; x:f32[16,3] . let
    g:f32[16,3] = multiply_runs[runs=((0,8,0,4,8),(0,0,0,0,8))] x
  in (g,) }
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from plica.backend.torch.operations.private import TORCH_OPS, Run
from plica.ir.program import Equation, Operand, OpRef, Program, Var
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.runs import is_along_first, merged, start_of

MIN_LENGTH = 8  # on average, of runs: each costs a call


class _Part(NamedTuple):
    """Neighbours along the first axis: where they lie in a variable, and where that lies in its source."""

    var: Var
    length: int
    source: Var
    size: int
    start: int
    within: int = 0


class _Piece(NamedTuple):
    """Neighbours along the first axis of a product; of all of it, they have no part."""

    product: Equation
    start: int
    length: int
    part: Equation | None


def multiply_in_runs(program: Program) -> Program:
    """The Program with `multiply_runs` for products of joins; nested Programs stay."""
    makers = {var: equation for equation in program.equations for var in equation.outputs}
    readers: Counter[Operand] = Counter(operand for equation in program.equations for operand in equation.inputs)
    readers.update(program.results)
    joins = {
        var: [_part(operand, makers) for operand in equation.inputs if isinstance(operand, Var)]
        for var, equation in makers.items()
        if readers[var] == 1 and is_along_first(equation, "concat")
    }
    pieces = {
        var: piece for var in makers if readers[var] == 1 and (piece := _piece_of(var, makers, readers)) is not None
    }
    replaced = {
        equation: new
        for equation in program.equations
        if (new := _in_runs(equation, joins, pieces, makers)) is not None
    }
    # A product that other equations need as well is computed once
    while wasteful := _wasteful(replaced, pieces, readers):
        for equation in wasteful:
            del replaced[equation]
    if not replaced:
        return program
    equations = tuple(replaced.get(equation, equation) for equation in program.equations)
    return eliminate_dead_code(replace(program, equations=equations), TORCH_OPS)


def _part(var: Var, makers: dict[Var, Equation]) -> _Part:
    """The part of an array that a variable is; all of itself if it is no part."""
    equation, length = makers.get(var), var.type.shape[0]
    assert isinstance(length, int), "parts of joins have sizes that are known"
    start = start_of(equation, var)
    if equation is None or start is None:
        return _Part(var, length, var, length, 0)
    source = equation.inputs[0]
    size = source.type.shape[0]
    assert isinstance(source, Var), "what is split or sliced is no number"
    assert isinstance(size, int), "the size of what has a start is known; see is_along_first"
    return _Part(var, length, source, size, start)


def _piece_of(var: Var, makers: dict[Var, Equation], readers: Counter[Operand]) -> _Piece | None:
    """The piece of a product that a variable is; None if it is none, or if other equations read that product."""
    product: Equation | None
    product, part, start = makers[var], None, 0
    if is_along_first(product, "split"):
        source, part, start = product.inputs[0], product, start_of(product, var) or 0
        product = makers.get(source) if isinstance(source, Var) and readers[source] == 1 else None
    length = var.type.shape[0] if var.type.shape else None
    is_product = product is not None and product.op.name == "multiply"
    return _Piece(product, start, length, part) if product and is_product and isinstance(length, int) else None


def _wasteful(
    replaced: dict[Equation, Equation], pieces: dict[Var, _Piece], readers: Counter[Operand]
) -> list[Equation]:
    """Joins of parts of products of which others read other parts."""
    read = Counter(operand for equation in replaced for operand in equation.inputs if operand in pieces)
    return [
        equation
        for equation in replaced
        if equation.op.name == "concat"
        and any(
            readers[output] != read[output]
            for operand in equation.inputs
            if isinstance(operand, Var) and (part := pieces[operand].part) is not None
            for output in part.outputs
        )
    ]


def _in_runs(
    equation: Equation, joins: dict[Var, list[_Part]], known: dict[Var, _Piece], makers: dict[Var, Equation]
) -> Equation | None:
    """The equation that stands for a product of joins, or a join of products; None where the rule does not hold."""
    if equation.op.name == "multiply" and any(factor in joins for factor in equation.inputs):
        length = equation.outputs[0].type.shape[0]
        assert isinstance(length, int), "parts of joins have sizes that are known"
        pieces = [_Piece(equation, 0, length, None)]
    elif is_along_first(equation, "concat") and all(operand in known for operand in equation.inputs):
        pieces = [known[operand] for operand in equation.inputs if isinstance(operand, Var)]
    else:
        return None
    (result,) = equation.outputs
    if result.type.dtype.kind != "float":
        return None
    if any(factor.type != piece.product.outputs[0].type for piece in pieces for factor in piece.product.inputs):
        return None
    sides = [
        [part for piece in pieces for part in _parts_of(piece.product.inputs[side], piece, joins, makers)]
        for side in (0, 1)
    ]
    parts = [part for side in sides for part in side]
    if any(part.source.type.shape[1:] != result.type.shape[1:] for part in parts):
        return None  # sizes that are only found equal when it runs
    read_whole = _read_whole(parts)
    arrays = list(dict.fromkeys(_array(part, read_whole) for part in parts))
    numbers = {var: number for number, var in enumerate(arrays)}
    runs = merged(_common(*([_piece(part, read_whole, numbers) for part in side] for side in sides)))
    if not runs or sum(length for *_, length in runs) < MIN_LENGTH * len(runs):
        return None
    return Equation(OpRef("multiply_runs"), tuple(arrays), equation.outputs, {"runs": tuple(runs)}, equation.source)


def _parts_of(
    operand: Operand, piece: _Piece, joins: dict[Var, list[_Part]], makers: dict[Var, Equation]
) -> list[_Part]:
    """The parts that a piece of a product reads of one of its factors."""
    assert isinstance(operand, Var), "factors of the type of an array are no numbers"
    if piece.part is None:
        return joins.get(operand) or [_part(operand, makers)]
    return [_part(operand, makers)._replace(length=piece.length, within=piece.start)]


def _read_whole(parts: Sequence[_Part]) -> dict[Var, None]:
    """The sources of which the parts show at least half."""
    shown: dict[Var, set[int]] = {}
    for part in parts:
        start = part.start + part.within
        shown.setdefault(part.source, set()).update(range(start, start + part.length))
    return {part.source: None for part in parts if 2 * len(shown[part.source]) >= part.size}


def _array(part: _Part, read_whole: dict[Var, None]) -> Var:
    return part.source if part.source in read_whole else part.var


def _piece(part: _Part, read_whole: dict[Var, None], numbers: dict[Var, int]) -> tuple[int, int, int]:
    """The operand that a part is read from, where it begins there, and how long it is."""
    start = part.within + (part.start if part.source in read_whole else 0)
    return numbers[_array(part, read_whole)], start, part.length


def _common(left: Sequence[tuple[int, int, int]], right: Sequence[tuple[int, int, int]]) -> Iterator[Run]:
    """The runs that two sequences of pieces of the same total length have in common."""
    ends = sorted({*accumulate(length for *_, length in left), *accumulate(length for *_, length in right)} - {0})
    begin = 0
    for end in ends:
        yield Run(*_at(left, begin), *_at(right, begin), end - begin)
        begin = end


def _at(pieces: Sequence[tuple[int, int, int]], offset: int) -> tuple[int, int]:
    """The operand, and the place in it, of a place in pieces that follow one another."""
    for array, start, length in pieces:
        if offset < length:
            return array, start + offset
        offset -= length
    raise AssertionError("places are smaller than the pieces are together, since both sides are as long")
