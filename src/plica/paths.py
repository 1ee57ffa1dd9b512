"""Checks paths, and writes files that appear whole or not at all."""

import contextlib
import errno
import glob
import os
import reprlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from plica.errors import DTypeError, FileFormatError, WriteError

_HIDDEN = ".plica-"  # the start of the names of temporary folders
_PREFIX = 40  # letters of a name that its temporary file begins with, since the length of names is limited
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_SPACE_WORDS = (
    "no space left on device",
    "file too large",
    "disk quota exceeded",
)  # in errors of libraries, and in ours

# A function that removes each temporary file, so that a process may end at once; None while its files are being moved.
_TEMPORARY: dict[Path, Callable[[], None] | None] = {}


def remove_temporary() -> bool:
    """Remove all temporary files before the process ends; False if files are being moved, which must be undone."""
    if None in _TEMPORARY.values():
        return False
    for remove in list(_TEMPORARY.values()):
        if remove is not None:
            remove()
    return True


@contextlib.contextmanager
def saying_where_space_lacks(path: Path) -> Iterator[None]:
    """A context that turns an error for lack of space into one that names the file.

    Raises:
        WriteError: There is no space left.
    """
    try:
        yield
    except Exception as error:
        message = str(error).lower()
        reason = next((words for words in _NO_SPACE_WORDS if words in message), None)
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            reason = os.strerror(error.errno).lower()
        if reason is None:
            raise
        raise WriteError(
            f"{path}: cannot be written: {reason}; free some space there, or choose another path"
        ) from error


def as_path(path: str | os.PathLike[str]) -> Path:
    """A path with a name that a file can have; the file need not exist.

    Raises:
        DTypeError: The argument is no path.
        FileFormatError: No file can have that name, or a folder on the path cannot be entered.
    """
    try:
        checked = Path(path)
    except TypeError:
        kind = type(path).__name__
        raise DTypeError(
            f'expected the path of a file, found {reprlib.repr(path)} of type {kind}; pass text such as "model.plica"'
        ) from None
    try:
        checked.stat()
    except ValueError as error:  # a null byte, or what is no Unicode text
        name = reprlib.repr(str(path))
        reason = "it has a null byte" if "\0" in str(path) else error  # its text depends on the version of Python
        raise FileFormatError(f"{name}: no file can have that name ({reason}); choose another") from error
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            reason = (error.strerror or type(error).__name__).lower()
            name = reprlib.repr(str(path)) if error.errno == errno.ENAMETOOLONG else str(path)
            raise FileFormatError(f"{name}: cannot be reached: {reason}; choose another path") from error
    return checked


def check_is_file(path: Path) -> None:
    """Raise unless `path` is a file that is not empty."""
    as_path(path)
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder, expected a file")
    if not path.exists():
        raise FileFormatError(f"{path}: no such file; check the path (current folder: {Path.cwd()})")
    if not path.is_file():
        raise FileFormatError(f"{path}: is a pipe or a device, expected a file; write what it gives to a file first")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty (0 bytes)")


def check_is_other(out: Path, *read: Path | None) -> None:
    """Raise if writing `out` would replace a file that is read, or would be read by the same command later.

    Args:
        out: A file or a folder to write, which need not exist.
        read: Files, and folders all of whose files are read.

    Raises:
        FileFormatError: `out` is one of these, by this name or another, or lies in one of the folders.
    """
    for path in read:
        if path is None or not as_path(path).exists():
            continue
        if as_path(out).exists() and out.samefile(path):
            raise FileFormatError(f"{out}: the output would overwrite this input; choose another name")
        if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
            raise FileFormatError(
                f"{out}: the output would lie among the input, in the folder {path}; choose a name outside of it"
            )


