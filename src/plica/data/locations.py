"""Where the files of a source lie: paths, folders, lists of paths, and addresses such as s3://bucket/rows.

Addresses are opened by pyarrow where it knows the file system, else by fsspec.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from plica.errors import FileFormatError
from plica.files.tables import one_line
from plica.paths import as_path

UNREADABLE = (pa.ArrowException, OSError, ValueError, ImportError, KeyError)
"""The errors by which pyarrow and fsspec say that something cannot be opened or read."""


@dataclass(frozen=True, slots=True)
class Location:
    """Some files of one file system.

    Attributes:
        system: A `pyarrow.fs.FileSystem`.
        paths: The files in it.
        names: Their names in messages.
        root: The folder that was asked for, whose folders may name partitions; None if files were.
    """

    system: Any
    paths: tuple[str, ...]
    names: tuple[str, ...]
    root: str | None

    @property
    def is_local(self) -> bool:
        """Whether the files lie in the machine's own file system."""
        return isinstance(self.system, fs.LocalFileSystem)


def locate(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], system: Any = None) -> Location:
    """The files of a path, a folder, an address, or a list of these.

    Files of a folder are in the order of their names; names that begin with a point or a line are left out.

    Args:
        source: What to find.
        system: The file system, of pyarrow or fsspec; by default that of the addresses, or the machine's own.

    Raises:
        FileFormatError: There is no such file, the folder is empty, or the address cannot be reached; a folder has a
            broken link, a pipe, or a link to a folder above.
    """
    if isinstance(source, str | os.PathLike):
        return _locate(source, system)
    parts = [_locate(part, system) for part in source]
    if not parts:
        raise FileFormatError("the list of files is empty; give at least one")
    if any(part.system != parts[0].system for part in parts):
        raise FileFormatError(
            f"{parts[0].names[0]}: the files lie in several file systems; read each with its own Rows"
        )
    paths = tuple(path for part in parts for path in part.paths)
    return Location(parts[0].system, paths, tuple(name for part in parts for name in part.names), None)


def _locate(source: str | os.PathLike[str], system: Any) -> Location:
    name = os.fspath(source)
    with readable(name, "cannot be reached"):
        system, path = _system(name, system)
        info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        here = f" (current folder: {Path.cwd()})" if isinstance(system, fs.LocalFileSystem) else ""
        raise FileFormatError(f"{name}: no such file or folder; check the path{here}")
    if info.type == fs.FileType.File:
        return Location(system, (path,), (name,), None)
    if isinstance(system, fs.LocalFileSystem):
        _check_entries(name, path)
    with readable(name, "cannot be listed"):
        entries = system.get_file_info(fs.FileSelector(path, recursive=True))
    inside = sorted(entry.path for entry in entries if entry.type == fs.FileType.File)
    relative = [os.path.relpath(entry, path) for entry in inside]
    visible = [(entry, part) for entry, part in zip(inside, relative, strict=True) if not _is_hidden(part)]
    if not visible:
        raise FileFormatError(f"{name}: the folder has no files of rows; check the path")
    names = tuple(f"{name.rstrip('/')}/{part}" for _, part in visible)
    return Location(system, tuple(entry for entry, _ in visible), names, path)


def _check_entries(name: str, root: str) -> None:
    """Raise where rows would be left out, or would be read again and again; Arrow lists a folder without a word.

    Raises:
        FileFormatError: A link leads nowhere, or to a folder that it lies in; or there is a pipe or a device.
    """
    for folder, inside, files in os.walk(root, followlinks=True):
        inside[:] = [part for part in inside if not _is_hidden(part)]
        above = [Path(folder), *(parent for parent in Path(folder).parents if parent.is_relative_to(root))]
        for entry in [Path(folder, part) for part in (*inside, *files) if not _is_hidden(part)]:
            problem = ""
            if not entry.is_dir() and not entry.is_file():
                problem = "is no file, but a link to nowhere, a pipe or a device; mend it, or take it away"
            elif entry.is_symlink() and any(parent.resolve().is_relative_to(entry.resolve()) for parent in above):
                problem = "is a link to a folder that it lies in, whose rows would be read again and again; remove it"
            if problem:
                raise FileFormatError(f"{name.rstrip('/')}/{entry.relative_to(root)}: {problem}")


def _is_hidden(relative: str) -> bool:
    """Whether a file or a folder above it is a mark of another program, such as _SUCCESS."""
    return any(part.startswith((".", "_")) for part in relative.split("/"))


def _system(name: str, system: Any) -> tuple[Any, str]:
    """The file system of a path or an address, and the path in it."""
    if system is not None:
        return (system if isinstance(system, fs.FileSystem) else fs.PyFileSystem(fs.FSSpecHandler(system))), name
    if "://" not in name:
        return fs.LocalFileSystem(), str(as_path(name))
    try:
        opened, path = fs.FileSystem.from_uri(name)
        return opened, path
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise
    from fsspec.core import url_to_fs

    opened, path = url_to_fs(name)
    return fs.PyFileSystem(fs.FSSpecHandler(opened)), path


@contextmanager
def readable(name: str, problem: str, advice: str = "check it") -> Iterator[None]:
    """Errors of pyarrow and fsspec become one line.

    Raises:
        FileFormatError: Something cannot be read.
    """
    try:
        yield
    except FileFormatError:
        raise
    except UNREADABLE as error:
        raise FileFormatError(f"{name}: {problem} ({one_line(error)}); {advice}") from error
