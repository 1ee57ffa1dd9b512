"""`python -m plica.cli` is the command `plica`."""

from plica.cli.entry import main

main()
