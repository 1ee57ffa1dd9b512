"""Algorithms on any directed acyclic graph, given "the inputs of a node"; no layer or operation is known here."""
