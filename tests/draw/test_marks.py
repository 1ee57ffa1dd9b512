import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from plica.draw.marks import colours, place_rectangles, scope_rectangles, tint


@hypothesis.given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.data())
def test_rectangles_cover_the_scope_once(height: int, width: int, channels: int, data: st.DataObject) -> None:
    size = channels * height * width
    scope = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    covered = np.zeros((height, width), int)
    for x, y, w, h in scope_rectangles(scope, (channels, height, width)):
        left, right = round(x * width), round((x + w) * width)
        top, bottom = round((1 - y - h) * height), round((1 - y) * height)
        covered[top:bottom, left:right] += 1
    expected = np.zeros((height, width), int)
    for variable in scope:
        expected.flat[variable % (height * width)] = 1
    np.testing.assert_array_equal(covered, expected)


def test_a_block_is_one_rectangle() -> None:
    scope = [row * 8 + column for row in range(2, 6) for column in range(4)]
    assert scope_rectangles(scope, (1, 8, 8)) == ((0.0, 0.25, 0.5, 0.5),)


def test_small_rectangles_stay_visible_and_inside() -> None:
    (placed,) = place_rectangles([(0.99, 0.0, 0.01, 0.01)], left=1.0, bottom=2.0, size=0.2, least=0.05)
    assert placed == pytest.approx((1.15, 2.0, 0.05, 0.05))
    (whole,) = place_rectangles([(0.0, 0.0, 1.0, 1.0)], left=1.0, bottom=2.0, size=0.2)
    assert whole == pytest.approx((1.0, 2.0, 0.2, 0.2))


def test_kinds_have_colours_of_their_own() -> None:
    kinds = [("A", "input"), ("B", "input"), ("Sum", "sum"), ("Hadamard", "product"), ("Kronecker", "product")]
    chosen = colours(kinds)  # type: ignore[arg-type]
    assert len(set(chosen.values())) == len(kinds)
    many = colours([(str(i), "input") for i in range(20)])
    assert len(many) == 20


def test_tints() -> None:
    assert tint("#102030", 0.0) == "#102030"
    assert tint("#102030", 1.0) == "#ffffff"
