"""Measures models beside others: tables with holes (`plica bench tables`) and binary sets (`plica bench debd`).

A table of methods, a table of data sets, figures of each pair: a further method or set is one row.
"""
