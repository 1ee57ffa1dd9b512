"""Examples of `plica.numpy`: one expression for each function, evaluated on numpy arrays when the site is built."""

from collections.abc import Iterator
from typing import Any

import numpy as np

_X = "x = np.array([0.25, 0.5, 0.75])"
_A = "a = np.array([[2.0, 1.0], [1.0, 3.0]])"
_ONE = (_X, "pnp.{name}(x)")
_TWO = ("x, y = np.array([1.0, 2.0, 5.0]), np.array([2.0, 0.5, 5.0])", "pnp.{name}(x, y)")
_BITS = ("x, y = np.array([1, 2, 7]), np.array([3, 1, 2])", "pnp.{name}(x, y)")
_SHAPE = ("pnp.{name}((2, 3))",)
_LIKE = (_A, "pnp.{name}(a)")
_REDUCE = (_A, "pnp.{name}(a, axis=1)")
_MATRIX = (_A, "pnp.{name}(a)")
_UNIQUE = ("x = np.array([3, 1, 3])", "pnp.{name}(x)")
_TRUTH = ("x, y = np.array([True, False]), np.array([True, True])", "pnp.{name}(x, y)")
_SERIES = ("x = np.array([1.0, 2.0, 3.0, 4.0])", "pnp.{name}(x).round(3)")
_IMAGE = (_A, "pnp.{name}(a).round(3)")
_KEY = ("key = pnp.random.key(0)",)
_FACTOR = ("factor, missing = np.array([[[[1.0, 0.0], [1.0, 1.0]]]]), np.array([[[False, True]]])",)

