from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plica.draw.images import sample_grid
from plica.errors import ShapeError
from tests.harness.pairwise import by_turns


def rows(count: int, width: int, values: int = 17) -> np.ndarray:
    return np.random.default_rng(0).integers(0, values, (count, width))


SHAPES = [(64, (1, 8, 8)), (12, (3, 2, 2)), (8, (2, 2, 2)), (40, (1, 4, 10)), (5, None), (300, None)]


@by_turns(of=SHAPES, count=[1, 5, 100])
def test_grids_of_many_shapes(tmp_path: Path, of: tuple[int, tuple[int, int, int] | None], count: int) -> None:
    width, shape = of
    sample_grid(rows(count, width), rows(7, width) * 1.0, tmp_path / "a.png", image_shape=shape)
    with Image.open(tmp_path / "a.png") as image:
        assert min(image.size) > 200


def test_samples_and_real_rows_have_one_scale(tmp_path: Path) -> None:
    dark, light = np.full((1, 4), 0), np.full((1, 4), 4)
    dark[0, 0], light[0, 0] = 4, 0
    sample_grid(dark, light, tmp_path / "a.png", image_shape=(1, 2, 2))
    image = np.asarray(Image.open(tmp_path / "a.png").convert("L"))
    _, width = image.shape
    assert image[-200, width // 3] == 0  # lower right pixel of the left image
    assert image[-200, -200] == 255


def test_columns_of_several_kinds_have_scales_of_their_own(tmp_path: Path) -> None:
    real = np.array([[0.0, 1000.0], [1.0, np.nan], [np.nan, 3000.0]])
    drawn = np.array([[1.0, 1000.0], [0.0, 9000.0], [0.0, 3000.0]])
    sample_grid(drawn, real, tmp_path / "a.png", columns=("state", "a name of many letters, too many to be shown"))
    image = np.asarray(Image.open(tmp_path / "a.png").convert("L")).astype(int)
    line = image[300]  # of the first row of both panels
    width = len(line)
    left, right, first, second = (line[int(width * share)] for share in (0.15, 0.4, 0.6, 0.85))
    assert left > 200 > 50 > right  # the larger state, the smaller number
    assert max(first, second) < 50


def test_values_beyond_those_of_real_rows_are_clipped(tmp_path: Path) -> None:
    sample_grid(rows(4, 4) * 1e6, rows(4, 4), tmp_path / "a.png", image_shape=(1, 2, 2))
    sample_grid(rows(4, 4), np.zeros((4, 4)), tmp_path / "b.png", image_shape=(1, 2, 2))


def test_the_same_rows_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        sample_grid(rows(9, 64), rows(9, 64), tmp_path / name, image_shape=(1, 8, 8))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_rows_that_are_not_images_of_that_shape(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"rows of 5 values cannot be drawn as images of shape \(1, 2, 2\)"):
        sample_grid(rows(4, 5), rows(4, 5), tmp_path / "a.png", image_shape=(1, 2, 2))
