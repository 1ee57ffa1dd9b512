"""Computes the mutual information of all pairs of columns of data, in nats.

Joint counts exist for a few pairs at a time: memory is that of the data, of the result `(D, D)` and of these pairs.
A row with a missing value (NaN) in a column is left out of the pairs of that column.

>>> import numpy as np
>>> rows = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
>>> discrete_mutual_information(Codes.of_states("example", rows)).round(3)
array([[0.693, 0.693, 0.   ],
       [0.693, 0.693, 0.   ],
       [0.   , 0.   , 0.693]])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.arguments import integer, is_count, shown
from plica.errors import InputError, ShapeError

Array: TypeAlias = NDArray[Any]

_DENSE_STATES = 16  # up to here, products of matrices of zeros and ones count faster than a loop over rows
_CELLS_AT_ONCE = 2**18  # of joint counts: as many numbers as a processor's cache holds
_LARGEST_TABLE = 2**22
_ROWS_AT_ONCE = 4096
_MOST_STATES = 4096  # of a variable that is counted value by value; with more, values share bins as real numbers do
_ROWS_OF_A_CELL = 5  # expected in each cell of a table of two independent columns, as for tests by the chi-squared law
_MOST_BINS = 16  # by default: as many as are counted fast
_CHANCE = 0.05  # how often independent columns look more dependent than what `above_chance` takes off
_DECIMALS = 12  # later decimals are rounding errors; without them, equal information is equal in any order of sums


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Columns of integers.

    Args:
        values: `(D, N)`, a row for each variable: 0 to below `num_codes`, or -1 where a value is missing.
        num_states: `(D,)` the number of values of each variable; the data may lack some of them.
    """

    values: Array
    num_states: Array

    @staticmethod
    def of_states(name: str, data: Any, num_states: int | None = None) -> "Codes":
        """Columns that hold states from 0 on.

        Args:
            name: The caller, for messages.
            data: `(N, D)` whole numbers; NaN is missing.
            num_states: The number of states of each column; by default that of the data.

        Raises:
            InputError: A value is no state.
        """
        if num_states is not None:
            num_states = integer(name, "num_categories", num_states, least=1)
        columns = table(name, data).T
        missing = np.isnan(columns)
        known = np.where(missing, 0.0, columns)
        wrong = (known != np.floor(known)) | (known < 0) | (known >= (2**31 if num_states is None else num_states))
        if wrong.any():
            variable, row = (int(indices[0]) for indices in np.nonzero(wrong))
            expected = "integers from 0 on" if num_states is None else f"the states 0 to {num_states - 1}"
            raise InputError(
                f"{name}: row {row}, column {variable} holds {columns[variable, row]:g}, expected {expected}; "
                "encode the data as such integers, or put real numbers into bins with num_bins"
            )
        most = int(known.max()) + 1 if num_states is None else num_states
        return Codes(np.where(missing, -1, known).astype(np.int64), np.full(len(columns), most))

    @staticmethod
    def of_bins(name: str, data: Any, num_bins: int | None = None) -> "Codes":
        """Real numbers in bins that hold about as many rows each; equal values share a bin.

        Args:
            name: The caller, for messages.
            data: `(N, D)` numbers; NaN is missing.
            num_bins: The largest number of bins of a column. By default `sqrt(n / 5)` for n known rows, 2 to 16: then
                about 5 rows are expected in each of the joint bins of two independent columns.

        Raises:
            InputError: `num_bins` is below 1.

        Source: Cellucci, Albano and Rapp, "Statistical validation of mutual information calculations", 2005.
        """
        if num_bins is not None and not is_count(num_bins):
            raise InputError(f"{name}: num_bins must be at least 1, found {shown(num_bins)}")
        columns = table(name, data).T
        values, num_states = np.full(columns.shape, -1, dtype=np.int64), np.ones(len(columns), dtype=np.int64)
        for variable, (column, codes) in enumerate(zip(columns, values, strict=True)):
            known = ~np.isnan(column)
            size = max(int(known.sum()), 1)
            most = min(max(int((size / _ROWS_OF_A_CELL) ** 0.5), 2), _MOST_BINS) if num_bins is None else num_bins
            _, inverse, counts = np.unique(column[known], return_inverse=True, return_counts=True)
            middles = 2 * np.cumsum(counts) - counts  # twice the rank of the middle row of each value
            bins = np.arange(len(counts)) if len(counts) <= most else middles * most // (2 * size)
            codes[known], num_states[variable] = bins[inverse], most
        return Codes(values, num_states)

    @staticmethod
    def of_columns(name: str, data: Any, num_states: Sequence[int | None], num_bins: int | None = None) -> "Codes":
        """Columns of any kind: states unchanged, other numbers in bins.

        Args:
            name: The caller, for messages.
            data: `(N, D)` numbers; NaN is missing.
            num_states: The number of states of each column. Columns without one, or with more than 4096, are put into
                bins.
            num_bins: The largest number of bins of a column, as for `of_bins`.
        """
        parts = [
            Codes.of_bins(name, column[:, None], num_bins)
            if states is None or states > _MOST_STATES
            else Codes.of_states(name, column[:, None], states)
            for column, states in zip(table(name, data).T, num_states, strict=True)
        ]
        return Codes(*(np.concatenate([getattr(part, key) for part in parts]) for key in ("values", "num_states")))

    def of_rows(self, rows: Array) -> "Codes":
        """The columns of some rows, by their numbers; a row may occur several times."""
        return Codes(self.values[:, rows], self.num_states)

    def of_variables(self, variables: Array) -> "Codes":
        """Some columns, by their numbers."""
        return Codes(self.values[variables], self.num_states[variables])


