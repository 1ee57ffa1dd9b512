"""`Scorer`, `Completer`, `Sampler`, `Predictor`: functions of a batch of rows that pickle as the path of a model.

>>> import pathlib, pickle, tempfile, plica
>>> from plica.templates.pgms import fully_factorized
>>> path = pathlib.Path(tempfile.mkdtemp()) / "coins.plica"
>>> plica.save(plica.compile(fully_factorized(2, input_layer_kwargs={"num_categories": 2})), path)
>>> scorer = pickle.loads(pickle.dumps(Scorer(path)))
>>> {name: scores.shape for name, scores in scorer({"0": np.ones(3), "1": np.array([0.0, 1.0, np.nan])}).items()}
{'log_likelihood': (3,)}
"""

from __future__ import annotations

import hashlib
import os
import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plica.arguments import integer
from plica.arguments import seed as checked_seed
from plica.batch.frames import as_given, as_table, beside, rows_of
from plica.batch.opened import answers_of, digest_of, one_thread, open_once, opened_model
from plica.errors import InputError
from plica.files.rows import Batch, RowFile
from plica.paths import as_path
from plica.tables.answers import FILLERS
from plica.tables.frame_of import as_frame
from plica.tables.frames import SOURCE, FrameRows
from plica.tables.layout import Layout
from plica.tables.questions import Beside, Complete, Filled, Predict, Question, Sample, Score
from plica.tables.reading import Unknown, read_batches
from plica.tables.table_model import changed
from plica.tables.words import in_python_words

if TYPE_CHECKING:
    from plica.tables.questions import Answers

_BATCH = 256  # rows computed at once, as on the command line
UnknownCells = Literal["missing", "error"]


class BatchFunction(ABC):
    """A question to a model, as a function of batches of rows.

    It pickles as the path of the model and the question. Each process loads the model when it is first called, and once
    for all such functions; it computes with one thread, since engines have a process for each processor.

    A batch is a dict of arrays, a RecordBatch or a table of pyarrow, or a frame of pandas or polars; so is the result.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        question: Question,
        *,
        unknown: UnknownCells,
        batch: int,
        device: str,
    ) -> None:
        self.path = as_path(path).absolute()
        self._question, self._digest = question, digest_of(self.path)
        if unknown not in ("missing", "error"):
            raise InputError(f"unknown={unknown!r}: expected 'missing' or 'error'")
        self._unknown, self._device = unknown, device
        self._batch = integer(type(self).__name__, "batch", batch, least=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @abstractmethod
    def __call__(self, batch: Any) -> Any:
        """The answers to some rows, as a table of their kind.

        Raises:
            InputError: The table lacks a column, or a cell is no value of its column; the message has the number of
                its row.
        """

    @contextmanager
    def _asking(self) -> Iterator[Answers]:
        """The answers of the model, with one thread within the block, and errors in the words of Python."""
        with one_thread(), in_python_words():
            model = opened_model(self.path, self._device, self._digest)
            key = ("answers", self._digest, self._device, self._question)
            yield open_once(key, lambda: answers_of(self._question, model))

    def _batches(self, answers: Answers, rows: RowFile) -> Iterator[tuple[Batch, Any]]:
        counted = Unknown(SOURCE)
        unknown = counted if self._unknown == "missing" else None
        yield from read_batches(answers.model, rows, self._batch, unknown=unknown, unread=answers.unread)
        message = counted.message('unknown="error"')
        if message is not None:
            warnings.warn(message, stacklevel=4)

    def _beside(self, batch: Any) -> Any:
        """The columns that the model does not read, and the computed ones beside them."""
        with self._asking() as answers:
            assert isinstance(answers, Beside), "of this question"
            rows = rows_of(batch, answers.model)
            parts = [answers.columns(part, x) for part, x in self._batches(answers, rows)]
            computed: dict[str, Any] = {}
            for position, (name, cell_type) in enumerate(answers.computed.items()):
                column = [cell for part in parts for cell in part[position]]
                computed[name] = np.array(column, dtype=np.float64) if cell_type is float else column
            names = answers.model.names_of(rows)
            return beside(batch, [names[position] for position in answers.kept(rows)], computed)

    def _filled(self, batch: Any, number: int, draw: int | None) -> Any:
        """The rows, each `number` times, with missing cells filled in.

        Args:
            batch: The rows.
            number: How often each row is filled in.
            draw: The number of the draws, of which those of other rows are others; None for other ones at each call.
        """
        with self._asking() as answers:
            assert isinstance(answers, Filled), "of this question"
            frame = as_frame(as_table(batch))
            rows = FrameRows(frame)
            layout = Layout.of(answers.model, rows, "number" if frame.is_numbers else "typed", verbatim=True)
            first = secrets.randbits(64) if draw is None else _number_of(rows, draw)
            parts = [
                answers.completed(layout, first + index, part, x)
                for index, (part, x) in enumerate(self._batches(answers, rows))
            ]
            return as_given(batch, changed(frame, layout, np.repeat(np.arange(frame.num_rows), number), parts))


def _number_of(rows: FrameRows, draw: int) -> int:
    """A number that is another for other cells, whatever the process and the order of batches."""
    digest = hashlib.sha256(repr((draw, rows.names)).encode())
    for batch in rows.batches(_BATCH):
        digest.update(repr(batch.cells.tolist()).encode())
    return int.from_bytes(digest.digest()[:8], "big")


class Scorer(BatchFunction):
    """The log-likelihood of each row: the column `log_likelihood`, beside those that the model does not read.

    Args:
        path: A `.plica` or `.plicab`, which each worker reads there.
        comparable: Whether to give scores by which rows with different missing cells compare, as `comparable_score`.
        of: Columns to score, the others being summed out; by default all.
        unknown: How to read a category that the model has never seen: as missing, with a warning, or as an error.
        batch: Rows computed at once.
        device: The device of torch.

    Raises:
        FileFormatError: There is no such file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        comparable: bool = False,
        of: Sequence[str] = (),
        unknown: UnknownCells = "missing",
        batch: int = _BATCH,
        device: str = "cpu",
    ) -> None:
        super().__init__(path, Score(comparable, tuple(of)), unknown=unknown, batch=batch, device=device)

    def __call__(self, batch: Any) -> Any:
        """See `BatchFunction.__call__`."""
        return self._beside(batch)


