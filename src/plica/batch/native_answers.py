"""The answers of native files (`.plicab`), which need no torch: rows are numbers, and entries of the file answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plica.errors import InputError, NativeFileError, UnsupportedError
from plica.files.native_tables import table_of_json
from plica.files.rows.batch import Array, Batch
from plica.runtime.module import NativeModule, load
from plica.symbolic.domains import COUNTS, REALS
from plica.tables.answers import batch_seed, variable_of
from plica.tables.model import Model
from plica.tables.questions import (
    LOG_LIKELIHOOD,
    Answers,
    Beside,
    Complete,
    Filled,
    Predict,
    Question,
    Sample,
    Score,
)
from plica.tables.reading import each_alone, impossible

NATIVE = ".plicab"
_MOST_STATES = 1 << 16
_NO_VALUE = "a number is no value of its column; correct it, or leave it missing"


def native_model(path: Path) -> Model:
    """The model of a native file, of which one thread computes each call.

    Raises:
        UnsupportedError: The file has no entry that scores rows.
        NativeFileError: It is damaged.
    """
    module = load(path, threads=1)
    names = [name for name in ("log_likelihood", "marginal") if name in module.entries]
    if not names:
        raise UnsupportedError(f"{path}: scores no rows; export the model with --query log-likelihood")
    entry = module[names[0]].entry
    (argument,) = entry.arguments
    width = argument.shape[1]
    (result,) = entry.shown
    if not isinstance(width, int) or result.shape[1:] != (1, 1):
        raise UnsupportedError(f"{path}: {entry.name} gives {result}; expected one number for each row")
    if module.manifest.encoding is None:
        return Model(module, None, None, (COUNTS if "int" in argument.dtype else REALS,) * width)
    try:
        encoding, domains = table_of_json(module.manifest.encoding)
        if len(domains) != width:
            raise NativeFileError(
                f"its table has {len(domains)} columns, but its entries take {width} numbers; export it again"
            )
    except NativeFileError as error:
        raise NativeFileError(f"{path}: {error}") from error
    return Model(module, encoding, None, domains)


def native_answers(question: Question, model: Model) -> Answers:
    """The answers of a native file.

    Raises:
        UnsupportedError: The file has no entry that answers the question.
    """
    return _ANSWERS[type(question)](question, model)


def _entry(model: Model, name: str, query: str) -> Callable[..., Any]:
    module: NativeModule = model.circuit
    if name not in module.entries:
        raise UnsupportedError(
            f"{module.path}: has no entry {name}; export the model with --query {query}, or give the .plica"
        )
    return module[name]


def _scores(model: Model, batch: Batch | None, x: Array) -> Array:
    """The log-likelihood of rows `(B, D)`.

    Raises:
        InputError: A row has a number that is no value of its column.
    """
    module: NativeModule = model.circuit
    if "log_likelihood" in module.entries and (x.dtype.kind in "iu" or not np.isnan(x).any()):
        entry = module["log_likelihood"]
        dtype = entry.entry.arguments[0].dtype
        x = x.astype(np.int64 if "int" in dtype else dtype)
    else:
        entry = module["marginal"] if "marginal" in module.entries else module["log_likelihood"]
        dtype = entry.entry.arguments[0].dtype
        if "int" in dtype:
            _entry(model, "marginal", "marginal")
        x = x.astype(dtype)
    scores: Array = np.asarray(entry(x))[:, 0, 0]
    wrong = np.flatnonzero(np.isnan(scores))
    if batch is not None and len(wrong):
        raise InputError(f"{batch.labels[int(wrong[0])]}: {_NO_VALUE}")
    return scores


def _score(question: Any, model: Model) -> Beside:
    if question.comparable:
        raise UnsupportedError(f"{model.circuit.path}: a native file has no comparable scores; give the .plica")
    read = [variable_of(model.names, name) for name in question.of]
    hidden = [variable for variable in range(model.width) if read and variable not in read]

    def columns(batch: Batch, x: Array) -> Sequence[Array]:
        if hidden:
            x = x.astype(np.float64)
            x[:, hidden] = np.nan
        return [_scores(model, batch, x)]

    return Beside(model, {LOG_LIKELIHOOD: float}, columns, keep=question.keep)


def _complete(question: Any, model: Model) -> Filled:
    if question.method == "mean":
        raise UnsupportedError(
            f"{model.circuit.path}: a native file has no means; give the .plica, or the method mpe or sample"
        )
    is_drawn = question.method == "sample"
    entry = _drawing(model) if is_drawn else _filling(model, "mpe", "mpe")

    def fill(number: int, batch: Batch, x: Array) -> tuple[Batch, Array, Array]:
        seed = {"seed": batch_seed((question.seed, number))} if is_drawn else {}
        return batch, x, entry(batch.labels, x, **seed)

    return Filled(model, fill, keep_columns=question.keep)


def _sample(question: Any, model: Model) -> Filled:
    entry = _drawing(model)

    def fill(number: int, batch: Batch, x: Array) -> tuple[Batch, Array, Array]:
        repeated = batch.repeated(question.number)
        known = np.repeat(x, question.number, axis=0)
        return repeated, known, entry(repeated.labels, known, seed=batch_seed((question.seed, number)))

    return Filled(model, fill, keep=False, is_drawn=True)


def native_draws(model: Model, number: int, seed: int, size: int) -> Iterator[Array]:
    """Rows drawn from a native file, `size` at a time.

    Raises:
        UnsupportedError: The file has no entry that draws.
        InputError: All its rows have a probability of 0.
    """
    fill = _drawing(model)
    for part, first in enumerate(range(0, number, size)):
        last = min(first + size, number)
        nothing_known = np.full((last - first, model.width), np.nan)
        yield fill([f"draw {draw}" for draw in range(first, last)], nothing_known, seed=batch_seed((seed, part)))


def _drawing(model: Model) -> Callable[..., Array]:
    return _filling(model, "conditional_sample", "conditional-sample")


def _filling(model: Model, name: str, query: str) -> Callable[..., Array]:
    """A function from the labels of rows and their numbers `(B, D)` to rows without missing numbers."""
    entry: Any = _entry(model, name, query)
    dtype = entry.entry.arguments[0].dtype

    def fill(labels: Sequence[str], x: Array, **options: int) -> Array:
        rows, values = entry(x.astype(dtype), **options)
        _refuse_impossible(model, labels, x, np.asarray(values))
        return np.asarray(rows)

    return fill


def _refuse_impossible(model: Model, labels: Sequence[str], x: Array, values: Array) -> None:
    """Raise where the log-likelihood of a row `(D,)` of `x` is not finite.

    Raises:
        InputError: A row has a probability of 0, or a number that is no value of its column.
    """
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        row = int(wrong[0])
        if np.isnan(values[row]):
            raise InputError(f"{labels[row]}: {_NO_VALUE}")
        known = x[row].astype(np.float64)
        try:
            scores = _scores(model, None, each_alone(known))
        except UnsupportedError:  # the file scores complete rows alone
            scores = None
        raise InputError(impossible(model, labels[row], known, scores))


def _predict(question: Any, model: Model) -> Beside:
    variable = variable_of(model.names, question.column)
    is_state = model.domains[variable] == COUNTS if model.encoding is None else model.is_closed(variable)
    if question.quantiles or not is_state:
        raise UnsupportedError(
            f"{model.circuit.path}: a native file predicts columns of states alone, and no quantiles; give the .plica"
        )
    _entry(model, "marginal", "marginal")
    names = (
        range(_num_states(model, variable)) if model.encoding is None else model.encoding.modelled[variable].categories
    )

    def columns(batch: Batch, x: Array) -> Sequence[Array]:
        x = x.astype(np.float64)
        x[:, variable] = np.nan
        whole = _scores(model, batch, x).astype(np.float64)
        _refuse_impossible(model, batch.labels, x, whole)
        result = []
        for state in range(len(names)):
            x[:, variable] = state
            result.append(np.exp(_scores(model, batch, x) - whole))
        return result

    return Beside(model, dict.fromkeys(map(str, names), float), columns, model.names[variable], question.keep)


def _num_states(model: Model, variable: int) -> int:
    """How many states a variable has: the first number that is none."""
    row = np.full((1, model.width), np.nan)
    for state in range(_MOST_STATES):
        row[0, variable] = state
        if np.isnan(_scores(model, None, row)).any():
            return state
    raise UnsupportedError(f"{model.circuit.path}: column {variable} has no states, but counts without a bound")


_ANSWERS: Mapping[type[Question], Callable[[Any, Model], Answers]] = {
    Score: _score,
    Complete: _complete,
    Sample: _sample,
    Predict: _predict,
}
