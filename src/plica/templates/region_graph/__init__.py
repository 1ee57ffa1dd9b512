"""Region graphs, which split a set of variables into parts, and these into smaller parts.

>>> QuadTree((1, 2, 2)).num_variables, FullyFactorized(3).is_omni_compatible
(4, True)
"""

from plica.public import listing
from plica.templates.region_graph.chow_liu import ChowLiuTree as ChowLiuTree
from plica.templates.region_graph.graph import RegionGraph as RegionGraph
from plica.templates.region_graph.linear import FullyFactorized as FullyFactorized
from plica.templates.region_graph.linear import LinearTree as LinearTree
from plica.templates.region_graph.nodes import PartitionNode as PartitionNode
from plica.templates.region_graph.nodes import RegionNode as RegionNode
from plica.templates.region_graph.poon_domingos import PoonDomingos as PoonDomingos
from plica.templates.region_graph.quad import QuadGraph as QuadGraph
from plica.templates.region_graph.quad import QuadTree as QuadTree
from plica.templates.region_graph.random_binary import RandomBinaryTree as RandomBinaryTree

__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith("plica.")]

__dir__ = listing(__name__)
