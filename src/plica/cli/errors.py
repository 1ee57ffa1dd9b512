"""Ends a failed command with one line on stderr and an exit status; warnings of Plica are one line, too."""

import contextlib
import functools
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec

import click

from plica.cli.signals import INTERRUPTED, Terminated, ending_tidily, line_of, say_checkpoint, say_left
from plica.errors import PlicaError
from plica.extras import missing

BAD_INPUT = 2

_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "Invalid buffer size")  # torch's words

P = ParamSpec("P")


def one_line_errors(command: Callable[P, None]) -> Callable[P, None]:
    """A command that reports errors of Plica, of the system and of missing extras without a traceback."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        _print_anything()
        say_checkpoint(None)
        say_left(None)
        try:
            with ending_tidily(), _one_line_warnings():
                command(*args, **kwargs)
        except PlicaError as error:
            fail(str(error))
        except BrokenPipeError:
            raise  # the reader closed the pipe, as in `plica show ... | head`: click ends quietly
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            if error.filename is None:  # stdout: all other files are opened by their names
                _forget_output()
                fail(f"cannot write the output: {reason}")
            fail(f"{os.fsdecode(error.filename)}: {reason}")
        except (MemoryError, RuntimeError) as error:
            if not _is_memory(error):
                raise
            fail("out of memory; choose smaller --units, --batch or --num-values")
        except ModuleNotFoundError as error:
            missing_extra = missing(error)
            if missing_extra is None:
                raise
            fail(str(missing_extra))
        except KeyboardInterrupt:
            click.echo(line_of(signal.SIGINT), err=True)
            raise SystemExit(INTERRUPTED) from None
        except Terminated as end:
            click.echo(line_of(end.number), err=True)
            raise SystemExit(128 + end.number) from None

    return wrapped


def fail(message: str) -> None:
    """Print one line and exit."""
    click.echo(f"plica: error: {' '.join(message.split())}", err=True)
    raise SystemExit(BAD_INPUT)


@contextlib.contextmanager
def _one_line_warnings() -> Iterator[None]:
    """A context in which a warning of Plica is a line without the place in the source."""
    former, package = warnings.formatwarning, str(Path(__file__).parents[1])

    def shown(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if filename.startswith(package):
            return f"plica: warning: {' '.join(str(message).split())}\n"
        return former(message, category, filename, lineno, line)

    warnings.formatwarning = shown
    try:
        yield
    finally:
        warnings.formatwarning = former


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)


def _print_anything() -> None:
    """Have letters that the terminal cannot encode printed as escapes, since file names may hold any bytes."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Discard the buffer of stdout: Python would try to write it once more as it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
