"""Builds circuits from names and settings: region graphs, circuits on them for images and tables, trees, squares.

>>> from plica.templates.data_modalities import image_data
>>> image_data((1, 4, 4), "quad-tree-2", input_layer="categorical", num_input_units=2, sum_product_layer="cp",
...            num_sum_units=2)
Circuit(62 layers, 16 variables, 1 output(s) of 1 unit(s))
"""

from plica.public import listing
from plica.templates.hidden_trees import hclt
from plica.templates.learned_spn import learn_spn
from plica.templates.squares import psd_mixture, squared, sum_of_squares

__all__ = ["hclt", "learn_spn", "psd_mixture", "squared", "sum_of_squares"]

__dir__ = listing(
    __name__, "automata", "data_modalities", "logic", "pgms", "region_graph", "tensor_factorizations", "utils"
)
