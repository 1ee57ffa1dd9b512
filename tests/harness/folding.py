"""Folding of plain graphs, where a folded node is the tuple of its members; folded circuits against unfolded ones."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.graph.fold import FoldedGraph, build_folded_graph, order_folds, schedule
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LayerRow
from tests.harness.oracle import Oracle, References, gradients, numbers


def fold_nodes(nodes: Iterable[Any], outputs: Iterable[Any], inputs: Any, settings: Any) -> FoldedGraph[Any, Any]:
    """Schedule, order and fold."""
    wanted = tuple(outputs)
    ordering = order_folds(schedule(tuple(nodes), inputs, settings), wanted, inputs)
    return build_folded_graph(ordering, wanted, inputs, tuple, fold_settings=settings)


def fold_groups(groups: Any, outputs: Iterable[Any], inputs: Any) -> FoldedGraph[Any, Any]:
    """Fold groups as they are."""
    return build_folded_graph(groups, outputs, inputs, tuple, fold_settings=type)


def check_folding(
    circuit: Circuit,
    x: Any,
    semiring: str = "lse-sum",
    rows: Iterable[LayerRow] = (),
    references: References | None = None,
    optimize: bool = True,
) -> TorchCircuit:
    """The folded circuit, after its values were compared to the oracle's and its gradients to the unfolded one's."""
    folded, single = (TorchCompiler(semiring, fold=fold, optimize=optimize, dtype="float64") for fold in (True, False))
    for row in rows:
        folded.add_layer_rule(row)
        single.add_layer_rule(row)
    both = folded.compile(circuit), single.compile(circuit)
    both[1].load_state_dict(both[0].state_dict())
    oracle = Oracle(circuit, numbers(both[0]), references)
    expected = oracle.log(x) if semiring == "lse-sum" else oracle.linear(x)
    for compiled in both:
        result = compiled(torch.as_tensor(x)) if circuit.scope else compiled()
        np.testing.assert_allclose(result.detach(), expected.astype(float), rtol=1e-10, atol=1e-12)
        result.pow(2).sum().backward()
    for key, gradient in gradients(both[1]).items():
        np.testing.assert_allclose(gradients(both[0])[key], gradient, rtol=1e-8, atol=1e-11, err_msg=key)
    return both[0]
