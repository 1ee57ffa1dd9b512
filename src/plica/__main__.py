"""`python -m plica` is the command `plica`, as `torchrun -m plica` needs it."""

from plica.cli.entry import main

main()
