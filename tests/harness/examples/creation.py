"""Examples of functions that make arrays, of sizes that are known when a program runs."""
# ruff: noqa: ARG005 - the tables hold functions of a given number of arguments

from collections.abc import Callable
from typing import Any

import numpy as np

import plica.numpy as pnp
from tests.harness.examples.example import Example


def _made(name: str, arguments: str, call: Callable[..., Any], numpy: Callable[..., Any], **more: Any) -> Example:
    """An array made of sizes and numbers alone."""
    return Example(name, arguments, call, numpy, eager=False, **more)


EXAMPLES = [
    _made("full", "f", lambda x: pnp.full((2, x.shape[0]), 3), lambda x: np.full((2, len(x)), 3)),
    _made("full", "fF", lambda x, y: pnp.full(x.shape, y), lambda x, y: np.full(x.shape, y)),
    _made("full", "fN", lambda x, k: pnp.full(k, True), lambda x, k: np.full(k, True)),
    _made("full", "f", lambda x: pnp.full((), x.shape[1], dtype="float32"), lambda x: np.float32(x.shape[1])),
    _made("zeros", "f", lambda x: pnp.zeros(x.shape[1], dtype="int32"), lambda x: np.zeros(x.shape[1], "int32")),
    _made("zeros", "f", lambda x: pnp.zeros((2, 0)), lambda x: np.zeros((2, 0))),
    _made("ones", "f", lambda x: pnp.ones(x.shape), lambda x: np.ones(x.shape)),
    _made("ones", "fN", lambda x, k: pnp.ones([k, x.shape[0] + 1]), lambda x, k: np.ones((k, len(x) + 1))),
    _made("empty", "f", lambda x: pnp.empty(x.shape, dtype="bool"), lambda x: np.zeros(x.shape, "bool")),
    Example("full_like", "f", lambda x: pnp.full_like(x, 2), lambda x: np.full_like(x, 2)),
    Example("full_like", "fF", lambda x, y: pnp.full_like(x, y), lambda x, y: np.full_like(x, y)),
    Example("zeros_like", "i"),
    Example("zeros_like", "i", settings={"dtype": "float32"}),
    Example("ones_like", "f"),
    Example("empty_like", "f", numpy=np.zeros_like),
    # arange: integers
    _made("arange", "f", lambda x: pnp.arange(x.shape[0]), lambda x: np.arange(len(x))),
    _made("arange", "f", lambda x: pnp.arange(7, 1, -2), lambda x: np.arange(7, 1, -2)),
    _made("arange", "f", lambda x: pnp.arange(3, 1), lambda x: np.arange(3, 1)),
    _made("arange", "f", lambda x: pnp.arange(7, 1, -2, dtype="uint8"), lambda x: np.arange(7, 1, -2, dtype="uint8")),
    _made("arange", "f", lambda x: pnp.arange(1, x.shape[0]), lambda x: np.arange(1, len(x))),
    _made("arange", "f", lambda x: pnp.arange(1, x.shape[0] + 1), lambda x: np.arange(1, len(x) + 1)),
    _made("arange", "f", lambda x: pnp.arange(x.shape[1], x.shape[0]), lambda x: np.arange(x.shape[1], len(x))),
    _made("arange", "f", lambda x: pnp.arange(0, x.shape[0], 2), lambda x: np.arange(0, len(x), 2)),
    _made("arange", "f", lambda x: pnp.arange(x.shape[0], -3, -2), lambda x: np.arange(len(x), -3, -2)),
    _made("arange", "N", lambda k: pnp.arange(k), lambda k: np.arange(k)),
    _made("arange", "fN", lambda x, k: pnp.arange(-k, x.shape[1], k), lambda x, k: np.arange(-k, x.shape[1], k)),
    _made("arange", "fN", lambda x, k: pnp.arange(9, x.shape[1], -k), lambda x, k: np.arange(9, x.shape[1], -k)),
    # arange: floats
    _made("arange", "f", lambda x: pnp.arange(0.5, 3), lambda x: np.arange(0.5, 3)),
    _made("arange", "f", lambda x: pnp.arange(2.0, -1.0, -0.75), lambda x: np.arange(2.0, -1.0, -0.75)),
    _made("arange", "f", lambda x: pnp.arange(1.0, 0.0), lambda x: np.arange(1.0, 0.0)),
    _made("arange", "f", lambda x: pnp.arange(3.5, dtype="float32"), lambda x: np.arange(3.5, dtype="float32")),
    _made("arange", "f", lambda x: pnp.arange(0.5, x.shape[0]), lambda x: np.arange(0.5, len(x))),
    _made("arange", "F", lambda y: pnp.arange(0, y, 0.25), lambda y: np.arange(0, y, 0.25)),
    _made("arange", "F", lambda y: pnp.arange(y, 0.0), lambda y: np.arange(y, 0.0)),
    # linspace
    _made("linspace", "f", lambda x: pnp.linspace(0, 1, 5), lambda x: np.linspace(0, 1, 5)),
    _made(
        "linspace", "f", lambda x: pnp.linspace(1.5, -2, 4, endpoint=False), lambda x: np.linspace(1.5, -2, 4, False)
    ),
    *[
        _made(
            "linspace", "f", lambda x, num=num: pnp.linspace(2, 3.5, num), lambda x, num=num: np.linspace(2, 3.5, num)
        )
        for num in (0, 1, 2)
    ],
    _made("linspace", "f", lambda x: pnp.linspace(-1, 1, x.shape[0]), lambda x: np.linspace(-1, 1, len(x))),
    _made(
        "linspace",
        "f",
        lambda x: pnp.linspace(-1, 1, x.shape[0], endpoint=False),
        lambda x: np.linspace(-1, 1, len(x), endpoint=False),
    ),
    _made("linspace", "NF", lambda k, y: pnp.linspace(y, k, k), lambda k, y: np.linspace(y, k, k)),
    _made(
        "linspace",
        "f",
        lambda x: pnp.linspace(0, 1, 3, dtype="float32"),
        lambda x: np.linspace(0, 1, 3, dtype="float32"),
    ),
    _made(
        "linspace", "f", lambda x: pnp.linspace(0, -9, 5, dtype="int64"), lambda x: np.linspace(0, -9, 5, dtype="int64")
    ),
    _made("linspace", "f", lambda x: pnp.linspace(0, 1j, 3), lambda x: np.linspace(0, 1j, 3)),
    # eye
    _made("eye", "f", lambda x: pnp.eye(3), lambda x: np.eye(3)),
    _made("eye", "f", lambda x: pnp.eye(x.shape[0], dtype="bool"), lambda x: np.eye(len(x), dtype="bool")),
    _made("eye", "f", lambda x: pnp.eye(2, x.shape[1], k=-1), lambda x: np.eye(2, x.shape[1], k=-1)),
    _made("eye", "fN", lambda x, k: pnp.eye(k, x.shape[1], k=k - 2), lambda x, k: np.eye(k, x.shape[1], k=k - 2)),
    _made("eye", "N", lambda k: pnp.eye(4, k=k, dtype="int32"), lambda k: np.eye(4, k=k, dtype="int32")),
    # meshgrid
    Example("meshgrid", "vj"),
    Example("meshgrid", "vj", settings={"indexing": "ij"}),
    Example("meshgrid", "v"),
    Example("meshgrid", "jvj"),
    Example("meshgrid", "jvj", settings={"indexing": "ij"}),
    # asarray
    _made("asarray", "f", lambda x: pnp.asarray(2), lambda x: np.asarray(2)),
    _made("asarray", "f", lambda x: pnp.asarray(2.5, dtype="float32"), lambda x: np.asarray(2.5, "float32")),
    _made("asarray", "f", lambda x: pnp.asarray(x.shape[0]), lambda x: np.asarray(len(x))),
    _made("asarray", "F", lambda y: pnp.asarray([[y, 1], [y * 2, 3.0]]), lambda y: np.asarray([[y, 1], [y * 2, 3]])),
    _made("asarray", "fN", lambda x, k: pnp.asarray([k, x.shape[1]]), lambda x, k: np.asarray([k, x.shape[1]])),
    Example("asarray", "f"),
    Example("asarray", "i", settings={"dtype": "float64"}),
    Example("asarray", "f", settings={"copy": True}),
    Example("from_dlpack", "f", lambda x: pnp.from_dlpack(x) * 1, lambda x: x, eager=False),
]
