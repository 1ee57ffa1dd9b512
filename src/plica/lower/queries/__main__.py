"""Prints the tables of queries for `docs/queries.md`: `python -m plica.lower.queries`.

With the argument `stub` it prints `src/plica/queries.pyi` instead.
"""

import sys

from plica.lower.queries.table import layers_table, passes_table, reasons_list, semirings_table, stub

if __name__ == "__main__":
    if sys.argv[1:] == ["stub"]:
        print(stub(), end="")
    else:
        print(layers_table(), reasons_list(), semirings_table(), passes_table(), sep="\n\n")