def table(name: str, data: Any) -> Array:
    """Data as float64 `(N, D)`.

    Raises:
        ShapeError: The data has another shape, or no rows or columns.
        InputError: The data holds other values than numbers.
    """
    try:
        if np.iscomplexobj(data):
            raise TypeError("it holds complex numbers")
        rows = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: the data is no table of numbers ({error}); encode other values first") from error
    if rows.ndim != 2 or 0 in rows.shape:
        raise ShapeError(f"{name}: expected data of shape (rows, variables), at least one of each; found {rows.shape}")
    return rows


def discrete_mutual_information(codes: Codes, *, pseudocount: float = 0.0, chunk_size: int | None = None) -> Array:
    """The mutual information of all pairs of columns; the diagonal holds that of a column and its copy.

    Args:
        codes: The columns.
        pseudocount: A number of imaginary rows, spread evenly over the joint states of a pair. They keep pairs with few
            rows from looking dependent by chance.
        chunk_size: How many pairs are counted at once; memory grows with it. By default as many as a cache holds.

    Returns:
        `(D, D)`, symmetric, at least 0.

    Source: Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968.
    """
    if not isinstance(pseudocount, Real) or not 0 <= pseudocount < np.inf:
        raise InputError(f"pseudocount must be at least 0, found {shown(pseudocount)}; give a finite number")
    if chunk_size is not None and not is_count(chunk_size):
        raise InputError(f"chunk_size must be at least 1, found {shown(chunk_size)}")
    compact, width = _compact(codes.values)
    measure = _dense if width <= _DENSE_STATES else _sparse
    information = measure(compact, width, codes.num_states.astype(np.float64), float(pseudocount), chunk_size)
    return np.maximum(np.maximum(information, information.T).round(_DECIMALS), 0.0)


def information_above_chance(codes: Codes, *, pseudocount: float = 0.0, chunk_size: int | None = None) -> Array:
    """Mutual information less what independent columns show by chance; below 0 where it shows less.

    Of n rows, I of two independent columns of k and m states has the law of chi-squared / 2n, of (k - 1)(m - 1) degrees
    of freedom. Its 95 % quantile q is taken off as log(1 + q). So pairs of many states, or of few rows that know both,
    do not look dependent by chance. The logarithm is about q where q is small; elsewhere I grows no faster.

    Args:
        codes: The columns.
        pseudocount: As of `discrete_mutual_information`.
        chunk_size: As there.

    Returns:
        `(D, D)`, symmetric; the diagonal means nothing.

    Source: the G-test: Wilks, "The large-sample distribution of the likelihood ratio", 1938.
    """
    information = discrete_mutual_information(codes, pseudocount=pseudocount, chunk_size=chunk_size)
    result: Array = (information - np.log1p(_by_chance(codes, _CHANCE))).round(_DECIMALS)
    return result


def is_dependent(codes: Codes, significance: float) -> Array:
    """Whether the G-test rejects that two columns are independent: `(D, D)`, over the rows that know both.

    Args:
        codes: The columns.
        significance: How often independent columns are rejected, above 0 and below 1.
    """
    information = discrete_mutual_information(codes)
    result: Array = information > _by_chance(codes, significance)
    return result


