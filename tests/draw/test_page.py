"""Pages of HTML stand alone: nothing is loaded from elsewhere, and a browser draws them."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from plica.draw.canvas import new_figure, save_figure
from plica.draw.curves import draw_curves
from plica.draw.inpainting import inpainting_grid
from plica.draw.page import Page

BROWSER = shutil.which("chromium")


def a_page(folder: Path) -> Page:
    figure = new_figure(2, 1)
    figure.add_axes((0.2, 0.2, 0.7, 0.7)).plot([1, 2])
    save_figure(figure, folder / "figure.svg")
    save_figure(figure, folder / "figure.png")
    page = Page("<Rows & columns>")
    page.section("Figures")
    page.paragraph("a < b")
    page.table(("part", "share"), [("x", "<1"), ("y", "2")], bars=[0.5, 1.0])
    page.picture(folder / "figure.png", 'a "figure"')
    page.drawing(folder / "figure.svg")
    page.drawing(folder / "figure.svg", zoom=True)
    page.text_block("{ let }", "equations")
    return page


def test_a_page_stands_alone_and_shows_text_as_it_is(tmp_path: Path) -> None:
    text = a_page(tmp_path).text()
    assert not re.search(r"https?:|\"//|<link|@import|url\((?!#)|src=\"(?!data:)", text)
    assert "&lt;Rows &amp; columns&gt;" in text
    assert "<td>&lt;1</td>" in text
    assert text.count("<svg") == 2


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_draws_it_the_wheel_zooms_and_dragging_moves(tmp_path: Path) -> None:
    wheel = """<script>
      const svg = document.querySelector('.zoom svg'), before = svg.viewBox.baseVal.width;
      const wheel = (deltas) => svg.dispatchEvent(
        new WheelEvent('wheel', {clientX: 100, clientY: 100, cancelable: true, ...deltas}));
      wheel({deltaX: 120});  // sideways: nothing to zoom
      wheel({deltaY: -3, deltaMode: WheelEvent.DOM_DELTA_LINE});
      const zoomed = svg.viewBox.baseVal.width / before;
      svg.setPointerCapture = () => null;  // there is no pointer
      const drag = (button) => {
        const places = [['pointerdown', 100], ['pointermove', 150], ['lostpointercapture', 150], ['pointermove', 300]];
        const [start, , held, end] = places.map(([name, clientX]) => {
          svg.dispatchEvent(new PointerEvent(name, {button, clientX, clientY: 100}));
          return svg.viewBox.baseVal.x;
        });
        return [Math.sign(held - start), end - held];
      };
      const picture = document.querySelector('img');
      document.body.dataset.found = [zoomed, picture.naturalWidth > 0, ...drag(2), ...drag(0)].join(' ');
    </script></body>"""
    path = tmp_path / "page.html"
    path.write_text(a_page(tmp_path).text().replace("</body>", wheel), encoding="utf-8")
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom"]
    assert BROWSER is not None
    found = subprocess.run([BROWSER, *words, path.as_uri()], capture_output=True, text=True, check=True, timeout=120)
    (told,) = re.findall('data-found="(.*?)"', found.stdout)
    factor, *others = told.split()
    assert float(factor) == pytest.approx(0.8, rel=1e-3)
    assert others == ["true", "0", "0", "-1", "0"]  # still under the right button, moved by the left until let go


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
