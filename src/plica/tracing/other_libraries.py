"""Functions and methods of numpy and torch that `plica.numpy` has under another name, or not; errors quote this advice.

>>> advice("cumsum", frozenset({"cumulative_sum"}))
'write cumulative_sum(x, axis=0) of plica.numpy for np.cumsum(x, axis=0)'
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

# Each entry is an equation `np.f(x) = g(x)`, with `g` of plica.numpy. Tests compute both sides for arrays x, y (2, 3),
# v, w (3,), m (3, 3), z (2, 3) complex, and i (2,) of integers from 0 to 2.
EQUATIONS: Mapping[str, str] = {
    # functions that have another name in the Array API standard
    "np.absolute(x)": "abs(x)",
    "np.amax(x, axis=0)": "max(x, axis=0)",
    "np.amin(x, axis=0)": "min(x, axis=0)",
    "np.arccos(x / 4)": "acos(x / 4)",
    "np.arccosh(x + 4)": "acosh(x + 4)",
    "np.arcsin(x / 4)": "asin(x / 4)",
    "np.arcsinh(x)": "asinh(x)",
    "np.arctan(x)": "atan(x)",
    "np.arctan2(x, y)": "atan2(x, y)",
    "np.arctanh(x / 4)": "atanh(x / 4)",
    "np.around(x, 1)": "round(x * 10) / 10",
    "np.array([1.0, 2.0])": "asarray([1.0, 2.0])",
    "np.asanyarray([1.0, 2.0])": "asarray([1.0, 2.0])",
    "np.ascontiguousarray(x)": "x",
    "np.asfortranarray(x)": "x",
    "np.bitwise_not(i)": "bitwise_invert(i)",
    "np.concatenate([x, y], axis=0)": "concat([x, y], axis=0)",
    "np.conjugate(z)": "conj(z)",
    "np.copy(x)": "x",
    "np.cumprod(x, axis=0)": "cumulative_prod(x, axis=0)",
    "np.cumsum(x, axis=0)": "cumulative_sum(x, axis=0)",
    "np.fabs(x)": "abs(x)",
    "np.float_power(y, 2.0)": "pow(y, 2.0)",
    "np.invert(i)": "bitwise_invert(i)",
    "np.left_shift(i, 1)": "bitwise_left_shift(i, 1)",
    "np.mod(x, 2.0)": "remainder(x, 2.0)",
    "np.power(y, 2.0)": "pow(y, 2.0)",
    "np.promote_types('float32', 'int8')": "result_type('float32', 'int8')",
    "np.right_shift(i, 1)": "bitwise_right_shift(i, 1)",
    "np.rint(x)": "round(x)",
    "np.true_divide(x, y)": "divide(x, y)",
    # shapes and axes
    "np.append(v, w)": "concat([v, w])",
    "np.atleast_2d(v)": "v[None, :]",
    "np.column_stack([v, w])": "stack([v, w], axis=1)",
    "np.dstack([x, y])": "stack([x, y], axis=2)",
    "np.fliplr(x)": "flip(x, axis=1)",
    "np.flipud(x)": "flip(x, axis=0)",
    "np.hstack([x, y])": "concat([x, y], axis=1)",
    "np.ndim(x)": "x.ndim",
    "np.ravel(x)": "reshape(x, (-1,))",
    "np.rollaxis(x, 1)": "moveaxis(x, 1, 0)",
    "np.rot90(x)": "flip(permute_dims(x, (1, 0)), axis=0)",
    "np.row_stack([v, w])": "stack([v, w], axis=0)",
    "np.shape(x)": "x.shape",
    "np.size(x)": "x.size",
    "np.split(v, 3)": "[v[0:1], v[1:2], v[2:3]]",
    "np.swapaxes(x, 0, 1)": "moveaxis(x, 0, 1)",
    "np.transpose(x)": "permute_dims(x, (1, 0))",
    "np.vsplit(x, 2)": "[x[0:1], x[1:2]]",
    "np.vstack([x, y])": "concat([x, y], axis=0)",
    # arithmetic
    "np.average(x, axis=0)": "mean(x, axis=0)",
    "np.cbrt(x)": "sign(x) * abs(x) ** (1 / 3)",
    "np.deg2rad(x)": "x * (pi / 180)",
    "np.degrees(x)": "x * (180 / pi)",
    "np.divmod(y, 2.0)": "(y // 2.0, y % 2.0)",
    "np.ediff1d(v)": "diff(v)",
    "np.fmax(x, y)": "where(isnan(x), y, where(isnan(y), x, maximum(x, y)))",
    "np.fmin(x, y)": "where(isnan(x), y, where(isnan(y), x, minimum(x, y)))",
    "np.fmod(x, 2.0)": "sign(x) * remainder(abs(x), 2.0)",
    "np.fix(x)": "trunc(x)",
    "np.heaviside(x, 0.5)": "where(x == 0, 0.5, where(x > 0, 1.0, 0.0))",
    "np.isclose(x, y)": "abs(x - y) <= 1e-8 + 1e-5 * abs(y)",
    "np.allclose(x, y)": "all(abs(x - y) <= 1e-8 + 1e-5 * abs(y))",
    "np.array_equal(x, y)": "all(x == y)",
    "np.iscomplex(z)": "imag(z) != 0",
    "np.isneginf(x)": "x == -inf",
    "np.isposinf(x)": "x == inf",
    "np.isreal(z)": "imag(z) == 0",
    "np.ldexp(x, 2)": "x * 2.0**2",
    "np.nan_to_num(x, nan=0.0)": "where(isnan(x), 0.0, x)",
    "np.nancumsum(x, axis=0)": "cumulative_sum(where(isnan(x), 0.0, x), axis=0)",
    "np.nanmax(x, axis=0)": "max(where(isnan(x), -inf, x), axis=0)",
    "np.nanmean(x, axis=0)": "sum(where(isnan(x), 0.0, x), axis=0) / sum(isnan(x) == False, axis=0)",
    "np.nanmin(x, axis=0)": "min(where(isnan(x), inf, x), axis=0)",
    "np.nanprod(x, axis=0)": "prod(where(isnan(x), 1.0, x), axis=0)",
    "np.nansum(x, axis=0)": "sum(where(isnan(x), 0.0, x), axis=0)",
    "np.ptp(x, axis=0)": "max(x, axis=0) - min(x, axis=0)",
    "np.rad2deg(x)": "x * (180 / pi)",
    "np.radians(x)": "x * (pi / 180)",
    "np.sinc(y)": "sin(pi * y) / (pi * y)",
    "np.trapezoid(v)": "sum((v[1:] + v[:-1]) / 2)",
    # products and matrices
    "np.diag(m)": "linalg.diagonal(m)",
    "np.dot(v, w)": "vecdot(v, w)",
    "np.identity(3)": "eye(3)",
    "np.inner(v, w)": "vecdot(v, w)",
    "np.kron(v, w)": "reshape(linalg.outer(v, w), (-1,))",
    "np.matvec(m, v)": "m @ v",
    "np.tri(3)": "tril(ones((3, 3)))",
    "np.vdot(v, w)": "vecdot(v, w)",
    "np.vecmat(v, m)": "v @ m",
    "np.linalg.lstsq(m, v)[0]": "linalg.pinv(m) @ v",
    "np.linalg.norm(x)": "linalg.vector_norm(x)",
    # indices and choices
    "np.argwhere(x > 0)": "stack(nonzero(x > 0), axis=1)",
    "np.bincount(i, minlength=3)": "sum(i[:, None] == arange(3), axis=0)",
    "np.compress([True, False, True], v)": "v[asarray([True, False, True])]",
    "np.delete(v, 0)": "v[1:]",
    "np.digitize(v, w[:1])": "searchsorted(w[:1], v, side='right')",
    "np.extract(v > 0, v)": "v[v > 0]",
    "np.flatnonzero(v > 0)": "nonzero(v > 0)[0]",
    "np.median(v)": "mean(sort(v)[(v.shape[0] - 1) // 2 : v.shape[0] // 2 + 1])",
    "np.pad(v, 1)": "concat([zeros_like(v[:1]), v, zeros_like(v[:1])])",
    "np.piecewise(v, [v < 0], [0.0, 1.0])": "where(v < 0, 0.0, 1.0)",
    "np.select([v < 0], [v], 1.0)": "where(v < 0, v, 1.0)",
    "np.union1d(v, w)": "unique_values(concat([v, w]))",
    "np.unique(v)": "unique_values(v)",
    # methods of numpy's arrays
    "x.copy()": "x",
    "x.flatten()": "reshape(x, (-1,))",
    # torch
    "torch.bmm(m[None], m[None])": "m[None] @ m[None]",
    "torch.cat([x, y], dim=0)": "concat([x, y], axis=0)",
    "torch.clamp(x, 0, 1)": "clip(x, 0, 1)",
    "torch.mm(m, m)": "m @ m",
    "torch.permute(x, (1, 0))": "permute_dims(x, (1, 0))",
    "torch.unsqueeze(x, 0)": "expand_dims(x, axis=0)",
    "x.view(-1)": "reshape(x, (-1,))",
}
_BY_NAME = {left.partition("(")[0].rpartition(".")[2]: (left, right) for left, right in reversed([*EQUATIONS.items()])}
"""The equation for each name on a left side; numpy's comes before torch's."""

_MOST_LETTERS = 2  # that a misspelt name has more or less than the name which is meant

# advice for names that no expression replaces
_NOTHING_IN_PLACE = "nothing changes in place: x = x.at[index].set(values) makes a new array"
_AT_RUN_TIME = "it has no elements before the function runs: return it, and look at the result"
_REMARKS: Mapping[str, str] = {
    **dict.fromkeys(
        ("copyto", "fill", "fill_diagonal", "place", "put", "put_along_axis", "putmask"), _NOTHING_IN_PLACE
    ),
    **dict.fromkeys(("setfield", "setflags", "byteswap"), _NOTHING_IN_PLACE),
    **dict.fromkeys(("item", "tolist", "tobytes", "tofile", "dump", "dumps", "numpy", "data", "ctypes"), _AT_RUN_TIME),
    **dict.fromkeys(("base", "flags", "flat", "getfield", "itemsize", "nbytes", "strides"), _AT_RUN_TIME),
    **dict.fromkeys(("save", "savetxt", "savez", "array2string", "array_repr", "array_str"), _AT_RUN_TIME),
    **dict.fromkeys(("cpu", "cuda", "to"), "a Program runs wherever its arguments are: move these"),
    **dict.fromkeys(("double", "float", "half", "int", "long"), "write astype(x, 'float64') of plica.numpy"),
    **dict.fromkeys(("backward", "grad", "requires_grad"), "take gradients of the result, after the function ran"),
    **dict.fromkeys(("rand", "random_sample"), "write random.uniform(random.key(seed), shape) of plica.numpy"),
    **dict.fromkeys(("randn", "standard_normal"), "write random.normal(random.key(seed), shape) of plica.numpy"),
    **dict.fromkeys(("default_rng", "seed"), "write random.key(seed) of plica.numpy, and give it to its functions"),
    "linear": "write x @ weights.T + bias",
    "detach": "write stop_gradient(x) of plica.numpy",
    "vectorize": "functions of plica.numpy take arrays of any shape; plica.scan runs along an axis",
    "apply_along_axis": "functions of plica.numpy take axis=; plica.scan runs along an axis",
}


def advice(name: str, ours: Collection[str]) -> str:
    """The advice for a name of another library.

    Args:
        name: The name, such as `cumsum`.
        ours: The names of plica.numpy, with those of its modules, such as `linalg.inv`.
    """
    for known in (name, f"linalg.{name}", f"fft.{name}"):
        if known in ours:
            return f"write plica.numpy.{known}(x)"
    if name in _BY_NAME:
        left, right = _BY_NAME[name]
        return f"write {right} of plica.numpy for {left}"
    if name in _REMARKS:
        return _REMARKS[name]
    alike = [known for known in ours if abs(len(known) - len(name)) <= _MOST_LETTERS]
    if close := get_close_matches(name, alike, n=1, cutoff=0.6):
        return f"perhaps {close[0]} is meant"
    return "write it with functions that dir(plica.numpy) lists, or compute it before the function is traced"
