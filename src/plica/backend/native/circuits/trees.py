"""Layers whose folds are read once become one operation, `tree_of_sums`, which walks them depth first.

    sum_of_products(w, x) -> y;  sum_of_products(v, y) -> z   ->   tree_of_sums(steps, ..., w, v, x) -> z

A layer after another passes all its rows through memory, of all folds. A walk needs room for as many folds as the tree
is deep, which stays in the cache, and rows need not wait for each other. What rows were rescaled by is summed on the
way, where nothing but the sum of all exponents is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from plica.backend.native.circuits.operations import EXPONENTS, NATIVE_OPS, PLACE, STEP, Form, sources_of
from plica.backend.native.circuits.updatable import UpdatableConstant, UpdatableFold
from plica.backend.native.circuits.with_constants import Array, ProgramWithConstants
from plica.ir.builder import Names
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Operand, OpRef, Program, Var
from plica.ir.types import array_type
from plica.passes.replaced import names_of

_MOST_FORMS = 8  # each is code of its own
_ROOM = 2**15  # bytes of what few rows leave in all places, and of the products of all forms
_FEW = 8  # rows that are computed together where there are as many

Fold = tuple[Equation, int]


def join_trees(body: ProgramWithConstants, fewest: int = 1) -> ProgramWithConstants:
    """The Program with `tree_of_sums` for layers that are read once.

    Args:
        body: The Program.
        fewest: Folds of a layer that may be the root of a tree: several threads share the folds of the root.
    """
    for one in [_Tree(layers) for layers in _trees(body.program, fewest)]:
        if len(one.forms) <= _MOST_FORMS and one.room() <= _ROOM:
            body = one.joined(body)
    return body


def _trees(program: Program, fewest: int) -> Iterator[list[Equation]]:
    """Layers that become one operation, in order, the root last."""
    readers: dict[Operand, list[Equation]] = {}
    for equation in program.equations:
        for one in dict.fromkeys(equation.inputs):
            readers.setdefault(one, []).append(equation)
    layers = [one for one in program.equations if one.op.name == "sum_of_products" and _folds(one) >= fewest]
    root_of: dict[Equation, Equation] = {}
    sums: dict[Equation, Equation] = {}
    for layer in reversed(layers):
        found = _sum_of_exponents(layer, program, readers)
        if layer.params["rescaled"] and found is None:
            continue
        (value, *_), above = layer.outputs, readers.get(layer.outputs[0], [])
        roots = dict.fromkeys(root_of.get(one) for one in above)
        root = next(iter(roots)) if len(roots) == 1 and value not in program.outputs else None
        if root is not None and not (
            root.outputs[0].type.shape[-1] == value.type.shape[-1]
            and _is_read_once(layer, above)
            and (found is None or sums.get(root, found) is found)
        ):
            root = None
        if found is not None and program.equations.index(found) < program.equations.index(root or layer):
            continue
        root_of[layer] = root or layer
        if found is not None:
            sums[root or layer] = found
    for root in layers:
        members = [one for one in layers if root_of.get(one) is root]
        if len(members) > 1:
            yield members


def _sum_of_exponents(layer: Equation, program: Program, readers: Mapping[Operand, list[Equation]]) -> Equation | None:
    """What joins the exponents of a layer with others, all of which are then added up; None where there is no such."""
    if layer.params["rescaled"] != EXPONENTS:
        return None
    join = readers.get(layer.outputs[1], [])
    if len(join) != 1 or join[0].op.name != "concat" or {layer.outputs[1], *join[0].outputs} & {*program.outputs}:
        return None
    total = readers.get(join[0].outputs[0], [])
    is_total = len(total) == 1 and total[0].op.name == "sum" and tuple(total[0].params["axis"]) == (0,)
    return join[0] if is_total and join[0].inputs.count(layer.outputs[1]) == 1 else None


def _is_read_once(layer: Equation, above: Sequence[Equation]) -> bool:
    """Whether each fold is one factor of one fold above."""
    read: Counter[int] = Counter()
    for equation in above:
        sources = list(sources_of(equation.inputs, equation.params["looked_up"]))
        for factor in equation.params["factors"]:
            for place, start, length in factor:
                if sources[place] == layer.outputs[:1]:
                    read.update(range(start, start + length))
    return all(read[fold] == 1 for fold in range(_folds(layer)))


def _folds(layer: Equation) -> int:
    folds = layer.inputs[0].type.shape[0]
    assert isinstance(folds, int), "weights are constants"
    return folds


@dataclass(slots=True, eq=False)
class _Tree:
    """Layers as steps.

    Args:
        layers: In order, the root last.
    """

    layers: Sequence[Equation]
    sources: dict[tuple[Operand, ...], int] = field(default_factory=dict)
    forms: dict[Form, int] = field(default_factory=dict)
    weights: dict[int, list[Equation]] = field(default_factory=dict)
    _step: dict[Fold, tuple[int, int, list[tuple[int, Fold | int]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made: dict[Operand, Equation] = {one.outputs[0]: one for one in self.layers}
        for layer in self.layers:
            operands = list(sources_of(layer.inputs, layer.params["looked_up"]))
            units = layer.inputs[0].type.shape[1]
            assert isinstance(units, int), "weights are constants"
            before = self.weights.setdefault(units, [])
            first = sum(map(_folds, before))
            before.append(layer)
            factors = [
                [(at, start + n) for at, start, length in one for n in range(length)] for one in layer.params["factors"]
            ]
            for fold in range(_folds(layer)):
                read: list[tuple[int, Fold | int]] = []
                for factor in factors:
                    at, number = factor[fold]
                    below = made.get(operands[at][0]) if len(operands[at]) == 1 else None
                    if below is None:
                        read.append((self.sources.setdefault(operands[at], len(self.sources)), number))
                    else:
                        read.append((PLACE, (below, number)))
                form = Form(list(self.weights).index(units), bool(layer.params["rescaled"]), tuple(s for s, _ in read))
                self._step[layer, fold] = self.forms.setdefault(form, len(self.forms)), first + fold, read

    def room(self) -> int:
        """Bytes of what few rows leave in all places, or of the products of all forms, whichever are more."""
        type_ = self.layers[0].inputs[0].type
        outputs = type_.shape[2]
        assert isinstance(outputs, int), "weights are constants"
        left = max(self._needs().values()) * outputs
        products = 2 * sum(list(self.weights)[form.weight] for form in self.forms)
        return max(left, products) * _FEW * type_.dtype.numpy.itemsize

    def joined(self, body: ProgramWithConstants) -> ProgramWithConstants:
        """A Program with these layers as one operation."""
        program, root = body.program, self.layers[-1]
        names, constants, updatable = names_of(program), dict[Var, Array](), dict[Var, UpdatableConstant]()
        steps, begins, places = self._steps()
        inputs: list[Operand] = []
        for array in (steps, begins):
            inputs.append(Var(names.fresh(), array_type(array.shape, DType.INT64)))
            constants[inputs[-1]] = array  # type: ignore[index]
        for layers in self.weights.values():
            inputs.append(_joined_weights(body, [one.inputs[0] for one in layers], names, constants, updatable))
        inputs += [var for one in self.sources for var in one]
        params = {
            "looked_up": tuple(len(one) > 1 for one in self.sources),
            "forms": tuple(self.forms),
            "places": places,
        }
        types = NATIVE_OPS["tree_of_sums"].types([one.type for one in inputs], params)
        outputs = (root.outputs[0], *(Var(names.fresh(), one) for one in types[1:]))
        equation = Equation(OpRef("tree_of_sums"), tuple(inputs), outputs, params, root.source)
        gone = [one.outputs[1] for one in self.layers if len(one.outputs) > 1]
        equations, renamed = [], dict[Operand, Operand]()
        for one in program.equations:
            if one is root:
                equations.append(equation)
            elif one not in self.layers and any(x in gone for x in one.inputs):
                joined = (*outputs[1:], *(x for x in one.inputs if x not in gone))
                (type_,) = NATIVE_OPS["concat"].types([x.type for x in joined], one.params)
                total = renamed[one.outputs[0]] = Var(names.fresh(), type_)
                equations.append(replace(one, inputs=joined, outputs=(total,)))
            elif renamed.keys() & {*one.inputs}:
                equations.append(replace(one, inputs=tuple(renamed.get(x, x) for x in one.inputs)))
            elif one not in self.layers:  # as it is: other trees know their layers by it
                equations.append(one)
        return body.rewritten(replace(program, equations=tuple(equations)), constants, updatable)

    def _needs(self) -> dict[Fold, int]:
        """How many places the walk to a fold needs."""
        needs: dict[Fold, int] = {}
        for fold, (_, _, read) in self._step.items():  # layers are in order
            below = sorted((needs[one] for _, one in read if isinstance(one, tuple)), reverse=True)
            needs[fold] = max([1, *(need + at for at, need in enumerate(below))])
        return needs

    def _steps(self) -> tuple[Array, Array, int]:
        """The steps, where those of each root begin, and how many places they need."""
        needs = self._needs()
        width = STEP + max(len(form.factors) for form in self.forms)
        steps: list[list[int]] = []
        begins = [0]
        root = self.layers[-1]
        for number in range(_folds(root)):
            free, place = list(range(max(needs.values())))[::-1], dict[Fold, int]()
            for fold in _postorder((root, number), self._step, needs):
                form, weight, read = self._step[fold]
                at = [place.pop(one) if isinstance(one, tuple) else one for _, one in read]
                free += [one for one, (source, _) in zip(at, read, strict=True) if source == PLACE]
                free.sort(reverse=True)
                place[fold] = free.pop()
                steps.append([form, weight, place[fold], *at, *[0] * (width - STEP - len(at))])
            begins.append(len(steps))
        return np.asarray(steps), np.asarray(begins), max(needs.values())


def _postorder(
    root: Fold, steps: Mapping[Fold, tuple[int, int, list[tuple[int, Fold | int]]]], needs: Mapping[Fold, int]
) -> Iterator[Fold]:
    """What a fold reads before it, and what needs the most places first."""
    waiting: list[tuple[Fold, bool]] = [(root, False)]
    while waiting:
        fold, is_ready = waiting.pop()
        if is_ready:
            yield fold
            continue
        waiting.append((fold, True))
        below = [one for _, one in steps[fold][2] if isinstance(one, tuple)]
        waiting += [(one, False) for one in sorted(below, key=lambda one: needs[one])]


def _joined_weights(
    body: ProgramWithConstants,
    weights: Sequence[Operand],
    names: Names,
    constants: dict[Var, Array],
    updatable: dict[Var, UpdatableConstant],
) -> Var:
    """Weights of several layers as one, along their folds."""
    variables = [one for one in weights if isinstance(one, Var)]
    arrays = [body.updatable[one].array if one in body.updatable else body.constants[one] for one in variables]
    array = np.concatenate(arrays)
    made = Var(names.fresh(), array_type(array.shape, variables[0].type.dtype))
    changing = [one for one in dict.fromkeys(variables) if one in body.updatable]
    if not changing:
        constants[made] = array
        return made
    fixed = {one: body.constants[one] for one in variables if one not in body.updatable}
    concat = Equation(OpRef("concat"), tuple(variables), (made,), {"axis": 0})
    program = Program(tuple(fixed), tuple(changing), (concat,), (made,))
    updatable[made] = UpdatableConstant(
        array, made=UpdatableFold(program, fixed, tuple(body.updatable[one] for one in changing), (array,))
    )
    return made
