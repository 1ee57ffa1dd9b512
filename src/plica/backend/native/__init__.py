"""Programs as machine code: ahead of time through MLIR (`mlir/`, `build.py`), at once through LLVM (`loops/`)."""
