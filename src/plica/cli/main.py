"""The entry point of the command `plica`; importing it imports neither torch nor matplotlib."""

import click

from plica.cli.bench import bench
from plica.cli.complete import complete
from plica.cli.doctor import doctor
from plica.cli.explore import explore
from plica.cli.export import export
from plica.cli.inspect import inspect
from plica.cli.predict import predict
from plica.cli.run_native import run
from plica.cli.sample import sample
from plica.cli.score import marginal, score
from plica.cli.show import show
from plica.cli.train import train
from plica.cli.verbose import verbose
from plica.cli.version import plica_version

_EPILOG = """
\b
Examples:
  plica train digits --out runs/demo
  plica train table.csv --input gaussian --out runs/table
  plica show runs/demo/model.plica --stage program
  plica explore runs/demo/model.plica
  plica train table.csv --columns auto --out runs/table
  plica complete runs/table/model.plica holes.csv -o filled.csv
  plica predict runs/table/model.plica holes.csv --column age --quantiles .05,.5,.95 -o ages.csv
  plica export runs/demo/model.plica -o digits.plicab
  plica inspect digits.plicab
  plica run digits.plicab --input x.npy --output y.npy
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(plica_version(), prog_name="plica")
def main() -> None:
    """Plica compiles tractable probabilistic circuits, trains them and shows what it made of them.

    Exit status: 0 on success, 2 if the arguments or the data are wrong, 130 after Ctrl-C,
    143 after SIGTERM.
    """


for command in (train, show, score, marginal, complete, sample, predict, export, run, inspect, bench, explore, doctor):
    main.add_command(verbose(command))
