"""The names of the Array API standard, version 2024.12, in the groups of its table of contents."""

import inspect
from collections.abc import Mapping
from typing import Any

VERSION = "2024.12"
GROUPS: Mapping[str, str] = {
    "constants": "e inf nan newaxis pi",
    "creation": (
        "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu "
        "zeros zeros_like"
    ),
    "data types": (
        "astype can_cast finfo iinfo isdtype result_type bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
        "float32 float64 complex64 complex128"
    ),
    "elementwise": (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide "
        "greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp "
        "logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive "
        "pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc"
    ),
    "indexing": "take take_along_axis",
    "inspection": "__array_namespace_info__",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "manipulation": (
        "broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack "
        "tile unstack"
    ),
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "utilities": "all any diff",
    "linalg extension": (
        "linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eigh linalg.eigvalsh linalg.inv linalg.matmul "
        "linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.matrix_transpose linalg.outer linalg.pinv "
        "linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot "
        "linalg.vector_norm"
    ),
    "fft extension": (
        "fft.fft fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.irfft "
        "fft.irfftn fft.rfft fft.rfftfreq fft.rfftn"
    ),
}
NAMES = tuple(name for text in GROUPS.values() for name in text.split())

# The dtypes that the standard asks of elementwise functions: `bool`, `int`, `float`, `complex`.
KINDS: Mapping[str, str] = {
    "bool": "logical_and logical_not logical_or logical_xor",
    "int": "bitwise_left_shift bitwise_right_shift",
    "bool int": "bitwise_and bitwise_invert bitwise_or bitwise_xor",
    "float": "atan2 copysign hypot logaddexp nextafter signbit",
    "complex": "imag",
    "int float": ("ceil floor floor_divide greater greater_equal less less_equal maximum minimum remainder trunc"),
    "float complex": (
        "acos acosh asin asinh atan atanh cos cosh divide exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan "
        "tanh"
    ),
    "int float complex": (
        "abs add conj isfinite isinf isnan multiply negative positive pow real round sign square subtract"
    ),
    "bool int float complex": "equal not_equal",
}

# The parameters of the functions, by name; elementwise functions that are not listed take (x, /) or (x1, x2, /).
_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan "
    "log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan "
    "tanh trunc"
)
_LISTED = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing="xy")
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
__array_namespace_info__()
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side="left", sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord="fro")
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
fft.fft(x, /, *, n=None, axis=-1, norm="backward")
fft.ifft(x, /, *, n=None, axis=-1, norm="backward")
fft.rfft(x, /, *, n=None, axis=-1, norm="backward")
fft.irfft(x, /, *, n=None, axis=-1, norm="backward")
fft.hfft(x, /, *, n=None, axis=-1, norm="backward")
fft.ihfft(x, /, *, n=None, axis=-1, norm="backward")
fft.fftn(x, /, *, s=None, axes=None, norm="backward")
fft.ifftn(x, /, *, s=None, axes=None, norm="backward")
fft.rfftn(x, /, *, s=None, axes=None, norm="backward")
fft.irfftn(x, /, *, s=None, axes=None, norm="backward")
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode="reduced")
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""


def _signature(text: str) -> inspect.Signature:
    """The signature of a function whose parameters are `text`."""
    functions: dict[str, Any] = {}
    exec(f"def function({text}): ...", functions)
    return inspect.signature(functions["function"])


SIGNATURES: Mapping[str, inspect.Signature] = {
    **{name: _signature("x, /" if name in _UNARY.split() else "x1, x2, /") for name in GROUPS["elementwise"].split()},
    **{
        line.partition("(")[0]: _signature(line.partition("(")[2].removesuffix(")"))
        for line in _LISTED.strip().splitlines()
    },
}
