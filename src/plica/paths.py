"""Checks of paths, and files that appear whole or not at all."""

import contextlib
import errno
import os
import reprlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from plica.errors import DTypeError, FileFormatError, WriteError

_HIDDEN = ".plica-"  # how temporary folders begin
_PREFIX = 40  # letters of a name that its temporary file begins with: names have a length at most
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_SPACE_WORDS = (
    "no space left on device",
    "file too large",
    "disk quota exceeded",
)  # in errors of libraries, and in ours

# What removes each temporary file that is open now, so that a process may end at once; None where it must not yet.
_TEMPORARY: dict[Path, Callable[[], None] | None] = {}


def remove_temporary() -> bool:
    """Remove all temporary files before the process ends; False where files are being moved, which must be undone."""
    if None in _TEMPORARY.values():
        return False
    for remove in list(_TEMPORARY.values()):
        if remove is not None:
            remove()
    return True


@contextlib.contextmanager
def saying_where_space_lacks(path: Path) -> Iterator[None]:
    """A lack of space within the block is an error that names the file.

    Raises:
        WriteError: There is no space left.
    """
    try:
        yield
    except Exception as error:
        said = str(error).lower()
        reason = next((words for words in _NO_SPACE_WORDS if words in said), None)
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            reason = os.strerror(error.errno).lower()
        if reason is None:
            raise
        raise WriteError(f"{path}: cannot be written: {reason}; free some there, or choose another path") from error


def as_path(path: str | os.PathLike[str]) -> Path:
    """A path that can be asked for: there may be nothing, but the name is one that files can have.

    Raises:
        DTypeError: It is no path.
        FileFormatError: No file can have that name, or the way to it is closed.
    """
    try:
        found = Path(path)
    except TypeError:
        kind = type(path).__name__
        raise DTypeError(
            f'expected the path of a file, found {reprlib.repr(path)} of type {kind}; pass text such as "model.plica"'
        ) from None
    try:
        found.stat()
    except ValueError as error:  # a null byte, or what is no Unicode text
        name = reprlib.repr(str(path))
        reason = "it has a null byte" if "\0" in str(path) else error  # whose words differ among versions of Python
        raise FileFormatError(f"{name}: no file can have that name ({reason}); choose another") from error
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            reason = (error.strerror or type(error).__name__).lower()
            name = reprlib.repr(str(path)) if error.errno == errno.ENAMETOOLONG else str(path)
            raise FileFormatError(f"{name}: cannot be reached: {reason}; choose another path") from error
    return found


def check_is_file(path: Path) -> None:
    """Raise unless `path` is a file that holds something."""
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
    """Raise where what is written would take the place of a file that is read.

    Raises:
        FileFormatError: `out` is one of the files, by this name or another.
    """
    for path in read:
        if path is not None and as_path(path).exists() and as_path(out).exists() and out.samefile(path):
            raise FileFormatError(f"{out}: is read, and would be lost as it is written; choose another name")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the same folder that takes the place of `path` when the block ends without an error.

    Where `path` is a link, what it points to is replaced.

    Raises:
        FileFormatError: A folder, a pipe or a device is in the way, there is no folder to write to, or no file can have
            that name.
        DTypeError: It is no path.

    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('whole', 1)
    """
    path = as_path(path)
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder, and a file is to be written there; choose another name")
    path = path.resolve()
    if not path.parent.is_dir():
        raise FileFormatError(f"{path}: there is no folder {path.parent}; make it first, or choose another path")
    if path.exists() and not path.is_file():  # whoever may write to /dev would replace /dev/null
        raise FileFormatError(f"{path}: is a pipe or a device, and a file is to be written there; choose another name")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:_PREFIX]}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:  # names the temporary file, which means nothing to whoever asked for another
        reason = (error.strerror or type(error).__name__).lower()
        raise FileFormatError(f"{path}: cannot be written: {reason}; choose another folder") from error
    os.close(handle)
    temporary = Path(name)
    _TEMPORARY[temporary] = lambda: temporary.unlink(missing_ok=True)
    try:
        with saying_where_space_lacks(path):
            yield temporary
        temporary.chmod(0o666 & ~_umask())  # last, because some writers make a file of their own
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
        FileFormatError: A file is in the way of the folder or a folder in the way of a file, or nothing may be written.
    """
    found = folder
    while not found.exists():
        if found.is_symlink():
            raise FileFormatError(f"{folder}: {found} is a link to nowhere; choose another output folder")
        found = found.parent
    if not found.is_dir():
        raise FileFormatError(f"{folder}: cannot be a folder, because {found} is a file; choose another output folder")
    _check_no_folders(folder, names)
    if not os.access(found, os.W_OK | os.X_OK):
        raise FileFormatError(f"{folder}: no permission to write in {found}; choose another output folder")
    try:  # some folders allow everything and take nothing, those of /proc among them
        Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=found)).rmdir()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise FileFormatError(f"{folder}: cannot write in {found} ({reason}); choose another output folder") from error


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

    A folder that exists keeps its other files. After an error nothing is left behind, new parent folders included, and
    what was there before is there again.

    >>> target = Path(tempfile.mkdtemp()) / "runs" / "demo"
    >>> with filling(target) as temporary:
    ...     _ = (temporary / "note.txt").write_text("whole")
    >>> [path.name for path in target.iterdir()], len(list(target.parent.iterdir()))
    (['note.txt'], 1)
    """
    folder = folder.resolve()
    made: list[Path] = []
    temporary = None
    try:
        _make_parents(folder, made)
        # Within a folder that exists: the one above it may be another file system, or closed.
        inside = folder if folder.exists() else folder.parent
        temporary = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=inside))
        _TEMPORARY[temporary] = lambda: _undo(temporary, made)
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
        _undo(temporary, made)
        raise
    finally:
        if temporary is not None:
            _TEMPORARY.pop(temporary, None)
    _remove(temporary)


def _undo(temporary: Path | None, made: Iterable[Path]) -> None:
    """Remove a temporary folder and the folders that were made for it."""
    _remove(temporary)
    for parent in reversed(list(made)):
        parent.rmdir()


def _move_in(new: Path, folder: Path, temporary: Path) -> None:
    """Move the files of `new` to `folder`; where one fails, put back what was there before."""
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


def _make_parents(folder: Path, made: list[Path]) -> None:
    """Make the missing folders above `folder`, outermost first, and note each in `made`."""
    for parent in [parent for parent in folder.parents if not parent.exists()][::-1]:
        parent.mkdir()
        made.append(parent)


def _remove(temporary: Path | None) -> None:
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)