def check_is_target(out: str | os.PathLike[str]) -> Path:
    """Raise where no file can be written, before work is done for it; the path, or the target of a link.

    Raises:
        FileFormatError: The path is a folder, a pipe or a device, its folder does not exist, or no file can have that
            name.
        DTypeError: The argument is no path.
    """
    path = as_path(out)
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder, and a file is to be written there; choose another name")
    path = path.resolve()
    if not path.parent.is_dir():
        raise FileFormatError(f"{path}: there is no folder {path.parent}; make it first, or choose another path")
    if path.exists() and not path.is_file():  # for example, a user with rights in /dev would replace /dev/null
        raise FileFormatError(f"{path}: is a pipe or a device, and a file is to be written there; choose another name")
    return path


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of `replacing` that processes left beside `path` when they were killed."""
    for leftover in path.parent.glob(f".{glob.escape(path.name[:_PREFIX])}.????????{glob.escape(path.suffix)}"):
        if leftover.is_file() and leftover not in _TEMPORARY:
            leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the same folder that replaces `path` when the block ends without an error.

    If `path` is a link, its target is replaced.

    Raises:
        FileFormatError: The path is a folder, a pipe or a device, its folder does not exist, or no file can have that
            name.
        DTypeError: The argument is no path.

    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('whole', 1)
    """
    path = check_is_target(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:_PREFIX]}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:  # it names the temporary file, which the user does not know
        reason = (error.strerror or type(error).__name__).lower()
        raise FileFormatError(f"{path}: cannot be written: {reason}; choose another folder") from error
    os.close(handle)
    temporary = Path(name)
    _TEMPORARY[temporary] = lambda: temporary.unlink(missing_ok=True)
    try:
        with saying_where_space_lacks(path):
            yield temporary
        temporary.chmod(0o666 & ~_umask())  # last, because some writers replace the file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
        _TEMPORARY.pop(temporary, None)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def check_can_create(folder: Path, names: Iterable[str] = ()) -> None:
    """Raise unless `folder` is a folder, or could be made, and files of `names` could be written there.

    Raises:
        FileFormatError: A file has the name of the folder, a folder the name of a file, or writing is not permitted.
    """
    existing = folder
    while not existing.exists():
        if existing.is_symlink():
            raise FileFormatError(f"{folder}: {existing} is a link to nowhere; choose another output folder")
        existing = existing.parent
    if not existing.is_dir():
        raise FileFormatError(
            f"{folder}: cannot be a folder, because {existing} is a file; choose another output folder"
        )
    _check_no_folders(folder, names)
    if not os.access(existing, os.W_OK | os.X_OK):
        raise FileFormatError(f"{folder}: no permission to write in {existing}; choose another output folder")
    try:  # some folders permit writing and refuse files all the same, such as /proc
        Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=existing)).rmdir()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise FileFormatError(
            f"{folder}: cannot write in {existing} ({reason}); choose another output folder"
        ) from error


def _check_no_folders(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        if (folder / name).is_dir():
            raise FileFormatError(
                f"{folder / name}: is a folder, and a file of that name is to be written; move it, or choose another "
                "output folder"
            )


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """A temporary folder whose files move to `folder` together when the block ends without an error.

    A folder that exists keeps its other files. After an error all new files and parent folders are removed, and
    replaced files are restored.

    >>> target = Path(tempfile.mkdtemp()) / "runs" / "demo"
    >>> with filling(target) as temporary:
    ...     _ = (temporary / "note.txt").write_text("whole")
    >>> [path.name for path in target.iterdir()], len(list(target.parent.iterdir()))
    (['note.txt'], 1)
    """
    folder = folder.resolve()
    new_parents: list[Path] = []
    temporary = None
    try:
        _make_parents(folder, new_parents)
        # Within a folder that exists: its parent may be another file system, or may not be writable.
        inside = folder if folder.exists() else folder.parent
        temporary = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=inside))
        _TEMPORARY[temporary] = lambda: _undo(temporary, new_parents)
        new = temporary / "new"
        new.mkdir()
        with saying_where_space_lacks(folder):
            yield new
        _TEMPORARY[temporary] = None
        if folder.exists():
            _check_no_folders(folder, (path.name for path in new.iterdir()))
            _move_in(new, folder, temporary)
        else:
            new.rename(folder)
    except BaseException:
        _undo(temporary, new_parents)
        raise
    finally:
        if temporary is not None:
            _TEMPORARY.pop(temporary, None)
    _remove(temporary)


def _undo(temporary: Path | None, parents: Iterable[Path]) -> None:
    """Remove a temporary folder and the folders that were made for it."""
    _remove(temporary)
    for parent in reversed(list(parents)):
        parent.rmdir()


def _move_in(new: Path, folder: Path, temporary: Path) -> None:
    """Move the files of `new` to `folder`; if one fails, restore the files that were there before."""
    old = temporary / "old"
    old.mkdir()
    names = sorted(path.name for path in new.iterdir())
    try:
        for name in names:
            target = folder / name
            if os.path.lexists(target):
                target.rename(old / name)
            (new / name).rename(target)
    except BaseException:
        for name in names:
            target = folder / name
            if os.path.lexists(old / name):
                (old / name).replace(target)
            elif not os.path.lexists(new / name):
                target.unlink(missing_ok=True)
        raise


def _make_parents(folder: Path, created: list[Path]) -> None:
    """Make the missing folders above `folder`, outermost first, and add each to `created`."""
    for parent in [parent for parent in folder.parents if not parent.exists()][::-1]:
        parent.mkdir()
        created.append(parent)


def _remove(temporary: Path | None) -> None:
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)
