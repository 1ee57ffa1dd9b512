"""Folded functions answer the same bits: sums and products add in the order that the whole Program adds in.

Libraries choose that order by the strides of what they read, so the order shows whether a constant lies as it would.
The elementwise operations are those that libraries round correctly, whatever the size of an array.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp

Function = Callable[..., Any]
STEPS: tuple[Function, ...] = (
    lambda c: c * c,
    lambda c: -c,
    lambda c: c * 1.7 + 0.3,
    lambda c: pnp.sqrt(pnp.abs(c)),
    lambda c: pnp.permute_dims(pnp.permute_dims(c, (1, 0)) * 1.1, (1, 0)),
)
READERS: dict[str, Function] = {
    "product": lambda x, c: x @ c,
    "product with a transposed matrix": lambda x, c: pnp.permute_dims(c, (1, 0)) @ x.T,
    "product with a vector": lambda x, c: pnp.sum(x @ pnp.reshape(c * 1.0, (-1, 1))[: x.shape[1]], axis=1),
    "einsum": lambda x, c: pnp.einsum("bi,ij->j", x, c),
    "einsum that keeps all axes": lambda x, c: pnp.einsum("bi,ij->bij", x, c),
    "columns": lambda x, c: pnp.sum(c, axis=0) + x[0, 0],
    "rows": lambda x, c: pnp.sum(c, axis=1) + x[0, 0],
    "all": lambda x, c: pnp.sum(c) + x[0, 0],
    "mean": lambda x, c: pnp.mean(c, axis=0) * x[0, 0],
    "variance": lambda x, c: pnp.var(c, axis=0) * x[0, 0],
    "product of entries": lambda x, c: pnp.prod(c, axis=0) * x[0, 0],
    "logsumexp": lambda x, c: pnp.logsumexp(c, axis=0) + x[0, 0],
    "softmax": lambda x, c: pnp.softmax(c, axis=1) * x[0, 0],
    "cumulative sum": lambda x, c: pnp.cumulative_sum(c, axis=0) * x[0, 0],
    "in front of an argument": lambda x, c: pnp.sum(c - x.T[:, :1], axis=0),
    "behind an argument": lambda x, c: pnp.sum(x.T[:, :1] - c, axis=1),
    "beside a transposed argument": lambda x, c: pnp.sum(c[:, :1] * 1.0 - x.T, axis=1),
    "scaled by an argument": lambda x, c: pnp.permute_dims(c / (2.0 + x[0, 0] ** 2), (1, 0)) @ x.T,
}


def _expanded(rng: np.random.Generator, rows: int, columns: int) -> tuple[tuple[int, ...], Function]:
    """The shape of a constant, and what expands it."""
    shape = ((columns,), (1, columns), (rows, 1), (1, 1), (1,), ())[rng.integers(6)]
    if len(shape) == 2 and rng.random() < 0.5:
        tiles = rows // shape[0], columns // shape[1]
        if rng.random() < 0.5:
            return shape, lambda w: pnp.tile(w, tiles)
        return shape, lambda w: pnp.repeat(pnp.repeat(w, tiles[0], axis=0), tiles[1], axis=1)
    return shape, lambda w: pnp.broadcast_to(w, (rows, columns))


def _draw(seed: int, read: Function) -> tuple[Function, list[Any]]:
    """A function of x, and of the constants w, which it expands, and v beside it; and arrays to call it with."""
    rng = np.random.default_rng(seed)
    rows, columns, batch = (int(size) for size in rng.integers(2, 70, 3))
    shape, expand = _expanded(rng, rows, columns)
    steps = [STEPS[number] for number in rng.integers(len(STEPS), size=rng.integers(1, 4))]
    place = rng.integers(len(steps) + 1)
    beside = ((rows, 1), (columns,), (1,))[rng.integers(3)]

    def function(x: Any, w: Any, v: Any) -> Any:
        for step in steps[:place]:
            w = step(w) if w.ndim == 2 else w * 1.7
        w = expand(w)
        w = w * v if seed % 3 == 0 else w * 1.3
        for step in steps[place:]:
            w = step(w)
        return read(x, w)

    dtype = ("float32", "float64")[rng.integers(2)]
    return function, [rng.standard_normal(size).astype(dtype) for size in ((batch, rows), shape, beside)]


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.full)], ids=str)
@pytest.mark.parametrize("backend", ["torch", "interpreter"])
@pytest.mark.parametrize("name", READERS)
def test_an_expanded_constant_is_added_in_the_same_order(name, backend, seeds) -> None:
    for seed in seeds:
        function, arrays = _draw(seed, READERS[name])
        program = plica.trace(function, *(plica.spec(one.shape, one.dtype) for one in arrays))
        policy = plica.FoldPolicy(max_growth=(0, None)[seed % 2])
        folded = plica.fold_constants(program, run_time=("w", "v"), policy=policy)
        found = np.asarray(folded.compile(backend)(arrays[0], w=arrays[1], v=arrays[2]))
        assert found.tobytes() == np.asarray(plica.jit(function, backend=backend)(*arrays)).tobytes(), str(program)
