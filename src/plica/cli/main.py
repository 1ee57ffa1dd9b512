"""The entry point of the command `plica`; importing it imports neither torch nor matplotlib."""

import click

from plica.cli.show import show
from plica.cli.train import train
from plica.cli.version import plica_version

_EPILOG = """
\b
Examples:
  plica train digits --out runs/demo
  plica train table.csv --input gaussian --out runs/table
  plica show runs/demo/model.plica --stage program
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(plica_version(), prog_name="plica")
def main() -> None:
    """Plica compiles tractable probabilistic circuits, trains them and shows what it made of them.

    Exit status: 0 on success, 2 if the arguments or the data are wrong, 130 after Ctrl-C,
    143 after SIGTERM.
    """


main.add_command(train)
main.add_command(show)
