"""The names of the Array API standard, version 2024.12, in the groups of its table of contents."""

from collections.abc import Mapping

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
