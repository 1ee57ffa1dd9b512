"""Unsigned integers of 16, 32 and 64 bits: what torch has not, computed with int64, is what the interpreter says."""

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.operations import ROWS
from plica.backend.torch.operations.call import Unsigned
from plica.errors import UnsupportedError
from tests.harness.programs import assert_same, run_torch, to_torch
from tests.harness.together import grouped

_MODULAR, _ORDERED = ([name for name, row in ROWS.items() if row.unsigned is kind] for kind in Unsigned)
CALLS = {
    **{name: getattr(pnp, name) for name in (*_MODULAR, *_ORDERED) if hasattr(pnp, name)},
    **{
        name: lambda x, y, name=name: getattr(pnp, name)(x)  # noqa: ARG005
        for name in (
            *("abs", "argmax", "argmin", "bitwise_invert", "flip", "max", "min"),
            *("negative", "nonzero", "sign", "square", "tril", "triu"),
        )
    },
    "bitwise_left_shift": lambda x, y: pnp.bitwise_left_shift(x, pnp.remainder(pnp.astype(y, "uint8"), 8)),
    "bitwise_right_shift": lambda x, y: pnp.bitwise_right_shift(x, 3),  # noqa: ARG005
    "clip": lambda x, y: pnp.clip(x, y, 40_000),
    "cross": pnp.linalg.cross,
    "einsum": lambda x, y: pnp.einsum("ij,kj->ik", x, y),
    "gather": lambda x, y: pnp.index(x, y[0] * 0 + 1),
    "index": lambda x, y: pnp.index(x, pnp.argsort(y[2])[0]),
    "lookup": lambda x, y: pnp.lookup(x[None], pnp.astype(y[:1] * 0 + 2, "int64")),
    "pow": lambda x, y: pnp.pow(x, 3),  # noqa: ARG005
    "searchsorted": lambda x, y: pnp.searchsorted(pnp.sort(pnp.reshape(x, (-1,))), y),
    "take": lambda x, y: pnp.take(x, y[0, :1] * 0 + 2, axis=1, nonnegative=True),
    "take_along_axis": lambda x, y: pnp.take_along_axis(x, pnp.argsort(y, axis=1), axis=1),
    "update": lambda x, y: pnp.update(pnp.update(x, (y[0] * 0 + 1, 2), 5, "add"), pnp.argsort(y[2]), y, "multiply"),
}


def _arrays(dtype: str):
    top = np.iinfo(dtype).max
    x = np.asarray([[0, 1, 7], [top, top - 1, 300], [5, 2, top // 2 + 3]], dtype)
    return x, np.asarray([[1, 3, 7], [2, top, 299], [top, 5, 9]], dtype)


@grouped("name", [*_MODULAR, *_ORDERED])
@grouped("dtype", ["uint16", "uint32", "uint64"])
def test_every_function_is_that_of_the_interpreter(name: str, dtype: str) -> None:
    x, y = _arrays(dtype)
    call = CALLS[name]
    program = plica.trace(call, plica.spec((3, 3), dtype), plica.spec((3, 3), dtype))
    if dtype == "uint64" and name in _ORDERED:
        message = r"torch has no \w+ of uint64; convert with astype\(x, 'int64'\)"
        for run in (lambda: call(to_torch(x), to_torch(y)), lambda: run_torch(program, to_torch(x), to_torch(y))):
            with pytest.raises(UnsupportedError, match=message):
                run()
        return
    for one, other in zip(run_torch(program, to_torch(x), to_torch(y)), plica.interpret(program, x, y), strict=True):
        assert_same(one, other)


def test_numbers_that_only_uint64_has() -> None:
    x = to_torch(np.asarray([0, 1, 1 << 63], "uint64"))
    assert pnp.add(x, (1 << 64) - 1).tolist() == [(1 << 64) - 1, 0, (1 << 63) - 1]
    assert pnp.isin(x, x[2:]).tolist() == [False, False, True]
    assert pnp.at(x)[torch.tensor([0, 0])].multiply(x[1:]).tolist() == x.tolist()
    with pytest.raises(UnsupportedError, match="torch has no update of uint64"):
        pnp.at(x)[torch.tensor([0])].max(5)


def test_a_loop_carries_them() -> None:
    @plica.jit(abstracted_axes={0: "n"})
    def total(x, n):
        return plica.for_loop(0, n, 1, lambda i, a: pnp.maximum(a + x, pnp.astype(i, "uint16")), x)

    assert total(to_torch(np.asarray([1, 65_535], "uint16")), 2).tolist() == [3, 65_533]


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_data_of_them_goes_the_usual_ways(dtype: str) -> None:
    """Indices, updates, conversions, sums: what rows of data meet first."""
    x = np.asarray([3, 1, 2, 1], dtype)
    for call in (
        lambda a: pnp.take(a, pnp.remainder(pnp.astype(a, "uint8"), 4)),
        lambda a: pnp.astype(a, "float32") / 255,
        lambda a: pnp.mean(a),
        lambda a: pnp.sum(a, axis=0),
        lambda a: pnp.sort(a),
        lambda a: pnp.unique_all(a).values,
        lambda a: pnp.where(a == 1, a, 9),
        lambda a: pnp.at(a)[1].set(7),
        lambda a: pnp.at(a)[pnp.asarray(a, copy=True) * 0].add(2),
        lambda a: pnp.index(pnp.concat([a, a]), slice(None, None, -1)),
    ):
        assert_same(call(to_torch(x)), np.asarray(call(x)))
