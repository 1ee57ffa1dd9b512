"""`pack` and `unpack`: the formula, padding, sizes that are not known yet, gradients, and what is refused."""

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import InputError, ShapeError

X = np.arange(35.0, dtype="float32").reshape(5, 7)


def _packed(x: np.ndarray, tiles: tuple[int, int], padding: float) -> np.ndarray:
    """Tiles of a matrix with its axes exchanged, entry by entry."""
    outer = [-(-size // tile) for size, tile in zip(x.shape, tiles, strict=True)]
    found = np.full((outer[1], outer[0], tiles[1], tiles[0]), padding, x.dtype)
    for (row, column), value in np.ndenumerate(x):
        found[column // tiles[1], row // tiles[0], column % tiles[1], row % tiles[0]] = value
    return found


@pytest.mark.parametrize("backend", ["interpreter", "torch"])
@pytest.mark.parametrize("tiles", [(2, 3), (5, 7), (4, 1), (8, 8)])
def test_tiles_are_those_of_the_formula_whatever_the_size(backend, tiles) -> None:
    def fn(x):
        packed = pnp.pack(x, inner_dims_pos=(1, 0), inner_tiles=tiles[::-1], outer_dims_perm=(1, 0), padding_value=0.5)
        back = pnp.unpack(packed, inner_dims_pos=(1, 0), inner_tiles=tiles[::-1], outer_dims_perm=(1, 0), shape=x.shape)
        return packed, back

    compiled = plica.jit(fn, abstracted_axes=(("n", "m"),), backend=backend)
    for x in (X, X[:3, :4].copy(), X[:, :0].copy()):
        packed, back = compiled(x)
        assert np.array_equal(packed, _packed(x, tiles, 0.5))
        assert np.array_equal(back, x)
    assert compiled.num_compilations == 1


def test_gradients_flow_through_tiles_and_not_to_the_padding() -> None:
    @plica.jit
    def fn(x):
        packed = pnp.pack(x, inner_dims_pos=(0,), inner_tiles=(4,), padding_value=1.0)
        return pnp.sum(packed * packed)

    x = torch.from_numpy(X.copy()).requires_grad_()
    fn(x).backward()
    assert x.grad is not None
    assert torch.equal(x.grad, 2 * x.detach())


def test_what_is_packed_lies_in_memory_as_it_is_read() -> None:
    packed = plica.jit(lambda x: pnp.pack(x, inner_dims_pos=(0, 1), inner_tiles=(2, 2)))(torch.ones(4, 6))
    assert packed.shape == (2, 3, 2, 2)
    assert packed.is_contiguous()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"inner_dims_pos": (0,), "inner_tiles": (2,)},
            "axis 0 of size 5 is no multiple of the tile size 2; give a padding",
        ),
        ({"inner_dims_pos": (0, 0), "inner_tiles": (5, 1)}, "names an axis twice"),
        ({"inner_dims_pos": (0,), "inner_tiles": (5, 1)}, r"1 axes \(0,\) are cut into 2 tile"),
        ({"inner_dims_pos": (0,), "inner_tiles": (0,)}, "a tile has one entry or more"),
        ({"inner_dims_pos": (0,), "inner_tiles": (0,), "padding_value": 0}, "a tile has one entry or more"),
        ({"inner_dims_pos": (0,), "inner_tiles": (5,), "outer_dims_perm": (0, 0)}, "is no permutation of 2 axes"),
    ],
)
def test_what_cannot_be_packed_is_refused(options, message) -> None:
    with pytest.raises(ShapeError, match=message):
        plica.trace(lambda x: pnp.pack(x, **options), plica.spec((5, 7)))


@pytest.mark.parametrize("backend", ["interpreter", "torch"])
def test_tiles_that_do_not_fill_a_size_of_the_run_are_refused_then(backend) -> None:
    fn = plica.jit(
        lambda x: pnp.pack(x, inner_dims_pos=(0,), inner_tiles=(4,)), abstracted_axes=(("n",),), backend=backend
    )
    assert fn(np.ones(8, "float32")).shape == (2, 4)
    with pytest.raises(InputError, match="axis 0 of size 7 is no multiple of the tile size 4"):
        fn(np.ones(7, "float32"))


def test_what_does_not_end_with_the_tiles_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"does not end with tiles of \(3,\)"):
        plica.trace(lambda x: pnp.unpack(x, inner_dims_pos=(0,), inner_tiles=(3,)), plica.spec((5, 7)))
    with pytest.raises(ShapeError, match=r"unpack gives 1 axes, but the shape \(5, 7\) has 2"):
        plica.trace(lambda x: pnp.unpack(x, (0,), (7,), shape=(5, 7)), plica.spec((5, 7)))
