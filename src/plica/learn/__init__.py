"""Trains compiled circuits; only this folder and the torch backend import torch."""

from plica.extras import require

require("torch")
