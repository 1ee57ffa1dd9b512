"""Loops compiled at once: Programs become loop nests, and those machine code that serves all sizes."""
