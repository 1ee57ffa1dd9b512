"""Hidden Chow-Liu trees: irregular circuits, whose folded layers read their inputs in many runs.

Each variable has a hidden state, which depends on that of its parent. The trees in `trees.json` join the variables of
public binary data sets that say most of each other. They were computed by `python -m benchmarks.trees FOLDER` from
`debd_NAME.npz` there, with the rows to train on as bits packed along axis 1; nothing else needs the data. In accidents
two columns are equal, so that several trees are as good: the command now gives another one than the file holds.

>>> TreeSpec("plants", 4).build()
Circuit(187 layers, 69 variables, 1 output(s) of 1 unit(s))
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from plica import Circuit

_FILE = Path(__file__).with_name("trees.json")
TREES: dict[str, list[int]] = json.loads(_FILE.read_text())
"""The parent of each variable by data set; the root is its own."""


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """A hidden Chow-Liu tree over binary variables.

    Args:
        data_set: One of `TREES`.
        num_units: The hidden states of each variable.
    """

    data_set: str
    num_units: int

    num_values = 2

    @property
    def name(self) -> str:
        """What the circuit is called on the command line."""
        return f"hidden-tree-{self.data_set}-{self.num_units}"

    @property
    def num_variables(self) -> int:
        """The number of columns of the data."""
        return len(TREES[self.data_set])

    def build(self) -> Circuit:
        """The symbolic circuit."""
        from plica.symbolic.layers import CategoricalLayer

        def input_layer(scope: Any, num_units: int) -> Any:
            return CategoricalLayer(scope, num_units, num_categories=self.num_values)

        circuit: Circuit = self.assemble("plica", input_layer)
        return circuit

    def assemble(
        self, package: str, input_layer: Callable[..., Any], weight: Callable[..., Any] | None = None, _: Any = None
    ) -> Any:
        """The circuit in the language of `plica` or of a package with the same names, of given inputs and weights."""
        layers, circuit = (import_module(f"{package}.symbolic.{name}") for name in ("layers", "circuit"))
        scope = import_module("plica" if package == "plica" else f"{package}.utils.scope").Scope
        factory = {} if weight is None else {"weight_factory": weight}
        parents, units = TREES[self.data_set], self.num_units
        states: list[Any] = [input_layer(scope([variable]), units) for variable in range(len(parents))]
        nodes, edges = list(states), {}
        messages: list[list[Any]] = [[] for _ in parents]
        for variable in reversed(order := _from_the_root(parents)):
            if messages[variable]:
                product = layers.HadamardLayer(units, 1 + len(messages[variable]))
                edges[product] = [states[variable], *messages[variable]]
                states[variable] = product
                nodes.append(product)
            is_root = variable == order[0]
            message = layers.SumLayer(units, 1 if is_root else units, **factory)
            edges[message] = [states[variable]]
            nodes.append(message)
            messages[parents[variable]].append(message)
        return circuit.Circuit(nodes, edges, nodes[-1:])

    def data(self, batch: int, device: str = "cpu") -> Tensor:
        """Random rows, `(batch, num_variables)`, the same at each call."""
        import torch

        generator = torch.Generator().manual_seed(0)
        return torch.randint(self.num_values, (batch, self.num_variables), generator=generator).to(device)


def chow_liu_parents(rows: Any) -> list[int]:
    """The tree of the largest mutual information between neighbours, rooted at its centre.

    Args:
        rows: `(N, D)` of zeros and ones; each of the four cells of a pair is counted once more than it occurs.

    Returns:
        The parent of each variable; that of the root is the root.
    """
    from plica.templates.mutual_information import Codes, discrete_mutual_information
    from plica.templates.region_graph.chow_liu import maximum_spanning_tree

    codes = Codes.of_states("benchmarks.trees", rows, 2)
    tree = maximum_spanning_tree("benchmarks.trees", discrete_mutual_information(codes, pseudocount=4))
    return [variable if parent < 0 else int(parent) for variable, parent in enumerate(tree)]


def _from_the_root(parents: Sequence[int]) -> list[int]:
    """The variables, each after its parent."""
    children: list[list[int]] = [[] for _ in parents]
    order = [next(variable for variable, parent in enumerate(parents) if variable == parent)]
    for variable, parent in enumerate(parents):
        if variable != parent:
            children[parent].append(variable)
    for variable in order:
        order += children[variable]
    return order


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute the trees anew from a folder of data sets."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees", description="Compute trees.json from data.")
    parser.add_argument("folder", type=Path, help="where debd_NAME.npz are")
    parser.add_argument("--out", type=Path, default=_FILE, help="the file to write (trees.json)")
    options = parser.parse_args(arguments)
    trees = {name: chow_liu_parents(_rows(options.folder / f"debd_{name}.npz")) for name in TREES}
    options.out.write_text("{\n" + ",\n".join(f'"{name}": {tree}' for name, tree in trees.items()) + "\n}\n")


def _rows(path: Path) -> Any:
    with np.load(path) as file:
        return np.unpackbits(file["train"], axis=1)[:, : int(file["num_variables"])]


if __name__ == "__main__":
    main()