def _by_chance(codes: Codes, significance: float) -> Array:
    """The mutual information that two independent columns exceed with probability `significance`: `(D, D)`."""
    from scipy.special import chdtri

    known = (codes.values >= 0).astype(np.float32)
    rows = np.zeros((len(known), len(known)))
    for start in range(0, known.shape[1], _LARGEST_TABLE):  # float32 counts so many exactly
        part = known[:, start : start + _LARGEST_TABLE]
        rows += part @ part.T
    rows = np.maximum(rows, 1.0)
    occurring = np.array([len(np.unique(column[column >= 0])) for column in codes.values], dtype=np.float64)
    fewer = np.maximum(np.minimum(occurring[:, None], rows) - 1.0, 0.0)  # of column i in rows that know j, at most
    freedom, pairs = np.unique(fewer * fewer.T, return_inverse=True)
    quantiles = np.where(freedom > 0, chdtri(np.maximum(freedom, 1.0), significance), 0.0)
    result: Array = quantiles[pairs].reshape(rows.shape) / (2.0 * rows)
    return result


def gaussian_mutual_information(name: str, data: Any) -> Array:
    """The mutual information of all pairs of columns if they were jointly normal: -log(1 - r^2) / 2, r the correlation.

    Args:
        name: The caller, for messages.
        data: `(N, D)` numbers; NaN is missing.

    Returns:
        `(D, D)`, symmetric, at least 0 and infinite on the diagonal; 0 for a constant column and another.
    """
    rows = table(name, data)
    known = np.isfinite(rows)
    if not (known | np.isnan(rows)).all():
        raise InputError(f"{name}: the data holds infinite values; replace them by NaN, which is left out")
    # Shifted and scaled first, so that squares neither overflow nor cancel.
    counts = np.maximum(known.sum(axis=0), 1)
    x = np.where(known, rows / _scale(np.where(known, np.abs(rows), 0.0)), 0.0)
    x = np.where(known, x - x.sum(axis=0) / counts, 0.0)
    x = x / _scale(np.abs(x))
    is_known = known.astype(np.float64)
    pairs = np.maximum(is_known.T @ is_known, 1.0)
    # entry [i, j] is about column i, over rows that know column j
    sums, squares, products = x.T @ is_known, (x * x).T @ is_known, x.T @ x
    variances = squares - sums**2 / pairs
    covariances = products - sums * sums.T / pairs
    both = variances * variances.T
    tiny = 1e-24 * np.maximum(squares * squares.T, 1e-300)  # the most that rounding leaves of a constant column
    correlations = np.where(both > tiny, covariances**2 / np.where(both > tiny, both, 1.0), 0.0)
    with np.errstate(divide="ignore"):
        result: Array = -0.5 * np.log1p(-np.minimum(correlations, 1.0))
    np.fill_diagonal(result, np.inf)
    return np.maximum(result, result.T)


def _scale(magnitudes: Array) -> Array:
    largest = magnitudes.max(axis=0)
    return np.where(largest > 0, largest, 1.0)


def _compact(values: Array) -> tuple[Array, int]:
    """The codes renumbered so that each column uses all below a number, and the largest of these numbers."""
    compact = np.full(values.shape, -1, dtype=np.int64)
    width = 1
    for column, codes in zip(values, compact, strict=True):
        present, inverse = np.unique(column[column >= 0], return_inverse=True)
        codes[column >= 0] = inverse
        width = max(width, len(present))
    return compact, width


def _x_log_x(x: Array) -> Array:
    return x * np.log(np.where(x > 0, x, 1.0))


def _information(joint: Array, first: Array, second: Array, total: Array) -> Array:
    """I = (sum m_ab log m_ab - sum m_a log m_a - sum m_b log m_b) / T + log T, from these three sums and T."""
    size = np.where(total > 0, total, 1.0)
    return np.where(total > 0, (joint - first - second) / size + np.log(size), 0.0)


