"""Deterministic finite automata as circuits: which texts of a length are allowed.

>>> from plica.symbolic.functional import multiply
>>> from plica.templates.pgms import hmm
>>> automaton = DFA.contains_in_order(["is", "so"], "ios_")
>>> automaton, automaton.accepts("is_so")
(DFA(5 states, 4 symbols), True)
>>> chain = hmm(range(6), num_latent_states=8, input_layer_kwargs={"num_categories": 4})
>>> multiply(chain, automaton.build_circuit(range(6)))
Circuit(21 layers, 6 variables, 1 output(s) of 1 unit(s))
"""

from plica.public import listing
from plica.templates.automata.alphabet import Alphabet
from plica.templates.automata.dfa import DFA

__all__ = ["DFA", "Alphabet"]

__dir__ = listing(__name__)
