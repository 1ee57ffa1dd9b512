"""Prints the tables of queries for `docs/queries.md`: `python -m plica.lower.queries`."""

from plica.lower.queries.table import layers_table, reasons_list, semirings_table

if __name__ == "__main__":
    print(layers_table(), reasons_list(), semirings_table(), sep="\n\n")