def _dense(values: Array, width: int, num_states: Array, pseudocount: float, chunk_size: int | None) -> Array:
    """Mutual information for few states: products of matrices of zeros and ones count blocks of pairs."""
    variables = len(values)
    pairs = chunk_size or max(_CELLS_AT_ONCE // width**2, 1)
    size = max(int(pairs**0.5), 1)
    result = np.zeros((variables, variables))
    for i in range(0, variables, size):
        for j in range(i, variables, size):
            here, there = slice(i, i + size), slice(j, j + size)
            counts = _joint_counts(values[here], values[there], width)
            result[here, there] = _of_counts(counts, num_states[here, None], num_states[None, there], pseudocount)
    return result


def _joint_counts(first: Array, second: Array, width: int) -> Array:
    """`(I, J, C, C)`: how many rows hold each pair of codes."""
    states = np.arange(width)[:, None]
    counts = np.zeros((len(first) * width, len(second) * width))
    for start in range(0, first.shape[1], _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        first_hits, second_hits = ((part[:, None, rows] == states).astype(np.float32) for part in (first, second))
        size = first_hits.shape[-1]  # few enough that float32 counts exactly
        counts += first_hits.reshape(-1, size) @ second_hits.reshape(-1, size).T
    return counts.reshape(len(first), width, len(second), width).transpose(0, 2, 1, 3)


def _of_counts(counts: Array, first: Array, second: Array, pseudocount: float) -> Array:
    """The information of pairs `(I, J)` from their joint counts and their numbers of states."""
    cells, sums = first * second, []
    for n, states in ((counts, cells), (counts.sum(axis=3), first), (counts.sum(axis=2), second)):
        cell = pseudocount / states  # the share of each cell, added to its count
        axes = tuple(range(2, n.ndim))
        full = _x_log_x(n + np.expand_dims(cell, axes)) - np.expand_dims(_x_log_x(cell), axes)
        sums.append(full.sum(axis=axes) + states * _x_log_x(cell))
    joint, first_sum, second_sum = sums
    return _information(joint, first_sum, second_sum, counts.sum(axis=(2, 3)) + pseudocount)


def _sparse(values: Array, width: int, num_states: Array, pseudocount: float, chunk_size: int | None) -> Array:
    """Mutual information for many states: each row looks up how many rows share its cell; empty cells cost nothing."""
    variables, rows = values.shape
    size = chunk_size or max(min(_CELLS_AT_ONCE // width**2, _CELLS_AT_ONCE // rows), 1)
    anywhere_missing = bool((values < 0).any())
    result = np.zeros((variables, variables))
    alone = _sums(values, width, num_states, pseudocount)
    total = np.array(rows + pseudocount)
    for i in range(variables):
        for j in range(i, variables, size):
            there = slice(j, min(j + size, variables))
            first, second = values[i], values[there]
            first_sum, second_sum = alone[i], alone[there]
            joint = first * width + second
            if anywhere_missing:
                lost = (first < 0) | (second < 0)
                joint = np.where(lost, -1, joint)
                first_sum = _sums(np.where(lost, -1, first), width, num_states[i], pseudocount)
                second_sum = _sums(np.where(lost, -1, second), width, num_states[there], pseudocount)
                total = (~lost).sum(axis=1) + pseudocount
            both = _sums(joint, width**2, num_states[i] * num_states[there], pseudocount)
            result[i, there] = _information(both, first_sum, second_sum, total)
    return result


def _sums(cells: Array, width: int, num_states: Array, pseudocount: float) -> Array:
    """For each row of `cells`, the sum of m log m over all states; m is a state's number of entries plus its share.

    The sum runs over entries instead of states: a state of n entries is met n times, each time with 1/n of its term.
    All states that do not occur have the same term.

    Args:
        cells: `(P, N)` states below `width`, or -1, which is not counted.
        width: The number of states that may occur.
        num_states: The number of states, occurring or not.
        pseudocount: The number of imaginary entries, shared evenly by the states.
    """
    missing = cells < 0
    entries = np.where(missing, width, cells) + np.arange(len(cells))[:, None] * (width + 1)
    if len(cells) * (width + 1) <= _LARGEST_TABLE:
        n = np.bincount(entries.ravel(), minlength=len(cells) * (width + 1))[entries]
    else:  # columns of numbers that hardly repeat: sorting them is cheaper than a table of all pairs of these
        _, where, counts = np.unique(entries, return_inverse=True, return_counts=True)
        n = counts[where].reshape(entries.shape)
    cell = np.broadcast_to(pseudocount / num_states, len(cells))[:, None]
    empty = _x_log_x(cell)
    shares = np.where(missing, 0.0, (_x_log_x(n + cell) - empty) / n)
    result: Array = shares.sum(axis=1) + (num_states * empty.T)[0]
    return result
