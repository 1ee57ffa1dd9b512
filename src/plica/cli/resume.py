"""The checkpoint of a training run of the command line: its settings and recipe, and when it is there; loads torch."""

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from plica.cli.outputs import CHECKPOINT, REPORT
from plica.cli.settings import Settings
from plica.cli.signals import say_checkpoint
from plica.distributed.ranks import are_restarted, current_ranks, launches
from plica.errors import FileFormatError, InputError, PlicaError
from plica.learn.checkpoints import Checkpoint, read_notes
from plica.tables.recipe import Recipe

_PATHS = ("data", "columns")  # settings that may be paths


def checkpoint_of(settings: Settings, recipe: Recipe) -> Checkpoint:
    """The checkpoint of a run, which remembers its settings, the recipe that it chose, and the current folder."""
    notes = {
        "settings": settings.as_json(),
        "recipe": dataclasses.asdict(recipe),
        "folder": str(Path.cwd()),
        "command": "train",
    }
    return Checkpoint(settings.out / CHECKPOINT, notes=notes)


def stored_run(out: Path) -> tuple[Settings, Recipe]:
    """The settings of the run whose checkpoint is in a folder, and the recipe that it chose.

    Raises:
        FileFormatError: The folder has no checkpoint, a damaged one, or one of another version.
    """
    notes = current_ranks().of_first(lambda: read_notes(out / CHECKPOINT))
    settings, recipe = (_entry(notes, name, of, out) for name, of in (("settings", Settings), ("recipe", Recipe)))
    moved = {name: _from_folder(settings[name], str(notes["folder"])) for name in _PATHS}
    settings |= moved | {"out": out, "missing": tuple(settings["missing"])}
    return Settings(**settings), Recipe.of_json(recipe)


def recipe_after_restart(settings: Settings) -> Recipe | None:
    """The recipe of the run that these settings began, if `torchrun` has restarted it and its checkpoint is there."""
    if not are_restarted(current_ranks()):
        return None
    try:
        stored, recipe = stored_run(settings.out)
    except FileFormatError:  # none, or that of another command
        return None
    return recipe if stored.as_json() == settings.as_json() else None


def ended_before_restart(out: Path, settings: Settings | None) -> bool:
    """Whether the run of a folder had written its results when `torchrun` restarted it: there is nothing left to do.

    The report says so by the name of the launch. No clock is asked: that of a file system may be another.

    Args:
        out: The folder.
        settings: Those of the run; None where it was resumed, so that its checkpoint had them.
    """
    ranks = current_ranks()
    if not are_restarted(ranks):
        return False
    own = set(launches(ranks))

    def has_ended() -> bool:
        if (out / CHECKPOINT).exists():
            return False
        try:
            report = json.loads((out / REPORT).read_text("utf-8"))
            is_own = not own.isdisjoint(report["launches"])
            return is_own and (settings is None or report["settings"] == json.loads(json.dumps(settings.as_json())))
        except (OSError, ValueError, TypeError, KeyError):  # none, or that of another program
            return False

    return ranks.of_first(has_ended)


def _entry(notes: Mapping[str, Any], name: str, of: type[Settings | Recipe], out: Path) -> dict[str, Any]:
    """The fields of an object among the notes of a checkpoint, which are those of this version."""
    stored = notes.get(name)
    if not isinstance(stored, dict) or stored.keys() != of.__dataclass_fields__.keys():
        raise FileFormatError(
            f"{out / CHECKPOINT}: was not written by `plica train` of this version; resume with what wrote it"
        )
    return stored


def _from_folder(name: str | None, folder: str) -> str | None:
    """A path as it was given, or from the folder in which it was given if it is not to be seen from here."""
    if name is None or Path(name).exists() or not (Path(folder) / name).exists():
        return name
    return str(Path(folder) / name)


@contextlib.contextmanager
def keeping_checkpoint(settings: Settings, recipe: Recipe, *, resume: bool) -> Iterator[Checkpoint]:
    """A context with the checkpoint of a run, and the words on how to go on where a signal ends the process.

    The file stays where training is interrupted. It goes, with the folders that were made for it, where the numbers of
    a new run fail, since they would fail again.
    """
    say_checkpoint(settings.out / CHECKPOINT)
    if not current_ranks().is_first:
        yield checkpoint_of(settings, recipe)
        return
    former = _written(settings)
    missing = [folder for folder in (settings.out, *settings.out.parents) if not folder.exists()]
    try:
        yield checkpoint_of(settings, recipe)
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
