"""Loads and runs native files: the standard library, numpy and the IREE runtime, nothing else of Plica but its errors.

Here live the file format (`container.py`), the manifest (`manifest.py`) and the module that answers calls
(`module.py`). `backend/native` makes the files.
"""
