"""Examples of functions that arrange elements, and of those that read them at indices or contract them."""
# ruff: noqa: ARG005 - the tables hold functions of a given number of arguments

import numpy as np

import plica.numpy as pnp
from tests.harness.examples.example import Example

EXAMPLES = [
    Example("reshape", "f", lambda x: pnp.reshape(x, (-1,)), lambda x: x.reshape(-1)),
    Example(
        "reshape",
        "f",
        lambda x: pnp.reshape(x, (1, -1, x.shape[0])),
        lambda x: x.reshape(1, -1, x.shape[0]),
        empty=False,
    ),
    Example("reshape", "f", lambda x: pnp.reshape(x, (x.shape[1], x.shape[0])), lambda x: x.reshape(x.shape[::-1])),
    Example("reshape", "fN", lambda x, k: pnp.reshape(x[:1, :1], (k // k, 1)), lambda x, k: x[:1, :1], empty=False),
    Example("permute_dims", "f", settings={"axes": (1, 0)}),
    Example("permute_dims", "w", settings={"axes": (-1, 0, 1)}),
    Example("matrix_transpose", "w"),
    Example("moveaxis", "w", lambda x: pnp.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    Example("moveaxis", "w", lambda x: pnp.moveaxis(x, (0, 1), (-1, 0)), lambda x: np.moveaxis(x, (0, 1), (-1, 0))),
    Example("moveaxis", "w", lambda x: pnp.moveaxis(x, (2, 0), (0, 1)), lambda x: np.moveaxis(x, (2, 0), (0, 1))),
    Example(
        "broadcast_to", "v", lambda x: pnp.broadcast_to(x, (2, x.shape[0])), lambda x: np.broadcast_to(x, (2, len(x)))
    ),
    Example(
        "broadcast_to", "fN", lambda x, k: pnp.broadcast_to(x, (2, k - 1, x.shape[1])), lambda x, k: np.stack([x, x])
    ),
    Example("broadcast_arrays", "fv1", numpy=lambda *xs: list(np.broadcast_arrays(*xs))),
    Example("broadcast_arrays", "f", lambda x: pnp.broadcast_arrays(x, 2)[1], lambda x: np.full(x.shape, 2)),
    Example("expand_dims", "f", settings={"axis": 1}),
    Example("expand_dims", "f", lambda x: pnp.expand_dims(x), lambda x: x[None]),
    Example("squeeze", "1", settings={"axis": 1}),
    Example("squeeze", "w", settings={"axis": (0,)}),
    Example("concat", "f1", lambda x, y: pnp.concat([x, y], axis=1), lambda x, y: np.concatenate([x, y], axis=1)),
    Example("concat", "fd", lambda x, y: pnp.concat((x, y), axis=None), lambda x, y: np.concatenate([x, y], axis=None)),
    Example("concat", "f", lambda x: pnp.concat([x], axis=-1), lambda x: x),
    Example(
        "concat",
        "if",
        lambda i, x: pnp.concat([i, x, i > 2]),
        lambda i, x: np.concatenate([i, x, i > 2]).astype("float32"),
    ),
    Example("stack", "fp", lambda x, y: pnp.stack([x, y], axis=-1), lambda x, y: np.stack([x, y], axis=-1)),
    Example("stack", "id", lambda x, y: pnp.stack([x, y]), lambda x, y: np.stack([x, y])),
    Example("unstack", "6", numpy=lambda x: list(x)),
    Example("unstack", "w", numpy=lambda x: [x[0]]),
    Example("unstack", "g", settings={"axis": -1}, numpy=lambda x: [x[:, 0], x[:, 1]]),
    Example("flip", "f"),
    Example("flip", "f", settings={"axis": -1}),
    Example("flip", "w", settings={"axis": (0, -2)}),
    Example("roll", "f", lambda x: pnp.roll(x, 1), lambda x: np.roll(x, 1)),
    Example("roll", "f", lambda x: pnp.roll(x, -2, axis=1), lambda x: np.roll(x, -2, axis=1)),
    Example("roll", "f", lambda x: pnp.roll(x, (1, 5), axis=(0, -1)), lambda x: np.roll(x, (1, 5), axis=(0, -1))),
    Example("roll", "f", lambda x: pnp.roll(x, 2, axis=(0, 1)), lambda x: np.roll(x, 2, axis=(0, 1))),
    Example("roll", "fN", lambda x, k: pnp.roll(x, k, axis=1), lambda x, k: np.roll(x, k, axis=1)),
    Example("roll", "fN", lambda x, k: pnp.roll(x, (-k, x.shape[0]), axis=(1, 0)), lambda x, k: np.roll(x, -k, axis=1)),
    Example("repeat", "f", lambda x: pnp.repeat(x, 2), lambda x: np.repeat(x, 2)),
    Example("repeat", "f", lambda x: pnp.repeat(x, 3, axis=-1), lambda x: np.repeat(x, 3, axis=-1)),
    Example("repeat", "f", lambda x: pnp.repeat(x, 0, axis=0), lambda x: np.repeat(x, 0, axis=0)),
    Example("repeat", "f", lambda x: pnp.repeat(x, x.shape[0], axis=1), lambda x: np.repeat(x, len(x), axis=1)),
    Example("repeat", "fN", lambda x, k: pnp.repeat(x, k, axis=1), lambda x, k: np.repeat(x, k, axis=1)),
    Example("repeat", "fj", lambda x, j: pnp.repeat(x, j, axis=1), lambda x, j: np.repeat(x, j, axis=1)),
    Example("repeat", "vj", lambda x, j: pnp.repeat(x, j), lambda x, j: np.repeat(x, j)),
    Example("repeat", "g0", lambda x, i: pnp.repeat(x, i[:2] + 2, axis=1), lambda x, i: np.repeat(x, [2, 2], axis=1)),
    Example("tile", "f", lambda x: pnp.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3))),
    Example("tile", "f", lambda x: pnp.tile(x, (2,)), lambda x: np.tile(x, (2,))),
    Example("tile", "f", lambda x: pnp.tile(x, (2, 1, 0)), lambda x: np.tile(x, (2, 1, 0))),
    Example("tile", "fN", lambda x, k: pnp.tile(x, (k, x.shape[0])), lambda x, k: np.tile(x, (k, len(x)))),
    *[
        Example(name, letters, settings=settings)
        for name in ("tril", "triu")
        for letters, settings in (("f", {}), ("i", {"k": 1}), ("w", {"k": -1}), ("b", {}), ("x", {"k": 5}))
    ],
    Example("tril", "fN", lambda x, k: pnp.tril(x, k=k - 2), lambda x, k: np.tril(x, k - 2)),
    Example("triu", "f", lambda x: pnp.triu(x, k=x.shape[1] - 2), lambda x: np.triu(x, x.shape[1] - 2)),
    Example("take", "10", settings={"axis": 1}),
    Example("take", "f0", lambda x, i: pnp.take(x, i, axis=0), lambda x, i: x[[0, 0, 0]], empty=False),
    Example("take_along_axis", "fg", settings={"axis": 1}, empty=False),
    Example("lookup", "wk", numpy=lambda t, i: t[0][:, i[0]].T[None]),
    Example("search_cumulative", "crs", empty=False),
    Example("matmul", "ft"),
    Example("matmul", "fv"),
    Example("einsum", "ft", lambda x, y: pnp.einsum("ab,bc->ca", x, y), lambda x, y: np.einsum("ab,bc->ca", x, y)),
    Example("einsum", "ff", lambda x, y: pnp.einsum("ab,cb", x, y), lambda x, y: np.einsum("ab,cb", x, y)),
    Example("log_matmul_exp", "fp", numpy=lambda x, w: np.log(np.exp(x) @ w.T)),
    Example(
        "log_matmul_exp",
        "fp",
        lambda x, w: pnp.log_matmul_exp([x, x], pnp.concat([w, w], axis=1)),
        lambda x, w: np.log(2 * np.exp(x) @ w.T),
    ),
    Example(
        "log_multivariate_normal",
        "f",
        lambda x: pnp.log_multivariate_normal(
            x[None, :, None], pnp.tril(pnp.triu(pnp.ones_like(x.T @ x)))[None, None], x[None] > 0
        ),
        lambda x: np.where(x > 0, 0, -0.5 * x * x - np.float32(np.log(np.sqrt(2 * np.pi)))).sum(-1)[None, :, None],
    ),
    Example(
        "regression_matrix",
        "f",
        lambda x: pnp.regression_matrix(pnp.tril(pnp.triu(pnp.ones_like(x.T @ x)))[None, None], x[None] > 0),
        lambda x: ((x <= 0)[:, :, None] * np.eye(x.shape[1], dtype=x.dtype))[None, :, None],
    ),
    Example(
        "conditional_factor",
        "f",
        lambda x: pnp.conditional_factor(pnp.tril(pnp.triu(pnp.ones_like(x.T @ x)))[None, None], x[None] > 0),
        lambda x: ((x > 0)[:, :, None] * np.eye(x.shape[1], dtype=x.dtype))[None, :, None],
    ),
    Example(
        "conditional_moments",
        "f",
        lambda x: pnp.conditional_moments(
            x[None, :, None],
            pnp.tril(pnp.triu(pnp.ones_like(x.T @ x)))[None, None],
            x[None] > 0,
            pnp.ones_like(pnp.sum(x[None], axis=2, keepdims=True)),
        )[1],
        lambda x: ((x > 0).sum(0, dtype=x.dtype) * np.eye(x.shape[1], dtype=x.dtype))[None, None],
    ),
    Example(
        "log_einsum_exp",
        "fp",
        lambda x, w: pnp.log_einsum_exp("ab,cb->ac", [x], w),
        lambda x, w: np.log(np.exp(x) @ w.T),
    ),
]