class Completer(BatchFunction):
    """The rows with their missing cells filled in.

    Args:
        path: A `.plica` or `.plicab`, which each worker reads there.
        method: `mean`, `mpe` or `sample`, as of `plica.tables.TableModel.complete`.
        seed: Of draws: a batch of equal cells gets equal draws, so that rows need a key where that matters. None for
            other draws at each call.
        unknown: See `Scorer`, as for `batch` and `device`.
        batch: Rows computed at once.
        device: The device of torch.

    Raises:
        FileFormatError: There is no such file.
        InputError: There is no such method.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        method: Literal["mean", "mpe", "sample"] = "mean",
        *,
        seed: int | None = 0,
        unknown: UnknownCells = "missing",
        batch: int = _BATCH,
        device: str = "cpu",
    ) -> None:
        if method not in FILLERS:
            raise InputError(f"method={method!r}: expected one of {', '.join(FILLERS)}")
        super().__init__(path, Complete(method), unknown=unknown, batch=batch, device=device)
        self._seed = None if seed is None else checked_seed("Completer", seed)

    def __call__(self, batch: Any) -> Any:
        """See `BatchFunction.__call__`."""
        return self._filled(batch, 1, self._seed)


class Sampler(BatchFunction):
    """Completions of each row, drawn from its exact conditional distribution.

    Args:
        path: A `.plica` or `.plicab`, which each worker reads there.
        n: How many of each row.
        seed: See `Completer`.
        unknown: See `Scorer`, as for `batch` and `device`.
        batch: Rows computed at once.
        device: The device of torch.

    Raises:
        FileFormatError: There is no such file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n: int = 1,
        *,
        seed: int | None = 0,
        unknown: UnknownCells = "missing",
        batch: int = _BATCH,
        device: str = "cpu",
    ) -> None:
        self._number = integer("Sampler", "n", n, least=1)
        super().__init__(path, Sample(self._number), unknown=unknown, batch=batch, device=device)
        self._seed = None if seed is None else checked_seed("Sampler", seed)

    def __call__(self, batch: Any) -> Any:
        """See `BatchFunction.__call__`."""
        return self._filled(batch, self._number, self._seed)


class Predictor(BatchFunction):
    """The distribution of one column given the others of its row, beside the columns that the model does not read.

    Args:
        path: A `.plica` or `.plicab`, which each worker reads there.
        column: The column, which batches need not have.
        quantiles: Levels between 0 and 1, for columns of numbers, dates and times.
        unknown: See `Scorer`, as for `batch` and `device`.
        batch: Rows computed at once.
        device: The device of torch.

    Raises:
        FileFormatError: There is no such file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        column: str,
        quantiles: Sequence[float] = (),
        *,
        unknown: UnknownCells = "missing",
        batch: int = _BATCH,
        device: str = "cpu",
    ) -> None:
        super().__init__(path, Predict(str(column), tuple(quantiles)), unknown=unknown, batch=batch, device=device)

    def __call__(self, batch: Any) -> Any:
        """See `BatchFunction.__call__`."""
        return self._beside(batch)
