"""Runs a job on an engine: its parts become files of a folder, and a second run goes on where the first one ended."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plica.batch.engines import Engine
from plica.batch.jobs import FORMAT, Job, Report, Worker, merged, part_names
from plica.batch.opened import answers_of, digest_of, opened_model
from plica.data import Rows
from plica.data.parts import parts_of, sized
from plica.errors import FileFormatError, InputError
from plica.paths import check_can_create, replacing
from plica.tables.files import Location
from plica.tables.questions import Question
from plica.tables.reading import Unknown
from plica.tables.streams import StreamFile

SETTINGS, DONE = "_job.json", "_SUCCESS"
_MOST_ROWS = 65_536  # of a part
_PARTS = 4  # for each worker, so that all end at about the same time
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did.

    Attributes:
        rows: The rows of the source.
        parts: The parts of the whole.
        done: Those that were there before.
        unknown: Categories that the model has never seen, in the parts of this run.
    """

    rows: int
    parts: int
    done: int
    unknown: Unknown


def run(
    question: Question,
    model: Path,
    data: Location,
    out: Path,
    *,
    engine: Engine,
    workers: int | None = None,
    batch: int = 256,
    unknown: bool = True,
    device: str = "cpu",
    delimiter: str | None = None,
    part_rows: int | None = None,
    on_begin: Callable[[Summary, int], None] | None = None,
    on_part: Callable[[int], None] | None = None,
) -> Summary:
    """Ask a model about each row of a source, on an engine.

    Args:
        question: What is asked.
        model: The file of the model.
        data: The rows: a file, a folder or an address, which all workers reach.
        out: The folder of the answers, which all workers reach; one that a run with the same settings left is gone on
            with.
        engine: Deals the parts out, and tries again where a worker is lost.
        workers: How many processes; by default as many as there are processors.
        batch: Rows computed at once.
        unknown: Whether categories that the model has never seen are read as missing; else they are errors.
        device: The device of torch.
        delimiter: Of a text.
        part_rows: The rows of a part, a multiple of `batch`; by default at most 65,536, and 4 parts for each worker.
        on_begin: Called before the first part with what is known then, and with the number of workers that have work.
        on_part: Called after each part with its rows.

    Raises:
        InputError: The rows lack a column; the folder has answers of another run; rows of some parts are refused, and
            all other parts are done; a file changed meanwhile.
        FileFormatError: A file is damaged, or there are no rows.
        LostProcessError: Workers end again and again.
    """
    model, out = model.absolute(), out.absolute()
    data = data.absolute() if isinstance(data, Path) else data
    digest = digest_of(model)
    loaded = opened_model(model, device, digest)
    answers = answers_of(question, loaded)
    rows = Rows(data, delimiter=delimiter, named=True if loaded.encoding is not None else None)
    loaded.reader(StreamFile(rows, _nothing), unread=answers.unread)  # raises before any work
    answers.written(StreamFile(rows, _nothing), out / f"part{FORMAT}")
    stamps = rows.stamps()
    groups = sized(rows)
    total = sum(group.num_rows or 0 for group in groups)
    if not total:
        raise FileFormatError(f"{data}: the files hold no rows")
    workers = workers or _processors()
    settings: dict[str, Any] = {
        "version": _VERSION,
        "question": [type(question).__name__, question.settings],
        "model": digest,
        "rows": str(data),
        "batch": batch,
        "unknown": "missing" if unknown else "error",
        "device": device,
    }
    settings = _begin(out, settings, part_rows or _part_rows(total, batch, workers))
    parts = parts_of(groups, settings["part_rows"])
    names = part_names(parts, stamps, settings)
    key = uuid.uuid4().hex
    job = Job(question, model, digest, rows, data, parts, out, names, batch, unknown, device, key)
    _remove_others(out, names)
    waiting = [number for number, name in enumerate(names) if not (out / name).exists()]
    summary = Summary(total, len(parts), len(parts) - len(waiting), Unknown(str(data)))
    busy = min(workers, len(waiting))
    if on_begin is not None:
        on_begin(summary, busy)
    received = []
    if waiting:
        (out / DONE).unlink(missing_ok=True)
        for text in engine(Worker(job), waiting, busy):
            report = Report.of_text(text)
            received.append(report)
            if on_part is not None and report.error is None:
                on_part(parts[report.part].stop - parts[report.part].start)
    _remove_others(out, names)
    _check(job, received)
    _check_unchanged(stamps, rows.stamps())
    (out / DONE).touch()
    return Summary(total, len(parts), summary.done, merged(received, str(data)))


def _nothing(_: int) -> Any:
    return iter(())


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _part_rows(total: int, batch: int, workers: int) -> int:
    """The rows of a part: a multiple of a batch."""
    rows = min(_MOST_ROWS, -(-total // (_PARTS * workers)))
    return max(1, round(rows / batch)) * batch


def _begin(out: Path, settings: Mapping[str, Any], part_rows: int) -> dict[str, Any]:
    """The settings of a folder, which is made, or is that of a run with the same ones.

    Raises:
        InputError: The folder has something else.
        FileFormatError: The folder cannot be made.
    """
    file = out / SETTINGS
    check_can_create(out, (SETTINGS, DONE))
    if not out.exists() or not any(out.iterdir()):
        out.mkdir(parents=True, exist_ok=True)
        settings = json.loads(json.dumps({**settings, "part_rows": part_rows}))
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        return dict(settings)
    if not file.exists():
        raise InputError(f"{out}: the folder has other files than answers of a run; choose another folder")
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
        size = before["part_rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{file}: is no description of a run; choose another folder") from error
    for name, value in json.loads(json.dumps(settings)).items():
        if before.get(name) != value:
            raise InputError(
                f"{out}: the folder has answers of another run, whose {name} was {_short(before.get(name))} and not "
                f"{_short(value)}; choose another folder, or remove this one"
            )
    if not isinstance(size, int) or size < 1 or size % settings["batch"]:
        raise FileFormatError(f"{file}: is no description of a run; choose another folder")
    return dict(before)


def _short(value: Any) -> str:
    return f"{json.dumps(value, ensure_ascii=False):.80}"


def _remove_others(out: Path, names: tuple[str, ...]) -> None:
    """Remove what killed workers left, and parts of files that have changed since."""
    known = set(names)
    for path in out.iterdir():
        is_left = path.name.startswith(".part-") or (path.name.startswith("part-") and path.name not in known)
        if is_left and path.suffix == FORMAT:
            path.unlink(missing_ok=True)


def _check(job: Job, reports: list[Report]) -> None:
    """Raise if a part is refused or is not there."""
    refused = sorted((report for report in reports if report.error is not None), key=lambda report: report.part)
    there = sum((job.out / name).exists() for name in job.names)
    if refused:
        first = refused[0]
        more = f" (and {len(refused) - 1} more parts are refused)" if len(refused) > 1 else ""
        raise InputError(
            f"{first.error}{more}; {there} of {len(job.parts)} parts are done, and the same command does the others"
        )
    if there < len(job.parts):
        raise InputError(
            f"{job.out}: {len(job.parts) - there} of {len(job.parts)} parts are not there; give a folder that all "
            "workers reach, such as one of a network"
        )


def _check_unchanged(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """Raise if a file of rows is not the one whose rows were dealt out.

    Raises:
        InputError: The first such file.
    """
    for stamp, now in zip(before, after, strict=True):
        if stamp != now:
            name = stamp.rsplit(" ", 2)[0]  # before its size and time
            raise InputError(f"{name}: is another file than when the run began; run again, which does its parts again")
