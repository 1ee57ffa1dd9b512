"""Programs as MLIR text: `emit.py` walks a Program, `rows/` says how each operation is written."""
