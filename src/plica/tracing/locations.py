"""Where in the user's code something happens."""

import contextlib
import linecache
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_LIBRARIES = (
    contextlib.__file__,
    *(
        os.path.join("site-packages", name) + os.sep  # noqa: PTH118 - a part of a path, not a path
        for name in ("torch", "numpy", "array_api_compat")
    ),
)
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


_REPORTED: ContextVar[str | None] = ContextVar("reported", default=None)


@contextmanager
def reported_at(line: str) -> Iterator[None]:
    """Operations that are traced in the block report `line` as the user's line."""
    token = _REPORTED.set(line)
    try:
        yield
    finally:
        _REPORTED.reset(token)


def user_line() -> str:
    """`file:line` of the innermost frame outside this package and the libraries that call tracers and circuits."""
    if (reported := _REPORTED.get()) is not None:
        return reported
    name, line = user_location()
    return f"{name}:{line}"


def user_location() -> tuple[str, int]:
    """The file and the line of that frame."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE) or any(map(frame.f_code.co_filename.__contains__, _LIBRARIES))
    ):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def has_word(word: str) -> bool:
    """Whether the user's line has `word` in it, outside comments."""
    return re.search(rf"\b{word}\b", linecache.getline(*user_location()).split("#")[0]) is not None


def statement() -> str:
    """The first word of the user's line."""
    text = linecache.getline(*user_location()).split("#")[0].split()
    return text[0].rstrip(":(") if text else ""
