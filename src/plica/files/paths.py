"""Checks of paths, and files that appear whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from plica.errors import FileFormatError


def check_is_file(path: Path) -> None:
    """Raise unless `path` is a file that holds something."""
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder, expected a file")
    if not path.exists():
        raise FileFormatError(f"{path}: no such file; check the path (current folder: {Path.cwd()})")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty (0 bytes)")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the same folder that takes the place of `path` when the block ends without an error.

    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('whole', 1)
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # last, because some writers make a file of their own
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def check_can_create(folder: Path) -> None:
    """Raise unless `folder` is a folder, or could be made, and files could be written there.

    Raises:
        FileFormatError: A file is in the way, or the folder may not be written to.
    """
    found = folder
    while not found.exists():
        found = found.parent
    if not found.is_dir():
        raise FileFormatError(f"{folder}: cannot be a folder, because {found} is a file; choose another output folder")
    if not os.access(found, os.W_OK | os.X_OK):
        raise FileFormatError(f"{folder}: no permission to write in {found}; choose another output folder")


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder` whose files move there when the block ends without an error.

    A folder that exists keeps its other files. After an error nothing is left behind, new parent folders included.

    >>> target = Path(tempfile.mkdtemp()) / "runs" / "demo"
    >>> with filling(target) as temporary:
    ...     _ = (temporary / "note.txt").write_text("whole")
    >>> [path.name for path in target.iterdir()], len(list(target.parent.iterdir()))
    (['note.txt'], 1)
    """
    folder = folder.absolute()
    made = _make_parents(folder)
    temporary = None
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        if folder.exists():
            for path in sorted(temporary.iterdir()):
                path.replace(folder / path.name)
        else:
            temporary.rename(folder)
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        for parent in reversed(made):
            parent.rmdir()
        raise
    shutil.rmtree(temporary, ignore_errors=True)


def _make_parents(folder: Path) -> list[Path]:
    """Make the missing folders above `folder`; the ones made, outermost first."""
    missing = [parent for parent in folder.parents if not parent.exists()][::-1]
    for parent in missing:
        parent.mkdir()
    return missing
