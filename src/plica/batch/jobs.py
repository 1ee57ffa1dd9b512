"""A job: a question about all rows of a source, answered part by part, each part a file that appears whole.

Processes do parts by `Worker`, which opens the job once in each process. A part is a multiple of a batch, so that every
batch is that of `plica score` without an engine, and so are its answers, to the bit.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any

from plica.batch.opened import answers_of, one_thread, open_once, opened_model
from plica.data import Rows
from plica.data.parts import Part, PartReader
from plica.errors import FileFormatError, InputError
from plica.tables.files import Location
from plica.tables.questions import Question
from plica.tables.reading import Unknown, read_batches
from plica.tables.streams import StreamFile

FORMAT = ".parquet"


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What all processes of a run know.

    Attributes:
        question: What is asked.
        model: The file of the model.
        digest: The SHA-256 of that file, by which workers know that it is the same.
        rows: The rows.
        data: Where the rows lie.
        parts: The parts.
        out: The folder of the answers, which all workers reach.
        names: The name of each part's file.
        batch: Rows computed at once.
        unknown: Whether categories that the model has never seen are read as missing; else they are errors.
        device: The device of torch.
        key: Of no other job.
    """

    question: Question
    model: Path
    digest: str
    rows: Rows
    data: Location
    parts: tuple[Part, ...]
    out: Path
    names: tuple[str, ...]
    batch: int
    unknown: bool
    device: str
    key: str


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a part, as text for engines.

    Attributes:
        part: Its number.
        error: Why it has no file, in one line; None if it has.
        unknown: Categories that the model has never seen: column, category, how often.
    """

    part: int
    error: str | None = None
    unknown: Sequence[tuple[str, str, int]] = ()

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> Report:
        """The report of a text."""
        fields = json.loads(text)
        return Report(fields["part"], fields["error"], [tuple(entry) for entry in fields["unknown"]])


class Worker:
    """Answers parts of a job: a function of the part's number, for engines, which pickle it.

    Errors of rows and files become reports, since trying again does not help. All other errors are raised, so that the
    engine tries again.

    Args:
        job: The job.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, number: int) -> str:
        """The text of the report on a part, whose file is there if it has no error."""
        unknown = Unknown(str(self.job.data))
        try:
            with one_thread():
                open_once((self.job.key, get_ident()), partial(_Opened, self.job)).answer(number, unknown)
        except (InputError, FileFormatError) as error:
            return Report(number, " ".join(str(error).split())).text()
        return Report(number, None, unknown.counts()).text()


class _Opened:
    """A job as a thread of a worker has it open: the answers of its model, and its rows.

    Args:
        job: The job.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._model = opened_model(job.model, job.device, job.digest)
        self._answers = open_once(("answers", job.key), lambda: answers_of(job.question, self._model))
        self._reader = PartReader(job.rows)

    def answer(self, number: int, unknown: Unknown) -> None:
        """Write the answers to a part."""
        job, part = self._job, self._job.parts[number]
        out = job.out / job.names[number]
        rows = StreamFile(job.rows, partial(self._reader.read, part))
        written = self._answers.written(rows, out)
        counted = unknown if job.unknown else None
        batches = read_batches(self._model, rows, job.batch, unknown=counted, unread=self._answers.unread)
        with written.writing(out) as write:
            for index, (batch, x) in enumerate(batches, start=part.start // job.batch):
                write(written.rows(index, batch, x))


def merged(reports: Sequence[Report], source: str) -> Unknown:
    """The categories that the model has never seen, counted over all reports."""
    counts: Counter[tuple[str, str]] = Counter()
    for report in reports:
        for column, category, count in report.unknown:
            counts[column, category] += count
    return Unknown(source, counts)


def part_names(parts: Sequence[Part], stamps: Sequence[str], settings: Any) -> tuple[str, ...]:
    """The name of each part's file: its number, and a hash of all that its rows depend on.

    So a part is done if its file is there, and a part whose source was corrected meanwhile is done anew.

    Args:
        parts: The parts.
        stamps: The name, size and time of change of each file of the source.
        settings: The question, the model and the options, as JSON.
    """
    names = []
    width = max(5, len(str(len(parts) - 1)))
    for number, part in enumerate(parts):
        places = [
            (stamps[stretch.group.file], stretch.group.number, stretch.start, stretch.stop)
            for stretch in part.stretches
        ]
        text = json.dumps([settings, part.start, part.stop, places])
        names.append(f"part-{number:0{width}d}-{hashlib.sha256(text.encode()).hexdigest()[:12]}{FORMAT}")
    return tuple(names)
