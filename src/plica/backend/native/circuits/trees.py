"""Joins layers whose folds have one reader each into one operation, `tree_of_sums`, which visits folds depth first.

    sum_of_products(w, x) -> y;  sum_of_products(v, y) -> z   ->   tree_of_sums(steps, ..., w, v, x) -> z

Layer by layer, all rows of all folds pass through memory. Depth first, few folds are needed at a time, about as many as
the tree is deep. These stay in the cache, and rows need not wait for each other. The operation also adds up the
exponents of the powers that rows were divided by, if the Program reads only their sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from plica.backend.native.circuits.operations import EXPONENTS, NATIVE_OPS, SLOT, STEP, Form, sources_of
from plica.backend.native.circuits.updatable import UpdatableConstant, UpdatableFold
from plica.backend.native.circuits.with_constants import Array, ProgramWithConstants
from plica.ir.builder import Names
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Operand, OpRef, Program, Var
from plica.ir.types import array_type
from plica.passes.replacements import names_of

_MOST_FORMS = 8  # each form becomes code of its own, in a branch
_MAX_BYTES = 2**15  # bytes of all slots, or of the products of all forms, for `_ROWS_TOGETHER` rows
_ROWS_TOGETHER = 8  # rows that are computed together, if there are as many

Fold = tuple[Equation, int]


def join_trees(body: ProgramWithConstants) -> ProgramWithConstants:
    """The Program with `tree_of_sums` for layers whose folds have one reader each."""
    for tree in [_Tree(layers) for layers in _trees(body.program)]:
        if len(tree.forms) <= _MOST_FORMS and tree.num_bytes() <= _MAX_BYTES:
            body = tree.joined(body)
    return body


def _trees(program: Program) -> Iterator[list[Equation]]:
    """For each tree its layers, in order, the root last."""
    readers: dict[Operand, list[Equation]] = {}
    for equation in program.equations:
        for operand in dict.fromkeys(equation.inputs):
            readers.setdefault(operand, []).append(equation)
    layers = [equation for equation in program.equations if equation.op.name == "sum_of_products"]
    root_of: dict[Equation, Equation] = {}
    sums: dict[Equation, Equation] = {}
    for layer in reversed(layers):
        total = _sum_of_exponents(layer, program, readers)
        if layer.params["rescaled"] and total is None:
            continue
        (value, *_), upper_layers = layer.outputs, readers.get(layer.outputs[0], [])
        roots = dict.fromkeys(root_of.get(reader) for reader in upper_layers)
        root = next(iter(roots)) if len(roots) == 1 and value not in program.outputs else None
        if root is not None and not (
            root.outputs[0].type.shape[-1] == value.type.shape[-1]
            and _is_read_once(layer, upper_layers)
            and (total is None or sums.get(root, total) is total)
        ):
            root = None
        if total is not None and program.equations.index(total) < program.equations.index(root or layer):
            continue
        root_of[layer] = root or layer
        if total is not None:
            sums[root or layer] = total
    for root in layers:
        members = [layer for layer in layers if root_of.get(layer) is root]
        if len(members) > 1:
            yield members


def _sum_of_exponents(layer: Equation, program: Program, readers: Mapping[Operand, list[Equation]]) -> Equation | None:
    """The `concat` that joins a layer's exponents with others before all are summed; None if there is none."""
    if layer.params["rescaled"] != EXPONENTS:
        return None
    join = readers.get(layer.outputs[1], [])
    if len(join) != 1 or join[0].op.name != "concat" or {layer.outputs[1], *join[0].outputs} & {*program.outputs}:
        return None
    total = readers.get(join[0].outputs[0], [])
    is_total = len(total) == 1 and total[0].op.name == "sum" and tuple(total[0].params["axis"]) == (0,)
    return join[0] if is_total and join[0].inputs.count(layer.outputs[1]) == 1 else None


