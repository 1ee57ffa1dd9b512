"""What notebooks show of values that are no circuits: Programs, posteriors, models of tables."""

import io
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import plica
import plica.numpy as pnp
import plica.tables
from plica.draw import draw_circuit, draw_curves, inpainting_grid, sample_grid
from plica.lower.queries.answers import Posterior
from plica.queries import posterior
from plica.symbolic.layers import BernoulliLayer, GaussianLayer, HadamardLayer


def cells_of(html: str) -> list[list[str]]:
    """The cells of the lines of a table."""
    return [
        [unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", line)]
        for line in re.findall(r"<tr>(.*?)</tr>", html)
    ]


def test_pictures_are_returned_and_shown() -> None:
    coin = BernoulliLayer([0], 1)
    images = np.arange(20.0).reshape(5, 4)
    figures: list[Any] = [
        draw_circuit(plica.Circuit([coin], {}, [coin])),
        draw_curves({"valid": [(0, 3.0), (1, 2.0)]}),
        sample_grid(images, images, image_shape=(1, 2, 2)),
        inpainting_grid({"truth": images}, images, np.arange(4) > 1, image_shape=(1, 2, 2)),
    ]
    assert all(isinstance(figure, Figure) for figure in figures)
    for figure in figures:
        picture = Image.open(io.BytesIO(figure._repr_png_()))
        assert min(picture.size) > 50
        assert len(np.unique(np.asarray(picture))) > 10  # not blank


def test_programs_show_the_explorer() -> None:
    program = plica.trace(lambda x, w: x @ pnp.exp(w), plica.spec(("b", 4)), plica.spec((4, 3)))
    for subject in (program, plica.fold_constants(program, run_time=("w",))):
        page = unescape(subject._repr_html_())
        [record] = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)
        assert json.loads(record)["subject"] == "program"
        assert "= exp w" in json.loads(record)["text"]


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_posteriors_show_states_and_numbers(library: str) -> None:
    coin, height = BernoulliLayer([0], 1), GaussianLayer([1], 1)
    product = HadamardLayer(1, arity=2)
    model = plica.compile(plica.Circuit([coin, height, product], {product: [coin, height]}, [product]))
    answer = posterior(model, [[1, np.nan], [np.nan, 2.5]])
    if library == "numpy":
        parts = (getattr(answer, name).detach().numpy() for name in ("probabilities", "mean", "stddev"))
        answer = Posterior(*parts)
    heads, *lines = cells_of(answer._repr_html_())
    assert heads == ["row", "variable", "most probable states", "mean", "standard deviation"]
    assert [line[:2] for line in lines] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    assert lines[0][2] == "1: 1"
    assert [float(part.split(": ")[1]) for part in lines[2][2].split(", ")] == sorted(
        (float(f"{share:.3g}") for share in answer.probabilities[1, 0].tolist()), reverse=True
    )
    assert lines[1][3:] == [f"{float(answer.mean[0, 1]):.4g}", f"{float(answer.stddev[0, 1]):.4g}"]
    assert lines[3][3:] == ["2.5", "0"]


def test_long_posteriors_are_cut_and_empty_ones_have_no_lines() -> None:
    def of(rows: int) -> Any:
        return Posterior(np.zeros((rows, 7, 2)), np.ones((rows, 7)), np.zeros((rows, 7)))

    assert cells_of(of(50)._repr_html_())[-1][0] == "and 250 more"
    assert len(cells_of(of(0)._repr_html_())) == 1


def test_models_of_tables_show_their_columns() -> None:
    rows = {
        "<pet>": ["cat", "dog", None] * 20,
        "code": [f"kind {number % 12}" for number in range(60)],
        "weight": np.linspace(1.0, 9.0, 60),
        "same": ["x"] * 60,
    }
    model = plica.tables.fit(rows, units=2, epochs=1)
    html = model._repr_html_()
    assert html.startswith(f"<details><summary>{model!r}</summary>")
    heads, *lines = cells_of(html)
    assert heads == ["column", "kind", ""]
    assert {name: kind for name, kind, _ in lines} == dict(model.columns)
    described = {name: text for name, _, text in lines}
    assert described["<pet>"] == "cat, dog"
    assert described["code"].endswith("and 4 more")
