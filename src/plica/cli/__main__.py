"""`python -m plica.cli` is the command `plica`."""

from plica.cli.main import main

main(prog_name="plica")
