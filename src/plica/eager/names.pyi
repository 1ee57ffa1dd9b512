# Made by `python -m tests.harness.generated`: the names of plica.numpy for editors.
from typing import Any

from plica.ir.dtypes import DType

def abs(x: Any, /) -> Any:
    """`abs` of each element: int, float, complex; operands are promoted and broadcast."""

def acos(x: Any, /) -> Any:
    """`acos` of each element: float, complex; operands are promoted and broadcast."""

def acosh(x: Any, /) -> Any:
    """`acosh` of each element: float, complex; operands are promoted and broadcast."""

def add(x1: Any, x2: Any, /) -> Any:
    """`add` of each element: int, float, complex; operands are promoted and broadcast."""

def all(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """Whether all elements along `axis` are true, or not zero."""

def angle(x: Any, /) -> Any:
    """The angle of complex numbers in the plane, from -pi to pi."""

def any(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """Whether any element along `axis` is true, or not zero."""

def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """Numbers from `start` (0 if it is the only one) up to `stop`, which is left out; all may be scalar tracers."""

def argmax(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """The first index of the largest element along `axis` (of the flat array without it)."""

def argmin(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """The first index of the smallest element along `axis` (of the flat array without it)."""

def argsort(x: Any, /, *, axis: Any = -1, descending: Any = False, stable: Any = True) -> Any:
    """The indices that sort along `axis`; equal elements keep their order, whether `stable` asks for it or not."""

def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """A number, a nested list of numbers and arrays, or an array of any library as an array."""

def asin(x: Any, /) -> Any:
    """`asin` of each element: float, complex; operands are promoted and broadcast."""

def asinh(x: Any, /) -> Any:
    """`asinh` of each element: float, complex; operands are promoted and broadcast."""

def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    """`x` converted to `dtype`; `x` itself where it has that dtype."""

def at(x: Any) -> Any:
    """`at(x)[key].set(values)` and `.add`, `.multiply`, `.min`, `.max`: what `x.at[key]` is for a tracer."""

def atan(x: Any, /) -> Any:
    """`atan` of each element: float, complex; operands are promoted and broadcast."""

def atan2(x1: Any, x2: Any, /) -> Any:
    """`atan2` of each element: float; operands are promoted and broadcast."""

def atanh(x: Any, /) -> Any:
    """`atanh` of each element: float, complex; operands are promoted and broadcast."""

def betainc(a: Any, b: Any, x: Any, /) -> Any:
    """The regularized incomplete beta function: the beta distribution function of concentrations `a` and `b` at `x`."""

def betaincc(a: Any, b: Any, x: Any, /) -> Any:
    """`1 - betainc(a, b, x)`, right where it is tiny."""

def betaincinv(a: Any, b: Any, p: Any, /) -> Any:
    """The `x` at which `betainc(a, b, x)` is `p`."""

bfloat16: DType

def bitwise_and(x1: Any, x2: Any, /) -> Any:
    """`bitwise_and` of each element: bool, int; operands are promoted and broadcast."""

def bitwise_invert(x: Any, /) -> Any:
    """`bitwise_invert` of each element: bool, int; operands are promoted and broadcast."""

def bitwise_left_shift(x1: Any, x2: Any, /) -> Any:
    """`bitwise_left_shift` of each element: int; operands are promoted and broadcast."""

def bitwise_or(x1: Any, x2: Any, /) -> Any:
    """`bitwise_or` of each element: bool, int; operands are promoted and broadcast."""

def bitwise_right_shift(x1: Any, x2: Any, /) -> Any:
    """`bitwise_right_shift` of each element: int; operands are promoted and broadcast."""

def bitwise_xor(x1: Any, x2: Any, /) -> Any:
    """`bitwise_xor` of each element: bool, int; operands are promoted and broadcast."""

def broadcast_arrays(*arrays: Any) -> Any:
    """Arrays repeated to the shape in which they meet."""

def broadcast_shapes(*shapes: Any) -> Any:
    """The shape to which arrays of `shapes` broadcast."""

def broadcast_to(x: Any, /, shape: Any) -> Any:
    """`x` repeated along new axes and axes of size 1."""

def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether a dtype, or that of an array, becomes `to` where the two meet."""

def ceil(x: Any, /) -> Any:
    """`ceil` of each element; integers stay as they are."""

def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """`x` limited to the interval from `min` to `max`: numbers or arrays."""

complex128: DType

complex64: DType

def concat(arrays: Any, /, *, axis: Any = 0) -> Any:
    """Arrays joined along an existing axis (flat, if `axis` is None)."""

def conditional_factor(factor: Any, missing: Any, /) -> Any:
    """The factors of covariances of what each row lacks, given the rest, where those of all are `factor @ factor.T`."""

def conditional_moments(scores: Any, factor: Any, missing: Any, weights: Any, /) -> Any:
    """What is expected of the missing entries of vectors of mean 0 and covariance `factor @ factor.T`."""

def conj(x: Any, /) -> Any:
    """The complex conjugate; a real array is its own."""

def copysign(x1: Any, x2: Any, /) -> Any:
    """`copysign` of each element: float; operands are promoted and broadcast."""

def cos(x: Any, /) -> Any:
    """`cos` of each element: float, complex; operands are promoted and broadcast."""

def cosh(x: Any, /) -> Any:
    """`cosh` of each element: float, complex; operands are promoted and broadcast."""

def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """How many elements along `axis` are true, or not zero."""

def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: Any = False) -> Any:
    """Products of the elements so far along `axis`; with `include_initial`, a 1 comes first."""

def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: Any = False) -> Any:
    """Sums of the elements so far along `axis`; with `include_initial`, a 0 comes first."""

def diff(x: Any, /, *, axis: Any = -1, n: Any = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`, `n` times; `prepend` and `append` are joined to `x` first."""

def digamma(x: Any, /) -> Any:
    """The derivative of `lgamma`."""

def directed_matmul(direction: Any, size: Any, weight: Any, logs: Any = None, form: Any = 'log') -> Any:
    """The directions and sizes of `(direction * exp(size)) @ weight.T`: of sums that underflow nowhere."""

def divide(x1: Any, x2: Any, /) -> Any:
    """`divide` of each element: float, complex; operands are promoted and broadcast."""

e: float

def einsum(equation: Any, *arrays: Any) -> Any:
    """An Einstein sum."""

def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array to be overwritten; zeros, so that equal programs give equal results."""

def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array to be overwritten with the shape and dtype of `x`; zeros."""

def equal(x1: Any, x2: Any, /) -> Any:
    """`equal` of each element: bool, int, float, complex; operands are promoted and broadcast."""

def erf(x: Any, /) -> Any:
    """`erf` of each element: float; operands are promoted and broadcast."""

def erfc(x: Any, /) -> Any:
    """`1 - erf(x)`, right where it is tiny."""

def erfinv(x: Any, /) -> Any:
    """`erfinv` of each element: float; operands are promoted and broadcast."""

def exp(x: Any, /) -> Any:
    """`exp` of each element: float, complex; operands are promoted and broadcast."""

def exp2(x: Any, /) -> Any:
    """`exp2` of each element: float; operands are promoted and broadcast."""

def expand_dims(x: Any, /, axis: Any = 0) -> Any:
    """A new axis of size 1 at `axis`."""

def expm1(x: Any, /) -> Any:
    """`expm1` of each element: float, complex; operands are promoted and broadcast."""

def eye(n_rows: Any, n_cols: Any = None, /, *, k: Any = 0, dtype: Any = None, device: Any = None) -> Any:
    """Ones on diagonal `k` of a matrix of zeros."""

class fft:

    @staticmethod
    def fft(x: Any, /, *, n: Any = None, axis: Any = -1, norm: Any = 'backward') -> Any:
        """The transform along one axis, cut or filled up with zeros to `n` points; 1/n stands where `norm` says."""

    @staticmethod
    def fftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:
        """The frequencies of `fft` of `n` points at distance `d`: those from 0 up, then the negative ones."""

    @staticmethod
    def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = 'backward') -> Any:
        """The transform along `axes`, by default all or the last `len(s)`, with sizes `s`."""

    @staticmethod
    def fftshift(x: Any, /, *, axes: Any = None) -> Any:
        """The entry of frequency 0 moved to the middle of `axes`, by default of all."""

    @staticmethod
    def hfft(x: Any, /, *, n: Any = None, axis: Any = -1, norm: Any = 'backward') -> Any:
        """The transform of numbers whose second half are the conjugates of the first, which `x` is: `n` real ones."""

    @staticmethod
    def ifft(x: Any, /, *, n: Any = None, axis: Any = -1, norm: Any = 'backward') -> Any:
        """The inverse of `fft`."""

    @staticmethod
    def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = 'backward') -> Any:
        """The inverse of `fftn`."""

    @staticmethod
    def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
        """The inverse of `fftshift`."""

    @staticmethod
    def ihfft(x: Any, /, *, n: Any = None, axis: Any = -1, norm: Any = 'backward') -> Any:
        """The inverse of `hfft`."""

    @staticmethod
    def irfft(x: Any, /, *, n: Any = None, axis: Any = -1, norm: Any = 'backward') -> Any:
        """The inverse of `rfft`: `n` real numbers, by default 2*(size - 1)."""

    @staticmethod
    def irfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = 'backward') -> Any:
        """The inverse of `rfftn`."""

    @staticmethod
    def rfft(x: Any, /, *, n: Any = None, axis: Any = -1, norm: Any = 'backward') -> Any:
        """The first half of `fft` of real numbers, n//2 + 1 of them: the others are their conjugates."""

    @staticmethod
    def rfftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:
        """The frequencies of `rfft` of `n` points at distance `d`."""

    @staticmethod
    def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = 'backward') -> Any:
        """`rfft` along the last of `axes`, and `fft` along the others."""

