"""Trees of any shape, walked: chains, one variable, hundreds of them, any units, folds that are shared."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.native.circuits.trees import join_trees
from plica.frontend.native import entry_programs_of
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter, TensorParameter
from tests.harness.native_circuits import compiled

Array = Any
_STATES = 3
SHAPES = ("chain", "balanced", "random", "comb of pairs", "shared")


def _leaf(value: Array) -> Parameter:
    initializer = ConstantTensorInitializer(value.astype(float))
    return Parameter.from_input(TensorParameter(*value.shape, initializer=initializer))


class Tree:
    """A circuit of sums of products over a tree of its variables, and its values in float64."""

    def __init__(self, seed: int, shape: str, variables: int, units: int, dtype: Any) -> None:
        self.rng, self.shape, self.units, self.dtype = np.random.default_rng(seed), shape, units, dtype
        self.edges: dict[Any, list[Any]] = {}
        self.values: dict[Any, Any] = {}  # what each layer computes: a table, a matrix, or nothing
        self.variables = variables
        top = self._region(list(range(variables)))
        if top.num_output_units != 1 or variables == 1:
            top = self._sum([top], 1)
        self.top = top
        self.circuit = Circuit(list(self.edges), {one: below for one, below in self.edges.items() if below}, [top])

    def _numbers(self, *shape: int) -> Array:
        found = self.rng.dirichlet(np.ones(shape[-1]), shape[:-1])
        zeros = self.rng.random(shape) < (0.1 if shape[-1] > 2 else 0.0)
        return np.where(zeros, 0.0, found).astype(self.dtype)

    def _sum(self, below: list[Any], outputs: int) -> Any:
        inputs = below[0].num_output_units
        weight = self._numbers(outputs, inputs * len(below))
        layer = SumLayer(inputs, outputs, len(below), _leaf(weight))
        self.edges[layer], self.values[layer] = below, weight.astype(float)
        return layer

    def _cut(self, size: int) -> int:
        match self.shape:
            case "chain":
                return 1
            case "comb of pairs":
                return min(2, size - 1)
            case "random":
                return int(self.rng.integers(1, size))
        return size // 2

    def _region(self, scope: list[int]) -> Any:
        units = self.units
        if len(scope) == 1:
            table = self._numbers(units, _STATES)
            layer = CategoricalLayer(scope, units, num_categories=_STATES, probs=_leaf(table))
            self.edges[layer], self.values[layer] = [], table.astype(float)
            return layer
        at = self._cut(len(scope))
        parts = [self._region(scope[:at]), self._region(scope[at:])]
        if self.shape == "shared":
            made = []
            for _ in range(2):  # both read the same parts
                product = HadamardLayer(units, 2)
                self.edges[product] = [self._sum([one], units) for one in parts]
                made.append(product)
            return self._sum(made, units)
        product = HadamardLayer(units, 2)
        self.edges[product] = [self._sum([one], units) if self.rng.random() < 0.8 else one for one in parts]
        return self._sum([product], units)

    def scores(self, x: Array) -> Array:
        """The logarithms `(B, 1, 1)` of rows of states, missing ones summed out."""
        found: dict[Any, tuple[Array, Array]] = {}  # linear values, and the logarithms that rows were divided by
        for layer, below in self.edges.items():
            if isinstance(layer, CategoricalLayer):
                (place,) = layer.scope
                column, table = x[:, place], self.values[layer]
                is_known = ~np.isnan(column)
                value = np.where(is_known[:, None], table.T[np.where(is_known, column, 0).astype(int)], table.sum(1))
                logs = np.zeros((len(x), 1))
            elif isinstance(layer, HadamardLayer):
                value, logs = np.prod([found[one][0] for one in below], axis=0), sum(found[one][1] for one in below)
            else:
                most = np.max([found[one][1] for one in below], axis=0)
                parts = [found[one][0] * np.exp(found[one][1] - most) for one in below]
                value, logs = np.concatenate(parts, 1) @ self.values[layer].T, most
            largest = value.max(1, keepdims=True)
            largest = np.where(largest > 0, largest, 1.0)
            found[layer] = value / largest, logs + np.log(largest)
        value, logs = found[self.top]
        with np.errstate(divide="ignore"):
            return (np.log(value) + logs)[:, None]

    def rows(self, count: int, missing: float) -> Array:
        """Rows of states."""
        x = self.rng.integers(0, _STATES, (count, self.variables)).astype(self.dtype)
        return np.where(self.rng.random(x.shape) < missing, np.array(np.nan, self.dtype), x)


def _check(tree: Tree, path: Path | None = None) -> None:
    """By the interpreter; as native code too where there is a path."""
    model = compiled(tree.circuit, dtype=getattr(torch, np.dtype(tree.dtype).name))
    rtol = 1e-5 if tree.dtype is np.float32 else 1e-11
    entry_programs = {entry_program.name: entry_program for entry_program in entry_programs_of(model, ["marginal"])}
    closed = join_trees(entry_programs["marginal"].body)
    for count in (0, 1, 9):
        x = tree.rows(count, 0.2)
        found, *proven = closed(x)
        is_proven = np.broadcast_to(proven[0].reshape(-1), (count,)) if proven else np.ones(count, bool)
        np.testing.assert_allclose(found[is_proven], tree.scores(x)[is_proven], rtol=rtol, atol=rtol)
    if path is None:
        return
    plica.native.compile(model, path, queries="marginal")
    with plica.native.load(path) as module:
        for count in (0, 1, 7, 8, 9, 63, 64, 65, 128, 1000):
            x = tree.rows(count, 0.2)
            np.testing.assert_allclose(module.marginal(x), tree.scores(x), rtol=rtol, atol=rtol)


def test_a_tree() -> None:
    _check(Tree(0, "random", 7, 3, np.float32))


@pytest.mark.full
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_trees(shape: str, dtype: Any) -> None:
    for seed, (variables, units) in enumerate([(1, 1), (1, 5), (2, 1), (3, 7), (5, 17), (9, 2), (16, 8), (23, 64)]):
        _check(Tree(seed, shape, variables, units, dtype))


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("variables", "units"), [(2, 1), (13, 17)])
def test_files_of_trees(shape: str, variables: int, units: int, tmp_path: Path) -> None:
    _check(Tree(units, shape, variables, units, (np.float32, np.float64)[variables % 2]), tmp_path / "tree.plicab")


@pytest.mark.full
def test_files_of_large_trees(tmp_path: Path) -> None:
    _check(Tree(1, "random", 400, 2, np.float32), tmp_path / "tree.plicab")
