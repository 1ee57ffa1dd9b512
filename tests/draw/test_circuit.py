import re
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from plica.draw.canvas import new_figure
from plica.draw.circuit import draw_circuit
from plica.draw.marks import Heading, draw_kind
from plica.draw.view import Role, describe_kinds, view_circuit
from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import SumLayer
from plica.templates.data_modalities import image_data
from tests.harness.circuits import CIRCUITS, chain, coin


def picture(side: int, graph: str = "quad-tree-2", layer: str = "cp") -> Circuit:
    return image_data(
        (1, side, side), graph, input_layer="categorical", num_input_units=4, sum_product_layer=layer, num_sum_units=4
    )


def texts(path: Path) -> list[str]:
    """What matplotlib wrote as text; it keeps each text as a comment beside its outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def test_a_view_tells_what_a_circuit_holds() -> None:
    circuit = picture(2)
    view = view_circuit(circuit)
    assert view.num_variables == 4
    assert len(view.layers) == len(circuit.layers)
    assert view.kinds == (("Categorical", "input"), ("Sum", "sum"), ("Hadamard", "product"))
    assert view.outputs == (len(view.layers) - 1,)
    assert view.layers[-1].variables == (0, 1, 2, 3)
    counts = {kind: (count, units) for kind, _, count, units in describe_kinds(view.layers)}
    assert counts == {"Categorical": (4, "4"), "Sum": (7, "1-4"), "Hadamard": (3, "4")}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CIRCUITS)
def test_every_kind_of_circuit_is_drawn(tmp_path: Path, name: str) -> None:
    circuit = CIRCUITS[name]()
    draw_circuit(circuit, tmp_path / "a.svg", title=name)
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    found = texts(tmp_path / "a.svg")
    assert name in found
    edges = sum(len(circuit.layer_inputs(layer)) for layer in circuit.layers)
    assert f"{len(circuit.layers)} layers, {edges} edges, {circuit.num_variables} variables" in found
    assert {type(layer).__name__.removesuffix("Layer") for layer in circuit.layers} <= set(found)


KINDS: dict[str, list[tuple[str, Role]]] = {
    "few": [("Categorical", "input"), ("Sum", "sum"), ("Hadamard", "product")],
    "many": [(f"NegativeBinomial{number}", "input") for number in range(12)],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("letters", [5, 40, 60, 400])
def test_titles_and_legends_keep_apart(kinds: str, letters: int) -> None:
    figure = new_figure(10, 3)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 3)
    heading = Heading.of("m" * letters, "few layers", KINDS[kinds], 9.0)
    heading.draw(axes, 0.5, 3.0)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 2 + len(KINDS[kinds])
    for box in boxes:
        left, bottom, right, top = np.asarray(box.extents) / figure.dpi
        assert left > 0.45
        assert right < 9.55
        assert bottom > 3.0 - heading.height
        assert top < 3.0
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("kind", ["Sum", "NegativeBinomial", "MultivariateGaussian", "m" * 60])
@pytest.mark.parametrize("units", ["1", "32", "1-1024"])
def test_kinds_and_their_units_keep_apart(kind: str, units: str) -> None:
    axes = new_figure(3, 1).add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 3)
    draw_kind(axes, kind, units, "black", (0.5, 2.3), 0.5)
    last, first = (np.asarray(text.get_window_extent().extents)[::2] / axes.figure.dpi for text in axes.texts)
    assert first[0] > 0.48
    assert first[1] < last[0]
    assert last[1] < 2.32


@pytest.mark.parametrize(
    ("side", "kind"),
    [
        pytest.param(side, kind, marks=[] if side == 8 and kind != "pdf" else pytest.mark.full)
        for side in (8, 28)
        for kind in ("svg", "png", "pdf")
    ],
)
def test_the_same_circuit_gives_the_same_file(tmp_path: Path, side: int, kind: str) -> None:
    for name in ("a", "b"):
        draw_circuit(picture(side), tmp_path / f"{name}.{kind}", (1, side, side))
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_rows_and_layers_are_labelled(tmp_path: Path) -> None:
    draw_circuit(picture(8), tmp_path / "a.svg", (1, 8, 8))
    found = texts(tmp_path / "a.svg")
    assert found.count("4 units") == 13
    assert found.count("1 unit") == 1
    assert "Hadamard 4" in found
    assert "64" in found
    assert (tmp_path / "a.svg").stat().st_size < 400_000


def test_large_circuits_are_drawn_by_level(tmp_path: Path) -> None:
    draw_circuit(picture(28), tmp_path / "a.svg", (1, 28, 28))
    found = texts(tmp_path / "a.svg")
    assert "3,134 layers, 3,133 edges, 784 variables, 22 levels" in found
    assert "576" in found
    assert (tmp_path / "a.svg").stat().st_size < 400_000


def test_deep_circuits_leave_out_levels(tmp_path: Path) -> None:
    draw_circuit(chain(coin([0], 2), *[SumLayer(2, 2) for _ in range(99)]), tmp_path / "a.svg")
    assert "60 more levels" in texts(tmp_path / "a.svg")


def test_pictures_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"a\.gif: pictures are written as \.svg, \.png or \.pdf, not 'gif'"):
        draw_circuit(picture(2), tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[draw\]'"):
        draw_circuit(picture(2), tmp_path / "a.svg")


def test_drawing_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    draw_circuit(picture(2), tmp_path / "a.svg")
    assert dict(mpl.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_tiles_show_the_pixels_of_the_scope(tmp_path: Path) -> None:
    from PIL import Image

    draw_circuit(picture(2), tmp_path / "a.png", (1, 2, 2))
    pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).reshape(-1, 3)
    green, tinted = (pixels == (0x2F, 0x8F, 0x6B)).all(1).sum(), (pixels == (0xDE, 0xED, 0xE7)).all(1).sum()
    assert tinted / green == pytest.approx(3, rel=0.3)  # each of four inputs fills a quarter of its tile
