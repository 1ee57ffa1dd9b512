"""How the command line ends when something is wrong: one line on stderr and exit status 2."""

import functools
from collections.abc import Callable
from typing import ParamSpec

import click

from plica.errors import PlicaError

BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it

_EXTRAS = {"torch": "torch", "matplotlib": "draw", "sklearn": "digits"}  # module -> extra that brings it

P = ParamSpec("P")


def one_line_errors(command: Callable[P, None]) -> Callable[P, None]:
    """A command that reports errors of Plica, of the file system and of missing extras without a traceback."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except PlicaError as error:
            fail(str(error))
        except OSError as error:
            if error.filename is None:
                raise
            fail(f"{error.filename}: {(error.strerror or type(error).__name__).lower()}")
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in _EXTRAS:
                raise
            fail(f"this command needs {missing}, which is not installed; try: pip install 'plica[{_EXTRAS[missing]}]'")
        except KeyboardInterrupt:
            click.echo("plica: interrupted; nothing was written", err=True)
            raise SystemExit(INTERRUPTED) from None

    return wrapped


def fail(message: str) -> None:
    """Print one line and exit."""
    click.echo(f"plica: error: {' '.join(message.split())}", err=True)
    raise SystemExit(BAD_INPUT)
