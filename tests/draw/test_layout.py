import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from plica.draw.layout import depths, lay_out, spread
from plica.draw.view import view_circuit
from plica.templates.data_modalities import image_data


@st.composite
def dags(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    """Inputs of each node of a DAG in topological order."""
    size = draw(st.integers(1, 12))
    return tuple(
        tuple(draw(st.lists(st.integers(0, node - 1), max_size=3, unique=True))) if node else () for node in range(size)
    )


@hypothesis.given(dags())
def test_rows_hold_every_node_below_its_readers(inputs: tuple[tuple[int, ...], ...]) -> None:
    layout = lay_out(inputs, outputs=(len(inputs) - 1,))
    row_of = {node: row for row, nodes in enumerate(layout.rows) for node in nodes}
    assert sorted(row_of) == list(range(len(inputs)))
    assert all(row_of[child] > row_of[node] for node, children in enumerate(inputs) for child in children)
    for row, nodes in enumerate(layout.rows):
        xs = [layout.x[node] for node in nodes]
        assert all(right - left >= 1 - 1e-9 for left, right in itertools.pairwise(xs))
        assert layout.gap(row) >= 1 - 1e-9
    assert min(layout.x) == pytest.approx(0)
    assert layout.width == pytest.approx(max(layout.x))


@pytest.mark.parametrize("graph", ["quad-tree-2", "quad-tree-4", "random-binary-tree"])
@pytest.mark.parametrize("layer", ["cp", "tucker"])
def test_trees_do_not_cross(graph: str, layer: str) -> None:
    circuit = image_data(
        (1, 5, 6), graph, input_layer="categorical", num_input_units=2, sum_product_layer=layer, num_sum_units=2
    )
    view = view_circuit(circuit)
    layout = lay_out(view.inputs, view.outputs)
    depth = depths(view.inputs)
    edges: dict[int, list[tuple[float, float]]] = {}
    for node, children in enumerate(view.inputs):
        for child in children:
            assert depth[child] == depth[node] + 1
            edges.setdefault(depth[node], []).append((layout.x[node], layout.x[child]))
    for row in edges.values():
        for (a, b), (c, d) in itertools.combinations(row, 2):
            assert (a - c) * (b - d) >= -1e-9, "two edges cross"


def test_nodes_lie_over_the_middle_of_their_inputs() -> None:
    layout = lay_out(((), (), (), (), (0, 1), (2, 3), (4, 5)), outputs=(6,))
    assert layout.rows == ((6,), (4, 5), (0, 1, 2, 3))
    assert [layout.x[node] for node in (0, 1, 2, 3)] == [0, 1, 2, 3]
    assert layout.x[4] == pytest.approx(0.5, abs=0.2)
    assert layout.x[6] == pytest.approx(1.5)


def test_shared_nodes_are_placed_once() -> None:
    layout = lay_out(((), (0,), (0,), (1, 2)), outputs=(3,))
    assert layout.rows == ((3,), (1, 2), (0,))


def test_one_node_and_none() -> None:
    assert lay_out(((),), outputs=(0,)).rows == ((0,),)
    assert lay_out(((),), outputs=(0,)).gap(0) == 1.0
    assert lay_out((), outputs=()).rows == ()


@hypothesis.given(st.lists(st.floats(-50, 50), max_size=12).map(sorted))
def test_spread_is_the_nearest_row_with_gaps(wanted: list[float]) -> None:
    found = spread(wanted)
    assert all(right - left >= 1 - 1e-9 for left, right in itertools.pairwise(found))
    cost = sum((x - y) ** 2 for x, y in zip(found, wanted, strict=True))
    rng = np.random.default_rng(0)
    for _ in range(20):  # no admissible row nearby is better
        other = np.sort(np.array(found) + rng.normal(0, 0.1, len(found)))
        if all(np.diff(other) >= 1):
            assert ((other - wanted) ** 2).sum() >= cost - 1e-9
