"""Region graphs, which split a set of variables into parts, and these into smaller parts.

>>> QuadTree((1, 2, 2)).num_variables, FullyFactorized(3).is_omni_compatible
(4, True)
"""

from plica.templates.region_graph.chow_liu import ChowLiuTree
from plica.templates.region_graph.graph import RegionGraph
from plica.templates.region_graph.linear import FullyFactorized, LinearTree
from plica.templates.region_graph.nodes import PartitionNode, RegionNode
from plica.templates.region_graph.poon_domingos import PoonDomingos
from plica.templates.region_graph.quad import QuadGraph, QuadTree
from plica.templates.region_graph.random_binary import RandomBinaryTree

__all__ = [
    "ChowLiuTree",
    "FullyFactorized",
    "LinearTree",
    "PartitionNode",
    "PoonDomingos",
    "QuadGraph",
    "QuadTree",
    "RandomBinaryTree",
    "RegionGraph",
    "RegionNode",
]
