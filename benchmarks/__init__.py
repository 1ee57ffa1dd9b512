"""Benchmarks: how fast compiled circuits are, against each other, against torch written by hand, and against peers.

python -m benchmarks.run --circuit quad-tree-2-cp-8x8-16 --rounds 20
python -m benchmarks.inf_safety
python -m benchmarks.generated_overhead
"""