def finfo(type: Any, /) -> Any:
    """The limits of a floating dtype, or of the parts of a complex one."""

def flip(x: Any, /, *, axis: Any = None) -> Any:
    """The order of elements reversed along `axis`."""

float16: DType

float32: DType

float64: DType

def floor(x: Any, /) -> Any:
    """`floor` of each element; integers stay as they are."""

def floor_divide(x1: Any, x2: Any, /) -> Any:
    """`floor_divide` of each element: int, float; operands are promoted and broadcast."""

def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array of another library: captured by reference in a traced function."""

def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of one value."""

def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of one value with the shape and dtype of `x`."""

def gammainc(a: Any, x: Any, /) -> Any:
    """The regularized lower incomplete gamma function: the gamma distribution function of concentration `a` at `x`."""

def gammaincc(a: Any, x: Any, /) -> Any:
    """`1 - gammainc(a, x)`, right where it is tiny."""

def gammaincinv(a: Any, p: Any, /) -> Any:
    """The `x` at which `gammainc(a, x)` is `p`."""

def greater(x1: Any, x2: Any, /) -> Any:
    """`greater` of each element: int, float; operands are promoted and broadcast."""

def greater_equal(x1: Any, x2: Any, /) -> Any:
    """`greater_equal` of each element: int, float; operands are promoted and broadcast."""

def hypot(x1: Any, x2: Any, /) -> Any:
    """`hypot` of each element: float; operands are promoted and broadcast."""

def i0e(x: Any, /) -> Any:
    """The modified Bessel function of order 0 times `exp(-abs(x))`."""

def i1e(x: Any, /) -> Any:
    """The modified Bessel function of order 1 times `exp(-abs(x))`."""

def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype."""