_SHARED = {
    _TWO: "add subtract multiply divide pow remainder floor_divide equal not_equal less less_equal greater "
    "greater_equal maximum minimum hypot atan2 copysign logaddexp nextafter",
    _BITS: "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift",
    _SHAPE: "zeros ones",
    _LIKE: "zeros_like ones_like",
    _REDUCE: "sum prod max min mean std var all any argmax argmin count_nonzero logsumexp softmax log_softmax sort "
    "argsort cumulative_sum cumulative_prod diff flip",
    _MATRIX: "tril triu matrix_transpose unstack linalg.cholesky linalg.det linalg.inv linalg.eigh linalg.eigvalsh "
    "linalg.qr linalg.slogdet linalg.svd linalg.svdvals linalg.matrix_norm linalg.matrix_rank linalg.pinv linalg.trace "
    "linalg.diagonal linalg.matrix_transpose linalg.vector_norm nonzero",
    _UNIQUE: "unique_all unique_counts unique_inverse unique_values",
    _TRUTH: "logical_and logical_or logical_xor",
    _SERIES: "fft.fft fft.ifft fft.rfft fft.hfft fft.ihfft fft.irfft fft.fftshift fft.ifftshift",
    _IMAGE: "fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn",
}
_OWN = {
    "acosh": ("pnp.acosh(np.array([1.0, 2.0]))",),
    "angle": ("pnp.angle(np.array([1j, -1.0]))",),
    "arange": ("pnp.arange(1, 10, 3)",),
    "asarray": ("pnp.asarray([1.5, 2.5])",),
    "astype": ("pnp.astype(np.array([1.7, -1.7]), 'int64')",),
    "at": ("pnp.at(np.zeros(3))[1].set(5.0)",),
    "betainc": ("pnp.betainc(2.0, 3.0, np.array([0.1, 0.5]))",),
    "betaincc": ("pnp.betaincc(2.0, 3.0, np.array([0.1, 0.5]))",),
    "betaincinv": ("pnp.betaincinv(2.0, 3.0, np.array([0.1, 0.5]))",),
    "bitwise_invert": ("pnp.bitwise_invert(np.array([0, 5]))",),
    "broadcast_arrays": ("[x.shape for x in pnp.broadcast_arrays(np.ones((2, 1)), np.ones(3))]",),
    "broadcast_shapes": ("pnp.broadcast_shapes((2, 1), (3,))",),
    "broadcast_to": ("pnp.broadcast_to(np.array([1, 2]), (2, 2))",),
    "can_cast": ("pnp.can_cast('int32', 'int64'), pnp.can_cast('float64', 'float32')",),
    "clip": ("pnp.clip(np.array([-1.0, 0.5, 7.0]), 0.0, 1.0)",),
    "concat": ("pnp.concat([np.array([1, 2]), np.array([3])])",),
    "conditional_factor": (*_FACTOR, "pnp.conditional_factor(factor, missing)"),
    "conditional_moments": (
        *_FACTOR,
        "pnp.conditional_moments(np.array([[[[2.0, 0.0]]]]), factor, missing, np.ones((1, 1, 1)))",
    ),
    "conj": ("pnp.conj(np.array([1 + 2j]))",),
    "directed_matmul": ("pnp.directed_matmul(np.array([[[1.0, -1.0]]]), np.log([[[3.0, 5.0]]]), np.ones((1, 1, 2)))",),
    "einsum": (_A, "pnp.einsum('ij,jk->ik', a, a)"),
    "empty": ("pnp.empty((2, 3)).shape",),
    "empty_like": (_A, "pnp.empty_like(a).shape"),
    "expand_dims": ("pnp.expand_dims(np.array([1, 2]), axis=0)",),
    "eye": ("pnp.eye(2)",),
    "fft.fftfreq": ("pnp.fft.fftfreq(4)",),
    "fft.rfftfreq": ("pnp.fft.rfftfreq(4)",),
    "finfo": ("pnp.finfo('float32').eps",),
    "from_dlpack": ("pnp.from_dlpack(np.array([1.0, 2.0]))",),
    "full": ("pnp.full((2, 2), 7)",),
    "full_like": ("pnp.full_like(np.zeros(2), 7)",),
    "gammainc": ("pnp.gammainc(2.0, np.array([0.5, 3.0]))",),
    "gammaincc": ("pnp.gammaincc(2.0, np.array([0.5, 3.0]))",),
    "gammaincinv": ("pnp.gammaincinv(2.0, np.array([0.1, 0.9]))",),
    "iinfo": ("pnp.iinfo('int8').max",),
    "imag": ("pnp.imag(np.array([1 + 2j]))",),
    "index": ("pnp.index(np.array([5, 6, 7]), slice(1, None))",),
    "isdtype": ("pnp.isdtype(pnp.float32, 'real floating')",),
    "isfinite": ("pnp.isfinite(np.array([1.0, np.inf, np.nan]))",),
    "isin": ("pnp.isin(np.array([1, 2, 3]), np.array([3, 1]))",),
    "isinf": ("pnp.isinf(np.array([1.0, np.inf, np.nan]))",),
    "isnan": ("pnp.isnan(np.array([1.0, np.inf, np.nan]))",),
    "linalg.cross": ("pnp.linalg.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))",),
    "linalg.matmul": (_A, "pnp.linalg.matmul(a, a)"),
    "linalg.matrix_power": (_A, "pnp.linalg.matrix_power(a, 3)"),
    "linalg.outer": ("pnp.linalg.outer(np.array([1.0, 2.0]), np.array([3.0, 4.0]))",),
    "linalg.solve": (_A, "pnp.linalg.solve(a, np.array([1.0, 2.0]))"),
    "linalg.tensordot": (_A, "pnp.linalg.tensordot(a, a, axes=1)"),
    "linalg.vecdot": ("pnp.linalg.vecdot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))",),
    "linspace": ("pnp.linspace(0, 1, 5)",),
    "log_einsum_exp": ("pnp.log_einsum_exp('fbi,foi->fbo', [np.log([[[0.5, 0.25]]])], np.ones((1, 1, 2)))",),
    "log_matmul_exp": (_A, "pnp.log_matmul_exp(np.log(a), np.log(a))"),
    "log_multivariate_normal": (*_FACTOR, "pnp.log_multivariate_normal(np.zeros((1, 1, 1, 2)), factor, missing)"),
    "log_normal": ("pnp.log_normal(np.array([0.0, 1.0]), 0.0, 0.0)",),
    "logical_not": ("pnp.logical_not(np.array([True, False]))",),
    "lookup": ("pnp.lookup(np.array([[[0.1, 0.9], [0.6, 0.4]]]), np.array([[1, 0, 1]]))",),
    "matmul": (_A, "pnp.matmul(a, a)"),
    "meshgrid": ("pnp.meshgrid(np.array([1, 2]), np.array([3, 4]), indexing='ij')",),
    "moveaxis": ("pnp.moveaxis(np.zeros((2, 3, 4)), 0, -1).shape",),
    "permute_dims": ("pnp.permute_dims(np.zeros((2, 3, 4)), (2, 0, 1)).shape",),
    "random.bernoulli": (*_KEY, "pnp.random.bernoulli(key, 0.5, (4,))"),
    "random.bits": (*_KEY, "pnp.random.bits(key, (2,)).shape"),
    "random.categorical": (*_KEY, "pnp.random.categorical(key, pnp.log(pnp.asarray([0.9, 0.1])))"),
    "random.choice": (*_KEY, "pnp.random.choice(key, 10, (3,), replace=False)"),
    "random.exponential": (*_KEY, "pnp.random.exponential(key, (2,)).shape"),
    "random.gumbel": (*_KEY, "pnp.random.gumbel(key, (2,)).shape"),
    "random.permutation": (*_KEY, "pnp.random.permutation(key, 5)"),
    "random.randint": (*_KEY, "pnp.random.randint(key, (4,), 0, 10)"),
    "random.split": (*_KEY, "pnp.random.split(key).shape"),
    "random.uniform": (*_KEY, "pnp.random.uniform(key, (2,))"),
    "real": ("pnp.real(np.array([1 + 2j]))",),
    "regression_matrix": (*_FACTOR, "pnp.regression_matrix(factor, missing)"),
    "repeat": ("pnp.repeat(np.array([1, 2]), 2)",),
    "reshape": ("pnp.reshape(np.arange(6), (2, 3))",),
    "result_type": ("pnp.result_type(np.float32(1), 'int16')",),
    "roll": ("pnp.roll(np.array([1, 2, 3]), 1)",),
    "search_cumulative": (
        "pnp.search_cumulative(np.array([[[0.25, 1.0]]]), np.array([[0, 0]]), np.array([[0.1, 0.5]]))",
    ),
    "searchsorted": ("pnp.searchsorted(np.array([1.0, 2.0, 3.0]), np.array([2.5]))",),
    "squeeze": ("pnp.squeeze(np.zeros((1, 3)), 0).shape",),
    "stack": ("pnp.stack([np.array([1, 2]), np.array([3, 4])])",),
    "take": ("pnp.take(np.array([5, 6, 7]), np.array([2, 0]))",),
    "take_along_axis": (_A, "pnp.take_along_axis(a, np.array([[1], [0]]), axis=1)"),
    "tensordot": (_A, "pnp.tensordot(a, a, axes=1)"),
    "tile": ("pnp.tile(np.array([1, 2]), (2, 2))",),
    "unpack": ("pnp.unpack(np.array([[0, 1], [2, 3]]), (0,), (2,))",),
    "update": ("pnp.update(np.zeros(3), slice(1, None), 5.0)",),
    "vecdot": ("pnp.vecdot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))",),
    "where": ("pnp.where(np.array([True, False]), 1, 2)",),
}
_LINES = {name: lines for lines, names in _SHARED.items() for name in names.split()} | _OWN


def example_of(name: str) -> str:
    """The example of a function, such as `linalg.det`, as it is typed; "" where it has none here.

    Raises:
        RuntimeError: The example of the table does not run.
    """
    lines = [line.format(name=name) for line in _LINES.get(name, _ONE)]
    import plica.numpy as pnp

    names: dict[str, Any] = {"np": np, "pnp": pnp}
    try:
        for line in lines[:-1]:
            exec(line, names)
        result = eval(lines[-1], names)
    except Exception as error:
        if name not in _LINES:
            return ""  # no function of one array of numbers
        raise RuntimeError(f"the example of plica.numpy.{name} fails: {lines[-1]}; correct the table") from error
    return "\n".join([*_typed(lines), *repr(result).splitlines()])


def _typed(lines: list[str]) -> Iterator[str]:
    yield ">>> import numpy as np"
    yield ">>> import plica.numpy as pnp"
    yield from (f">>> {line}" for line in lines)
