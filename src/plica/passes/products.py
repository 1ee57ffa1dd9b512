"""Products of stacks of matrices become one operation with what is done to their factors or to them.

`matmul(take(a, i), take(b, i))` writes both stacks in another order, only to read them once: the one operation takes a
few matrices at a time. `x * matmul(a, b)` reads the product as it was
written, which may lie in memory the other way round than `x`: the one operation computes it as `x` lies.

What is handed on to both vectors of a Tucker sum, `fbo,fioj,fbj->fbi` and `fbo,fjoi,fbi->fbj` of one core whose axes
are turned, is `tucker_derivatives`, which multiplies by the core once.

A rule fires where nobody else reads what it leaves out. Neither adds work.

>>> import plica.numpy as pnp
>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> x, a, b = spec((4, 3, 5)), spec((4, 3, 2)), spec((4, 2, 5))
>>> print(join_products(trace(lambda x, a, b: x * pnp.matmul(a, b), x, a, b)))
{ lambda ; x:f32[4,3,5] a:f32[4,3,2] b:f32[4,2,5] . let
    d:f32[4,3,5] = multiply_matmul x a b
  in (d,) }
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from plica.ir.program import Equation, Operand, OpRef, Program
from plica.passes.dead_code import eliminate_dead_code

_TUCKER, _TURNED = OpRef("tucker_derivatives"), ((0, 2, 1, 3), (0, 3, 1, 2))
_TAKEN, _MULTIPLIED = OpRef("matmul_taken"), OpRef("multiply_matmul")
_Made = Mapping[Operand, Equation]


def join_products(program: Program) -> Program:
    """The Program with `matmul_taken` and `multiply_matmul` where the rules fire; nested Programs stay."""
    readers: Counter[Operand] = Counter(one for equation in program.equations for one in equation.inputs)
    readers.update(program.results)
    alone: _Made = {
        one.outputs[0]: one for one in program.equations if len(one.outputs) == 1 and readers[one.outputs[0]] == 1
    }
    equations = tuple(_joined(one, alone) for one in _with_tucker(program))
    return program if equations == program.equations else eliminate_dead_code(replace(program, equations=equations))


def _joined(equation: Equation, alone: _Made) -> Equation:
    """The equation with those that only it reads, where a rule fires; else as it is."""
    if equation.outputs[0].type.dtype.kind != "float":
        return equation
    if _is_product(equation):
        return _with_taken(equation, alone)
    if equation.op.name == "multiply":
        return _with_product(equation, alone)
    return equation


def _is_product(equation: Equation | None) -> bool:
    """Whether it multiplies two stacks of as many matrices."""
    if equation is None or equation.op.name != "matmul":
        return False
    shapes = [one.type.shape for one in equation.inputs]
    return [len(one) for one in shapes] == [3, 3] and shapes[0][0] == shapes[1][0]


def _with_taken(equation: Equation, alone: _Made) -> Equation:
    takes = [alone.get(one) for one in equation.inputs]
    found = [one.inputs for one in takes if one is not None and one.op.name == "take" and one.params["axis"] == 0]
    if len(found) < 2 or found[0][1] != found[1][1] or len(found[0][1].type.shape) != 1:
        return equation
    (a, index), (b, _) = found
    return replace(equation, op=_TAKEN, inputs=(a, b, index))


def _with_product(equation: Equation, alone: _Made) -> Equation:
    for place, operand in enumerate(equation.inputs):
        product, other = alone.get(operand), equation.inputs[1 - place]
        if product is not None and _is_product(product) and other.type == operand.type:
            return replace(equation, op=_MULTIPLIED, inputs=(other, *product.inputs))
    return equation


def _with_tucker(program: Program) -> list[Equation]:
    """The equations, with one in the place of the first of two that hand on to the vectors of one core."""
    made: _Made = {var: one for one in program.equations for var in one.outputs}
    order: Mapping[Operand, int] = {var: place for place, one in enumerate(program.equations) for var in one.outputs}
    found: dict[tuple[Operand, Operand], dict[Sequence[int], Equation]] = {}
    for one in program.equations:
        if one.op.name == "einsum" and _hands_on(one.params["equation"]):
            turned = made.get(one.inputs[1])
            if turned is not None and turned.op.name == "permute_dims" and turned.params["axes"] in _TURNED:
                found.setdefault((one.inputs[0], turned.inputs[0]), {})[turned.params["axes"]] = one
    instead: dict[Equation, Equation | None] = {}
    for (change, core), sums in found.items():
        if len(sums) == len(_TURNED):
            to_x, to_y = (sums[axes] for axes in _TURNED)
            first, last = sorted((to_x, to_y), key=lambda one: order[one.outputs[0]])
            inputs = (change, core, to_y.inputs[2], to_x.inputs[2])
            if all(order.get(one, -1) < order[first.outputs[0]] for one in inputs):
                outputs = (to_x.outputs[0], to_y.outputs[0])
                instead[first] = Equation(_TUCKER, inputs, outputs, {}, first.source)
                instead[last] = None
    replaced = (instead.get(one, one) for one in program.equations)
    return [one for one in replaced if one is not None]


def _hands_on(equation: str) -> bool:
    """Whether a sum is `fbo,fioj,fbj->fbi`, in any letters."""
    terms, _, result = equation.partition("->")
    change, core, vector, *rest = (*terms.split(","), "", "")
    if any(rest) or {len(change), len(vector), len(result)} != {3} or not change[:2] == vector[:2] == result[:2]:
        return False
    letters = result + change[2] + vector[2]
    return len({*letters}) == len(letters) and core == letters[0] + letters[2:]