def _is_read_once(layer: Equation, upper_layers: Sequence[Equation]) -> bool:
    """Whether each fold is a factor of exactly one fold of the layers above."""
    read: Counter[int] = Counter()
    for equation in upper_layers:
        sources = list(sources_of(equation.inputs, equation.params["looked_up"]))
        for factor in equation.params["factors"]:
            for source, start, length in factor:
                if sources[source] == layer.outputs[:1]:
                    read.update(range(start, start + length))
    return all(read[fold] == 1 for fold in range(_folds(layer)))


def _folds(layer: Equation) -> int:
    folds = layer.inputs[0].type.shape[0]
    assert isinstance(folds, int), "weights are constants"
    return folds


@dataclass(slots=True, eq=False)
class _Tree:
    """The layers of one tree, and their folds as steps of `tree_of_sums`.

    Args:
        layers: In order, the root last.
    """

    layers: Sequence[Equation]
    sources: dict[tuple[Operand, ...], int] = field(default_factory=dict)
    forms: dict[Form, int] = field(default_factory=dict)
    weights: dict[int, list[Equation]] = field(default_factory=dict)
    _step: dict[Fold, tuple[int, int, list[tuple[int, Fold | int]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layer_of: dict[Operand, Equation] = {layer.outputs[0]: layer for layer in self.layers}
        for layer in self.layers:
            operands = list(sources_of(layer.inputs, layer.params["looked_up"]))
            units = layer.inputs[0].type.shape[1]
            assert isinstance(units, int), "weights are constants"
            before = self.weights.setdefault(units, [])
            first = sum(map(_folds, before))
            before.append(layer)
            factors = [
                [(source, start + n) for source, start, length in factor for n in range(length)]
                for factor in layer.params["factors"]
            ]
            for fold in range(_folds(layer)):
                read: list[tuple[int, Fold | int]] = []
                for factor in factors:
                    source, number = factor[fold]
                    below = layer_of.get(operands[source][0]) if len(operands[source]) == 1 else None
                    if below is None:
                        read.append((self.sources.setdefault(operands[source], len(self.sources)), number))
                    else:
                        read.append((SLOT, (below, number)))
                form = Form(list(self.weights).index(units), bool(layer.params["rescaled"]), tuple(s for s, _ in read))
                self._step[layer, fold] = self.forms.setdefault(form, len(self.forms)), first + fold, read

    def num_bytes(self) -> int:
        """Bytes of all slots, or of the products of all forms, for `_ROWS_TOGETHER` rows: whichever are more."""
        type_ = self.layers[0].inputs[0].type
        outputs = type_.shape[2]
        assert isinstance(outputs, int), "weights are constants"
        slots = max(self._needs().values()) * outputs
        products = 2 * sum(list(self.weights)[form.weight] for form in self.forms)
        return max(slots, products) * _ROWS_TOGETHER * type_.dtype.numpy.itemsize

    def joined(self, body: ProgramWithConstants) -> ProgramWithConstants:
        """A Program with these layers as one operation."""
        program, root = body.program, self.layers[-1]
        names, constants, updatable = names_of(program), dict[Var, Array](), dict[Var, UpdatableConstant]()
        steps, root_starts, num_slots = self._steps()
        inputs: list[Operand] = []
        for array in (steps, root_starts):
            inputs.append(Var(names.fresh(), array_type(array.shape, DType.INT64)))
            constants[inputs[-1]] = array  # type: ignore[index]
        for layers in self.weights.values():
            inputs.append(_joined_weights(body, [layer.inputs[0] for layer in layers], names, constants, updatable))
        inputs += [var for source in self.sources for var in source]
        params = {
            "looked_up": tuple(len(source) > 1 for source in self.sources),
            "forms": tuple(self.forms),
            "num_slots": num_slots,
        }
        types = NATIVE_OPS["tree_of_sums"].types([operand.type for operand in inputs], params)
        outputs = (root.outputs[0], *(Var(names.fresh(), type_of_result) for type_of_result in types[1:]))
        tree_equation = Equation(OpRef("tree_of_sums"), tuple(inputs), outputs, params, root.source)
        powers = [layer.outputs[1] for layer in self.layers if len(layer.outputs) > 1]
        equations, renamed = [], dict[Operand, Operand]()
        for equation in program.equations:
            if equation is root:
                equations.append(tree_equation)
            elif equation not in self.layers and any(x in powers for x in equation.inputs):
                joined = (*outputs[1:], *(x for x in equation.inputs if x not in powers))
                (type_,) = NATIVE_OPS["concat"].types([x.type for x in joined], equation.params)
                total = renamed[equation.outputs[0]] = Var(names.fresh(), type_)
                equations.append(replace(equation, inputs=joined, outputs=(total,)))
            elif renamed.keys() & {*equation.inputs}:
                equations.append(replace(equation, inputs=tuple(renamed.get(x, x) for x in equation.inputs)))
            elif equation not in self.layers:  # the same object: other trees find their layers by identity
                equations.append(equation)
        return body.rewritten(replace(program, equations=tuple(equations)), constants, updatable)

    def _needs(self) -> dict[Fold, int]:
        """How many slots the steps up to a fold need."""
        needs: dict[Fold, int] = {}
        for fold, (_, _, read) in self._step.items():  # layers are in order
            below = sorted((needs[child] for _, child in read if isinstance(child, tuple)), reverse=True)
            needs[fold] = max([1, *(need + index for index, need in enumerate(below))])
        return needs

    def _steps(self) -> tuple[Array, Array, int]:
        """The steps, where those of each root begin, and how many slots they need."""
        needs = self._needs()
        width = STEP + max(len(form.factors) for form in self.forms)
        steps: list[list[int]] = []
        root_starts = [0]
        root = self.layers[-1]
        for number in range(_folds(root)):
            free, slot_of = list(range(max(needs.values())))[::-1], dict[Fold, int]()
            for fold in _postorder((root, number), self._step, needs):
                form, weight, read = self._step[fold]
                read_from = [slot_of.pop(child) if isinstance(child, tuple) else child for _, child in read]
                free += [slot for slot, (source, _) in zip(read_from, read, strict=True) if source == SLOT]
                free.sort(reverse=True)
                slot_of[fold] = free.pop()
                steps.append([form, weight, slot_of[fold], *read_from, *[0] * (width - STEP - len(read_from))])
            root_starts.append(len(steps))
        return np.asarray(steps), np.asarray(root_starts), max(needs.values())


def _postorder(
    root: Fold, steps: Mapping[Fold, tuple[int, int, list[tuple[int, Fold | int]]]], needs: Mapping[Fold, int]
) -> Iterator[Fold]:
    """The folds below a fold and then the fold itself; folds that need the most slots come first."""
    waiting: list[tuple[Fold, bool]] = [(root, False)]
    while waiting:
        fold, is_ready = waiting.pop()
        if is_ready:
            yield fold
            continue
        waiting.append((fold, True))
        below = [child for _, child in steps[fold][2] if isinstance(child, tuple)]
        waiting += [(child, False) for child in sorted(below, key=lambda child: needs[child])]


def _joined_weights(
    body: ProgramWithConstants,
    weights: Sequence[Operand],
    names: Names,
    constants: dict[Var, Array],
    updatable: dict[Var, UpdatableConstant],
) -> Var:
    """Weights of several layers concatenated along their folds."""
    variables = [weight for weight in weights if isinstance(weight, Var)]
    arrays = [
        body.updatable[weight].array if weight in body.updatable else body.constants[weight] for weight in variables
    ]
    array = np.concatenate(arrays)
    joined = Var(names.fresh(), array_type(array.shape, variables[0].type.dtype))
    changing = [weight for weight in dict.fromkeys(variables) if weight in body.updatable]
    if not changing:
        constants[joined] = array
        return joined
    fixed = {weight: body.constants[weight] for weight in variables if weight not in body.updatable}
    concat = Equation(OpRef("concat"), tuple(variables), (joined,), {"axis": 0})
    program = Program(tuple(fixed), tuple(changing), (concat,), (joined,))
    updatable[joined] = UpdatableConstant(
        array, fold=UpdatableFold(program, fixed, tuple(body.updatable[weight] for weight in changing), (array,))
    )
    return joined
