"""Folding of circuits: which layers are computed as one, and where each finds its inputs."""
