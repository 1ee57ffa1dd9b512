"""Training of compiled circuits; the only folder beside the torch backend that imports torch."""

from plica.extras import require

require("torch")
