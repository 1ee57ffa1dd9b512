"""The entry point of the command `plica`; it imports little before it handles signals without a traceback."""

import signal

from plica.cli.signals import leaving_at_once


def main() -> None:
    """Load the command and run it."""
    try:
        with leaving_at_once():
            from plica.cli.errors import one_line_errors
            from plica.cli.main import main as command

            one_line_errors(command)(prog_name="plica")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and the status says so while Python ends
