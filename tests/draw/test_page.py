"""Pages of HTML stand alone: nothing is loaded from elsewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

from plica.draw.canvas import finished, new_figure
from plica.draw.curves import draw_curves
from plica.draw.inpainting import inpainting_grid
from plica.draw.page import Page


def a_page(folder: Path) -> Page:
    figure = new_figure(2, 1)
    figure.add_axes((0.2, 0.2, 0.7, 0.7)).plot([1, 2])
    finished(figure, folder / "figure.svg")
    finished(figure, folder / "figure.png")
    page = Page("<Rows & columns>")
    page.section("Figures")
    page.paragraph("a < b")
    page.table(("part", "share"), [("x", "<1"), ("y", "2")], bars=[0.5, 1.0])
    page.picture(folder / "figure.png", 'a "figure"')
    page.drawing(folder / "figure.svg")
    page.part("<p>as it is</p>")
    page.text_block("{ let }", "equations")
    return page


def test_a_page_stands_alone_and_shows_text_as_it_is(tmp_path: Path) -> None:
    text = a_page(tmp_path).text()
    assert not re.search(r"https?:|\"//|<link|@import|url\((?!#)|src=\"(?!data:)", text)
    assert "&lt;Rows &amp; columns&gt;" in text
    assert "<td>&lt;1</td>" in text
    assert text.count("<svg") == 1
    assert "<p>as it is</p>" in text


def test_curves_may_lack_points(tmp_path: Path) -> None:
    draw_curves({"train": [], "valid": [(0, 1.0)]}, tmp_path / "curves.png", best=0)
    assert (tmp_path / "curves.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize("shape", [(1, 2, 5), (3, 4, 4), (2, 3, 3)])
def test_images_of_any_channels_are_drawn(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, int(np.prod(shape))))
    hidden = np.arange(images.shape[1]) % 2 == 0
    inpainting_grid({"truth": images}, images, hidden, tmp_path / "a.png", image_shape=shape)
    assert (tmp_path / "a.png").read_bytes()[1:4] == b"PNG"


def test_a_curve_of_one_epoch_is_seen_and_epochs_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "curves.svg"
    draw_curves({"valid": [(0, 3.0), (1, 2.0)], "train": [(1, 2.5)]}, path)
    text = path.read_text(encoding="utf-8")
    assert "fill: #c4572e" in text  # a point; lines are not filled
    assert "<!-- 1 -->" in text
    assert "<!-- 0.2 -->" not in text
