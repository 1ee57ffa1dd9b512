"""The command line: `plica train` and `plica show`."""
