"""Loads and runs native files, by the standard library and numpy, and nothing else of Plica but its errors and locks.

Here live the file format (`container.py`), the manifest (`manifest.py`) and the module that answers calls
(`module.py`). `backend/native` makes the files.
"""