def imag(x: Any, /) -> Any:
    """The imaginary part; zeros of a real array."""

def index(x: Any, key: Any) -> Any:
    """`x[key]`, with numpy's meaning."""

inf: float

int16: DType

int32: DType

int4: DType

int64: DType

int8: DType

def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether `dtype` is of a kind: its name, a dtype, or a tuple of them."""

def isfinite(x: Any, /) -> Any:
    """`isfinite` of each element: int, float, complex; operands are promoted and broadcast."""

def isin(x1: Any, x2: Any, /, *, invert: Any = False) -> Any:
    """Whether each element of `x1` is among the elements of `x2`."""

def isinf(x: Any, /) -> Any:
    """`isinf` of each element: int, float, complex; operands are promoted and broadcast."""

def isnan(x: Any, /) -> Any:
    """`isnan` of each element: int, float, complex; operands are promoted and broadcast."""

def less(x1: Any, x2: Any, /) -> Any:
    """`less` of each element: int, float; operands are promoted and broadcast."""

def less_equal(x1: Any, x2: Any, /) -> Any:
    """`less_equal` of each element: int, float; operands are promoted and broadcast."""

def lgamma(x: Any, /) -> Any:
    """The logarithm of the absolute value of the gamma function."""

class linalg:

    @staticmethod
    def cholesky(x: Any, /, *, upper: Any = False) -> Any:
        """The lower triangular `L` with `L @ L^H = x`, or the upper triangular `U` with `U^H @ U = x`."""

    @staticmethod
    def cross(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
        """The vector product of vectors of three numbers along `axis`; the other axes broadcast."""

    @staticmethod
    def det(x: Any, /) -> Any:
        """The determinant."""

    @staticmethod
    def diagonal(x: Any, /, *, offset: Any = 0) -> Any:
        """The diagonal of matrices, `offset` places above the main one."""

    @staticmethod
    def eigh(x: Any, /) -> Any:
        """Eigenvalues, ascending, and eigenvectors as columns of a Hermitian matrix."""

    @staticmethod
    def eigvalsh(x: Any, /) -> Any:
        """The eigenvalues of a Hermitian matrix, ascending."""

    @staticmethod
    def inv(x: Any, /) -> Any:
        """The inverse."""

    @staticmethod
    def matmul(x1: Any, x2: Any, /) -> Any:
        """The matrix product; the axes before the last two broadcast."""

    @staticmethod
    def matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = 'fro') -> Any:
        """The norm of matrices: "fro", "nuc", or 1, 2, inf (or -1, -2, -inf, for the smallest in place of the largest)."""

    @staticmethod
    def matrix_power(x: Any, n: Any, /) -> Any:
        """The matrix multiplied by itself: the identity for 0, powers of the inverse for negative `n`."""

    @staticmethod
    def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
        """The number of singular values above `rtol` times the largest, by default `max(M, N)` times the dtype's epsilon."""

    @staticmethod
    def matrix_transpose(x: Any, /) -> Any:
        """The last two axes swapped."""

    @staticmethod
    def outer(x1: Any, x2: Any, /) -> Any:
        """All products of an element of `x1` and one of `x2`."""

    @staticmethod
    def pinv(x: Any, /, *, rtol: Any = None) -> Any:
        """The pseudo-inverse; singular values up to `rtol` times the largest are taken for 0."""

    @staticmethod
    def qr(x: Any, /, *, mode: Any = 'reduced') -> Any:
        """Orthonormal columns `Q` and an upper triangular `R` with `Q @ R = x`; K is `min(M, N)`, or M in mode "complete"."""

    @staticmethod
    def slogdet(x: Any, /) -> Any:
        """The sign (or phase) of the determinant and the logarithm of its absolute value: 0 and -inf of a singular matrix."""

    @staticmethod
    def solve(x1: Any, x2: Any, /) -> Any:
        """The `x` with `x1 @ x = x2`; `x2` is one vector if it has one axis, else matrices; batches broadcast."""

    @staticmethod
    def svd(x: Any, /, *, full_matrices: Any = True) -> Any:
        """Singular vectors `U` and `Vh` and singular values `S`, descending, with `(U * S) @ Vh = x`, K = `min(M, N)`."""

    @staticmethod
    def svdvals(x: Any, /) -> Any:
        """The singular values, descending."""

    @staticmethod
    def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
        """Products summed over pairs of axes: the last `axes` of `x1` and the first of `x2`, or those of two sequences."""

    @staticmethod
    def trace(x: Any, /, *, offset: Any = 0, dtype: Any = None) -> Any:
        """The sum of the diagonal; small integers become int64 as in `sum`."""

    @staticmethod
    def vecdot(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
        """The sum of products along `axis`, of `x1` conjugated where it is complex; the other axes broadcast."""

    @staticmethod
    def vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Any:
        """The norm of order `ord`, `sum(abs(x) ** ord) ** (1 / ord)`, along `axis`, or of all elements."""

def linspace(start: Any, stop: Any, /, num: Any, *, dtype: Any = None, device: Any = None, endpoint: Any = True) -> Any:
    """`num` numbers at equal distances from `start` to `stop`, which is left out without `endpoint`."""

def log(x: Any, /) -> Any:
    """`log` of each element: float, complex; operands are promoted and broadcast."""

def log10(x: Any, /) -> Any:
    """`log10` of each element: float, complex; operands are promoted and broadcast."""

def log1p(x: Any, /) -> Any:
    """`log1p` of each element: float, complex; operands are promoted and broadcast."""

def log2(x: Any, /) -> Any:
    """`log2` of each element: float, complex; operands are promoted and broadcast."""

def log_einsum_exp(equation: Any, values: Any, weight: Any, logs: Any = None, form: Any = 'log', lost: Any = 1.0) -> Any:
    """`log(einsum(equation, exp(values)..., weight))`: values in log space, the weight linear and not negative."""

def log_matmul_exp(x: Any, weight: Any, logs: Any = None, form: Any = 'log', lost: Any = 1.0) -> Any:
    """`log(exp(x) @ weight.T)`: inputs in log space, the weight linear and not negative."""

def log_multivariate_normal(scores: Any, factor: Any, missing: Any = None, /) -> Any:
    """The logarithms of normal densities of mean 0 and covariance `factor @ factor.T`, of the entries that are there."""

def log_ndtr(x: Any, /) -> Any:
    """The logarithm of the standard normal distribution function, right in both tails."""

def log_normal(x: Any, mean: Any, log_stddev: Any, /) -> Any:
    """The logarithm of the normal density at `x`, of a mean and the logarithm of a standard deviation."""

def log_softmax(x: Any, /, *, axis: Any = -1) -> Any:
    """The logarithm of `softmax`, finite for finite `x`."""

def logaddexp(x1: Any, x2: Any, /, *others: Any) -> Any:
    """`log(exp(x1) + exp(x2) + ...)` of each element, without overflow; operands are promoted and broadcast."""

def logical_and(x1: Any, x2: Any, /) -> Any:
    """`logical_and` of each element: bool; operands are promoted and broadcast."""

def logical_not(x: Any, /) -> Any:
    """`logical_not` of each element: bool; operands are promoted and broadcast."""

def logical_or(x1: Any, x2: Any, /) -> Any:
    """`logical_or` of each element: bool; operands are promoted and broadcast."""

def logical_xor(x1: Any, x2: Any, /) -> Any:
    """`logical_xor` of each element: bool; operands are promoted and broadcast."""

def logsumexp(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """`log(sum(exp(x)))` without overflow; `-inf` where every element is, with gradient 0."""

def lookup(table: Any, index: Any) -> Any:
    """Column `index[f, b]` of each fold's table."""

def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product; the axes before the last two broadcast."""

def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped."""

def max(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """The largest element along `axis`."""

def maximum(x1: Any, x2: Any, /) -> Any:
    """`maximum` of each element: int, float; operands are promoted and broadcast."""

def mean(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """The arithmetic mean over `axis`, in float64 of integers and truth values."""

def meshgrid(*arrays: Any, indexing: Any = 'xy') -> Any:
    """Coordinates of the points of a grid, given those along each axis ('xy': the first two axes swapped)."""

def min(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
    """The smallest element along `axis`."""

def minimum(x1: Any, x2: Any, /) -> Any:
    """`minimum` of each element: int, float; operands are promoted and broadcast."""

def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Axes moved to other positions; the others keep their order."""

def multiply(x1: Any, x2: Any, /) -> Any:
    """`multiply` of each element: int, float, complex; operands are promoted and broadcast."""

nan: float

def negative(x: Any, /) -> Any:
    """`negative` of each element: int, float, complex; operands are promoted and broadcast."""

newaxis: None

def nextafter(x1: Any, x2: Any, /) -> Any:
    """`nextafter` of each element: float; operands are promoted and broadcast."""

def nonzero(x: Any, /) -> Any:
    """Where elements differ from zero: one array of indices for each axis, in the order of rows."""

def not_equal(x1: Any, x2: Any, /) -> Any:
    """`not_equal` of each element: bool, int, float, complex; operands are promoted and broadcast."""

def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of ones."""

def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones with the shape and dtype of `x`."""

def pack(x: Any, /, inner_dims_pos: Any, inner_tiles: Any, *, outer_dims_perm: Any = None, padding_value: Any = None) -> Any:
    """`x` in tiles: the outer axes in the order `outer_dims_perm`, then the positions within the tiles."""

def permute_dims(x: Any, /, axes: Any) -> Any:
    """The axes of `x` in another order."""

pi: float

def positive(x: Any, /) -> Any:
    """`x` itself."""

def pow(x1: Any, x2: Any, /) -> Any:
    """`x1` to the power `x2`; a size to a small power is a size."""

def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    """The product over `axis`."""

class random:

    @staticmethod
    def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
        """True with probability `p`, in the shape of `p` or in `shape`, to which `p` broadcasts."""

    @staticmethod
    def bits(key: Any, shape: Any = (), *, width: Any = 32) -> Any:
        """Random bits: integers from 0 to `2 ** width - 1` in int64 (of width 64, all of its values)."""

    @staticmethod
    def categorical(key: Any, logits: Any, *, axis: Any = -1, shape: Any = None) -> Any:
        """Indices along `axis`, likely in proportion to `exp(logits)`: the largest of `logits` and Gumbel numbers."""

    @staticmethod
    def choice(key: Any, x: Any, shape: Any = (), *, replace: Any = True, p: Any = None) -> Any:
        """Numbers below a scalar `x`, or elements of an array `x` of one axis; each at most once unless `replace`."""

    @staticmethod
    def exponential(key: Any, shape: Any = (), *, dtype: Any = 'float32') -> Any:
        """Numbers of the exponential distribution of mean 1, `-log` of uniform ones; from 0 (left out) to 43.7."""

    @staticmethod
    def fold_in(key: Any, data: Any) -> Any:
        """A key for each integer `data`, such as the index of a loop."""

    @staticmethod
    def gumbel(key: Any, shape: Any = (), *, dtype: Any = 'float32') -> Any:
        """Numbers of the standard Gumbel distribution, `-log(-log(1 - u))`; the upper tail reaches to 43.7."""

    @staticmethod
    def key(seed: Any) -> Any:
        """The key of an integer, which may be a scalar of the program."""

    @staticmethod
    def normal(key: Any, shape: Any = (), *, dtype: Any = 'float32') -> Any:
        """Standard normal numbers, by the inverse of the error function; the largest are 5.4 in float32, 8.3 in float64."""

    @staticmethod
    def permutation(key: Any, x: Any, *, axis: Any = 0) -> Any:
        """The numbers from 0 up to a scalar `x`, or the array `x` along `axis`, in random order."""

    @staticmethod
    def randint(key: Any, shape: Any, minval: Any, maxval: Any, *, dtype: Any = 'int64') -> Any:
        """Integers from `minval` up to `maxval`, which is left out."""

    @staticmethod
    def split(key: Any, num: Any = 2) -> Any:
        """`num` keys, independent of each other and of what is drawn from `key`; the first ones do not depend on `num`."""

    @staticmethod
    def uniform(key: Any, shape: Any = (), *, dtype: Any = 'float32', minval: Any = 0, maxval: Any = 1) -> Any:
        """Numbers from `minval` up to `maxval`, which is left out, evenly spread."""

def real(x: Any, /) -> Any:
    """The real part; a real array is its own."""

def reciprocal(x: Any, /) -> Any:
    """`reciprocal` of each element: float, complex; operands are promoted and broadcast."""

def regression_matrix(factor: Any, missing: Any, /) -> Any:
    """The matrices that complete vectors of mean 0 and covariance `factor @ factor.T` by the means of what rows lack."""

def remainder(x1: Any, x2: Any, /) -> Any:
    """`remainder` of each element: int, float; operands are promoted and broadcast."""

def repeat(x: Any, repeats: Any, /, *, axis: Any = None) -> Any:
    """Each element along `axis` (of the flat array without it) `repeats` times: a number, or one for each element."""

def rescale(x: Any) -> Any:
    """`x` divided by the power of two above the largest element of its last axis, and that power."""

def reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    """`x` with another shape of as many elements; one size may be -1."""

def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that arrays, dtypes and Python numbers promote to."""

def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Elements moved by `shift` positions along `axis`, those behind the end to the front."""

def round(x: Any, /) -> Any:
    """`round` of each element; integers stay as they are."""

def safe_log(x: Any, /) -> Any:
    """`safe_log` of each element: float, complex; operands are promoted and broadcast."""

def search_cumulative(table: Any, rows: Any, uniforms: Any) -> Any:
    """The first index where a row of cumulative weights exceeds a uniform number times the row's total."""

def searchsorted(x1: Any, x2: Any, /, *, side: Any = 'left', sorter: Any = None) -> Any:
    """Where elements of `x2` belong in `x1`, sorted or sorted by `sorter`: before their equals, or ('right') behind."""

def sigmoid(x: Any, /) -> Any:
    """`sigmoid` of each element: float; operands are promoted and broadcast."""

def sign(x: Any, /) -> Any:
    """`sign` of each element: int, float, complex; operands are promoted and broadcast."""

def signbit(x: Any, /) -> Any:
    """`signbit` of each element: float; operands are promoted and broadcast."""

def sin(x: Any, /) -> Any:
    """`sin` of each element: float, complex; operands are promoted and broadcast."""

def sinh(x: Any, /) -> Any:
    """`sinh` of each element: float, complex; operands are promoted and broadcast."""

def softmax(x: Any, /, *, axis: Any = -1) -> Any:
    """Exponentials along `axis`, scaled to sum to 1."""

def softplus(x: Any, /) -> Any:
    """`softplus` of each element: float; operands are promoted and broadcast."""

def sort(x: Any, /, *, axis: Any = -1, descending: Any = False, stable: Any = True) -> Any:
    """The elements in order along `axis`."""

def sqrt(x: Any, /) -> Any:
    """`sqrt` of each element: float, complex; operands are promoted and broadcast."""

def square(x: Any, /) -> Any:
    """Each element times itself."""

def squeeze(x: Any, /, axis: Any) -> Any:
    """Axes of size 1 removed; that a symbolic size is 1 is checked when the program runs."""

def stack(arrays: Any, /, *, axis: Any = 0) -> Any:
    """Arrays joined along a new axis."""

def std(x: Any, /, *, axis: Any = None, correction: Any = 0.0, keepdims: Any = False) -> Any:
    """The standard deviation over `axis`: the square root of `var`."""

def stirling_error(x: Any, /) -> Any:
    """`lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)` for positive `x`: what Stirling's formula lacks."""

def stop_gradient(x: Any, /) -> Any:
    """`x`, taken for a constant by differentiation."""

def subtract(x1: Any, x2: Any, /) -> Any:
    """`subtract` of each element: int, float, complex; operands are promoted and broadcast."""

def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    """The sum over `axis`."""

def take(x: Any, indices: Any, /, *, axis: Any = None, nonnegative: Any = False) -> Any:
    """Elements at `indices`, which have one dimension, along `axis` (which an array of one dimension need not name)."""

def take_along_axis(x: Any, indices: Any, /, *, axis: Any = -1, nonnegative: Any = False) -> Any:
    """Elements at `indices`, one for each position outside `axis`, where both arrays broadcast."""

def tan(x: Any, /) -> Any:
    """`tan` of each element: float, complex; operands are promoted and broadcast."""

def tanh(x: Any, /) -> Any:
    """`tanh` of each element: float, complex; operands are promoted and broadcast."""

def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Products summed over pairs of axes: the last `axes` of `x1` and the first of `x2`, or those of two sequences."""

def tile(x: Any, repetitions: Any, /) -> Any:
    """`x` laid beside itself, `repetitions` times along each axis."""

def tril(x: Any, /, *, k: Any = 0) -> Any:
    """The lower triangle of matrices, up to diagonal `k`; zeros above."""

def triu(x: Any, /, *, k: Any = 0) -> Any:
    """The upper triangle of matrices, from diagonal `k`; zeros below."""

def trunc(x: Any, /) -> Any:
    """`trunc` of each element; integers stay as they are."""

uint16: DType

uint32: DType

uint4: DType

uint64: DType

uint8: DType

def unique_all(x: Any, /) -> Any:
    """The distinct elements in ascending order, their first indices in the flat array, inverse indices, and counts."""

def unique_counts(x: Any, /) -> Any:
    """The distinct elements in ascending order, and how often each occurs."""

def unique_inverse(x: Any, /) -> Any:
    """The distinct elements in ascending order, and for each element of `x` the index of its value among them."""

def unique_values(x: Any, /) -> Any:
    """The distinct elements in ascending order; every NaN counts as distinct."""

def unpack(x: Any, /, inner_dims_pos: Any, inner_tiles: Any, *, outer_dims_perm: Any = None, shape: Any = None) -> Any:
    """The array whose tiles `x` has, of the given `shape`: without it, with what fills up the last tiles."""

def unstack(x: Any, /, *, axis: Any = 0) -> Any:
    """The arrays that `x` is a stack of; their number must be known now."""

def update(x: Any, key: Any, values: Any, mode: Any = 'set') -> Any:
    """`x` with other elements at `key`: `values`, or what `mode` ("add", "multiply", "min", "max") makes of both."""

def updates(x: Any) -> Any:
    """`updates(x)[key].set(values)` and `.add`, `.multiply`, `.min`, `.max`: what `x.at[key]` is for a tracer."""

def var(x: Any, /, *, axis: Any = None, correction: Any = 0.0, keepdims: Any = False) -> Any:
    """The variance over `axis`, divided by the number of elements less `correction`."""

def vecdot(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """The sum of products along `axis`, of `x1` conjugated where it is complex; the other axes broadcast."""

def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """`x1` where `condition` holds, else `x2`."""

def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of zeros."""

def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros with the shape and dtype of `x`."""
