"""Backends: each turns Programs into something that runs."""
