"""Errors in the words of Python: messages that advise options of the command line advise arguments here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from plica.errors import PlicaError

_WORDS = (
    (r"train with --missing", "fit with --missing"),
    (r"--missing ('[^']*')", r"missing=[\1]"),
    (r"--missing (\S+)", r"missing=['\1']"),
    (r"--device (\S+?)(?=:? |$)", r'device="\1"'),
    (r"in the file of --columns", "in columns="),
    (r"--columns FILE", "columns="),
    (r"--columns", "columns="),
    (r"--unknown (\w+)", r'unknown="\1"'),
    (r"--dtype (\w+)", r'dtype="\1"'),
    (r"or train with", "or fit with"),
    (r"leave it empty", "leave it missing"),
)


@contextmanager
def in_python_words() -> Iterator[None]:
    """Within the block, an error of Plica names arguments in place of options."""
    try:
        yield
    except PlicaError as error:
        if error.args and isinstance(error.args[0], str):
            message = error.args[0]
            for pattern, words in _WORDS:
                message = re.sub(pattern, words, message)
            error.args = (message, *error.args[1:])
        raise
