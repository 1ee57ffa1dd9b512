"""Hidden Chow-Liu trees: what a circuit of one computes, and how a tree is found in data."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import agreement, trees
from benchmarks.circuits import CIRCUITS, HIDDEN_TREES
from benchmarks.trees import TREES, TreeSpec
from plica.backend.torch.compiler import TorchCompiler
from tests.harness.oracle import Oracle

BRANCHING = [1, 1, 1, 2, 2, 0]


@pytest.fixture
def branching(monkeypatch: pytest.MonkeyPatch) -> TreeSpec:
    monkeypatch.setitem(TREES, "branching", BRANCHING)
    return TreeSpec("branching", 3)


def test_named_trees_are_irregular() -> None:
    assert set(HIDDEN_TREES) <= set(CIRCUITS)
    assert HIDDEN_TREES["hidden-tree-dna-64"].num_variables == 180
    for parents in TREES.values():
        assert [variable for variable, parent in enumerate(parents) if variable == parent] == [
            trees._from_the_root(parents)[0]
        ]
        assert len(trees._from_the_root(parents)) == len(parents)
        assert len({parents.count(variable) for variable in range(len(parents))}) > 3


@pytest.mark.parametrize("fold", [False, True])
def test_a_tree_sums_over_hidden_states(branching: TreeSpec, fold: bool) -> None:
    compiled = TorchCompiler(dtype="float64", fold=fold).compile(agreement.described(branching))
    state = {key: value.numpy() for key, value in compiled.state_dict().items()}
    x = branching.data(4)
    expected = Oracle(compiled.symbolic, state).log(x.numpy()).astype(float)
    torch.testing.assert_close(compiled(x), torch.from_numpy(expected))
    every = torch.tensor(list(itertools.product(range(2), repeat=6)))
    assert float(compiled(every).exp().sum().detach()) == pytest.approx(1.0)


def test_each_edge_of_a_tree_is_a_sum(branching: TreeSpec) -> None:
    circuit = branching.build()
    assert (len(circuit.input_layers), len(circuit.sum_layers), len(circuit.product_layers)) == (6, 6, 3)
    assert sorted(layer.arity for layer in circuit.product_layers) == [2, 3, 3]
    assert sorted(layer.num_output_units for layer in circuit.sum_layers) == [1, 3, 3, 3, 3, 3]


def test_the_tree_of_data_is_found_and_rooted_at_its_centre() -> None:
    # a chain 0 - 3 - 1 - 4 - 2 of noisy copies; its centre is 1
    rng = np.random.default_rng(0)
    rows = np.zeros((4000, 5), dtype="uint8")
    rows[:, 0] = rng.integers(2, size=4000)
    for before, after in ((0, 3), (3, 1), (1, 4), (4, 2)):
        rows[:, after] = rows[:, before] ^ (rng.random(4000) < 0.1)
    assert trees.chow_liu_parents(rows) == [3, 1, 4, 1, 1]


def test_trees_are_computed_from_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(2, size=(50, 11)).astype("uint8")
    np.savez(tmp_path / "debd_small.npz", train=np.packbits(rows, axis=1), num_variables=11)
    monkeypatch.setattr(trees, "TREES", {"small": []})
    trees.main([str(tmp_path), "--out", str(tmp_path / "trees.json")])
    assert json.loads((tmp_path / "trees.json").read_text()) == {"small": trees.chow_liu_parents(rows)}
