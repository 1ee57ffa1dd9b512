"""Loads and runs native files: the standard library, numpy and the IREE runtime, nothing else of Plica but its errors.

What lives here: the file format (`container.py`), what a file says of itself (`manifest.py`), and the module that
answers calls (`module.py`). What makes files lives in `backend/native`.
"""
