"""The checkpoint of a training run of the command line: which settings it has, and when it is there; loads torch."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plica.cli.outputs import CHECKPOINT
from plica.cli.settings import Settings
from plica.cli.signals import say_checkpoint
from plica.errors import FileFormatError, InputError, PlicaError
from plica.learn.checkpoints import Checkpoint, read_notes

_PATHS = ("data", "columns")  # settings that may be paths


def checkpoint_of(settings: Settings) -> Checkpoint:
    """The checkpoint of a run, which remembers its settings and the current folder."""
    return Checkpoint(
        settings.out / CHECKPOINT, notes={"settings": settings.as_json(), "folder": str(Path.cwd()), "command": "train"}
    )


def settings_of(out: Path) -> Settings:
    """The settings of the run whose checkpoint is in a folder.

    Raises:
        FileFormatError: The folder has no checkpoint, a damaged one, or one of another version.
    """
    notes = read_notes(out / CHECKPOINT)
    names = {field.name for field in dataclasses.fields(Settings)}
    stored: Any = notes.get("settings")
    if not isinstance(stored, dict) or stored.keys() != names:
        raise FileFormatError(
            f"{out / CHECKPOINT}: was not written by `plica train` of this version; resume with what wrote it"
        )
    moved = {name: _from_folder(stored[name], str(notes["folder"])) for name in _PATHS}
    return Settings(**(stored | moved | {"out": out, "missing": tuple(stored["missing"])}))


def _from_folder(name: str | None, folder: str) -> str | None:
    """A path as it was given, or from the folder in which it was given if it is not to be seen from here."""
    if name is None or Path(name).exists() or not (Path(folder) / name).exists():
        return name
    return str(Path(folder) / name)


@contextlib.contextmanager
def keeping_checkpoint(settings: Settings, *, resume: bool) -> Iterator[Checkpoint]:
    """A context with the checkpoint of a run, and the words on how to go on where a signal ends the process.

    The file stays where training is interrupted. It goes, with the folders that were made for it, where the numbers of
    a new run fail, since they would fail again.
    """
    former = _written(settings)
    missing = [folder for folder in (settings.out, *settings.out.parents) if not folder.exists()]
    say_checkpoint(settings.out / CHECKPOINT)
    try:
        yield checkpoint_of(settings)
    except PlicaError as error:
        if isinstance(error, InputError) and not resume and _written(settings) != former:
            (settings.out / CHECKPOINT).unlink(missing_ok=True)
        _remove_empty(missing)
        raise


def _written(settings: Settings) -> int | None:
    """When the checkpoint was written, in nanoseconds; None if there is none."""
    path = settings.out / CHECKPOINT
    return path.stat().st_mtime_ns if path.exists() else None


def remove_checkpoint(settings: Settings) -> None:
    """Remove the checkpoint of a run, and its folder if that is empty."""
    (settings.out / CHECKPOINT).unlink(missing_ok=True)
    _remove_empty([settings.out])


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
