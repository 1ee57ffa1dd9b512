"""The option `--verbose`, which every command has: it shows the messages of the logger `plica` on stderr.

>>> with shown_messages():
...     pass
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from plica.logger import LOGGER


class _Lines(logging.Handler):
    """Writes each message as a line; of the processes of a distributed run, the first one does."""

    def emit(self, record: logging.LogRecord) -> None:
        if os.environ.get("RANK", "0") == "0":
            click.echo(f"plica: {self.format(record)}", err=True)


@contextmanager
def shown_messages() -> Iterator[None]:
    """A context in which messages are shown."""
    handler, level = _Lines(), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


def _show(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        context.with_resource(shown_messages())


def verbose(command: click.Command) -> click.Command:
    """The command, with the option."""
    option = click.Option(
        ["--verbose"], is_flag=True, expose_value=False, callback=_show, help="Show on stderr what Plica decides."
    )
    command.params.append(option)
    return command
