"""Reads probabilistic sentential decision diagrams (PSDDs) in the format of the tools of UCLA.

    c lines of comments
    psdd 4                      the number of nodes
    T 0 0 1 -0.6931             variable 1 is true with this log-probability: id, node of the vtree, variable, logarithm
    L 1 2 2                     a literal: id, node of the vtree, the variable from 1 on, negative where negated
    L 2 2 -2
    D 3 1 2 0 1 -0.22 0 2 -1.61  a decision: id, node of the vtree, number of elements; prime, sub, log-probability ...

A decision is the sum of the products of each prime with its sub, weighted by the probability of the element. A `T` line
may have two logarithms, of false and of true. A node comes after those that it names; the last one is the root.

Source: Kisa, Van den Broeck, Choi and Darwiche, "Probabilistic sentential decision diagrams", 2014.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    LogSoftmaxParameter,
    Parameter,
    ParameterOp,
    SoftmaxParameter,
    TensorParameter,
)
from plica.symbolic.scope import Scope
from plica.templates.logic.lines import DamageError, damage_of, integer, is_decimal, lines, variable_of
from plica.templates.logic.vtree import read_vtree

_TOLERANCE = 1e-3  # of probabilities that add up to 1: files have few digits
_NOT_FINITE = ("-inf", "-infinity", "inf", "infinity", "nan")  # of which only the first two are logarithms


@final
class PSDD:
    r"""Probabilistic sentential decision diagrams in files.

    >>> _ = Path("rain.psdd").write_text("psdd 1\nT 0 0 1 -1.6094379\n")  # true with probability 0.2
    >>> import plica, torch
    >>> plica.compile(PSDD.load("rain.psdd"))(torch.tensor([[0], [1]])).exp().flatten().detach()
    tensor([0.8000, 0.2000])
    """

    @staticmethod
    def load(file: str | Path, vtree: str | Path | None = None) -> Circuit:
        """The circuit of a file, whose value is a probability; variable v is the file's variable v + 1.

        The states of variables are 0 and 1. Probabilities of the file are learnable parameters, softmaxes of its
        logarithms. Elements of probability 0 are left out.

        Args:
            file: The file.
            vtree: The file of its vtree, with which the diagram is compared.

        Raises:
            FileFormatError: A file is missing, empty, damaged, of another format, or probabilities do not add up to 1.
        """
        reader = _Reader(None if vtree is None else _scopes_of(vtree))
        lines(file, reader.read, must_end=True)
        with damage_of(str(file)):
            return reader.result()


def _scopes_of(vtree: str | Path) -> dict[int, Scope]:
    """The variables of each node of a vtree, by its id in the file."""
    tree, indices = read_vtree(vtree)
    scopes: list[Scope] = []
    for node in tree.nodes:
        scopes.append(Scope(node) if len(node) == 1 else scopes[node[0]] | scopes[node[1]])
    return {number: scopes[index] for number, index in indices.items()}


@dataclass(slots=True)
class _Reader:
    """The layers read so far.

    Args:
        tree_scopes: The variables of each node of the vtree, if that is known.
        count: The number of nodes that the file announces; None before that line.
        layers: The layer of each node, by its id in the file.
        scopes: The variables of each node.
        in_layers: The inputs of each layer.
    """

    tree_scopes: dict[int, Scope] | None
    count: int | None = None
    layers: dict[int, Layer] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)
    in_layers: dict[Layer, tuple[Layer, ...]] = field(default_factory=dict)
    _literals: dict[int, Layer] = field(default_factory=dict)

    def read(self, words: list[str]) -> None:
        """Read a line, given as its words."""
        match words:
            case ["c", *_]:
                return
            case ["psdd", count] if self.count is None:
                self.count = integer(count)
            case ["L", number, tree_id, literal] if self.count is not None:
                self._literal(integer(number), integer(tree_id), integer(literal))
            case ["T", number, tree_id, variable, *logs] if self.count is not None and 1 <= len(logs) <= 2:
                self._true(integer(number), integer(tree_id), integer(variable), [_logarithm(log) for log in logs])
            case ["D", number, tree_id, count, *elements] if self.count is not None:
                if integer(count) < 1 or len(elements) != 3 * integer(count):
                    raise DamageError(
                        f"expected {count[:40]} elements of a prime, a sub and a logarithm, at least one, found "
                        f"{len(elements)} numbers"
                    )
                self._decision(integer(number), integer(tree_id), elements)
            case _:
                expected = "psdd and the number of nodes" if self.count is None else "a line of L, T or D"
                raise DamageError(f"expected {expected}, found {' '.join(words)[:40]!r}")

    def result(self) -> Circuit:
        """The circuit whose root is the last node."""
        if self.count is None or self.count != len(self.layers) or not self.layers:
            raise DamageError(
                f"expected {'a line psdd with a number of' if self.count is None else self.count} nodes, found "
                f"{len(self.layers)}"
            )
        *_, root = self.layers.values()
        return Circuit(self.in_layers, self.in_layers, [root])

    def _literal(self, number: int, tree_id: int, literal: int) -> None:
        """`L id vtree literal`."""
        variable = variable_of(literal)
        if literal not in self._literals:
            probs = ConstantParameter(1, 2, value=[[float(literal < 0), float(literal > 0)]])
            self._literals[literal] = CategoricalLayer([variable], 1, num_categories=2, probs=probs)
        self._add(number, tree_id, self._literals[literal], Scope([variable]))

    def _true(self, number: int, tree_id: int, variable: int, logs: list[float]) -> None:
        """`T id vtree variable log` or `T id vtree variable log log`."""
        if variable < 1:
            raise DamageError(f"{variable} is no variable; variables are counted from 1 on")
        if len(logs) == 1:
            probability = min(math.exp(logs[0]), 1.0)
            logs = [math.log1p(-probability) if probability < 1 else -math.inf, logs[0]]
        _check_total(logs)
        if -math.inf in logs:
            self._literal(number, tree_id, variable if logs[0] == -math.inf else -variable)
            return
        logits = _normalized(LogSoftmaxParameter((1, 2)), logs)
        layer = CategoricalLayer([variable_of(variable)], 1, num_categories=2, logits=logits)
        self._add(number, tree_id, layer, Scope([variable - 1]))

    def _decision(self, number: int, tree_id: int, words: list[str]) -> None:
        """`D id vtree count prime sub log prime sub log ...`."""
        ids = [(integer(prime), integer(sub)) for prime, sub in zip(words[::3], words[1::3], strict=True)]
        logs = [_logarithm(word) for word in words[2::3]]
        for node_id in (node_id for pair in ids for node_id in pair):
            if node_id not in self.layers:
                raise DamageError(f"node {node_id} is not among the lines before")
        _check_total(logs)
        prime_scope, sub_scope = (self.scopes[node_id] for node_id in ids[0])
        for prime, sub in ids:
            if (self.scopes[prime], self.scopes[sub]) != (prime_scope, sub_scope):
                raise DamageError(f"the element {prime} {sub} has other variables than the first element")
        if not prime_scope.isdisjoint(sub_scope):
            raise DamageError(f"the prime {ids[0][0]} and its sub {ids[0][1]} have a variable in common")
        products: list[Layer] = []
        weights: list[float] = []
        for (prime, sub), log in zip(ids, logs, strict=True):
            if log > -math.inf:
                products.append(HadamardLayer(1, 2))
                weights.append(log)
                self.in_layers[products[-1]] = (self.layers[prime], self.layers[sub])
        layer = products[0]
        if len(products) > 1:
            layer = SumLayer(1, 1, len(products), weight=_normalized(SoftmaxParameter((1, len(products))), weights))
            self.in_layers[layer] = tuple(products)
        self._add(number, tree_id, layer, prime_scope | sub_scope)

    def _add(self, number: int, tree_id: int, layer: Layer, scope: Scope) -> None:
        """Add the node with the id `number`."""
        if number in self.layers:
            raise DamageError(f"node {number} is there twice")
        if self.tree_scopes is not None and self.tree_scopes.get(tree_id) != scope:
            raise DamageError(f"node {number} has variables {scope!s}, which node {tree_id} of the vtree does not have")
        self.layers[number], self.scopes[number] = layer, scope
        self.in_layers.setdefault(layer, ())


def _normalized(operation: ParameterOp, logs: Sequence[float]) -> Parameter:
    """A learnable tensor of logarithms under a softmax."""
    initializer = ConstantTensorInitializer([list(logs)])  # type: ignore[arg-type]
    return Parameter.from_sequence(TensorParameter(1, len(logs), initializer=initializer), operation)


def _logarithm(word: str) -> float:
    """A word as the logarithm of a probability."""
    if not is_decimal(word) and word.lower() not in _NOT_FINITE:
        raise DamageError(f"expected the logarithm of a probability, found {word[:40]!r}")
    value = float(word)
    if not value <= _TOLERANCE:  # NaN too
        raise DamageError(f"expected the logarithm of a probability, at most 0, found {word[:40]!r}")
    return value


def _check_total(logs: Sequence[float]) -> None:
    total = math.fsum(map(math.exp, logs))
    if abs(total - 1) > _TOLERANCE:
        raise DamageError(f"expected probabilities that add up to 1, found {total:.6g}")
